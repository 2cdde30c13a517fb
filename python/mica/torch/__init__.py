"""torch.compile(model, backend="mica"): Mica optimizes those parts of a model that its language can express.

    compiled = torch.compile(model, backend="mica", options={"time": 30})
    print(mica.torch.explain(model, x))      # five lines: nodes that are taken, nodes that are left and reasons, the gain

docs/torch.md describes the options and the steps. Importing this module imports torch; `import mica` does not.
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
    """Runs a program in Mica's language and returns its results as a list. For torch.export and torch.compile this is one opaque operator."""
    return torch.ops.mica.call(list(tensors), _as_json(program), _as_json(options or {}))


def explain(model, *inputs, options=None, **kwargs):
    """Compiles the model for these inputs and returns an Explanation: five lines as text, and every node with `details()`. The model is not
    changed, but it is called once, which updates caches that it writes."""
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
