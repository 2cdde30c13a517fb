"""mica.peers: every row of its tables against Mica's own interpreter, and a saved program beside torch."""
import json
import os
import subprocess
import sys

import pytest

from conftest_torch import torch

import mica
from mica import peers

PROGRAMS = {
    "elementwise": "X: f32[4, 6]\n Y: f32[4, 6]\n return exp(X), log(abs(X) + 1), sqrt(abs(X)), rsqrt(abs(X) + 1), square(X), -X, silu(X), "
                   "sigmoid(X), gelu(X), relu(X), tanh(X), sin(X), cos(X), erf(X), softplus(X), leaky_relu(X, slope=0.1), "
                   "clamp(X, lo=-1, hi=0.5), X + Y, X - Y, X * Y, X / (Y + 9), minimum(X, Y), maximum(X, Y), pow(abs(X) + 1, Y)",
    "reductions": "X: f32[4, 6]\n return sum(X, dim=1), mean(X, dim=0), max(X, dim=1), min(X, dim=1), prod(X, dim=1), logsumexp(X, dim=1), "
                  "softmax(X, dim=1), sum(X, dim=1, group=3), cumsum(X, dim=1)",
    "norms": "X: f32[4, 6]\n w: f32[6]\n b: f32[6]\n return rms_norm(X), rms_norm(X, w, eps=1e-6), layer_norm(X), layer_norm(X, w, b)",
    "places": "X: f32[4, 6]\n Y: f32[6, 4]\n return matmul(X, Y), reshape(X, shape=[2, 12]), transpose(X), repeat(X, dim=1, times=2), "
              "slice(X, dim=1, start=1, end=4), concat(X, X, dim=0), chunk(X, dim=1, parts=3, index=1)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows(name, tmp_path):
    path = tmp_path / "p.mica"
    path.write_text(f"program p {{\n {PROGRAMS[name]}\n}}\n")
    shown = subprocess.run([os.environ["MICA"], "show", path, "--json", "-"], capture_output=True, text=True, check=True)
    graph = json.loads(shown.stdout)
    graph = graph.get("graph", graph)
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(1)
    inputs = [(n["out"][0], rng.standard_normal(n["shape"]).astype("f4")) for n in graph["nodes"] if n["op"] == "input"]
    for key, x in inputs:
        np.save(tmp_path / f"{key}.npy", x)
    subprocess.run([os.environ["MICA"], "run", path, *(f"{k}={tmp_path / k}.npy" for k, _ in inputs), "--out", tmp_path / "out", "--quiet"],
                   check=True)
    got = peers.function_of(graph, peers._torch_operators())(*(torch.from_numpy(x) for _, x in inputs))
    files = sorted(os.listdir(tmp_path / "out"), key=lambda f: int("".join(c for c in f if c.isdigit()) or 0))
    files = [f for f in files if f.endswith(".npy")]
    assert len(files) == len(got)
    for f, x in zip(files, got):
        want = np.load(tmp_path / "out" / f)
        assert np.allclose(x.numpy().reshape(want.shape), want, rtol=1e-4, atol=1e-5), f


def test_compared(saved):
    found = peers.compare(saved, seconds=0.01)
    assert set(found["times_us"]) >= {"mica", "torch"} and found["ratio"] > 0 and found["best"] != "mica", found
    text = peers.lines(found)
    assert text[0].startswith("pair: ") and "times as fast as the best peer" in text[0]


def test_wrong_numbers_are_not_timed(saved, monkeypatch):
    def wrong(graph, inputs, gpu):
        return {"liar": lambda: [x * 0 for x in peers.function_of(graph, peers._torch_operators())(*inputs)]}

    def none(*_):
        raise peers.Missing("there is no row for it")
    monkeypatch.setattr(peers, "LIBRARIES", (("torch", lambda *a: {"torch": peers._torch_peers(*a)["torch"]}), ("liar", wrong), ("none", none)))
    found = peers.compare(saved, seconds=0.01)
    assert set(found["times_us"]) == {"mica", "torch"} and "differ by" in found["left"]["liar"] and "no row" in found["left"]["none"]


def test_no_folder(tmp_path):
    said = subprocess.run([sys.executable, "-m", "mica.peers", tmp_path / "nothing"], capture_output=True, text=True)
    assert said.returncode == 2 and "mica: peers:" in said.stderr
