"""Rows of the operator table (ops.py): gathers, and the largest elements with their indices.

The range of an input of indices is that of the indexed dimension (`Emitter.index`). Arithmetic of indices is in wholes.py.
"""
from __future__ import annotations

import math

from .emit import Cannot, Value, axis
from .ops import ROWS, row


# ---- the largest ----
@row("aten.topk.default")
def topk(e, x, k, dim=-1, largest=True, sorted=True):
    if not largest:
        raise Cannot("the smallest elements: with negated elements NaN would be the first")
    return list(e.top(x, k, axis(dim, x.ndim)))


def place(e, x, dim, keep, least):
    """The index of the largest element, or of the smallest one if `least`. It is the first of equal elements, or the first NaN if there is one."""
    d = axis(dim, x.ndim)
    at = e.top(e.unary("neg({0})", x) if least else x, 1, d)[1]
    return at if keep else e.reshape(at, at.want[:d] + at.want[d + 1:])


def place_row(least):
    def f(e, x, dim=None, keepdim=False):
        if dim is not None:
            return place(e, x, dim, keepdim, least)
        at = place(e, e.reshape(x, [math.prod(x.want)]), 0, True, least)
        return e.reshape(at, [1] * x.ndim if keepdim else [])
    return f


ROWS["aten.argmax.default"], ROWS["aten.argmin.default"] = place_row(False), place_row(True)


def extreme(op, least):
    """The largest or smallest elements, and their indices. A result that nothing reads is not computed."""
    return lambda e, x, dim, keepdim=False: [e.reduce(op, x, [dim], keepdim), place(e, x, dim, keepdim, least)]


ROWS["aten.max.dim"], ROWS["aten.min.dim"] = extreme("max", False), extreme("min", True)


# ---- gathers ----
@row("aten.index_select.default")
def index_select(e, x, dim, at):
    d = axis(dim, x.ndim)
    return e.gather(x, e.index(e.reshape(at, [math.prod(at.want)]), x.want[d]), d)


@row("aten.embedding.default")
def embedding(e, table, at, padding=-1, scale_grad=False, sparse=False):
    return e.gather(table, e.index(at, table.want[0]), 0)


@row("aten.index.Tensor")
def index(e, x, indices):
    at = [d for d, i in enumerate(indices) if i is not None]
    if len(at) != 1 or not isinstance(indices[at[0]], Value):
        raise Cannot("indices of several dimensions")
    return e.gather(x, e.index(indices[at[0]], x.want[at[0]], wraps=True), at[0])


@row("aten.gather.default")
def gather(e, x, dim, at, sparse_grad=False):
    """Flattens x, and computes an index into it for each element of the result."""
    d = axis(dim, x.ndim)
    if x.batch is not None or at.batch is not None:
        raise Cannot("gather with a dynamic extent")
    stride = [math.prod(x.want[i + 1:]) for i in range(x.ndim)]
    ones = [1] * x.ndim
    text = f"{{0}} * {stride[d]}"
    for i, extent in enumerate(at.want):
        if i != d and extent > 1:
            text += f" + iota({ones[:i] + [extent] + ones[i + 1:]}) * {stride[i]}"
    places = e.index(at, x.want[d])
    flat = e.say(text, [places], places.shape, places.dtype, whole=(0, math.prod(x.want) - 1))
    return e.gather(e.reshape(x, [math.prod(x.want)]), flat, 0)
