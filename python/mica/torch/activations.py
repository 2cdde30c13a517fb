"""Rows of the operator table (ops.py): elementwise functions that are one or a few operators of the language."""
from __future__ import annotations

import math

from .conditions import choose
from .emit import Cannot, bound, number
from .ops import ROWS, add, row, scaled, unary_rows

MORE = {
    "sin": "sin({0})", "cos": "cos({0})", "erf": "erf({0})", "log2": f"log({{0}}) * {number(1 / math.log(2))}",
    "log10": f"log({{0}}) * {number(1 / math.log(10))}", "mish": "{0} * tanh(softplus({0}))",
    "hardsigmoid": f"clamp({{0}} * {number(1 / 6)} + 0.5, 0, 1)", "hardswish": f"{{0}} * clamp({{0}} + 3, 0, 6) * {number(1 / 6)}",
}
unary_rows(MORE)


@row("aten.log_sigmoid_forward.default")
def log_sigmoid(e, x):
    return [e.unary("neg(softplus(neg({0})))", x)]


@row("aten.leaky_relu.default")
def leaky_relu(e, x, slope=0.01):
    return e.unary(f"leaky_relu({{0}}, {number(slope)})", x)


@row("aten._prelu_kernel.default")
def prelu(e, x, slopes):
    return e.binary("relu({0}) - {1} * relu(neg({0}))", x, slopes)


@row("aten.elu.default")
def elu(e, x, alpha=1, scale=1, input_scale=1):
    below = f"(exp(clamp({{0}}, -inf, 0) * ({number(input_scale)})) - 1) * ({number(alpha)})"
    return e.unary(f"(relu({{0}}) + {below}) * ({number(scale)})", x)


@row("aten.celu.default")
def celu(e, x, alpha=1):
    return elu(e, x, alpha, 1, 1 / alpha)


@row("aten.softplus.default")
def softplus(e, x, beta=1, threshold=20):
    """Above the threshold torch gives x itself: as near as rounding from 20 on."""
    if beta == 1 and threshold >= 20:
        return e.unary("softplus({0})", x)
    if beta == 0:
        raise Cannot("softplus with beta 0")
    scaled = f"{{0}} * ({number(beta)})"
    return e.unary(f"where({scaled} > ({number(threshold)}), {{0}}, softplus({scaled}) * ({number(1 / beta)}))", x)


@row("aten.hardtanh.default")
def hardtanh(e, x, lo=-1, hi=1):
    return e.unary(f"clamp({{0}}, {bound(lo)}, {bound(hi)})", x)


@row("aten.clamp_max.default")
def clamp_max(e, x, hi):
    return e.unary(f"clamp({{0}}, -inf, {bound(hi)})", x)


@row("aten.clamp.Tensor")
def clamp_between(e, x, lo=None, hi=None):
    x = x if lo is None else e.binary("maximum({0}, {1})", x, lo)
    return x if hi is None else e.binary("minimum({0}, {1})", x, hi)


ROWS["aten.clamp_min.Tensor"] = ROWS["aten.maximum.default"]
ROWS["aten.clamp_max.Tensor"] = ROWS["aten.minimum.default"]


@row("aten.pow.Scalar")
def power_of_number(e, base, x):
    if base <= 0 or base == 1 or math.isinf(base):  # 1 to the power NaN is 1
        raise Cannot(f"powers of {base}")
    return e.unary(f"exp({{0}} * ({number(math.log(base))}))", x)


@row("aten.addcdiv.default")
def addcdiv(e, x, a, b, value=1):
    return add(e, x, e.binary("{0} / {1}", scaled(e, a, value), b))


@row("aten.lerp.Scalar")
def lerp(e, x, y, weight):
    """From the nearer end, as torch does: the other one is exact for the weight 1, and an infinity of the nearer end stays."""
    if abs(weight) < 0.5:
        return e.binary(f"{{0}} + ({{1}} - {{0}}) * ({number(weight)})", x, y)
    return e.binary(f"{{1}} - ({{1}} - {{0}}) * ({number(1 - weight)})", x, y)


@row("aten.lerp.Tensor")
def lerp_tensor(e, x, y, weight):
    """From the nearer end, as above, for each weight."""
    way = e.binary("{1} - {0}", x, y)
    ends = [e.binary("{0} + {1}", x, e.binary("{0} * {1}", way, weight)), e.binary("{0} - {1}", y, e.binary("{0} * (1 - {1})", way, weight))]
    near = e.several("abs({0}) < 0.5", [weight], "cond")
    return choose(e, near, *ends)
