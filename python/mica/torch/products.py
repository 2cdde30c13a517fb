"""Joins products of one operand with several weights to one product with concatenated weights, whose parts are the results.

Layers of attention compute queries, keys and values in this way. One kernel with more blocks takes less time than three, and reads the operand once.
Transposed weights are copied anyway (`weights.py`), so these copies are concatenated; biases are too. Products are not joined if their results are
combined before the next product, as in a gated unit. One kernel computes these, and stores the combination only.
Lines are those of the emitter, as in norms.py.
"""
from __future__ import annotations

import re

DEVICES = ("cuda",)  # on a CPU a product of so many columns is no faster
NAME = r"(\w+)"
PRODUCT, SUM = re.compile(rf"matmul\({NAME}, {NAME}\)"), re.compile(rf"{NAME} \+ {NAME}")


def fold(lines, weights, wanted):
    """The lines with such products joined, and (name of a new input, names of the inputs that it concatenates along the last dimension).
    weights: name -> extents of inputs of one dtype that may be joined; wanted: names of results of the program."""
    groups, joined, new = {}, [], {}
    for line in lines:
        m = PRODUCT.fullmatch(line[1])
        if m and len(weights.get(m.group(2), ())) == 2 and m.group(1) not in weights:
            groups.setdefault(m.group(1), []).append(line)
    for operand, products in groups.items():
        reached = [_reached(lines, p[0]) for p in products]
        apart = [p for k, p in enumerate(products) if all(reached[k].isdisjoint(r) for i, r in enumerate(reached) if i != k)]
        if len(apart) > 1:
            _join(lines, operand, apart, weights, wanted, joined, new)
    return [part for line in lines for part in new.get(line[0], [line])], joined


def _reached(lines, name):
    """The name, and names of values that are computed from it before the next product."""
    reached = {name}
    for other, text, args, _ in lines:
        if not text.startswith("matmul(") and not reached.isdisjoint(args):
            reached.add(other)
    return reached


def _bias(lines, name, weights, wanted):
    """(name of the sum of a product and a bias, name of the bias), if nothing else reads the product."""
    users = [line for line in lines if name in line[2]] if name not in wanted else []
    m = SUM.fullmatch(users[0][1]) if len(users) == 1 else None
    bias = next((n for n in m.groups() if len(weights.get(n, ())) == 1), None) if m else None
    return (users[0][0], bias) if bias else None


def _join(lines, operand, products, weights, wanted, joined, new):
    """Adds the concatenated inputs to `joined`, and to `new` the lines that replace the first product and the results."""
    names = [PRODUCT.fullmatch(p[1]).group(2) for p in products]
    widths = [weights[n][1] for n in names]
    biases = [_bias(lines, p[0], weights, wanted) for p in products]
    biases = biases if all(b and weights[b[1]] == (w,) for b, w in zip(biases, widths)) else []
    shape = (*products[0][3][:-1], sum(widths))
    whole, at = f"{products[0][0]}_all", f"{products[0][0]}_weights"
    joined.append((at, names))
    made = [(whole, f"matmul({operand}, {at})", (operand, at), shape)]
    if biases:
        joined.append((f"{whole}_bias", [b for _, b in biases]))
        made.append((f"{whole}_sum", f"{whole} + {whole}_bias", (whole, f"{whole}_bias"), shape))
    source = made[-1][0]
    for k, (product, width) in enumerate(zip(products, widths)):
        begin, dim = sum(widths[:k]), len(shape) - 1
        result, extents = (biases[k][0] if biases else product[0]), (*shape[:-1], width)
        part = (result, f"slice({source}, dim={dim}, start={begin}, end={begin + width})", (source,), extents)
        new.setdefault(product[0], []).extend(made if k == 0 else [])
        new.setdefault(result, []).append(part)


def extents(shapes):
    """The extents of the concatenation along the last dimension."""
    return (*shapes[0][:-1], sum(s[-1] for s in shapes))
