"""The operator table: a row for each operator of ATen that Mica's language can express.

A row is a function. Its arguments are the emitter and the operator's arguments in the order of torch's schema, with values for tensors. It returns a
value or a list of values, or raises Cannot with the reason. To decide whether a node can be taken, `partition.py` calls the row for inputs of the
node's shapes. So there is no separate list of supported operators.

Views (VIEWS) move no elements, so a program of views alone needs no kernel. Other rows are in attention.py, choice.py, losses.py and the like.
"""
from __future__ import annotations

import functools
import math
import operator

from torch import fx

from mica import _mica

from . import wholes
from .emit import CONDITIONS, MOST_WHOLE, WHOLE, Cannot, Value, axis, bound, flag, number

ROWS = {}
# Kinds of rows, as sets of names in ROWS. HIDES: the row gets the node as an argument, because it depends on the node's users. EXTENTS: numbers that
# depend on a dynamic extent are extents of the row's tensors, and it does not use them. UNITS: eager mode raises an error outside of 0 to 1.
VIEWS, PRODUCTS, SOFTMAX, CASTS, ATTENTION, HIDES, ZEROS, EXTENTS, UNITS = (set() for _ in range(9))
READS_NUMBERS = {"aten.where.self"}  # rows that read the number of a constant tensor
COMPARES = {f"aten.{op}.Scalar" for op in ("eq", "ne", "lt", "le", "gt", "ge")}  # with a number; for a weight, the mask is computed once
CONSTANTS = {  # operators that make constant tensors -> function of the arguments that returns the number
    "aten.scalar_tensor.default": lambda x: x, "aten.full.default": lambda shape, x: x,
    "aten.zeros.default": lambda shape: 0, "aten.ones.default": lambda shape: 1,
    "aten.full_like.default": lambda like, x: x, "aten.zeros_like.default": lambda like: 0, "aten.ones_like.default": lambda like: 1,
    "aten.new_full.default": lambda like, shape, x: x, "aten.new_zeros.default": lambda like, shape: 0,
    "aten.new_ones.default": lambda like, shape: 1}


def row(*names, kinds=()):
    def put(f):
        for name in names:
            ROWS[name] = f
            for kind in kinds:
                kind.add(name)
        return f
    return put


def name_of(target):
    """Name of an operator as in ROWS, such as aten.mm.default; None if the target is no operator."""
    if target is operator.getitem:
        return "getitem"
    return str(target) if hasattr(target, "_schema") else None


def constant(arg):
    """The number in a constant tensor of torch, else None."""
    name = name_of(arg.target) if isinstance(arg, fx.Node) and arg.op == "call_function" else None
    x = CONSTANTS[name](*arg.args) if name in CONSTANTS else None
    return x if isinstance(x, (bool, int, float)) else None


def is_light(node):
    """Whether the node costs no time: a view, a result of a view with several results, a constant tensor, or a choice between two constants, which is
    an input (`attention.py`)."""
    name = name_of(node.target) if node.op == "call_function" else None
    if name in READS_NUMBERS:
        return all(constant(a) is not None for a in node.args[1:])
    return name in VIEWS or constant(node) is not None or (name == "getitem" and is_light(node.args[0]))


def is_emitted(node):
    """Whether the node is part of the program. A constant tensor is not if rows only read its number."""
    return constant(node) is None or any(name_of(u.target) not in READS_NUMBERS for u in node.users)


NARROW = ("torch.float16", "torch.bfloat16")


def narrows(node):
    """Whether the node is a cast to 16 bits. In a program the value has 16 bits already."""
    return name_of(node.target) in CASTS and str(node.meta["val"].dtype) in NARROW


def widens(node):
    """Whether the node is a cast of 16 bits to 32, which changes no value."""
    return name_of(node.target) in CASTS and str(node.meta["val"].dtype) == "torch.float32" \
        and str(node.all_input_nodes[0].meta["val"].dtype) in NARROW


def operators(nodes):
    return sum(1 for n in nodes if not is_light(n) and name_of(n.target) != "getitem")


# ---- elementwise ----
UNARY = {
    "exp": "exp({0})", "log": "log({0})", "sqrt": "sqrt({0})", "rsqrt": "rsqrt({0})", 
    "abs": "abs({0})", "silu": "silu({0})", "sigmoid": "sigmoid({0})", "relu": "relu({0})", "tanh": "tanh({0})",
    "square": "square({0})", "reciprocal": "1 / {0}", "exp2": f"exp({{0}} * {number(math.log(2))})",
}


def unary_rows(table):
    for name, text in table.items():
        ROWS[f"aten.{name}.default"] = functools.partial(lambda text, e, x: e.unary(text, x), text)


unary_rows(UNARY)


@row("aten.neg.default")
def neg(e, x):
    return binary("-")(e, 0, x) if wholes.are_in(x) else e.unary("neg({0})", x)


@row("aten.gelu.default")
def gelu(e, x, approximate="none"):
    return e.unary("gelu({0})" if approximate == "none" else "gelu_tanh({0})", x)


def binary(op):
    def f(e, a, b):
        if isinstance(a, Value) and isinstance(b, Value):
            a, b = (flag(v, o.dtype) if v.dtype in CONDITIONS and o.dtype in ARITHMETIC else v for v, o in ((a, b), (b, a)))
        if wholes.are_in(a, b):
            return wholes.joined(e, f"{{0}} {op} {{1}}", a, b)
        if op == "*" and not (isinstance(a, Value) and isinstance(b, Value)):
            return e.times(*((a, b) if isinstance(a, Value) else (b, a)))
        if not isinstance(a, Value):
            return e.unary(f"({number(a)}) {op} {{0}}", b)
        if not isinstance(b, Value):
            return e.unary(f"{{0}} {op} ({number(b)})", a)
        return e.binary(f"{{0}} {op} {{1}}", a, b)
    return f


def scaled(e, x, by):
    if by == 1:
        return x
    return binary("*")(e, x, by) if isinstance(x, Value) else x * by


@row("aten.add.Tensor", "aten.add.Scalar")
def add(e, a, b, alpha=1):
    return binary("+")(e, a, scaled(e, b, alpha))


@row("aten.sub.Tensor", "aten.sub.Scalar")
def sub(e, a, b, alpha=1):
    return binary("-")(e, a, scaled(e, b, alpha))


@row("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(e, a, b, alpha=1):
    return binary("-")(e, b, scaled(e, a, alpha))


ROWS["aten.mul.Tensor"] = ROWS["aten.mul.Scalar"] = binary("*")


@row("aten.div.Tensor", "aten.div.Scalar")
def div(e, a, b):
    if not isinstance(b, Value) and b == 0:
        raise Cannot("a division by the number 0")
    return binary("/")(e, a, b)


for _name in ("minimum", "maximum"):
    ROWS[f"aten.{_name}.default"] = (lambda text: lambda e, a, b: (wholes.joined(e, text, a, b) if wholes.are_in(a, b) else e.binary(text, a, b)))(
        f"{_name}({{0}}, {{1}})")


MOST_POWER = 64  # largest exponent that becomes products


@row("aten.pow.Tensor_Scalar")
def power(e, x, p):
    if p == 1:
        return x
    if p == 3:
        return e.unary("square({0}) * {0}", x)
    if p in range(-MOST_POWER, MOST_POWER + 1) and p not in (-2, 0, 2):
        return e.unary(f"pow({{0}}, {int(p)})" if p > 0 else "1 / {0}" if p == -1 else f"1 / pow({{0}}, {int(-p)})", x)
    if p not in (2, 0.5, -0.5):
        raise Cannot(f"the power {p} of numbers that may be negative")
    return e.unary(f"pow({{0}}, {number(p)})", x)


@row("aten.clamp.default")
def clamp(e, x, lo=None, hi=None):
    lo, hi = (-math.inf if lo is None else lo), (math.inf if hi is None else hi)
    if wholes.are_in(x):
        return wholes.clamp(e, x, lo, hi)
    return e.unary(f"clamp({{0}}, {bound(lo)}, {bound(hi)})", x)


@row("aten.clamp_min.default")
def clamp_min(e, x, lo):
    return clamp(e, x, lo, None)


@row("aten.addcmul.default")
def addcmul(e, x, a, b, value=1):
    """The number is a factor of the first operand, as in torch: the other product may be too large."""
    return add(e, x, e.binary("{0} * {1}", scaled(e, a, value), b))


@row("aten.glu.default")
def glu(e, x, dim=-1):
    half = x.want[axis(dim, x.ndim)] // 2
    return e.binary("{0} * sigmoid({1})", e.part(x, dim, 0, half), e.part(x, dim, half, half))


# ---- triangles ----
def triangle(keeps):
    """A row for tril or triu. keeps: condition on column, row and diagonal for elements that stay."""
    def f(e, x, diagonal=0):
        if x.batch is not None and x.batch >= x.ndim - 2:
            raise Cannot("a triangle of a dynamic extent")
        x = e.full(x)
        m, n = x.want[-2:]
        return e.unary(f"where(iota([{n}]) {keeps} iota([{m}, 1]) + ({diagonal}), {{0}}, 0)", x)
    return f


ROWS["aten.triu.default"], ROWS["aten.tril.default"] = triangle(">="), triangle("<=")


# ---- along dimensions ----
def reduction(op):
    def f(e, x, dims=None, keepdim=False, dtype=None):
        dims = list(range(x.ndim)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        return e.reduce(op, x, dims, keepdim)
    return f


ROWS["aten.sum.dim_IntList"] = reduction("sum")
ROWS["aten.mean.dim"] = reduction("mean")
ROWS["aten.amax.default"] = reduction("max")


@row("aten.cumsum.default")
def cumsum(e, x, dim, dtype=None):
    if not x.ndim:
        return x
    x = e.full(x)
    d = axis(dim, x.ndim)
    if d == x.batch:
        raise Cannot("cumsum along the dynamic extent")
    if x.shape[d] ** 2 >= _mica.extent_limit:  # a program computes it as a product with a triangular matrix
        raise Cannot(f"cumsum of {x.shape[d]} elements")
    e.work += math.prod(x.shape)
    return e.say(f"cumsum({{0}}, dim={d})", [x], x.shape, x.dtype, None, x.batch)


@row("aten.var.correction")
def var(e, x, dims=None, correction=1, keepdim=False):
    dims = list(range(x.ndim)) if not dims else dims
    n = math.prod(x.want[axis(d, x.ndim)] for d in dims)
    correction = 1 if correction is None else correction
    if n <= correction:
        raise Cannot(f"a variance of {n} elements with the correction {correction}")
    off = e.binary("square({0} - {1})", x, e.reduce("mean", x, dims, True))
    return scaled(e, e.reduce("sum", off, dims, keepdim), 1 / (n - correction))


@row("aten._softmax.default", "aten.softmax.int", kinds=[SOFTMAX])
def softmax(e, x, dim, half_to_float=False, dtype=None):
    return e.softmax(x, dim)


FINITE = {"f16": -30000}  # by dtype: addend that hides an element and is finite; others: -1e30


@row("aten._safe_softmax.default", kinds=[SOFTMAX, ZEROS])
def safe_softmax(e, x, dim, dtype=None):
    """Softmax of a written-out attention, of scores or of scores + mask. Hidden rows are 0. An input may contain a mask, so it is halved. One half
    serves as the mask. The other half, limited to finite numbers, is the scores."""
    scores, mask = e.sums.get(x.name, (x, None))
    shown = mask and e.shown.get(mask.name)
    if shown and shown.dtype == "cond" and axis(dim, x.ndim) == x.ndim - 1:
        return e.softmax_where(scores, shown)
    if mask is None and e.is_input(x):
        mask = e.times(x, 0.5)
        scores = e.unary(f"maximum({{0}}, {number(FINITE.get(x.dtype, -1e30))})", mask)
    return e.softmax(scores, dim, mask)


@row("aten.native_layer_norm.default", "aten.layer_norm.default")
def layer_norm(e, x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    if bias is not None and weight is None:
        return [e.binary("{0} + {1}", over_last(e, "layer_norm", x, shape, [], eps), bias)]
    return [over_last(e, "layer_norm", x, shape, [w for w in (weight, bias) if w is not None], eps)]


def over_last(e, op, x, shape, others, eps):
    """A norm over the last dimensions, as many as `shape` has, which are joined to one."""
    if len(shape) == 1:
        return e.norm(op, x, others, eps)
    size = math.prod(shape)
    joined = e.reshape(x, [*x.want[:x.ndim - len(shape)], size])
    return e.reshape(e.norm(op, joined, [e.reshape(o, [size]) for o in others], eps), x.want)


ROWS["aten.layer_norm.default"] = lambda e, *a: layer_norm(e, *a)[0]


@row("aten._fused_rms_norm.default")
def fused_rms_norm(e, x, shape, weight=None, eps=None):
    eps = 2.0 ** -23 if eps is None else eps  # epsilon of f32, in which torch computes it
    return [over_last(e, "rms_norm", x, shape, [] if weight is None else [weight], eps)]


ROWS["aten.rms_norm.default"] = lambda e, *a: fused_rms_norm(e, *a)[0]


# ---- products ----
@row("aten.mm.default", "aten.bmm.default", "aten.matmul.default", kinds=[PRODUCTS])
def matmul(e, a, b):
    return e.matmul(a, b)


@row("aten.addmm.default", "aten.baddbmm.default", kinds=[PRODUCTS])
def addmm(e, bias, a, b, beta=1, alpha=1):
    product = scaled(e, e.matmul(a, b), alpha)
    return product if beta == 0 else e.binary("{0} + {1}", product, scaled(e, bias, beta))


@row("aten.linear.default", kinds=[PRODUCTS])
def linear(e, x, w, bias=None):
    y = e.matmul(x, e.permute(w, [1, 0]))
    return y if bias is None else e.binary("{0} + {1}", y, bias)


# ---- views and copies ----
@row("aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default", kinds=[VIEWS])
def identity(e, x, memory_format=None):
    return x


@row("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", kinds=[VIEWS])
def view(e, x, shape):
    return e.reshape(x, shape)


@row("aten.flatten.using_ints", kinds=[VIEWS])
def flatten(e, x, start=0, end=-1):
    start, end = axis(start, x.ndim), axis(end, x.ndim)
    return e.reshape(x, x.want[:start] + (math.prod(x.want[start:end + 1]),) + x.want[end + 1:])


@row("aten.unsqueeze.default", kinds=[VIEWS])
def unsqueeze(e, x, dim):
    d = axis(dim, x.ndim + 1)
    v = e.reshape(Value(x.name, x.shape, x.dtype, None, x.batch), x.shape[:d] + (1,) + x.shape[d:])
    return Value(v.name, v.shape, v.dtype, x.want[:d] + (1,) + x.want[d:], v.batch)


@row("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default", kinds=[VIEWS])
def squeeze(e, x, dims=None):
    dims = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    drop = {axis(d, x.ndim) for d in dims if x.want[axis(d, x.ndim)] == 1}
    return e.reshape(x, [s for d, s in enumerate(x.want) if d not in drop])


@row("aten.permute.default", kinds=[VIEWS])
def permute(e, x, perm):
    return e.permute(x, perm)


@row("aten.transpose.int", kinds=[VIEWS])
def transpose(e, x, a, b):
    perm = list(range(x.ndim))
    perm[a], perm[b] = perm[b], perm[a]
    return e.permute(x, perm)


@row("aten.t.default", kinds=[VIEWS])
def t(e, x):
    return e.permute(x, list(range(x.ndim))[::-1])


@row("aten.expand.default", kinds=[VIEWS])
def expand(e, x, shape, implicit=False):
    return e.expand(x, shape)


@row("aten.slice.Tensor", kinds=[VIEWS])
def slice_(e, x, dim=0, start=None, end=None, step=1):
    d = axis(dim, x.ndim)
    extent = x.want[d]
    start, end = (0 if start is None else start), (extent if end is None else end)
    start, end = (max(0, min(extent, p + extent if p < 0 else p)) for p in (start, end))
    if step == 1:
        return e.part(x, d, start, end - start)
    if extent % step or start >= step or end < extent - step + start + 1 or d == x.batch:
        raise Cannot(f"a slice from {start} to {end} of {extent} in steps of {step}, which does not have one element of every {step}")
    v = e.reshape(x, x.want[:d] + (extent // step, step) + x.want[d + 1:])
    return select(e, v, d + 1, start)


@row("aten.select.int", kinds=[VIEWS])
def select(e, x, dim, index):
    d = axis(dim, x.ndim)
    v = e.part(x, d, axis(index, x.want[d]), 1)
    return e.reshape(v, v.want[:d] + v.want[d + 1:])


def parts(e, x, dim, sizes):
    at = [sum(sizes[:i]) for i in range(len(sizes))]
    return [e.part(x, dim, a, s) for a, s in zip(at, sizes)]


@row("aten.split.Tensor", kinds=[VIEWS])
def split(e, x, size, dim=0):
    extent = x.want[axis(dim, x.ndim)]
    return parts(e, x, dim, [min(size, extent - a) for a in range(0, extent, size)])


@row("aten.split_with_sizes.default", kinds=[VIEWS])
def split_with_sizes(e, x, sizes, dim=0):
    return parts(e, x, dim, list(sizes))


@row("aten.unbind.int", kinds=[VIEWS])
def unbind(e, x, dim=0):
    return [select(e, x, dim, i) for i in range(x.want[axis(dim, x.ndim)])]


@row("aten.cat.default")
def cat(e, xs, dim=0):
    return e.concat(xs, dim)


@row("aten.stack.default")
def stack(e, xs, dim=0):
    return e.concat([unsqueeze(e, x, dim) for x in xs], axis(dim, xs[0].ndim + 1))


@row("aten.repeat.default")
def tile(e, x, times):
    extents = (1,) * (len(times) - x.ndim) + x.want
    split = e.reshape(x, [n for t, extent in zip(times, extents) for n in ([1] if t > 1 else []) + [extent]])
    wide = e.expand(split, [n for t, extent in zip(times, extents) for n in ([t] if t > 1 else []) + [extent]])
    return e.reshape(wide, [t * extent for t, extent in zip(times, extents)])


@row("aten.repeat_interleave.self_int")
def repeat_interleave(e, x, times, dim=None, output_size=None):
    if dim is None:
        raise Cannot("repeat_interleave without a dimension")
    return e.repeat(x, dim, times)


# Results of 8 bits would be rounded too much, and there are no casts to integers.
DTYPES = {"torch." + row["array"]: row["name"] for row in _mica.dtypes if row["bytes"] > 1 and row["tolerance"]}
ARITHMETIC = set(DTYPES.values())


@row("aten._to_copy.default", "aten.to.dtype", kinds=[VIEWS, CASTS])
def to_copy(e, x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """Mica has no casts. A widening cast is dropped, since products and sums are accumulated in 32 bits. A later narrowing cast is dropped too, since
    the value is still narrow."""
    to = DTYPES.get(str(dtype), None) if dtype is not None else x.dtype
    if device is not None or to is None:
        raise Cannot(f"a copy to {device or dtype}")
    if x.dtype in CONDITIONS:
        return e.several("where({0}, 1, 0)", [flag(x, to)], to)
    if x.dtype in WHOLE and e.computed(x) and to == "f32":
        return e.several("{0} / 2 * 2", [x], to, ())  # a quotient is f32, and a half is exact
    if to == x.dtype or to == "f32":
        return x
    raise Cannot(f"a cast from {x.dtype} to {to}")


# ---- constants and indices ----
def extents_of(t):
    if any(not isinstance(n, int) for n in t.shape):
        raise Cannot("a constant tensor of a dynamic extent")
    if not t.numel():
        raise Cannot("a tensor without elements")
    return tuple(t.shape)


def constant_tensor(e, *args, node, **kwargs):
    x, t = constant(node), node.meta["val"]
    if str(t.dtype) != "torch.float32" or x is None or math.isinf(x):
        raise Cannot(f"a constant tensor of {str(t.dtype).removeprefix('torch.')}")  # other constants are read as numbers (READS_NUMBERS)
    return e.constant(x, extents_of(t))


for _name in CONSTANTS:
    row(_name, kinds=[HIDES])(constant_tensor)


@row("aten.arange.default", "aten.arange.start", "aten.arange.start_step", kinds=[HIDES])
def arange(e, *args, node, **kwargs):
    """The result is f32, or indices of a known range."""
    start, _, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    t = node.meta["val"]
    n, = extents_of(t)
    if str(t.dtype) == "torch.float32":
        return e.say(f"iota([{n}]) * const({number(step)}) + const({number(start)})", [], (n,), "f32")
    least, most = sorted((start, start + (n - 1) * step))
    if str(t.dtype) not in ("torch.int64", "torch.int32") or max(-least, most) >= MOST_WHOLE:
        raise Cannot(f"indices {least} to {most} of {str(t.dtype).removeprefix('torch.')}")
    return e.say(f"iota([{n}]) * ({step}) + ({start})" if (start, step) != (0, 1) else f"iota([{n}])", [], (n,), "i32", whole=(least, most))


@row("aten.copy.default")
def copy(e, to, x, non_blocking=False):
    """A tensor like `to` with the elements of x."""
    if x.dtype != to.dtype:
        raise Cannot(f"a copy of {x.dtype} to {to.dtype}")
    return e.expand(x, to.want)
