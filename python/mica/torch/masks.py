"""Simplifies masks of attention before programs are taken.

A mask that depends on no input is known when a graph is compiled. transformers computes such masks from positions in every call. If the mask shows
all elements, it is removed. If row i shows the elements up to i, attention becomes causal, and kernels skip hidden tiles. Other masks are computed
once for all layers.
"""
from __future__ import annotations

import math

import torch
from torch import fx

from .attention import only_softmax
from .ops import ATTENTION, constant, is_light, name_of

MOST = 1 << 26  # largest number of elements of a mask that is examined
GONE = "a mask that attention needs no more"
SHARED = "a mask that several layers share, made once"
LOW = -1e4      # largest addend of a hidden element


def simplify(graph):
    """Removes constant masks from attention if there is an equivalent form without a mask. Returns the nodes that became unused."""
    before = list(graph.nodes)
    known, seen = _constants(graph), {}
    for node in list(graph.nodes):
        place = _places(node)
        mask = _argument(node, place[0]) if place else None
        if isinstance(mask, fx.Node) and mask in known and not _argument(node, place[1]):
            form = _form_of(mask, seen)
            if form == "all" or (form == "causal" and _has_rows(node, mask)):
                _set(node, place[0], None)
                _set(node, place[1], form == "causal")
        elif name_of(node.target) == "aten.add.Tensor" and _adds_nothing(node, known, seen):
            node.replace_all_uses_with(node.args[0])
    _share(graph)
    graph.eliminate_dead_code()
    after = set(graph.nodes)
    return [n for n in before if n not in after]


def _form_of(mask, seen):
    if mask not in seen:
        seen[mask] = _form(_value(mask))
    return seen[mask]


def _has_rows(node, mask):
    """Whether the mask has a row for each query. A single row hides the same keys from all queries."""
    queries, keys = (a.meta["val"].shape[-2] for a in node.args[:2])
    rows = mask.meta["val"].shape[-2:]
    return isinstance(queries, int) and isinstance(keys, int) and tuple(rows) == (queries, keys)


def _adds_nothing(node, known, seen):
    """Whether the node adds a mask of zeros to scores, as torch does in an attention for which it has no kernel.

    Only softmaxes may read the sum, and it may not be a result of the graph.
    """
    scores, mask = node.args
    if node.kwargs or not isinstance(mask, fx.Node) or mask not in known or not isinstance(scores, fx.Node) or scores in known:
        return False
    val, of = node.meta["val"], scores.meta["val"]
    if val.dtype is not of.dtype or val.shape != of.shape or mask.meta["val"].dtype is torch.bool or not only_softmax(node):
        return False
    return _form_of(mask, seen) == "all"


def _places(node):
    """Position or keyword of the mask and of the flag `is_causal` among the arguments of an attention. None: it takes no mask."""
    if node.op != "call_function" or name_of(node.target) not in ATTENTION:
        return None
    at = {a.name: a.name if a.kwarg_only else i for i, a in enumerate(node.target._schema.arguments)}
    mask = at.get("attn_mask", at.get("attn_bias"))
    return None if mask is None else (mask, at["is_causal"])


def _argument(node, place):
    return node.kwargs.get(place) if isinstance(place, str) else node.args[place] if place < len(node.args) else None


def _set(node, place, value):
    if isinstance(place, str):
        node.kwargs = {**node.kwargs, place: value}
    else:
        missing = [a.default_value for a in node.target._schema.arguments[len(node.args):place + 1]]
        node.args = (*node.args, *missing)
        node.update_arg(place, value)


def _pure(node):
    """Whether the node's result depends on its arguments only, and it does not change them."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _constants(graph):
    """Nodes that depend on no input."""
    known = set()
    for node in graph.nodes:
        val = node.meta.get("val")
        if node.op == "call_function" and isinstance(val, torch.Tensor) and _pure(node) and all(isinstance(s, int) for s in val.shape) \
                and val.numel() <= MOST and all(a in known for a in node.all_input_nodes):
            known.add(node)
    return known


def _value(node):
    """The node's value, computed on the CPU."""
    from .region import real_tensors
    made, todo = {}, [node]
    with real_tensors():
        while todo:
            n = todo[-1]
            missing = [a for a in n.all_input_nodes if a not in made]
            if missing:
                todo += missing
                continue
            todo.pop()
            args, kwargs = fx.map_arg((n.args, n.kwargs), made.__getitem__)
            if "device" in kwargs:
                kwargs = {**kwargs, "device": torch.device("cpu")}
            if "pin_memory" in kwargs:
                kwargs = {**kwargs, "pin_memory": False}
            made[n] = n.target(*args, **kwargs)
    return made[node]


def _form(mask):
    """"all" if the mask shows every element, "causal" if row i shows elements 0 to i, "" for other masks."""
    from .region import real_tensors
    with real_tensors():
        shown, hidden = (mask, ~mask) if mask.dtype is torch.bool else (mask == 0, mask <= LOW)
        if bool(shown.all()):
            return "all"
        if mask.ndim < 2:
            return ""
        band = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
        return "causal" if bool((shown == band).all()) and bool((hidden != band).all()) else ""


def _share(graph):
    """Merges equal nodes from which masks are computed."""
    first, same = {}, {}
    for node in _of_masks(graph):
        args = fx.map_arg((node.args, node.kwargs), lambda a: same.get(a, a))
        key = node.target, repr(args)
        same[node] = first.setdefault(key, node)
    for node, kept in same.items():
        if kept is not node:
            node.replace_all_uses_with(kept)
            copied = is_light(kept) and not _is_of_finite_numbers(kept)
            kept.meta["mica_shared"] = "" if copied or constant(kept) is not None else SHARED


def _is_of_finite_numbers(node):
    """A choice between two finite constants. Programs read these numbers. If one is -inf, they read the booleans, and need no such tensor."""
    numbers = [constant(a) for a in node.args[1:]] if name_of(node.target) == "aten.where.self" else []
    return len(numbers) == 2 and all(n is not None and math.isfinite(n) for n in numbers)


def _of_masks(graph):
    """Pure nodes from which masks are computed, in order."""
    todo = []
    for node in graph.nodes:
        place = _places(node)
        mask = _argument(node, place[0]) if place else None
        todo += [mask] if isinstance(mask, fx.Node) else []
    found = set()
    while todo:
        n = todo.pop()
        if n not in found and n.op == "call_function" and _pure(n):
            found.add(n)
            todo += n.all_input_nodes
    outputs = set(next(n for n in graph.nodes if n.op == "output").all_input_nodes)
    return [n for n in graph.nodes if n in found and n not in outputs]
