"""One program is optimized for all tests of calls, with the smallest search: compilers take most of the time."""
import os

import pytest

import mica

QUICK = dict(measure=1, seconds=0.02, max_block_ops=3, max_values=50, threads=2, progress=False)
PAIR = "program pair { X: f32[4, 6]\n Y: f32[4, 6]\n return X + Y * 2, sum(X * Y, dim=1) }"


@pytest.fixture(scope="session")
def pair():
    """X, Y of f32[4, 6] -> X + 2 Y, and the sums of X Y."""
    return mica.optimize(PAIR, **QUICK)


@pytest.fixture(scope="session")
def saved(pair, tmp_path_factory):
    folder = os.fspath(tmp_path_factory.mktemp("saved") / "pair")
    pair.save(folder)
    return folder


@pytest.fixture
def arrays():
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((4, 6)).astype("f4") for _ in range(2))
    return x, y, x + 2 * y, (x * y).sum(axis=1, keepdims=True)
