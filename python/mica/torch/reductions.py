"""Rows of the operator table (ops.py): reductions, norms over groups, channels and several dimensions, and pools without overlap."""
from __future__ import annotations

import math

from .emit import Cannot, axis, number
from .ops import EXTENTS, ROWS, reduction, row, var

ROWS["aten.amin.default"] = reduction("min")
ROWS["aten.logsumexp.default"] = reduction("logsumexp")
ROWS["aten.prod.dim_int"] = reduction("prod")


def every(op):
    """A row that reduces all dimensions."""
    return lambda e, x, dtype=None: e.reduce(op, x, range(x.ndim), False)


for _name, _op in (("sum", "sum"), ("mean", "mean"), ("max", "max"), ("min", "min"), ("prod", "prod")):
    ROWS[f"aten.{_name}.default"] = every(_op)


@row("aten._log_softmax.default", "aten.log_softmax.int")
def log_softmax(e, x, dim, half_to_float=False):
    return e.binary("{0} - {1}", x, e.reduce("logsumexp", x, [dim], True))


# ---- norms of vectors, deviations ----
NORMS = {2: ("square({0})", "sum", "sqrt({0})"), 1: ("abs({0})", "sum", None), math.inf: ("abs({0})", "max", None),
         -math.inf: ("abs({0})", "min", None)}


@row("aten.linalg_vector_norm.default")
def vector_norm(e, x, order=2, dims=None, keepdim=False, dtype=None):
    if order not in NORMS:
        raise Cannot(f"a norm of order {order}")
    before, op, after = NORMS[order]
    dims = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims or range(x.ndim)
    made = e.reduce(op, e.unary(before, x), dims, keepdim)
    return e.unary(after, made) if after else made


ROWS["aten.norm.Scalar"] = vector_norm
ROWS["aten.norm.ScalarOpt_dim"] = lambda e, x, order=None, dims=None, keepdim=False: vector_norm(e, x, 2 if order is None else order, dims, keepdim)


@row("aten.std.correction")
def std(e, x, dims=None, correction=1, keepdim=False):
    return e.unary("sqrt({0})", var(e, x, dims, correction, keepdim))


def with_mean(spread):
    return lambda e, x, dims=None, correction=1, keepdim=False: [spread(e, x, dims, correction, keepdim),
                                                                 ROWS["aten.mean.dim"](e, x, dims, keepdim)]


ROWS["aten.var_mean.correction"], ROWS["aten.std_mean.correction"] = with_mean(var), with_mean(std)


# ---- norms of channels ----
def per_channel(e, x, v):
    """v of shape [c], reshaped to broadcast along the channels of x, which is [n, c, ...]."""
    return e.reshape(v, [v.want[0]] + [1] * (x.ndim - 2))


def affine(e, x, like, weight, bias):
    for op, v in (("*", weight), ("+", bias)):
        if v is not None:
            x = e.binary(f"{{0}} {op} {{1}}", x, per_channel(e, like, v))
    return x


def group_norm(e, x, groups, weight=None, bias=None, eps=1e-5):
    if x.want[1] % groups:
        raise Cannot(f"{x.want[1]} channels in {groups} groups")
    inner = math.prod(x.want[1:]) // groups
    made = e.norm("layer_norm", e.reshape(x, [x.want[0], groups, inner]), [], eps)
    return affine(e, e.reshape(made, x.want), x, weight, bias)


@row("aten.group_norm.default")
def group_norm_(e, x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return group_norm(e, x, groups, weight, bias, eps)


@row("aten.native_group_norm.default", kinds=[EXTENTS])
def native_group_norm(e, x, weight, bias, n, c, inner, groups, eps):
    return [group_norm(e, x, groups, weight, bias, eps)]


def batch_norm(e, x, weight, bias, mean, variance, eps):
    scale = e.unary(f"rsqrt({{0}} + {number(eps)})", variance)
    scale = scale if weight is None else e.binary("{0} * {1}", scale, weight)
    off = e.binary("{0} - {1}", x, per_channel(e, x, mean))
    return affine(e, e.binary("{0} * {1}", off, per_channel(e, x, scale)), x, None, bias)


@row("aten._native_batch_norm_legit_no_training.default")
def batch_norm_trained(e, x, weight, bias, mean, variance, momentum, eps):
    return [batch_norm(e, x, weight, bias, mean, variance, eps)]


@row("aten.native_batch_norm.default", "aten.cudnn_batch_norm.default", "aten.miopen_batch_norm.default")
def batch_norm_any(e, x, weight, bias, mean, variance, training, momentum, eps):
    if training:
        raise Cannot("batch_norm in training by this operator")
    return [batch_norm(e, x, weight, bias, mean, variance, eps)]


def of_batch(e, x, weight, bias, eps):
    """Batch norm with the batch's own statistics. Returns the norm; mean, variance and 1 / deviation of the channels. Mean and variance are first
    computed for each image, whose elements are adjacent and so are read once. The channels' mean and variance are computed from these."""
    n, c, inner = x.want[0], x.want[1], math.prod(x.want[2:])
    v = e.reshape(x, [n, c, inner] if inner > 1 else [n, c])
    mean, variance = v, None
    if inner > 1:
        mean, variance = spread_of(e, v, 2)
    own, between = spread_of(e, mean, 0)
    variance = between if variance is None else e.binary("{0} + {1}", e.reduce("mean", variance, [0], True), between)
    scale = e.unary(f"rsqrt({{0}} + {number(eps)})", variance)
    made = affine(e, e.binary("{0} * {1}", e.binary("{0} - {1}", v, own), scale), v, weight, bias)
    return e.reshape(made, x.want), *(e.reshape(s, [c]) for s in (own, variance, scale))


def spread_of(e, v, dim):
    """Mean and variance along a dimension, which gets the extent 1."""
    mean = e.reduce("mean", v, [dim], True)
    return mean, e.reduce("mean", e.unary("square({0})", e.binary("{0} - {1}", v, mean)), [dim], True)


@row("aten._native_batch_norm_legit.no_stats")
def norm_of_batch(e, x, weight, bias, training, momentum, eps):
    """Batch norm without running statistics. instance_norm calls it with a batch of 1 and all images as channels; then it is a norm of each
    channel."""
    if x.want[0] > 1:
        return [of_batch(e, x, weight, bias, eps)[0]]
    made = e.norm("layer_norm", e.reshape(x, [x.want[1], math.prod(x.want[2:])]), [], eps)
    return [affine(e, e.reshape(made, x.want), x, weight, bias)]


@row("aten._native_batch_norm_legit_functional.default")
def batch_norm_trained_on(e, x, weight, bias, mean, variance, training, momentum, eps):
    """Batch norm in training: uses the batch's statistics, and updates the running ones, whose variance is the unbiased one."""
    n = math.prod(x.want) // x.want[1]
    if not training or n < 2:
        raise Cannot("batch_norm of given statistics, or of one element a channel")
    if x.dtype != "f32":
        raise Cannot(f"batch_norm in training of {x.dtype}: its statistics have 32 bits")
    made, own_mean, own_variance, spread = of_batch(e, x, weight, bias, eps)
    kept = [e.binary(f"{{0}} * {number(1 - momentum)} + {{1}} * {number(by)}", running, own)
            for running, own, by in ((mean, own_mean, momentum), (variance, own_variance, momentum * n / (n - 1)))]
    return [made, own_mean, spread, *kept]


# ---- pools whose windows do not overlap ----
def whole_windows(e, x, window):
    """x with its last dimensions cut to multiples of the window."""
    for d, w in enumerate(window, x.ndim - len(window)):
        x = e.part(x, d, 0, x.want[d] // w * w)
    return x


def pool(e, op, x, window, stride, padding, dilation=1, ceil=False):
    dims = len(window)
    stride = list(stride or window) * (dims if len(stride or window) == 1 else 1)
    if any(padding if isinstance(padding, (list, tuple)) else [padding]) or stride != list(window) or set(_several(dilation)) != {1} \
            or ceil and any(n % w for n, w in zip(x.want[x.ndim - dims:], window)):
        raise Cannot("a pool with padding, or with windows that overlap")
    x = whole_windows(e, x, window)
    split = [k for n, w in zip(x.want[x.ndim - dims:], window) for k in (n // w, w)]
    first = x.ndim - dims
    return e.reduce(op, e.reshape(x, [*x.want[:first], *split]), [first + 2 * d + 1 for d in range(dims)], False)


def _several(x):
    return x if isinstance(x, (list, tuple)) else [x]


def window_of(window, dims):
    window = list(_several(window))
    return window * dims if len(window) == 1 else window


def average(dims):
    def f(e, x, window, stride=None, padding=0, ceil=False, count_padding=True, divisor=None):
        if divisor is not None:
            raise Cannot("a pool with divisor_override")
        return pool(e, "mean", x, window_of(window, dims), stride, padding, 1, ceil)
    return f


def largest(dims):
    return lambda e, x, window, stride=None, padding=0, dilation=1, ceil=False: [
        pool(e, "max", x, window_of(window, dims), stride, padding, dilation, ceil)]


for _dims in (2, 3):
    ROWS[f"aten.avg_pool{_dims}d.default"] = average(_dims)
    ROWS[f"aten.max_pool{_dims}d_with_indices.default"] = largest(_dims)


@row("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive(e, x, sizes):
    extents = x.want[x.ndim - len(sizes):]
    if any(n % s for n, s in zip(extents, sizes)):
        raise Cannot(f"a pool of {list(extents)} to {list(sizes)}")
    return pool(e, "mean", x, [n // s for n, s in zip(extents, sizes)], None, 0)


# ---- products with vectors ----
def _columns(e, v):
    return e.reshape(v, [*v.want, 1])


@row("aten.mv.default")
def mv(e, a, x):
    return e.reshape(e.matmul(a, _columns(e, x)), a.want[:1])


@row("aten.dot.default", "aten.vdot.default")
def dot(e, x, y):
    return e.reduce("sum", e.binary("{0} * {1}", x, y), [0], False)


@row("aten.addmv.default")
def addmv(e, bias, a, x, beta=1, alpha=1):
    product = ROWS["aten.mul.Tensor"](e, mv(e, a, x), alpha)
    return product if beta == 0 else ROWS["aten.add.Tensor"](e, product, bias, beta)
