"""Programs of several devices: built, called with whole arrays, and rank by rank from threads and from processes, as torchrun starts them."""
import os
import subprocess
import sys
import threading

import pytest

import mica
from conftest import QUICK

np = pytest.importorskip("numpy")

MLP = """program mlp(ranks = 2) {
  world ranks
  X: f32[4, 16]
  A: f32[16, 32] shard(1)
  B: f32[32, 16] shard(0)
  H = relu(matmul(X, A))
  return all_reduce(matmul(H, B)), shard(H, 1)
}"""


def mlp(x, a, b):
    h = mica.relu(x @ a)
    return mica.all_reduce(h @ b), mica.shard(h, dim=1)


SPECS = (mica.Spec((4, 16)), mica.Spec((16, 32), shard=1), mica.Spec((32, 16), shard=0))


@pytest.fixture(scope="module")
def program():
    return mica.optimize(MLP, **QUICK)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x, a, b = (rng.standard_normal(s).astype("f4") for s in ((4, 16), (16, 32), (32, 16)))
    h = np.maximum(x @ a, 0)
    return x, a, b, h @ b, h


def part(array, dim, rank, world=2):
    return np.ascontiguousarray(np.split(array, world, axis=dim)[rank])


def test_whole(program, data):
    x, a, b, y, h = data
    assert program.world == 2
    assert [s.shard for s in program.inputs] == [None, 1, 0] and [s.shard for s in program.outputs] == [None, 1]
    assert "shard(1)" in repr(program.inputs[1])
    have, mid = program(x, a, b)
    np.testing.assert_allclose(have, y, atol=1e-4)
    np.testing.assert_allclose(mid, h, atol=1e-4)


def test_threads(program, data):
    x, a, b, y, h = data
    ranks = [program.rank(r, seconds=30) for r in range(2)]
    assert ranks[0].inputs[1].shape == (16, 16) and ranks[0].outputs[1].shape == (4, 16) and ranks[0].world == 2
    results = [[], []]

    def run(r):
        for _ in range(10):
            results[r] = ranks[r](x, part(a, 1, r), part(b, 0, r))

    threads = [threading.Thread(target=run, args=(r,)) for r in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (results[0][0] == results[1][0]).all()
    np.testing.assert_allclose(results[0][0], y, atol=1e-4)
    np.testing.assert_allclose(np.concatenate([results[0][1], results[1][1]], axis=1), h, atol=1e-4)


def test_states():
    f = mica.optimize("""program step(ranks = 2) {
      world ranks
      at: i64[1] < 6
      k: f32[1, 8] shard(1)
      K: f32[6, 8] shard(1) state
      K[at] = k
      return all_reduce(sum(K, dim=1))
    }""", **QUICK)
    k, whole = np.arange(8, dtype="f4")[None], np.zeros((6, 8), "f4")
    f(np.array([2]), k, whole)
    assert (whole[2] == k[0]).all() and not whole[[0, 1, 3, 4, 5]].any()
    ranks, caches, sums = [f.rank(r, seconds=30) for r in range(2)], [np.zeros((6, 4), "f4") for _ in range(2)], [None, None]

    def run(r):
        for at in (1, 4):
            sums[r] = ranks[r](np.array([at]), part(k, 1, r), caches[r])

    threads = [threading.Thread(target=run, args=(r,)) for r in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((caches[r][[1, 4]] == part(k, 1, r)).all() and not caches[r][[0, 2, 3, 5]].any() for r in range(2))
    assert (sums[0] == sums[1]).all() and sums[0][4, 0] == 28 and sums[0][2, 0] == 0


RUN = """
import sys, numpy as np, mica
f = mica.load(sys.argv[1])
f = f.rank() if sys.argv[2] == "-" else f.rank(int(sys.argv[3]), name=sys.argv[2], seconds=60)
whole = [np.load(f"{sys.argv[1]}/../{n}.npy") for n in "xab"]
r = int(sys.argv[3])
parts = [w if s.shard is None else np.ascontiguousarray(np.split(w, 2, axis=s.shard)[r]) for w, s in zip(whole, f.inputs)]
for _ in range(5):
    y, h = f(*parts)
assert h.shape == (4, 16)
np.save(f"{sys.argv[1]}/../y{r}.npy", y)
"""


@pytest.fixture(scope="module")
def folder(program, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks")
    program.save(path / "mlp")
    for name, array in zip("xab", data):
        np.save(path / f"{name}.npy", array)
    return path


def processes(folder, name, environment):
    runs = [subprocess.Popen([sys.executable, "-c", RUN, os.fspath(folder / "mlp"), name, str(r)], env={**os.environ, **environment(r)},
                             stderr=subprocess.PIPE, text=True) for r in range(2)]
    errors = [p.communicate()[1] for p in runs]
    assert [p.returncode for p in runs] == [0, 0], errors
    a, b = (np.load(folder / f"y{r}.npy") for r in range(2))
    assert (a == b).all()
    return a


def test_processes(folder, data):
    np.testing.assert_allclose(processes(folder, f"test-{os.getpid()}", lambda r: {}), data[3], atol=1e-4)


def torchrun(r, **other):
    return {"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": f"test {os.getpid()}", **other}


def test_as_torchrun_starts_them(folder, data):
    np.testing.assert_allclose(processes(folder, "-", torchrun), data[3], atol=1e-4)


def test_environment(program, monkeypatch):
    for key in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(mica.UsageError, match="RANK is not set"):
        program.rank()
    for key, value, says in (("RANK", "x", "no number"), ("WORLD_SIZE", "4", "this run has 4 processes"),
                             ("LOCAL_WORLD_SIZE", "1", "1 of 2 processes"), ("RANK", "2", "has no rank 2")):
        with monkeypatch.context() as m:
            for k, v in torchrun(0).items():
                m.setenv(k, v)
            m.setenv(key, value)
            with pytest.raises(mica.UsageError, match=says):
                program.rank()


def test_refused(program, data):
    x, a, b, *_ = data
    with pytest.raises(mica.UsageError, match="has no rank 2"):
        program.rank(2)
    with pytest.raises(mica.UsageError, match="no name of a world"):
        program.rank(0, name="a/b")
    with pytest.raises(mica.UsageError, match="rank 1 of the world .* was not opened"):
        program.rank(0, name=f"alone-{os.getpid()}", seconds=0.05)
    rank = program.rank(0, seconds=0.05)
    with pytest.raises(mica.ArgumentError, match="input 1"):
        rank(x, a, part(b, 0, 0))
    with pytest.raises(mica.UsageError, match="rank 1 did not reach"):
        rank(x, part(a, 1, 0), part(b, 0, 0))
    with pytest.raises(mica.UsageError, match="is rank 0 already"):
        rank.rank(1)


def test_one_device(pair):
    assert pair.world == 1 and all(s.shard is None for s in pair.inputs)
    with pytest.raises(mica.UsageError, match="program of one device"):
        pair.rank(0)


def test_built():
    g = mica.trace(mlp, SPECS, world=2)
    assert mica.verify(g, MLP)["finding"] == "equal"
    assert "world 2" in g.text and "shard(1)" in g.text and g.source().world == 2
    assert g.source().shards == ((None, 1, 0), (None, 1))
    one = mica.Graph("one")
    assert one.input("X", (4, 4), shard=0).shape == (4, 4)  # in a world of one device nothing is divided
    two = mica.Graph("two", world=2)
    assert two.input("X", (4, 4), shard=-1).shape == (4, 2)


def test_built_wrongly():
    with pytest.raises(mica.UsageError, match="a world of 3 devices"):
        mica.Graph(world=3)
    g = mica.Graph(world=2)
    with pytest.raises(mica.UsageError, match="no 2 equal parts"):
        g.input("X", (3, 4), shard=0)
    with pytest.raises(mica.UsageError, match="has an input or an operator already"):
        g._g.world(4)
    x = g.input("Y", (4, 4), shard=0)
    with pytest.raises(mica.UsageError, match="divided or used already"):
        g._g.shard(x.number, 1)
    with pytest.raises(mica.UsageError, match="is no input"):
        g._g.shard((x * 2).number, 0)
    g.output(x * 2)
    with pytest.raises(mica.UsageError, match="may be different on each of the 2 devices"):
        g.source()
    with pytest.raises(mica.UsageError, match="world= is of a function"):
        mica.optimize(MLP, world=2)


def test_optimized_function(data):
    x, a, b, y, _ = data
    f = mica.optimize(mlp, *SPECS, world=2, **QUICK)
    np.testing.assert_allclose(f(x, a, b)[0], y, atol=1e-4)
