"""Arithmetic of whole numbers (integers) that a program computes, with their ranges, which the language checks (`docs/language.md`).

The language has whole numbers up to 2^24. Numbers of an input may be larger, so torch computes arithmetic of them.
"""
from __future__ import annotations

from .emit import MOST_WHOLE, WHOLE, Cannot, Value, number


def _corners(a, b):
    every = [x * y for x in a for y in b]
    return min(every), max(every)


RANGES = {
    "{0} + {1}": lambda a, b: (a[0] + b[0], a[1] + b[1]), "{0} - {1}": lambda a, b: (a[0] - b[1], a[1] - b[0]), "{0} * {1}": _corners,
    "minimum({0}, {1})": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])), "maximum({0}, {1})": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}


def are_in(*operands):
    return any(isinstance(v, Value) and v.dtype in WHOLE for v in operands)


def _range(e, v):
    if not isinstance(v, Value):
        return (int(v), int(v)) if v == int(v) else None
    if v.dtype not in WHOLE:
        return None
    if not e.computed(v):
        raise Cannot("arithmetic of whole numbers of an input, which may be larger than the language has")
    return e.computed(v)


def joined(e, text, a, b):
    """The operator applied to a and b. One or both are tensors of whole numbers; the other may be a tensor of floats or a number."""
    ranges = [_range(e, v) for v in (a, b)]
    values = [v for v in (a, b) if isinstance(v, Value)]
    names = iter(("{0}", "{1}"))
    text_of = text.format(*(next(names) if isinstance(v, Value) else f"({number(v)})" for v in (a, b)))
    if None in ranges or text not in RANGES:  # a result that is not whole
        dtypes = {v.dtype for v in values} - set(WHOLE)
        if len(dtypes) > 1 or text not in RANGES and dtypes - {"f32"}:
            raise Cannot(f"whole numbers with {', '.join(sorted(dtypes))}")
        return e.several(text_of, values, dtypes.pop() if dtypes else "f32", ())
    if len({v.dtype for v in values}) > 1:
        raise Cannot("whole numbers of several dtypes")
    return limited(e, text_of, values, RANGES[text](*ranges))


def limited(e, text, values, limits):
    """A result of whole numbers in this range."""
    if max(-limits[0], limits[1]) >= MOST_WHOLE:
        raise Cannot(f"whole numbers from {limits[0]} to {limits[1]}")
    return e.several(text, values, values[0].dtype, limits)


def clamp(e, x, lo, hi):
    least, most = _range(e, x)
    lo, hi = max(lo, least), min(hi, most)
    if lo > hi or lo != int(lo) or hi != int(hi):
        raise Cannot(f"whole numbers from {least} to {most}, limited to {lo} and {hi}")
    return limited(e, f"clamp({{0}}, {number(lo)}, {number(hi)})", [x], (int(lo), int(hi)))
