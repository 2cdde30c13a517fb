"""The example server: several clients stream at once, and each gets the same tokens as alone; clients that leave; wrong requests."""
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from mica import mega
from mica.mega import server as serving

CONFIG = os.path.join(os.path.dirname(__file__), "../../examples/mega/tiny_llama.json")


@pytest.fixture(scope="module")
def server():
    s = serving.Server(mega.from_config(CONFIG, rows=4, pages=20, workers=2, deadline=60).random(1), name="tiny")
    thread = threading.Thread(target=s.serve_forever, daemon=True)
    thread.start()
    yield s
    s.close()
    thread.join()


@pytest.fixture(scope="module")
def alone():
    return mega.from_config(CONFIG, rows=1, workers=2, deadline=60).random(1)


def post(server, body, path="/v1/completions", raw=None):
    c = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    c.request("POST", path, raw if raw is not None else json.dumps(body))
    r = c.getresponse()
    return r.status, r.read().decode(), r.headers


def get(server, path):
    c = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    c.request("GET", path)
    r = c.getresponse()
    return r.status, json.loads(r.read())


def test_one(server, alone):
    status, text, _ = post(server, {"prompt": [1, 2, 3], "max_tokens": 5})
    answer = json.loads(text)
    want = alone.generate([[1, 2, 3]], 5)[0]
    choice = answer["choices"][0]
    assert status == 200 and choice["token_ids"] == want and choice["text"].split() == [str(t) for t in want] and choice["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8} and answer["model"] == "tiny"
    assert json.loads(post(server, {"prompt": "1 2 3", "max_tokens": 5})[1])["choices"][0]["token_ids"] == want
    assert json.loads(post(server, {"prompt": [1, 2, 3], "max_tokens": 5, "stop_token_ids": [want[1]]})[1])["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_stop_texts(server, alone, stream):
    want = alone.generate([[1, 2, 3]], 8, temperature=2.0, seed=4)[0]
    at = next(i for i in range(3, 8) if want[i] not in want[:i])  # the stop text is of two tokens, and occurs once
    body = {"prompt": [1, 2, 3], "max_tokens": 8, "temperature": 2.0, "seed": 4, "stop": ["never", f" {want[at - 1]} {want[at]} "], "stream": stream}
    status, text, _ = post(server, body)
    if stream:
        choices = [json.loads(e[6:])["choices"][0] for e in text.split("\n\n") if e and e != "data: [DONE]"]
    else:
        choices = [json.loads(text)["choices"][0]]
    assert status == 200 and choices[-1]["finish_reason"] == "stop"
    assert sum((c["token_ids"] for c in choices), []) == want[:at + 1]
    assert "".join(c["text"] for c in choices) == " ".join(str(t) for t in want[:at - 1])
    assert get(server, "/health")[1]["running"] == 0


def test_texts_that_are_held():
    class Letters:
        def decode(self, tokens):
            return bytes(tokens).decode(errors="replace")
    t = serving.Text(Letters(), ("abc",))
    assert [t.add(ord(c)) for c in "xabab"] == ["x", "", "", "ab", ""]
    assert t.add(ord("d")) == "abd" and not t.stopped
    assert [t.add(b) for b in "\u00fc".encode()] == ["", "\u00fc"]
    assert [t.add(ord(c)) for c in "abc"] == ["", "", ""] and t.stopped and t.add(None) == ""
    left = serving.Text(Letters(), ("abc",))
    assert [left.add(ord(c)) for c in "ab"] == ["", ""] and left.add(None) == "ab" and not left.stopped


def test_clients_stream_at_once(server, alone):
    prompts = [[1 + i] * (1 + 3 * i) for i in range(7)]
    got, seen = [None] * 7, []

    def client(i):
        status, text, headers = post(server, {"prompt": prompts[i], "max_tokens": 6 + i, "stream": True, "temperature": 0.7 * (i % 2), "seed": i})
        assert status == 200 and headers["Content-Type"] == "text/event-stream"
        events = [e[6:] for e in text.split("\n\n") if e]
        assert events[-1] == "[DONE]" and json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
        got[i] = [json.loads(e)["choices"][0]["token_ids"][0] for e in events[:-2]]
    threads = [threading.Thread(target=client, args=(i,)) for i in range(7)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        seen.append(get(server, "/health")[1]["running"])
        time.sleep(0.01)
    for t in threads:
        t.join()
    assert max(seen) > 1
    for i in range(7):
        assert got[i] == alone.generate([prompts[i]], 6 + i, temperature=0.7 * (i % 2), seed=i)[0]


def wire(body, version="1.1", headers=""):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST /v1/completions HTTP/{version}\r\nHost: x\r\n{headers}Content-Length: {len(text)}\r\n\r\n".encode() + text


def connect(server, data=b""):
    s = socket.create_connection(server.server_address, timeout=60)
    s.sendall(data)
    return s


def rest(s):
    """All bytes until the other side closes the connection."""
    got = b""
    while x := s.recv(1 << 16):
        got += x
    s.close()
    return got


def until(holds):
    end = time.time() + 60
    while not (yes := holds()) and time.time() < end:
        time.sleep(0.02)
    return yes


def idle(server):
    health = get(server, "/health")[1]
    return health["running"] == health["waiting"] == 0 and health["free_pages"] == 19


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_clients_that_leave(server, stream, reset):
    clients = [connect(server, wire({"prompt": [1, 2], "max_tokens": 900, "stream": stream})) for _ in range(3)]  # two wait for the first one's pages
    assert until(lambda: get(server, "/health")[1]["waiting"] == 2)
    if stream:
        assert b"data:" in clients[0].recv(4096) + clients[0].recv(4096)
    launches = get(server, "/health")[1]["launches"]
    for c in reversed(clients):
        if reset:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    assert until(lambda: idle(server))
    assert get(server, "/health")[1]["launches"] - launches < 2 * 900  # the two that waited did not run to their ends


def test_old_clients_get_no_chunks(server, alone):
    got = rest(connect(server, wire({"prompt": [1], "max_tokens": 2, "stream": True}, "1.0")))
    head, body = got.split(b"\r\n\r\n", 1)
    assert b"chunked" not in head and body.endswith(b"data: [DONE]\n\n")
    events = [json.loads(e[6:])["choices"][0] for e in body.decode().split("\n\n")[:-2]]
    assert sum((e["token_ids"] for e in events), []) == alone.generate([[1]], 2)[0]


def test_slow_clients(server, monkeypatch):
    monkeypatch.setattr(serving.Handler, "timeout", 1.5)
    assert rest(connect(server, wire({"prompt": [1]})[:-1])).startswith(b"HTTP/1.1 408 ")  # a missing body
    assert rest(connect(server)) == rest(connect(server, b"POST /v1")) == b""  # no request, and half of one
    s = connect(server, b"POST /v1/completions HTTP/1.1\r\nX: ")
    with pytest.raises(OSError):  # a header of single bytes: the connection is closed although each byte comes in time
        for _ in range(600):
            s.sendall(b"a")
            time.sleep(0.1)
    s.close()


def test_many_connections(server, monkeypatch):
    assert until(lambda: not server.clients)
    monkeypatch.setattr(serving, "MOST_CLIENTS", 3)
    clients = [connect(server) for _ in range(3)]
    assert until(lambda: len(server.clients) == 3)
    got = rest(connect(server))
    assert got.startswith(b"HTTP/1.1 503 ") and "3 clients" in json.loads(got.split(b"\r\n\r\n")[1])["error"]["message"]
    clients[0].close()
    assert until(lambda: len(server.clients) == 2)
    assert post(server, {"prompt": [1], "max_tokens": 1})[0] == 200
    for c in clients[1:]:
        c.close()


def test_requests_wait_in_line(server, monkeypatch):
    monkeypatch.setattr(serving, "MOST_WAITING", 1)
    clients = [connect(server, wire({"prompt": [1], "max_tokens": 900, "stream": True}))]
    assert until(lambda: get(server, "/health")[1]["running"] == 1)
    clients.append(connect(server, wire({"prompt": [1], "max_tokens": 900, "stream": True})))
    assert until(lambda: get(server, "/health")[1]["waiting"] == 1)
    status, text, _ = post(server, {"prompt": [1]})
    assert status == 429 and "wait already" in text
    for c in clients:
        c.close()
    assert until(lambda: idle(server))


def test_answers_are_not_held(server):
    s = connect(server, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert all(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for c in [*server.clients])
    s.close()


@pytest.mark.parametrize("body, status, says", [
    ({}, 400, "prompt is a text or a list"),
    ({"prompt": []}, 400, "prompt is a text or a list"),
    ({"prompt": [1.5]}, 400, "prompt is a text or a list"),
    ({"prompt": [True]}, 400, "prompt is a text or a list"),
    ({"prompt": [101]}, 400, "tokens are from 0 to 100"),
    ({"prompt": "one two"}, 400, "no tokenizer"),
    ({"prompt": "1 \ud800"}, 400, "half of a surrogate pair"),
    ({"prompt": [1], "max_tokens": 0}, 400, "max_tokens is an integer"),
    ({"prompt": [1], "max_tokens": 4000}, 400, "the cache has 19"),
    ({"prompt": [1], "temperature": "hot"}, 400, "temperature is a number"),
    ({"prompt": [1], "temperature": float("nan")}, 400, "temperature is a number"),
    ({"prompt": [1], "top_k": 65}, 400, "top_k is an integer"),
    ({"prompt": [1], "seed": -1}, 400, "seed is an integer"),
    ({"prompt": [1], "stop_token_ids": "x"}, 400, "stop_token_ids is a list"),
    ({"prompt": [1], "stop": 3}, 400, "stop is a text or a list of at most 4"),
    ({"prompt": [1], "stop": [""]}, 400, "each of 1 to 256 characters"),
    ({"prompt": [1], "stop": "a" * 257}, 400, "each of 1 to 256 characters"),
    ({"prompt": [1], "stop": ["a"] * 5}, 400, "at most 4"),
    ({"prompt": [1], "n": 2}, 400, "n is 1: this server makes one choice"),
    ({"prompt": [1], "n": True}, 400, "n is 1"),
    ({"prompt": [1], "best_of": 3}, 400, "best_of is 1"),
    ([1], 400, "no JSON object"),
])
def test_wrong_requests(server, body, status, says):
    got, text, _ = post(server, body)
    assert got == status and says in json.loads(text)["error"]["message"]


def test_no_requests(server):
    assert post(server, None, raw="{")[0] == 400
    assert post(server, None, raw="[" * 100000)[0] == 400
    s = socket.create_connection(server.server_address)
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (serving.MOST_BODY + 1))
    assert b" 413 " in s.recv(4096).splitlines()[0]
    s.close()
    assert post(server, {}, path="/v1/chat")[0] == 404
    assert get(server, "/v2")[0] == 404
    assert get(server, "/v1/models")[1]["data"][0]["id"] == "tiny"


@pytest.mark.parametrize("headers, body, status", [
    ("Content-Length: " + "9" * 5000, "", 413),
    ("Content-Length: -1", "", 411),
    ("Content-Length: 2\r\nContent-Length: 3", "{}", 411),
    ("Content-Length: 2\r\nTransfer-Encoding: chunked", "{}", 411),
    ("Content-Length: 20", "{}", 400),
    ("Content-Length: 000", "", 400),
    ("X: 1", "{}", 411),
])
def test_wrong_lengths(server, headers, body, status):
    s = socket.create_connection(server.server_address)
    s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}".encode())
    s.shutdown(socket.SHUT_WR)
    assert f" {status} ".encode() in s.recv(4096).splitlines()[0]
    s.close()


@pytest.mark.parametrize("text", [
    b'{"prompt": "\xff\xfe 1"}', b"\xff\xfe{", b'{"prompt": [1], "\xc3(": 1}', b'{"prompt": "1\\u0000"}', bytes(10),
    b'{"prompt": [1], "max_tokens": 1' + b"0" * 5000 + b"}", b'{"prompt": [1' + b", 1" * 300000 + b"]}", b'{"prompt": [1], "temperature": 1e999}',
])
def test_wrong_bytes(server, text):
    got = rest(connect(server, wire(text)))
    assert got.startswith(b"HTTP/1.1 400 ") and json.loads(got.split(b"\r\n\r\n")[1])["error"]["code"] == 400


@pytest.mark.parametrize("request_, status", [
    (wire({"prompt": [1]}, headers=f"X: {'a' * 70000}\r\n"), 431),
    (wire({"prompt": [1]}, headers="".join(f"X{i}: 1\r\n" for i in range(200))), 431),
    (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"BREW /health HTTP/1.1\r\n\r\n", 501),
    (wire(b"x" * (serving.MOST_BODY + 1)), 413),  # the client gets the answer though it sends more than is read
    (wire(b"x" * (8 * serving.MOST_BODY)), 413),
])
def test_refused_before_the_end(server, request_, status):
    got = rest(connect(server, request_))
    assert got.startswith(f"HTTP/1.1 {status} ".encode()) and json.loads(got.split(b"\r\n\r\n")[1])["error"]["code"] == status


def test_a_body_is_no_second_request(server):
    second = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    got = rest(connect(server, b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(second) + second))
    assert got.count(b"HTTP/1.1 ") == 1 and b"free_pages" in got


def test_stop_while_streaming():
    s = serving.Server(mega.from_config(CONFIG, rows=4, pages=40, workers=2, deadline=60).random(1))
    thread = threading.Thread(target=s.serve_forever, daemon=True)
    thread.start()
    asks = {"prompt": [1], "max_tokens": 2000}
    streams, quiet = connect(s, wire(asks | {"stream": True})), connect(s)
    assert b"data:" in streams.recv(4096) + streams.recv(4096)
    waits = connect(s, wire(asks))  # after the other request has begun, which has the pages
    assert until(lambda: get(s, "/health")[1]["waiting"] == 1)
    s.close()
    thread.join()
    events = rest(streams)
    assert b'{"error": {"message": "the server stops"}}' in events and events.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert rest(waits).startswith(b"HTTP/1.1 503 ") and rest(quiet) == b"" and not s.clients
    with pytest.raises(Exception, match="the server stops"):
        s.engine.submit([1], 1)


def test_close_before_service():
    s = serving.Server(mega.from_config(CONFIG, workers=2).random(1))
    s.close()
    s.serve_forever()  # returns at once
    assert not s.engine.thread.is_alive()


def test_sigterm():
    patient = "import functools; from mica.mega import server as s; s.from_config = functools.partial(s.from_config, deadline=60); s.main()"
    p = subprocess.Popen([sys.executable, "-c", patient, CONFIG, "--port", "0", "--pages", "40"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(p.stdout.readline().split(":")[2].split("/")[0])
        s = socket.create_connection(("127.0.0.1", port), timeout=60)
        s.sendall(wire({"prompt": [1], "max_tokens": 2000, "stream": True}))
        assert b"data:" in s.recv(4096) + s.recv(4096)
        p.send_signal(signal.SIGTERM)
        events = rest(s)
        assert b"the server stops" in events and b"[DONE]" in events and p.wait(60) == 0
    finally:
        p.kill()
        p.stdout.close()


def test_engine_outlives_exceptions(server, monkeypatch):
    def fails(*_):
        raise MemoryError("planted")
    with monkeypatch.context() as m:
        m.setattr(server.engine.batch.model, "step", fails)
        status, text, _ = post(server, {"prompt": [1], "max_tokens": 2})
        assert status == 500 and "MemoryError: planted" in text
    assert post(server, {"prompt": [1], "max_tokens": 2})[0] == 200 and idle(server)


def test_hung_launch():
    model = mega.from_config(CONFIG, workers=2, deadline=0.3).random(1)
    s = serving.Server(model)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    model._mega.plant(True)
    status, text, _ = post(s, {"prompt": [1], "max_tokens": 2})
    assert status == 500 and "waited for" in json.loads(text)["error"]["message"]
    model._mega.plant(False)
    assert post(s, {"prompt": [1], "max_tokens": 2})[0] == 200
    s.close()
