"""Rows of the operator table (ops.py): masks, and the operators of attention in torch.

A mask of booleans becomes an input that is added to scores: 0 for shown elements, LOW for hidden ones, whose exponential is then 0. This is
equivalent only if a softmax follows, which `only_softmax` checks. If a mask hides a whole row, the result of attention is 0 there. Such a mask keeps
-inf and is an argument of the softmax.
"""
from __future__ import annotations

import math

from mica import _mica

from .conditions import choose
from .emit import CONDITIONS, Cannot, bound, flag, number
from .ops import ATTENTION, DTYPES, HIDES, SOFTMAX, VIEWS, ZEROS, constant, is_light, name_of, row, scaled

LOW = {row["name"]: row["low"] for row in _mica.dtypes}  # by dtype: exp(low - score) is 0 for any score, and 2 * low is finite


def added(e, mask, dtype, hides, low=None):
    """The addend for a mask of booleans: `low` (LOW if None) where the mask equals `hides`, else 0. A mask that is itself an addend may contain -inf.
    It is limited to LOW, because a tile in which all elements are -inf would make a running maximum NaN."""
    low = LOW[dtype if mask.dtype in CONDITIONS else mask.dtype] if low is None else low
    if mask.dtype == "cond":  # the language has no -inf there, so only a statement that attention does not read may contain it (`Emitter.shown`)
        return e.several(f"where({{0}}, {', '.join(map(bound, (low, 0) if hides else (0, low)))})", [flag(mask, dtype)], dtype)
    if mask.dtype != "bool" and low == -math.inf:
        return mask
    if mask.dtype != "bool" and mask.source is None:
        return e.unary(f"clamp({{0}}, {number(low)}, inf)", mask)
    if mask.dtype != "bool":
        return e.add_input("floor", (mask.source, low, mask.dtype), mask.shape, mask.dtype, mask.batch)
    return e.add_input("mask", (mask.source, hides, low, dtype), mask.shape, dtype, mask.batch)


def low_of(value, node):
    """The addend for hidden elements in place of `value`. It is -inf if only softmaxes read it that return 0 for hidden rows."""
    return -math.inf if value == -math.inf and only_softmax(node, None, ZEROS) else None


def hides_elements(e, node, value):
    """Whether the number is so low that it hides elements, and only softmaxes read the result. Then the number may be added instead of chosen."""
    if not isinstance(value, (int, float)) or value > -1e4 or not only_softmax(node):
        return False
    e.hides.add(node)
    return True


def dtype_of(node):
    return DTYPES.get(str(node.meta["val"].dtype))


@row("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", kinds=[HIDES])
def masked_fill(e, x, mask, value, node):
    known = constant(node.args[2])
    value = value if known is None else known
    if not hides_elements(e, node, value):
        return choose(e, mask, value, x)
    return e.binary("{0} + {1}", x, added(e, mask, x.dtype, True, low_of(value, node)))


@row("aten.where.ScalarOther", kinds=[HIDES])
def where_scalar(e, mask, x, value, node):
    if not hides_elements(e, node, value):
        return choose(e, mask, x, value)
    return e.binary("{0} + {1}", x, added(e, mask, x.dtype, False, low_of(value, node)))


@row("aten.where.ScalarSelf", "aten.where.Scalar", kinds=[HIDES])
def where_number(e, mask, value, y, node):
    return choose(e, mask, value, y, dtype_of(node))


@row("aten.where.self", kinds=[HIDES])
def where(e, mask, x, y, node):
    """With two constants: the additive mask that torch makes of booleans for attention. With one: hides elements before a softmax."""
    constants = [constant(a) for a in node.args[1:]]
    low = [c is not None and c <= -1e4 for c in constants]
    if sum(low) != 1 or not hides_elements(e, node, constants[0] if low[0] else constants[1]):
        return choose(e, mask, *(v if c is None else c for v, c in zip((x, y), constants)), dtype_of(node))
    hides, other = low[0], constants[1] if low[0] else constants[0]
    kept = y if hides else x
    low = low_of(constants[0] if hides else constants[1], node)
    bias = added(e, mask, kept.dtype, hides, low)
    if not hides and low == -math.inf:
        e.shown[bias.name] = mask
    return e.expand(bias, node.meta["val"].shape) if other == 0 else e.binary("{0} + {1}", kept, bias)


def only_softmax(node, inside=None, kind=SOFTMAX, copied=False):
    """Whether only softmaxes read the node, directly or through views, additions and padding. inside: nodes that must contain these readers; if
    `copied`, readers outside have a copy of the node, and do not count. kind: operators that count as softmax."""
    return bool(node.users) and all(_hides(u, node, inside, kind, copied) for u in node.users)


def _hides(user, node, inside, kind, copied):
    if inside is not None and user not in inside:
        return copied
    name = name_of(user.target)
    if name in ATTENTION:
        return node not in user.args[:3]  # the node must be the mask
    hands_on = name in VIEWS | {"aten.add.Tensor", "aten.constant_pad_nd.default"}
    return name in kind or (hands_on and only_softmax(user, inside, kind, copied and is_light(user)))


def attention(e, q, k, v, mask, dropout, causal, scale):
    if dropout:
        raise Cannot("attention with dropout")
    if q.ndim < 3 or k.ndim != q.ndim:
        raise Cannot("attention of fewer than three dimensions")
    heads, groups = q.want[-3], k.want[-3]
    if heads != groups:
        if not groups or heads % groups:
            raise Cannot(f"{heads} heads of queries with {groups} heads of keys")
        k, v = (e.repeat(x, -3, heads // groups) for x in (k, v))
    scale = 1 / math.sqrt(q.want[-1]) if scale is None else scale
    turned = e.permute(k, [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2])
    scores = e.matmul(scaled(e, q, scale), turned) if e.is_short(q) else scaled(e, e.matmul(q, turned), scale)
    t, s = scores.want[-2:]
    if causal and scores.batch is not None and scores.batch >= scores.ndim - 2:
        raise Cannot("a causal mask over a dynamic extent")
    if causal and mask is None:  # a condition on indices, so that kernels skip hidden tiles
        return e.matmul(e.softmax_up_to_row(scores), v)
    shown = None if mask is None or causal else mask if mask.dtype in CONDITIONS else e.shown.get(mask.name)
    if shown is not None:
        return e.matmul(e.softmax_where(scores, shown), v)
    if mask is not None:
        mask = added(e, mask, scores.dtype, False, -math.inf)
    if causal:
        mask = e.binary("{0} + {1}", mask, e.add_input("causal", (t, s, -math.inf, scores.dtype), (t, s), scores.dtype))
    return e.matmul(e.softmax(scores, -1, mask), v)


@row("aten.scaled_dot_product_attention.default", kinds=[ATTENTION])
def sdpa(e, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):
    return attention(e, q, k, v, mask, dropout, causal, scale)


@row("aten._scaled_dot_product_flash_attention_for_cpu.default", kinds=[ATTENTION])
def sdpa_cpu(e, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    return [attention(e, q, k, v, attn_mask, dropout, causal, scale)]


@row("aten._scaled_dot_product_flash_attention.default", kinds=[ATTENTION])
def sdpa_flash(e, q, k, v, dropout=0.0, causal=False, debug=False, scale=None):
    return [attention(e, q, k, v, None, dropout, causal, scale)]


@row("aten._scaled_dot_product_efficient_attention.default", kinds=[ATTENTION])
def sdpa_efficient(e, q, k, v, bias, lse=False, dropout=0.0, causal=False, scale=None):
    return [attention(e, q, k, v, bias, dropout, causal, scale)]


@row("aten._scaled_dot_product_cudnn_attention.default", kinds=[ATTENTION])
def sdpa_cudnn(e, q, k, v, bias, lse=False, dropout=0.0, causal=False, debug=False, scale=None):
    return [attention(e, q, k, v, bias, dropout, causal, scale)]


@row("aten._scaled_dot_product_fused_attention_overrideable.default", kinds=[ATTENTION])
def sdpa_other(e, q, k, v, bias=None, dropout=0.0, causal=False, debug=False, scale=None, lse=False):
    return [attention(e, q, k, v, bias, dropout, causal, scale)]
