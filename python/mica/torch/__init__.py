"""torch.compile(model, backend="mica"): the parts of a model that Mica can express become programs that it optimizes.

    compiled = torch.compile(model, backend="mica", options={"time": 30})
    print(mica.torch.explain(model, x))      # five lines: what is taken, what is left and why, what is gained

docs/torch.md has the options and what is done when. Importing this module imports torch; `import mica` does not.
"""
from __future__ import annotations

import json

import torch

from . import library
from .compiler import _listeners, backend
from .custom import operator
from .engine import EngineError
from .options import Options
from .package import operator_library
from .report import Report
from .summary import Explanation

__all__ = ["EngineError", "Explanation", "Options", "Report", "backend", "call", "explain", "operator", "operator_library"]


@torch.compiler.assume_constant_result
def _as_json(x):
    return json.dumps(x, sort_keys=True)


def call(program, *tensors, options=None):
    """The results (a list) of a program in Mica's language, as one operator that torch.export and torch.compile work around."""
    return torch.ops.mica.call(list(tensors), _as_json(program), _as_json(options or {}))


def explain(model, *inputs, options=None, **kwargs):
    """Compiles model for these inputs and says in five lines what became of it; `details()` of the result has every node. The model itself stays
    as it is, but is called once: caches that it writes are written."""
    graphs = []
    _listeners.lists = [*getattr(_listeners, "lists", []), graphs]
    try:
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend, options=options)
        with torch.no_grad():
            compiled(*inputs, **kwargs)
    finally:
        _listeners.lists = _listeners.lists[:-1]
    return Explanation(graphs)
