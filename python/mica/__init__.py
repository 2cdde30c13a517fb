"""Mica: a superoptimizer for tensor programs.

    import mica, numpy as np

    def norm_linear(x, w):
        return mica.rms_norm(x) @ w

    x, w = np.ones((16, 1024), "f4"), np.ones((1024, 1024), "f4")
    f = mica.optimize(norm_linear, x, w)   # searches, proves, compiles, measures
    y = f(x, w)                            # numpy in, numpy out; so with torch, cupy and jax

docs/python.md describes the package. Importing it needs neither numpy nor CUDA.
"""
from . import _mica, _ops
from ._mica import ArgumentError, Array, Error, MachineError, NotEqualError, UsageError
from .graph import Block, Graph, Tensor, trace
from ._ops import *  # noqa: F401,F403  the operators
from .config import clear_cache, show_config
from .model import Model, model
from .optimize import Program, Stopped, load, optimize, verify
from .spec import Spec

__version__ = _mica.version()[0]
__all__ = ["ArgumentError", "Array", "Block", "Error", "Graph", "MachineError", "Model", "NotEqualError", "Program", "Spec", "Stopped", "Tensor",
           "UsageError", "clear_cache", "load", "model", "optimize", "show_config", "trace", "verify", *_ops.__all__]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know the names above

    def __getattr__(name: str):
        """Called for names that the package does not have."""
        if name.startswith("_"):
            raise AttributeError(f"module 'mica' has no attribute {name!r}")
        from .hints import no_member
        raise no_member(name, __all__)
