"""Talks to `mica lsp`: test_lsp.sh. Diagnostics, hover, completion, formatting; then thousands of broken messages, after which it still answers or
has ended with a status of its own, never by a signal."""
import json
import random
import subprocess
import sys

MICA = sys.argv[1]
PROGRAM = "program p(n = 4) {\n  X: f32[n, 64]\n  W: f32[64, 8]\n  # größer 𝔊\n  Y = matmul(X, W)\n  return softmax(Y, dim=1)\n}\n"
KERNEL = open("kernels/copy.tile", encoding="utf-8").read()


def framed(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def replies(data):
    found = []
    while data:
        head, data = data.split(b"\r\n\r\n", 1)
        n = int(head.split(b":")[1])
        found.append(json.loads(data[:n]))
        data = data[n:]
    return found


def talk(*messages, raw=None):
    data = raw if raw is not None else b"".join(map(framed, messages))
    p = subprocess.run([MICA, "lsp"], input=data, capture_output=True, timeout=100)
    return p, replies(p.stdout)


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notice(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def opened(uri, text):
    return notice("textDocument/didOpen", textDocument={"uri": uri, "languageId": "mica", "version": 1, "text": text})


def at(uri, line, character):
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}


def result(found, number):
    return next(m["result"] for m in found if m.get("id") == number)


END = [request(99, "shutdown"), notice("exit")]


def test_conversation():
    uri = "file:///p.mica"
    p, found = talk(request(1, "initialize", capabilities={}), notice("initialized"), opened(uri, PROGRAM),
                    request(2, "textDocument/hover", **at(uri, 4, 7)), request(3, "textDocument/hover", **at(uri, 5, 18)),
                    request(4, "textDocument/completion", **at(uri, 5, 20)),
                    request(5, "textDocument/formatting", textDocument={"uri": uri}, options={}),
                    notice("textDocument/didChange", textDocument={"uri": uri, "version": 2},
                           contentChanges=[{"text": PROGRAM.replace("64, 8", "6,8")}]),
                    request(6, "textDocument/formatting", textDocument={"uri": uri}, options={}),
                    notice("textDocument/didChange", textDocument={"uri": uri, "version": 3},
                           contentChanges=[{"text": PROGRAM.replace("64, 8", "64,8")}]),
                    request(8, "textDocument/formatting", textDocument={"uri": uri}, options={}),
                    notice("textDocument/didClose", textDocument={"uri": uri}), request(7, "textDocument/hover", **at(uri, 4, 7)), *END)
    assert p.returncode == 0, p
    capabilities = result(found, 1)["capabilities"]
    assert capabilities["hoverProvider"] and capabilities["documentFormattingProvider"] and capabilities["textDocumentSync"] == 1
    told = [m["params"] for m in found if m.get("method") == "textDocument/publishDiagnostics"]
    assert [len(t["diagnostics"]) for t in told] == [0, 1, 0, 0]
    wrong = told[1]["diagnostics"][0]
    assert wrong["code"] == "shape-mismatch" and wrong["range"]["start"]["line"] == 4 and "64" in wrong["message"], wrong
    text = result(found, 2)["contents"]["value"]
    assert "`Y: f32[4, 8]`" in text and "4096 operations" in text and "**matmul**" in text, text
    assert "`Y: f32[4, 8]`" in result(found, 3)["contents"]["value"]
    labels = [x["label"] for x in result(found, 4)]
    assert labels[0] == "dim" and {"matmul", "X", "W", "Y", "f32", "return"} <= set(labels) and len(labels) == len(set(labels)), labels
    assert result(found, 5) == [] and result(found, 6) == [] and result(found, 7) is None and result(found, 99) is None
    assert result(found, 8)[0]["newText"] == PROGRAM
    assert result(found, 8)[0]["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 7, "character": 0}}


def test_positions_are_utf16():
    uri = "file:///u.mica"
    text = PROGRAM.replace("  Y = matmul", "  Y = matmull")
    _, found = talk(opened(uri, text), opened("file:///v.mica", "program p { # 𝔊é\n X: f32[4]; return nothing(X) # 𝔊\n}"), *END)
    first, second = (m["params"]["diagnostics"][0] for m in found if "params" in m)
    assert first["code"] == "unknown-function" and first["range"] == {"start": {"line": 4, "character": 6},
                                                                      "end": {"line": 4, "character": 13}}, first
    assert second["range"]["start"] == {"line": 1, "character": 19}, second


def test_kernels():
    good, bad = "file:///copy.tile", "file:///bad.tile"
    p, found = talk(opened(good, KERNEL), opened(bad, KERNEL.replace("kernel", "kernle", 1)), request(1, "textDocument/completion", **at(good, 3, 0)),
                    *END)
    assert p.returncode == 0
    told = {m["params"]["uri"]: m["params"]["diagnostics"] for m in found if "params" in m}
    assert told[good] == [] and len(told[bad]) == 1, told
    assert {"kernel", "Move"} <= {x["label"] for x in result(found, 1)}


def test_refusals():
    p, found = talk(b"{", b"[]", {"id": 1}, request(2, "workspace/nothing"), request(3, "textDocument/hover", position={"line": 1}),
                    request(4, "textDocument/hover", textDocument={"uri": 7}), notice("$/cancelRequest", id=3), {"id": [1], "method": "initialize"},
                    {"jsonrpc": "2.0", "id": 9, "result": None}, *END, request(5, "initialize"))
    assert p.returncode == 0
    assert [(m.get("id"), m["error"]["code"]) for m in found if "error" in m] == [
        (None, -32700), (None, -32600), (1, -32600), (2, -32601), (3, -32602), (4, -32602), (None, -32600)], found


def test_the_end():
    assert talk()[0].returncode == 1 and talk(notice("exit"))[0].returncode == 1  # without shutdown
    for raw in (b"hello\n", b"Content-Length: -5\r\n\r\n", b"Content-Length: 99999999999\r\n\r\n", b"Content-Length: 10\r\n\r\n{}", b"\r\n\r\n",
                b"Content-Length: 2 2\r\n\r\n{}", b"x" * 5000, b"a: b\r\n" * 100 + b"Content-Length: 2\r\n\r\n{}"):
        p, found = talk(raw=raw)
        assert p.returncode == 2 and b"Language Server Protocol" in p.stderr and not found, (raw, p)


def broken(rng, body):
    """A message with some bytes changed, left out or repeated."""
    body = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        k = rng.randrange(len(body))
        how = rng.randrange(4)
        if how == 0:
            body[k] = rng.choice(b'{}[]":,\\x00\xff0-9eE ')
        elif how == 1:
            del body[k:k + rng.randint(1, 20)]
        elif how == 2:
            body[k:k] = body[max(0, k - 30):k]
        else:
            body[k:k] = str(rng.choice([-1, 2 ** 31, 2 ** 63 - 1, 2 ** 64, 1e308])).encode()
        body = body or bytearray(b"{")
    return bytes(body)


def test_broken_messages():
    rng = random.Random(1)
    uri = "file:///p.mica"
    bodies = [json.dumps(m).encode() for m in (
        opened(uri, PROGRAM), opened("file:///copy.tile", KERNEL[:600]), request(2, "textDocument/hover", **at(uri, 4, 7)),
        request(4, "textDocument/completion", **at(uri, 5, 20)), request(5, "textDocument/formatting", textDocument={"uri": uri}),
        notice("textDocument/didChange", textDocument={"uri": uri}, contentChanges=[{"text": PROGRAM}]))]
    for _ in range(4):
        messages = [framed(broken(rng, rng.choice(bodies))) for _ in range(300)]
        p, found = talk(raw=b"".join(messages) + framed(request(77, "textDocument/hover", **at("file:///none", 0, 0))) + b"".join(map(framed, END)))
        assert p.returncode == 0 and result(found, 77) is None, (p.returncode, p.stderr[-500:])
        p, _ = talk(raw=broken(rng, b"".join(messages)))
        assert p.returncode in (0, 1, 2), (p.returncode, p.stderr[-500:])
    deep = b'{"id":1,"method":' + b"[" * 100000
    assert talk(raw=framed(deep) + b"".join(map(framed, END)))[0].returncode == 0


if __name__ == "__main__":
    for name, f in list(globals().items()):
        if name.startswith("test_"):
            f()
            print(name)
