"""Models: entry points that share weights and states."""
import pytest

import mica

TEXT = """model cache(d = 8, most = 12) {
  W: f32[d, d]
  K: f32[most, d] state
  program fill {
    n: dim <= most
    x: f32[n, d]
    K[:n] = matmul(x, W)
    return sum(x, dim=0)
  }
  program step {
    n: dim <= most
    x: f32[1, d]
    K[n - 1] = reshape(matmul(x, W), [d])
    return sum(K[:n], dim=0)
  }
}"""

# No array has the extent of `step`. tests/cli/test_entries.sh has a larger model of this kind.
TOKENS = """model tokens(v = 16, d = 8, most = 8) {
  E: f32[v, d]
  K: f32[most, d] state
  program step {
    n: dim <= most
    token: i32[1] < v
    K[n - 1] = reshape(E[token], [d])
    return sum(K[:n], dim=0)
  }
}"""


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return {"target": "cpu", "db": tmp_path_factory.mktemp("db") / "mica.db", "seconds": 0.05, "measure": 1, "threads": 1, "progress": False}


@pytest.fixture(scope="module")
def cache(options):
    pytest.importorskip("numpy")
    return mica.model(TEXT, **options)


def run(np, m):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((8, 8)).astype("f4"), rng.standard_normal((5, 8)).astype("f4")
    m["W"] = w
    m.reset()
    assert np.allclose(m.fill(x[:3]), x[:3].sum(0), atol=1e-5)
    for n in (4, 5):
        total = m.step(x[n - 1:n], n=n)
        assert np.allclose(total, (x[:n] @ w).sum(0, keepdims=True), atol=1e-4)
    assert np.allclose(m["K"][:5], x @ w, atol=1e-4) and not m["K"][5:].any()


def test_shared(cache):
    np = pytest.importorskip("numpy")
    assert cache.shared == ("W", "K") and list(cache.entries) == ["fill", "step"]
    run(np, cache)


def test_saved(cache, tmp_path):
    np = pytest.importorskip("numpy")
    cache.save(tmp_path / "cache")
    run(np, mica.model(tmp_path / "cache"))


@pytest.mark.parametrize("text", ["", "[" * 100000, "[]", "{}", '{"name": "m", "shared": [], "entries": ["../step"]}',
                                  '{"name": 1, "shared": [], "entries": []}',
                                  '{"name": "m", "shared": [["W"]], "entries": []}', '{"name": "m", "shared": [], "entries": "step"}'])
def test_saved_by_nobody(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(mica.UsageError, match="not what Model.save writes"):
        mica.model(tmp_path)


def test_extent_without_arrays(options):
    np = pytest.importorskip("numpy")
    m = mica.model(TOKENS, **options)
    m["E"] = e = np.random.default_rng(1).standard_normal((16, 8)).astype("f4")
    for n, token in enumerate((3, 5, 3, 15), 1):
        total = m.step(np.array([token], "i4"), n=n)
        assert np.allclose(total, e[[3, 5, 3, 15][:n]].sum(0), atol=1e-5)
    assert m["K"][:4].any(axis=1).all() and not m["K"][4:].any()
    with pytest.raises(mica.ArgumentError, match="n is 9 in the call, at most 8"):
        m.step(np.array([3], "i4"), n=9)


def test_one_of_them(options):
    f = mica.optimize(TEXT, entry="step", **options)
    assert [s.name for s in f.inputs] == ["W", "K", "n", "x"]


def test_refused(cache, options):
    np = pytest.importorskip("numpy")
    with pytest.raises(mica.UsageError, match="the entry points fill, step"):
        mica.optimize(TEXT, **options)
    with pytest.raises(mica.UsageError, match="no entry points"):
        mica.model("program p {\n X: f32[4]\n return X\n}", **options)
    with pytest.raises(AttributeError, match="it has fill, step"):
        cache.other
    with pytest.raises(mica.ArgumentError, match="shares no tensor X"):
        cache["X"] = np.zeros(4, "f4")
    with pytest.raises(mica.ArgumentError, match="has no W yet"):
        mica.Model(cache.name, cache.shared, {key: entry.program for key, entry in cache.entries.items()}).fill(np.zeros((1, 8), "f4"))
