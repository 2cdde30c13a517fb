"""Whole numbers and states through the package: arrays of integers and bools, ranges at a call, states written in place."""
import pytest

import mica
from conftest import QUICK

np = pytest.importorskip("numpy")

STEP = """program step(b = 2, most = 16, d = 8) {
  at: i64[1] < most
  k: f32[b, 1, d]
  K: f32[b, most, d] state
  seen: bool[b, most]
  K[:, at] = k
  return sum(K, dim=1), seen and iota([most]) <= at, argmax(k, dim=2)
}"""


@pytest.fixture(scope="module")
def step():
    return mica.optimize(STEP, **QUICK)


def arrays(seed=1):
    rng = np.random.default_rng(seed)
    return (np.array([5]), rng.standard_normal((2, 1, 8)).astype("f4"), rng.standard_normal((2, 16, 8)).astype("f4"),
            rng.random((2, 16)) < 0.5)


def test_state_in_place(step):
    at, k, K, seen = arrays()
    want = K.copy()
    want[:, 5] = k[:, 0]
    total, shown, best = step(at, k, K, seen)
    assert np.array_equal(K, want)  # the caller's memory, bit by bit
    assert np.allclose(total, want.sum(axis=1, keepdims=True), atol=1e-5)
    assert shown.dtype == np.bool_ and np.array_equal(shown, seen & (np.arange(16) <= 5))
    assert best.dtype == np.int32 and np.array_equal(best, k.argmax(axis=2, keepdims=True))


def test_steps_add_up(step):
    _, _, K, seen = arrays(2)
    want = K.copy()
    for at in range(16):
        k = np.full((2, 1, 8), at, "f4")
        step(np.array([at]), k, K, seen)
        want[:, at] = at
        assert np.array_equal(K, want)


def test_ranges(step):
    at, k, K, seen = arrays()
    before = K.copy()
    for wrong in (16, -1, 1 << 40):
        with pytest.raises(mica.Error, match="index-range"):
            step(np.array([wrong]), k, K, seen)
    assert np.array_equal(K, before)  # nothing was written


def test_arguments(step):
    at, k, K, seen = arrays()
    with pytest.raises(mica.ArgumentError, match="dtype"):
        step(at.astype("i4"), k, K, seen)
    with pytest.raises(mica.ArgumentError, match="alias"):
        step(at, K[:1, :2].reshape(2, 1, 8), K, seen)
    K.setflags(write=False)
    with pytest.raises(mica.ArgumentError, match="read-only"):
        step(at, k, K, seen)


def test_distinct():
    f = mica.optimize("program p { at: i32[3] < 8, distinct\n x: f32[3, 4]\n S: f32[8, 4] state\n S[at] = x\n return x * 2 }", **QUICK)
    x, S = np.ones((3, 4), "f4"), np.zeros((8, 4), "f4")
    f(np.array([6, 0, 3], "i4"), x, S)
    assert S.sum(axis=1).tolist() == [4, 0, 0, 4, 0, 0, 4, 0]
    with pytest.raises(mica.Error, match="repeated-index"):
        f(np.array([6, 0, 6], "i4"), x, S)


def test_built(tmp_path):
    g = mica.Graph("lookup")
    t, E = g.input("t", (4,), "i32", below=10), g.input("E", (10, 6))
    S = g.input("S", (10, 6), state=True)
    at = g.input("at", (1,), "i64", below=10)
    mica.update(S, at, mica.gather(E, at, dim=0), dim=0)
    g.output(mica.rms_norm(E[t]))
    assert "t: i32[4] < 10" in g.text and "state" in g.text
    f = mica.optimize(g, **QUICK)
    f.save(tmp_path / "saved")
    E, S = np.random.default_rng(1).standard_normal((10, 6)).astype("f4"), np.zeros((10, 6), "f4")
    for h in (f, mica.load(tmp_path / "saved")):
        S[:] = 0
        y = h(np.array([1, 9, 1, 0], "i4"), E, S, np.array([3]))
        rows = E[[1, 9, 1, 0]]
        assert np.allclose(y, rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True)), atol=1e-5)
        assert np.array_equal(S[3], E[3]) and not S[4].any()
        with pytest.raises(mica.Error, match=r"t\[1\] is 10, limit 10"):
            h(np.array([1, 10, 1, 0], "i4"), E, S, np.array([3]))
