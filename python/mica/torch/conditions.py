"""Rows of the operator table (ops.py): comparisons, choices by conditions, and functions that consist of both.

A condition that a program computes is a value of dtype "cond": 0 or 1, in whatever dtype its readers have. It is never a result of a program.
Booleans that come from outside are inputs of dtype "bool".
"""
from __future__ import annotations

import functools

import torch

from .emit import CONDITIONS, MOST_WHOLE, Cannot, Value, flag, join_dtypes, number
from .ops import ARITHMETIC, HIDES, NARROW, ROWS, row


# ---- comparisons ----
def as_compared(x, node):
    """The number as eager mode compares it with a tensor of the node: rounded to the tensor's dtype."""
    from .region import real_tensors
    dtype = node.all_input_nodes[0].meta["val"].dtype
    if str(dtype) not in NARROW:
        return x
    with real_tensors():
        return torch.tensor(x, dtype=dtype).item()


def compared(sign):
    def f(e, a, b, node):
        b = b if isinstance(b, Value) else as_compared(b, node)
        values = [v for v in (a, b) if isinstance(v, Value)]
        computed = all(e.computed(v) for v in values)  # whole numbers of an input may be larger than the language has
        if any(v.dtype not in ARITHMETIC for v in values) and (not computed or len(values) == 1 and (abs(b) >= MOST_WHOLE or b != int(b))):
            raise Cannot("a comparison of whole numbers without a known range, or of booleans")
        return e.several(f"{{0}} {sign} {'{1}' if len(values) > 1 else f'({number(b)})'}", values, "cond", () if computed else None)
    return f


for _name, _sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    row(f"aten.{_name}.Scalar", f"aten.{_name}.Tensor", kinds=[HIDES])(compared(_sign))


def joined(text):
    def f(e, *conditions):
        if any(not isinstance(c, Value) or c.dtype not in CONDITIONS for c in conditions):
            raise Cannot("a logical operator of numbers")
        return e.several(text, [flag(c, "f32") for c in conditions], "cond")
    return f


ROWS["aten.logical_and.default"] = ROWS["aten.bitwise_and.Tensor"] = joined("{0} * {1}")
ROWS["aten.logical_or.default"] = ROWS["aten.bitwise_or.Tensor"] = joined("maximum({0}, {1})")
ROWS["aten.logical_not.default"] = ROWS["aten.bitwise_not.default"] = joined("1 - {0}")


# ---- choices ----
def choose(e, c, x, y, dtype=None):
    """x where the condition holds, else y: values or numbers. dtype: of the result, for two numbers."""
    if not isinstance(c, Value) or c.dtype not in CONDITIONS:
        raise Cannot("a choice by a tensor that is not boolean")
    values = [v for v in (x, y) if isinstance(v, Value)]
    if any(v.dtype not in ARITHMETIC for v in values):
        raise Cannot("a choice of whole numbers or of booleans")
    dtype = functools.reduce(join_dtypes, [v.dtype for v in values]) if values else dtype
    if dtype is None:
        raise Cannot("a choice of whole numbers or of booleans")
    names = iter(("{1}", "{2}"))
    x, y = (next(names) if isinstance(v, Value) else f"({number(v)})" for v in (x, y))
    return e.several(f"where({{0}}, {x}, {y})", [flag(c, dtype), *values], dtype)


# ---- functions ----
@row("aten.threshold.default")
def threshold(e, x, at, value):
    return e.unary(f"where({{0}} <= ({number(at)}), {number(value)}, {{0}})", x)


@row("aten.hardshrink.default", kinds=[HIDES])
def hardshrink(e, x, at=0.5, *, node):
    return e.unary(f"where(abs({{0}}) <= ({number(as_compared(at, node))}), 0, {{0}})", x)


@row("aten.softshrink.default")
def softshrink(e, x, at=0.5):
    return e.unary(f"{{0}} - clamp({{0}}, {number(-at)}, {number(at)})", x)


@row("aten.sign.default")
def sign(e, x):
    return e.unary("where({0} > 0, 1, 0) - where({0} < 0, 1, 0)", x)


ROWS["aten.floor.default"] = lambda e, x: e.unary("floor({0})", x)
ROWS["aten.ceil.default"] = lambda e, x: e.unary("neg(floor(neg({0})))", x)
