"""Rows of the operator table (ops.py): losses, composed of the language's operators."""
from __future__ import annotations

from .emit import MOST_WHOLE, WHOLE, Cannot, number
from .ops import UNITS, row

NONE, MEAN, SUM = range(3)  # torch's numbers for the argument `reduction`


def reduced(e, x, reduction):
    return x if reduction == NONE else e.reduce({MEAN: "mean", SUM: "sum"}[reduction], x, range(x.ndim), False)


@row("aten.mse_loss.default")
def mse(e, x, y, reduction=MEAN):
    return reduced(e, e.binary("square({0} - {1})", x, y), reduction)


@row("aten.l1_loss.default")
def l1(e, x, y, reduction=MEAN):
    return reduced(e, e.binary("abs({0} - {1})", x, y), reduction)


def bent(e, x, y, at, scale):
    """A loss that is quadratic up to the difference `at`, and linear above: scale (m m / 2 + at (d - m)) with d = |x - y| and m = min(d, at)."""
    d = e.binary("abs({0} - {1})", x, y)
    m = e.unary(f"clamp({{0}}, 0, {number(at)})", d)
    return e.binary(f"(square({{1}}) * 0.5 + ({{0}} - {{1}}) * {number(at)}) * {number(scale)}", d, m)


@row("aten.smooth_l1_loss.default")
def smooth_l1(e, x, y, reduction=MEAN, beta=1.0):
    return l1(e, x, y, reduction) if beta == 0 else reduced(e, bent(e, x, y, beta, 1 / beta), reduction)


@row("aten.huber_loss.default")
def huber(e, x, y, reduction=MEAN, delta=1.0):
    return reduced(e, bent(e, x, y, delta, 1), reduction)


@row("aten.soft_margin_loss.default")
def soft_margin(e, x, y, reduction=MEAN):
    return reduced(e, e.binary("softplus(neg({0} * {1}))", x, y), reduction)


@row("aten.binary_cross_entropy.default", kinds=[UNITS])
def binary_cross_entropy(e, x, y, weight=None, reduction=MEAN):
    """binary_cross_entropy, with logarithms of at least -100 as in torch."""
    loss = e.binary("neg({1} * clamp(log({0}), -100, inf) + (1 - {1}) * clamp(log(1 - {0}), -100, inf))", x, y)
    return reduced(e, loss if weight is None else e.binary("{0} * {1}", loss, weight), reduction)


@row("aten.binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(e, x, y, weight=None, pos_weight=None, reduction=MEAN):
    right = e.unary("softplus(neg({0}))", x)
    if pos_weight is not None:
        right = e.binary("{0} * {1}", right, e.unary("{0} + 1", e.binary("{0} * {1}", y, e.unary("{0} - 1", pos_weight))))
    loss = e.binary("{0} + {1}", e.binary("(1 - {1}) * {0}", x, y), right)
    return reduced(e, loss if weight is None else e.binary("{0} * {1}", loss, weight), reduction)


LEAST = {"f16": 6e-8}  # a small positive number by dtype; other dtypes use that of f32


@row("aten.xlogy.Tensor")
def xlogy(e, x, y):
    """xlogy(x, x) = x log(x), 0 for x = 0, as in kl_div of probabilities. Other operands are refused: x log(0) is -inf, and the clamp makes it
    finite."""
    if x != y:
        raise Cannot("xlogy of two tensors")
    return e.unary(f"{{0}} * log(clamp({{0}}, {number(LEAST.get(x.dtype, 1.2e-38))}, inf))", x)


@row("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def nll(e, x, target, weight, reduction, ignored):
    """The element of each row at its class. Each class number is compared with all classes, so that one loop reads x once. A number that is no class
    counts as ignored. Eager mode raises an error for it unless it is `ignored`, so random examples contain classes only."""
    d = 1 if x.ndim > 1 else 0
    classes = x.want[d]
    if target.dtype not in WHOLE:
        raise Cannot("class numbers that are not integers")
    if 0 <= ignored < classes or abs(ignored) >= MOST_WHOLE:
        raise Cannot(f"the class {ignored} is ignored")
    if x.batch is not None:
        raise Cannot("a loss over a dynamic extent")
    x, of = e.full(x), e.same_numbers(target)
    if isinstance(of, str):  # an input, or a view of one
        e.limits[of], e.drawn[of] = (min(ignored, 0), max(ignored, classes - 1)), (0, classes - 1)
    at = e.reshape(target, [*x.want[:d], 1, *x.want[d + 1:]])
    places = f"iota([{', '.join(map(str, [classes] + [1] * (x.ndim - d - 1)))}])"
    hit = e.say(f"{places} == {{0}}", [at], x.want, "f32", whole=())
    picked = e.binary("where({0}, {1}, 0)", hit, x)
    share = None
    if weight is not None:
        weight = e.reshape(weight, [classes] + [1] * (x.ndim - d - 1))
        picked = e.binary("{0} * {1}", picked, weight)
        share = e.reduce("sum", e.binary("where({0}, {1}, 0)", hit, weight), [d], False)
    loss = e.unary("neg({0})", e.reduce("sum", picked, [d], False))
    if share is None:  # 1 for each row that counts; a sum of hits would be limited by all elements of x, which may be more than 2^24
        # A condition has the dtype of what it meets, and a count needs 32 bits. A quotient of whole numbers has them.
        counts = f"({{0}} >= 0) * ({{0}} < {classes})" if x.dtype == "f32" else "clamp({0} / 2 * 2 + 1, 0, 1)"
        share = e.reduce("sum", e.say(counts, [at], at.want, "f32", whole=()), [d], False)
    every = e.reduce("sum", share, range(share.ndim), False)
    if reduction == NONE:
        return [loss, every]
    total = e.reduce("sum", loss, range(loss.ndim), False)
    return [e.binary("{0} / {1}", total, every) if reduction == MEAN else total, every]
