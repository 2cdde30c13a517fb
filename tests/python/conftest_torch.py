"""Shared by the tests of mica.torch: torch or a skip, a separate cache, options for short searches."""
import os
import sys
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; `pip install torch` runs these tests")

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))  # torch_models

# One cache for all tests of a run: models that two tests use are searched once. $MICA_TORCH_CACHE keeps it between runs.
os.environ.setdefault("MICA_TORCH_CACHE", tempfile.mkdtemp(prefix="mica_torch_"))

os.environ["MICA_TORCH_FAULTS"] = "raise"  # faults after which a user's model still runs fail a test

SHORT = {"max_kernel_ops": 1, "max_block_ops": 4, "measure": 1, "seconds": 0.02, "remember": False, "threads": 2, "disturbed": True}
ALL = {"rest": "eager", "take": "all", "min_work": 0, "time": 3000, "search": SHORT}  # seconds for a graph; a slow machine needs many


def compiled(model, **options):
    from mica.torch import backend
    torch._dynamo.reset()
    return torch.compile(model, backend=backend, options={**ALL, **options})


def close(got, want, tolerance=1e-4):
    error = (got.double() - want.double()).norm() / want.double().norm()
    assert got.dtype == want.dtype and got.shape == want.shape
    assert error < tolerance, f"relative norm of the difference {error:.2g}"


def pair_inputs():
    torch.manual_seed(0)
    return torch.randn(4, 6), torch.randn(4, 6)


def holds_pair(got, x, y):
    close(got[0], x + 2 * y)
    close(got[1], (x * y).sum(1, keepdim=True))


def graph_of(f, args):
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch._dispatch.python import enable_python_dispatcher
    with enable_python_dispatcher(), torch.no_grad():
        # AOTAutograd also replaces in-place operators
        gm = make_fx(f, tracing_mode="fake", decomposition_table={torch.ops.aten.add_.Scalar: torch.ops.aten.add.Scalar})(*args)
    gm.graph.eliminate_dead_code()
    return gm
