"""Run-time extents: arrays with their values and with their bounds, results, and extents that do not agree."""
import pytest

import mica

TEXT = """program attend(most = 48, d = 8) {
  n: dim <= most
  q: f32[2, 1, d]
  K: f32[2, n, d]
  V: f32[2, n, d]
  t: i32[n] >= 1 < 9
  S = matmul(q, transpose(K)) / sqrt(d)
  return matmul(softmax(S, dim=2), V), K * 2, sum(t, dim=0)
}"""


@pytest.fixture(scope="module")
def attend(tmp_path_factory):
    np = pytest.importorskip("numpy")
    db = tmp_path_factory.mktemp("db") / "mica.db"
    return np, mica.optimize(TEXT, target="cpu", db=db, seconds=0.05, measure=1, threads=1, progress=False)


def arrays(np, n):
    rng = np.random.default_rng(n)
    q, k, v = (rng.standard_normal(s).astype("f4") for s in ((2, 1, 8), (2, n, 8), (2, n, 8)))
    return q, k, v, rng.integers(1, 9, n).astype("i4")


def reference(np, q, k, v, t):
    e = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(8))
    return e / e.sum(2, keepdims=True) @ v, k * 2, t.sum(keepdims=True)


def equal(np, have, want):
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(have, want))


def test_values_as_shapes(attend):
    np, f = attend
    for n in (1, 2, 17, 47, 48):
        x = arrays(np, n)
        want = reference(np, *x)
        assert equal(np, f(*x), want) and equal(np, f(n, *x), want) and equal(np, f(x[0], t=x[3], K=x[1], V=x[2]), want)
        out = tuple(np.empty_like(w) for w in want[:2]) + (np.empty(1, "i4"),)
        assert f(*x, out=out) is out and equal(np, out, want)


def test_bounds_as_shapes(attend):
    np, f = attend
    q, k, v, t = arrays(np, 11)
    large = [np.full((2, 48, 8), 1e4, "f4") for _ in range(2)]
    large[0][:, :11], large[1][:, :11] = k, v
    whole = np.ones(48, "i4")
    whole[:11] = t
    assert equal(np, f(q, *large, whole, n=11), reference(np, q, k, v, t))


def test_saved(attend, tmp_path):
    np, f = attend
    f.save(tmp_path / "attend")
    x = arrays(np, 5)
    assert equal(np, mica.load(tmp_path / "attend")(*x), reference(np, *x))


def test_refused(attend):
    np, f = attend
    q, k, v, t = arrays(np, 11)
    for args, says in (((q, k, v[:, :5], t), "n is 11 in K and 5 in V"), ((q, k[:, :0], v, t), "n is 0 in K, at least 1"),
                       ((q, np.zeros((2, 49, 8), "f4"), v, t), "n is 49 in K, at most 48"), ((12, q, k, v, t), "n is 12 in the call and 11 in K"),
                       ((q, k[:, :, :4], v, t), r"its shape is \[2, 11, 4\], and the program's is \[2, n, 8\]"), ((q, k), "is missing")):
        with pytest.raises(mica.ArgumentError, match=says):
            f(*args)
    with pytest.raises(mica.ArgumentError, match="n is 11.9 in the call, and is a whole number"):
        f(q, k, v, t, n=11.9)
    with pytest.raises(mica.Error, match=r"t\[0\] is \d+, limit 9"):
        f(q, k, v, t * 100)
