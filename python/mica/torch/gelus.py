"""Recognizes a written-out gelu: x * 0.5 * (tanh((x + x^3 * 0.044715) * sqrt(2 / pi)) + 1) becomes gelu_tanh(x).

GPT-2 of transformers contains this form. A single operator becomes part of the kernel of the product before it, but nine operators are too many for
the search. Lines are those of the emitter, as in norms.py.
"""
from __future__ import annotations

import math
import re

NAME, NUMBER = r"(\w+)", r"\((-?[0-9.e+-]+)\)"
TIMES, PLUS = re.compile(rf"{NAME} \* {NUMBER}"), re.compile(rf"{NAME} \+ {NUMBER}")
PRODUCT, SUM = re.compile(rf"{NAME} \* {NAME}"), re.compile(rf"{NAME} \+ {NAME}")
TANH = re.compile(rf"tanh\({NAME}\)")
CUBES = (re.compile(rf"pow\({NAME}, 3\)"), re.compile(rf"square\({NAME}\) \* {NAME}"), re.compile(rf"{NAME} \* square\({NAME}\)"))


def fold(lines):
    """The lines with gelu_tanh in place of the last line of each such sequence. norms.live then drops unused lines."""
    text = {line[0]: line[1] for line in lines}
    found = ((line, _argument(text, line[1])) for line in lines)
    return [line if x is None else (line[0], f"gelu_tanh({x})", (x,), line[3]) for line, x in found]


def _with_number(text, name, pattern, number):
    """The first operand of a line of this pattern, if its other operand is this number."""
    m = pattern.fullmatch(text.get(name, ""))
    return m.group(1) if m and math.isclose(float(m.group(2)), number, rel_tol=1e-6) else None


def _argument(text, expression):
    """x if the expression is such a gelu of x, else None."""
    m = PRODUCT.fullmatch(expression)
    for half, more in (m.groups(), m.groups()[::-1]) if m else ():
        x, tanh = _with_number(text, half, TIMES, 0.5), _with_number(text, more, PLUS, 1)
        inner = TANH.fullmatch(text.get(tanh, ""))
        if x and inner and _is_inner(text, inner.group(1), x):
            return x
    return None


def _is_inner(text, name, x):
    """Whether a value is (x + x^3 * 0.044715) * sqrt(2 / pi)."""
    both = SUM.fullmatch(text.get(_with_number(text, name, TIMES, math.sqrt(2 / math.pi)), ""))
    if not both or x not in both.groups():
        return False
    other = both.group(2) if both.group(1) == x else both.group(1)
    cube = text.get(_with_number(text, other, TIMES, 0.044715), "")
    return any(m and set(m.groups()) == {x} for m in (c.fullmatch(cube) for c in CUBES))
