"""The example server: several clients stream at once, and each gets what it would get alone; clients that leave; requests that are wrong."""
import http.client
import json
import os
import socket
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


def test_client_that_leaves(server):
    free = get(server, "/health")[1]["free_pages"]
    s = socket.create_connection(server.server_address)
    body = json.dumps({"prompt": [1, 2], "max_tokens": 900, "stream": True}).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert b"data:" in s.recv(4096) + s.recv(4096)
    s.close()
    until = time.time() + 60
    while time.time() < until and get(server, "/health")[1]["running"]:
        time.sleep(0.02)
    health = get(server, "/health")[1]
    assert health["running"] == 0 and health["free_pages"] == free == 19


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
