"""An example server: completions over HTTP in the form of OpenAI's interface, on the loopback. Tokens of several clients stream at once.

    python -m mica.mega.server config.json --port 8000 --rows 8
    curl localhost:8000/v1/completions -d '{"prompt": [1, 2, 3], "max_tokens": 8, "stream": true}'

One thread runs launches, and each client has a thread that waits for its tokens. A prompt is a list of token numbers or a text. A tokenizer is any
object with encode(text) -> numbers and decode(numbers) -> text. Without one, a text is token numbers separated by spaces.
"""
from __future__ import annotations

import argparse
import io
import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .._mica import Error, UsageError
from .batch import Batch
from .model import Model, from_config, from_folder

MOST_BODY, MOST_WAITING, MOST_TOKENS, MOST_STOPS, MOST_STOP = 1 << 20, 256, 4096, 4, 256
MOST_CLIENTS = 512  # connections at once, each with a thread
LOOK = 0.25  # seconds between two checks whether a client has closed the connection of its running request
LINGER = 2.0  # seconds for which the rest of a refused request is read
STOP = 5.0  # seconds in which clients can read their last events when the server stops


class _Refused(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Numbers:
    """Texts that are token numbers."""

    def encode(self, text: str) -> list[int]:
        try:
            return [int(t) for t in text.split()]
        except ValueError:
            raise UsageError("this server has no tokenizer: a prompt is a list of token numbers, or a text of them") from None

    def decode(self, tokens) -> str:
        return "".join(f"{t} " for t in tokens)


class Text:
    """The text of tokens, up to the first stop text in it. Text is returned as soon as no stop text can begin in it."""

    def __init__(self, tokenizer, stops=()):
        self.tokenizer, self.stops, self.tokens, self.sent, self.stopped = tokenizer, stops, [], 0, False

    def add(self, token: int | None) -> str:
        """Returns the text that can be sent after this token; for None, all remaining text."""
        if self.stopped:
            return ""
        if token is not None:
            self.tokens.append(token)
        text = self.tokenizer.decode(self.tokens)
        found = [at for s in self.stops if (at := text.find(s)) >= 0]
        self.stopped, held = bool(found), 0
        if found:
            text = text[:min(found)]
        elif token is not None:
            held = max((n for s in self.stops for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
            held = max(held, len(text) - len(text.rstrip("\ufffd")))  # a character whose last bytes are still missing
        end = max(self.sent, len(text) - held)
        new, self.sent = text[self.sent:end], end
        return new


class Engine:
    """The batch and the thread that runs it. Every call of the batch holds the lock."""

    def __init__(self, model: Model, burst: int = 1):
        self.batch, self.lock = Batch(model, burst), threading.Condition()
        self.ended, self.launches = False, 0
        self.thread = threading.Thread(target=self._run, name="mica-engine", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            with self.lock:
                while not self.batch.busy and not self.ended:
                    self.lock.wait()
                if self.ended:
                    return self._fail("the server stops", [*self.batch.running, *self.batch.waiting])
                try:
                    self.batch.step()
                    self.launches += 1
                except Error as e:  # a launch that hung: its requests end, and the model can be used again
                    self._fail(str(e), [*self.batch.running])
                except Exception as e:  # without this thread all clients would wait forever
                    self._fail(f"{type(e).__name__}: {e}", [*self.batch.running, *self.batch.waiting])
            time.sleep(0)  # others take the lock

    def _fail(self, why: str, requests) -> None:
        for r in requests:
            r.error = why
            self.batch.cancel(r)

    def submit(self, prompt, most, **options):
        """Queues a request. Returns it and a queue, which gets its tokens, and None at the end."""
        out: queue.SimpleQueue = queue.SimpleQueue()
        with self.lock:
            if self.ended:
                raise _Refused(503, "the server stops")
            if len(self.batch.waiting) >= MOST_WAITING:
                raise _Refused(429, f"{MOST_WAITING} requests wait already")
            r = self.batch.submit(prompt, most, on_token=lambda _, t: out.put(t), **options)
            self.lock.notify()
        return r, out

    def cancel(self, r) -> None:
        with self.lock:
            self.batch.cancel(r)

    def close(self) -> None:
        with self.lock:
            self.ended = True
            self.lock.notify()
        self.thread.join()


def _number(body, name, otherwise, low, high, whole):
    x = body.get(name, otherwise)
    if x is None:
        x = otherwise
    if isinstance(x, bool) or not isinstance(x, int if whole else (int, float)) or not low <= x <= high:
        raise _Refused(400, f"{name} is {'an integer' if whole else 'a number'} from {low} to {high}")
    return x


class _Reader(io.RawIOBase):
    """Reads a connection until a deadline, so that a client that sends single bytes cannot occupy a thread."""

    def __init__(self, connection):
        self.connection, self.until = connection, 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, to) -> int:
        left, before = self.until - time.monotonic(), self.connection.gettimeout()
        if left <= 0:
            raise TimeoutError("the request came too slowly")
        self.connection.settimeout(left)
        try:
            return self.connection.recv_into(to)
        finally:
            self.connection.settimeout(before)


def _refusal(status: int, message: str) -> dict:
    return {"error": {"message": message, "type": "invalid_request_error" if status < 500 else "server_error", "code": status}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    timeout = 60  # seconds in which a request must be complete; also those of each write
    disable_nagle_algorithm = True  # otherwise an event waits until the client has acknowledged the previous one

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.reader = _Reader(self.connection)
        self.rfile = io.BufferedReader(self.reader)

    def handle_one_request(self) -> None:
        self.reader.until = time.monotonic() + self.timeout
        try:
            waits = self.rfile.peek(1)
        except (ConnectionError, TimeoutError):
            waits = b""
        if not waits:
            self.close_connection = True
            return
        self.reader.until = time.monotonic() + self.timeout
        super().handle_one_request()
        self.close_connection |= self.server.engine.ended

    def log_message(self, *_) -> None:
        pass

    def _send(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _refuse(self, status: int, message: str) -> None:
        """Refuses a request. The rest of it is read and dropped, because the answer may be lost if a connection is closed with unread bytes."""
        self.close_connection = True
        self._send(status, _refusal(status, message))
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.reader.until = time.monotonic() + LINGER
            while self.rfile.read1(1 << 16):
                pass
        except OSError:
            pass

    def send_error(self, code, message=None, explain=None) -> None:
        self._refuse(int(code), message or self.responses.get(code, ("this request is not understood",))[0])

    def _gone(self) -> bool:
        """Whether the client has closed its connection. It is not checked when the server stops, because close() shuts the connection down."""
        if self.server.engine.ended:
            return False
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        try:
            return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body would be read as another request
        if self.path == "/health":
            e = self.server.engine
            self._send(200, {"running": len(e.batch.running), "waiting": len(e.batch.waiting), "free_pages": len(e.batch.free),
                             "launches": e.launches})
        elif self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": self.server.name, "object": "model", "owned_by": "mica"}]})
        else:
            self._refuse(404, "there are GET /v1/models, GET /health and POST /v1/completions")

    def do_POST(self) -> None:
        try:
            if self.path != "/v1/completions":
                raise _Refused(404, "there is POST /v1/completions")
            self._complete(self._body())
        except _Refused as e:
            self._refuse(e.status, str(e))
        except UsageError as e:
            self._refuse(400, str(e).splitlines()[0])
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _body(self) -> dict:
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.get("Transfer-Encoding") is not None or len(lengths) != 1 or not (lengths[0].isascii() and lengths[0].isdecimal()):
            raise _Refused(411, "a request has one Content-Length, and no Transfer-Encoding")
        digits = lengths[0].lstrip("0") or "0"
        if len(digits) > len(str(MOST_BODY)) or int(digits) > MOST_BODY:
            raise _Refused(413, f"a request has at most {MOST_BODY} bytes")
        try:
            text = self.rfile.read(int(digits))
        except TimeoutError:
            raise _Refused(408, f"a request takes at most {self.timeout} seconds") from None
        if len(text) < int(digits):
            raise _Refused(400, "the request ends before its Content-Length")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused(400, "the request is no JSON") from None
        if not isinstance(body, dict):
            raise _Refused(400, "the request is no JSON object")
        return body

    def _prompt(self, body) -> list[int]:
        p = body.get("prompt")
        if isinstance(p, str):
            if any("\ud800" <= c <= "\udfff" for c in p):
                raise _Refused(400, "prompt has half of a surrogate pair, which is no character")
            return self.server.tokenizer.encode(p)
        if isinstance(p, list) and p and all(type(t) is int for t in p):
            return p
        raise _Refused(400, "prompt is a text or a list of token numbers")

    def _stops(self, body) -> list[str]:
        stops = body.get("stop")
        stops = [stops] if isinstance(stops, str) else stops if stops is not None else []
        if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and 0 < len(s) <= MOST_STOP for s in stops):
            raise _Refused(400, f"stop is a text or a list of at most {MOST_STOPS} texts, each of 1 to {MOST_STOP} characters")
        return stops

    def _complete(self, body) -> None:
        for name in ("n", "best_of"):
            if body.get(name) not in (None, 1) or isinstance(body.get(name), bool):
                raise _Refused(400, f"{name} is 1: this server makes one choice of a request")
        stops, stop = self._stops(body), body.get("stop_token_ids", [])
        if not isinstance(stop, list) or not all(type(t) is int for t in stop):
            raise _Refused(400, "stop_token_ids is a list of token numbers")
        options = {"temperature": float(_number(body, "temperature", 0.0, 0, 100, False)), "top_k": _number(body, "top_k", 0, 0, 64, True),
                   "seed": _number(body, "seed", 0, 0, (1 << 64) - 1, True), "stop": stop}
        prompt, most = self._prompt(body), _number(body, "max_tokens", 16, 1, MOST_TOKENS, True)
        r, tokens = self.server.engine.submit(prompt, most, **options)
        try:
            (self._stream if body.get("stream") is True else self._answer)(r, tokens, Text(self.server.tokenizer, stops))
        finally:
            self.server.engine.cancel(r)

    def _choice(self, text, made, reason) -> dict:
        return {"id": f"cmpl-{self.server.started}", "object": "text_completion", "created": int(time.time()), "model": self.server.name,
                "choices": [{"index": 0, "text": text, "token_ids": made, "finish_reason": reason, "logprobs": None}]}

    def _reason(self, r, text) -> str:
        return "stop" if text.stopped else {"length": "length", "stop": "stop"}.get(r.done, "error")

    def _tokens(self, tokens):
        """Yields the tokens of a request as they are made. The request ends if the client has closed its connection."""
        look = time.monotonic() + LOOK
        while True:
            try:
                if (t := tokens.get(timeout=LOOK)) is None:
                    return
                yield t
            except queue.Empty:
                pass
            if time.monotonic() >= look:
                if self._gone():
                    raise ConnectionAbortedError("the client has left")
                look = time.monotonic() + LOOK

    def _pieces(self, r, tokens, text):
        """Yields texts with their tokens, and finally the remaining text. The request ends at a stop text."""
        for t in self._tokens(tokens):
            yield text.add(t), [t]
            if text.stopped:
                break
        self.server.engine.cancel(r)
        yield text.add(None), []

    def _answer(self, r, tokens, text) -> None:
        said = "".join(piece for piece, _ in self._pieces(r, tokens, text))
        if r.error:
            raise _Refused(503 if self.server.engine.ended else 500, r.error)
        n, made = len(r.prompt), text.tokens
        self._send(200, self._choice(said, made, self._reason(r, text)) |
                   {"usage": {"prompt_tokens": n, "completion_tokens": len(made), "total_tokens": n + len(made)}})

    def _event(self, text: str, chunks: bool) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" if chunks else data)

    def _stream(self, r, tokens, text) -> None:
        chunks = self.request_version != "HTTP/1.0"  # HTTP/1.0 has no chunks: the stream ends with the connection
        self.close_connection |= not chunks
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if chunks:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece, made in self._pieces(r, tokens, text):
            choice = self._choice(piece, made, None if made else self._reason(r, text))
            self._event(json.dumps({"error": {"message": r.error}} if r.error and not made else choice), chunks)
        self._event("[DONE]", chunks)
        if chunks:
            self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    """A server on the loopback, or on `address`. close() also ends the engine: running requests end with an error."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, model: Model, *, name: str = "mica", port: int = 0, address: str = "127.0.0.1", tokenizer=None, burst: int = 1):
        self.name, self.tokenizer, self.started = name, tokenizer or Numbers(), int(time.time())
        self.clients: set[socket.socket] = set()
        self.clients_change = threading.Condition()
        self.serves = self.closed = False
        super().__init__((address, port), Handler)
        self.engine = Engine(model, burst)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        with self.clients_change:
            if self.closed:
                return
            self.serves = True
        super().serve_forever(poll_interval)

    def process_request(self, request, client_address) -> None:
        with self.clients_change:
            full = len(self.clients) >= MOST_CLIENTS
            if not full:
                self.clients.add(request)
        if full:
            self._turn_away(request)
        else:
            super().process_request(request, client_address)

    def _turn_away(self, request) -> None:
        text = json.dumps(_refusal(503, f"{MOST_CLIENTS} clients are connected already")).encode()
        try:
            request.setblocking(False)
            request.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(text) + text)
            request.recv(1 << 16)
        except OSError:
            pass
        self.shutdown_request(request)

    def shutdown_request(self, request) -> None:
        super().shutdown_request(request)
        with self.clients_change:
            self.clients.discard(request)
            self.clients_change.notify_all()

    def handle_error(self, request, client_address) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def close(self) -> None:
        with self.clients_change:
            serves, self.closed = self.serves, True
        if serves:
            self.shutdown()
        self.server_close()
        self.engine.close()
        with self.clients_change:
            for c in self.clients:  # ends connections that wait for another request
                try:
                    c.shutdown(socket.SHUT_RD)
                except OSError:
                    pass
            self.clients_change.wait_for(lambda: not self.clients, STOP)


def _tokenizer(folder: str):
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    t = Tokenizer.from_file(path)
    return type("Texts", (), {"encode": lambda _, s: t.encode(s).ids, "decode": lambda _, ids: t.decode(list(ids))})()


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m mica.mega.server", description="completions over HTTP on the loopback")
    p.add_argument("model", help="config.json (random weights by --seed), or a folder with config.json and safetensors")
    p.add_argument("--port", type=int, default=8000)
    p.add_argument("--engine", default="cpu", choices=["cpu", "gpu"])
    p.add_argument("--rows", type=int, default=8, help="tokens of a step")
    p.add_argument("--pages", type=int, default=128, help="of the cache, 64 positions each")
    p.add_argument("--burst", type=int, default=1, help="most steps of a launch in which all requests decode")
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    options = {"engine": a.engine, "rows": a.rows, "pages": a.pages}
    try:
        model = from_folder(a.model, **options) if os.path.isdir(a.model) else from_config(a.model, **options).random(a.seed)
        server = Server(model, name=os.path.basename(os.path.normpath(a.model)), port=a.port, tokenizer=_tokenizer(a.model), burst=a.burst)
    except (Error, OSError) as e:
        sys.exit(f"mica.mega.server: {e}")
    print(f"http://127.0.0.1:{server.server_address[1]}/v1/completions", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


if __name__ == "__main__":
    main()
