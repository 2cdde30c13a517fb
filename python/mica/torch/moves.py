"""Rows of the operator table (ops.py): padding, rolling and reversing."""
from __future__ import annotations

import math

from .emit import Cannot, axis, number
from .ops import ARITHMETIC, row


def filled(e, x, d, extent, value):
    """A constant tensor in the dtype of x. Its shape is that of x, with `extent` elements along dimension d."""
    shape = x.shape[:d] + (extent,) + x.shape[d + 1:]
    return e.say(f"where(iota({list(shape)}) < 0, {{0}}, {number(value)})", [e.part(x, d, 0, 1)], shape, x.dtype, None, x.batch)


@row("aten.constant_pad_nd.default")
def pad(e, x, pads, value=0):
    """Pairs of the last dimension first; a negative one cuts."""
    if x.dtype not in ARITHMETIC:
        raise Cannot("padding of whole numbers or of booleans")
    if math.isinf(value):
        raise Cannot("padding with infinities")
    for d, (before, after) in zip(reversed(range(x.ndim)), zip(pads[::2], pads[1::2])):
        if not before and not after:
            continue
        if d == x.batch:
            raise Cannot("padding of the dynamic extent")
        x = e.full(e.part(x, d, max(-before, 0), x.want[d] + min(before, 0) + min(after, 0)))
        sides = [filled(e, x, d, n, value) if n > 0 else None for n in (before, after)]
        x = e.concat([v for v in (sides[0], x, sides[1]) if v is not None], d)
    return x


@row("aten.roll.default")
def roll(e, x, shifts, dims=()):
    if not dims:
        return e.reshape(roll(e, e.reshape(x, [math.prod(x.want)]), shifts, [0]), x.want)
    for shift, dim in zip(shifts, dims):
        d = axis(dim, x.ndim)
        n = x.want[d]
        if shift % n:
            x = e.concat([e.part(x, d, n - shift % n, shift % n), e.part(x, d, 0, n - shift % n)], d)
    return x


@row("aten.flip.default")
def flip(e, x, dims):
    """By indices that count backwards."""
    for dim in dims:
        d = axis(dim, x.ndim)
        n = x.want[d]
        if n > 1:
            at = e.say(f"{n - 1} - iota([{n}])", [], (n,), "i32", whole=(0, n - 1))
            x = e.gather(x, at, d)
    return x
