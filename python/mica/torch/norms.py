"""Recognizes written-out norms: x * rsqrt(mean(x * x) + eps) becomes rms_norm(x, eps=eps).

Both are equal in exact arithmetic. But the operator rms_norm has its mean of squares in 32 bits, as in models that widen x before (ops.to_copy drops
that cast). A single operator also makes the search shorter.
Lines are those of the emitter: (name, expression, names used, extents). `live` drops unused lines.
"""
from __future__ import annotations

import math
import re

NAME = r"(\w+)"
PRODUCT = re.compile(rf"{NAME} \* {NAME}")
QUOTIENT = re.compile(rf"{NAME} / {NAME}")
ROOTS = {"*": re.compile(rf"rsqrt\({NAME}\)"), "/": re.compile(rf"sqrt\({NAME}\)")}
PLUS = re.compile(rf"{NAME} \+ \(([0-9.e+-]+)\)")
RESHAPE = re.compile(rf"reshape\({NAME}, \[[0-9, ]*\]\)")
MEAN = re.compile(rf"mean\({NAME}, dim=(\d+)\)")
SQUARES = (re.compile(rf"pow\({NAME}, 2\)"), re.compile(rf"square\({NAME}\)"), re.compile(rf"{NAME} \* {NAME}"))


def fold(lines):
    by_name = {line[0]: line for line in lines}
    out = []
    for name, text, args, shape in lines:
        found = None
        for sign, whole in (("*", PRODUCT), ("/", QUOTIENT)):
            m = whole.fullmatch(text)
            if m:
                pairs = [m.groups()] if sign == "/" else [m.groups(), m.groups()[::-1]]
                found = found or next(filter(None, (_norm(by_name, name, x, root, sign, shape) for x, root in pairs)), None)
        out += found or [(name, text, args, shape)]
    return out


def _match(by_name, name, pattern):
    return pattern.fullmatch(by_name[name][1]) if name in by_name else None


def _before(by_name, name):
    """The name of the value that a reshape makes this one of, or the name itself."""
    m = _match(by_name, name, RESHAPE)
    return m.group(1) if m else name


def _norm(by_name, name, x, root, sign, shape):
    """The lines of x * root or x / root as a norm, or None. A mean over several dimensions is one of x with these joined."""
    m = _match(by_name, root, ROOTS[sign])
    plus = m and _match(by_name, m.group(1), PLUS)
    mean = plus and _match(by_name, _before(by_name, plus.group(1)), MEAN)
    if not mean or mean.group(1) not in by_name or float(plus.group(2)) < 0:
        return None
    d, joined = int(mean.group(2)), by_name[mean.group(1)][3]
    if joined != (*shape[:d], math.prod(shape[d:])) or by_name[plus.group(1)][3] != (*shape[:d], *[1] * (len(shape) - d)):
        return None
    square = next(filter(None, (_match(by_name, _before(by_name, mean.group(1)), p) for p in SQUARES)), None)
    if not square or set(square.groups()) != {x}:
        return None
    if d == len(shape) - 1:
        return [(name, f"rms_norm({x}, eps={plus.group(2)})", (x,), shape)]
    flat, made = f"{name}_flat", f"{name}_norm"
    return [(flat, f"reshape({x}, {list(joined)})", (x,), joined), (made, f"rms_norm({flat}, eps={plus.group(2)})", (flat,), joined),
            (name, f"reshape({made}, {list(shape)})", (made,), shape)]


def live(lines, wanted):
    """The lines that the wanted names need, in order. A line with two results names only the needed ones."""
    need, kept = set(wanted), []
    for name, text, args, shape in reversed(lines):
        names = [name, f"{name}_at"] if text.startswith("topk(") else [name]
        if need.isdisjoint(names):
            continue
        need.update(args)
        kept.append((", ".join(n if n in need else "_" for n in names), text, args, shape))
    return kept[::-1], need
