"""Cuts a group of nodes that is too large for one program.

Operators are counted, views are not, because they move no elements. Every piece gets copies of the views that it reads through, so only roots (the
tensors that views refer to) pass from one piece to another. Pieces are contiguous ranges of the graph's order. The pieces with the fewest bytes
read and written are chosen, as for the parts of a program (src/lax/segment.c). So cuts are at small tensors. If costs are equal, cuts are before
products, so that the computation of an operand stays together. A narrowing cast stays with the operator before it, whose result then has the same
width as in the program. Some tensors count many times their bytes. These are tensors between the two products of attention, which one kernel does
not write. They are also results in 32 bits of narrower values, as in a written-out norm, because a program has no such results.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .emit import Cannot
from .ops import CASTS, PRODUCTS, SOFTMAX, is_light, name_of, narrows
from .program import Shapes

HELD = 1000  # factor of the bytes of tensors that a cut should not write
LAYERS = 3   # least number of equal layers that are cut from each other
LEAST = 4    # least number of items of a layer


@dataclass
class Piece:
    nodes: list     # in topological order
    light: set      # views among them; every piece that needs one has a copy
    outputs: list


class Cutter:
    def __init__(self, nodes):
        self.nodes, self.inside = nodes, set(nodes)
        self.place = {n: i for i, n in enumerate(nodes)}
        self.carried = {}           # narrowing casts -> the operator whose result they cast
        self.items = self._items()  # an operator with its results
        self.item_of = {n: k for k, item in enumerate(self.items) for n in item}
        self.reads = [{r for n in item for a in n.all_input_nodes for r in self.roots(a)} - set(item) for item in self.items]
        self.last = self._last()
        self.held = self._held() | self._wide()
        self.shapes = Shapes()

    def _items(self):
        core = [n for n in self.nodes if not is_light(n)]
        results = {}
        for n in core:
            if name_of(n.target) == "getitem":
                results.setdefault(n.args[0], []).append(n)
        carried = {}
        for n in self.nodes:
            roots = self.roots(n.all_input_nodes[0]) & self.inside if narrows(n) else ()
            if len(roots) == 1:
                (root,) = roots
                carried[n] = root.args[0] if name_of(root.target) == "getitem" else root
                results.setdefault(carried[n], []).append(n)
        self.carried = carried
        return [[n, *results.get(n, [])] for n in core if name_of(n.target) != "getitem"]

    def is_light(self, node):
        return is_light(node) and node not in self.carried

    def roots(self, node):
        """Inputs of the piece that reads this node."""
        if node in self.inside and self.is_light(node):
            return {r for a in node.all_input_nodes for r in self.roots(a)}
        return {node}

    def light_of(self, nodes):
        """The views between these nodes and the roots that they read."""
        found, todo = set(), [a for n in nodes for a in n.all_input_nodes]
        while todo:
            n = todo.pop()
            if n in self.inside and self.is_light(n) and n not in found:
                found.add(n)
                todo += n.all_input_nodes
        return found

    def readers(self, node):
        """Nodes that read this node, also through views; None stands for readers outside."""
        for u in node.users:
            if u in self.inside and self.is_light(u):
                yield from self.readers(u)
            else:
                yield u if u in self.inside else None

    def _last(self):
        """Number of the last item that reads a node; the number of items if a node outside does."""
        last = {}
        for item in self.items:
            for n in item:
                at = [len(self.items) if u is None else self.item_of[u] for u in self.readers(n)]
                last[n] = max(at, default=-1)
        return last

    def _held(self):
        """Nodes between a softmax and the products around it, connected by elementwise operators with as many elements."""
        held = set()
        for n in self.nodes:
            if name_of(n.target) in SOFTMAX:
                held.add(n)
                self._hold(n, held, lambda m: [r for a in m.all_input_nodes for r in self.roots(a)])
                self._hold(n, held, lambda m: [u for u in self.readers(m) if u and name_of(u.target) not in PRODUCTS])
        return held

    def _wide(self):
        wide = set()
        for n in self.nodes:
            val, inputs = n.meta.get("val"), [a.meta.get("val") for a in n.all_input_nodes]
            if isinstance(val, torch.Tensor) and val.dtype is torch.float32:
                casts = name_of(n.target) in CASTS and any(isinstance(t, torch.Tensor) and t.dtype is not torch.float32 for t in inputs)
                if casts or any(a in wide for a in n.all_input_nodes):
                    wide.add(n)
        return wide

    def _hold(self, node, held, following):
        size = node.meta["val"].numel()
        todo = list(following(node))
        while todo:
            n = todo.pop()
            val = n.meta.get("val")
            if n not in self.inside or n in held or not isinstance(val, torch.Tensor) or val.numel() != size:
                continue
            held.add(n)
            if name_of(n.target) not in PRODUCTS:
                todo += following(n)

    def price(self, node):
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor):
            return 0
        try:
            return math.prod(self.shapes.shape(val)) * val.element_size() * (HELD if node in self.held else 1)
        except Cannot:  # a data-dependent extent
            return 0

    def cheapest(self, most, start=0, stop=None):
        """Begin and end of each piece of these items, and the cost. If costs are equal, fewer pieces are preferred, then more pieces that begin
        with a product."""
        stop = len(self.items) if stop is None else stop
        best, begin = {start: (0, 0, 0)}, {}
        for end in range(start + 1, stop + 1):
            cost, seen, found = 0, set(), None
            for first in range(end - 1, max(end - most, start) - 1, -1):
                cost += sum(self.price(n) for n in self.items[first] if self.last[n] >= end)
                cost -= sum(self.price(n) for n in self.items[first] if n in seen)  # computed in this piece, so not read
                cost += sum(self.price(r) for r in self.reads[first] - seen)
                seen |= self.reads[first] | set(self.items[first])
                product = name_of(self.items[first][0].target) in PRODUCTS
                way = (best[first][0] + cost, best[first][1] + 1, best[first][2] - product)
                if found is None or way < found[0]:
                    found = way, first
            best[end], begin[end] = found
        ends, at = [], stop
        while at > start:
            ends.append((begin[at], at))
            at = begin[at]
        return ends[::-1], best[stop]

    def spans(self, most):
        """Begin and end of each piece. Equal layers are cut in the same way, so that their programs are equal."""
        first, period, length = layers(self.kinds())
        if not period:
            return self.cheapest(most)[0] if len(self.items) > most else [(0, len(self.items))]
        # Layers may begin at any item of a period. The first of the cheapest positions is taken.
        middle = first + (length // period - 1) // 2 * period
        phase = min(range(period), key=lambda at: (self.cheapest(most, middle + at, middle + at + period)[1], at))
        begin, whole = first + phase, (length - phase) // period
        spans = self.cheapest(most, 0, begin)[0]
        layer = self.cheapest(most, begin, begin + period)[0]
        for k in range(whole):
            spans += [(a + k * period, b + k * period) for a, b in layer]
        return spans + self.cheapest(most, begin + whole * period)[0]

    def kinds(self):
        """Operators, shapes and dtypes of each item, by which equal layers are found."""
        return [tuple((name_of(n.target), _about(n.meta.get("val"))) for n in item) for item in self.items]

    def piece(self, first, end):
        core = [n for item in self.items[first:end] for n in item]
        inside, light = set(core), self.light_of(core)
        outputs = [n for n in core if isinstance(n.meta.get("val"), torch.Tensor) and any(u not in inside for u in self.readers(n))]
        return Piece(sorted(inside | light, key=self.place.get), light, outputs)


def _about(val):
    return (str(val.dtype), str(tuple(val.shape))) if isinstance(val, torch.Tensor) else ""


def layers(kinds):
    """(first, period, length) of the longest range of items that repeat, with at least LAYERS layers of LEAST items each. period 0: there is none."""
    found = 0, 0, 0
    for period in range(LEAST, len(kinds) // LAYERS + 1):
        run = 0
        for at in range(len(kinds) - period + 1):
            same = at + period < len(kinds) and kinds[at] == kinds[at + period]
            if same:
                run += 1
                continue
            if run + period >= max(LAYERS * period, found[2] + 1):
                found = at - run, period, run + period
            run = 0
    return found


def pieces(nodes, most):
    """The pieces of a group: the group itself, or several of at most `most` operators. Equal layers are cut one by one."""
    cutter = Cutter(nodes)
    spans = cutter.spans(most)
    if len(spans) == 1:
        inside = set(nodes)
        outputs = [n for n in nodes if any(u not in inside for u in n.users) and isinstance(n.meta.get("val"), torch.Tensor)]
        return [Piece(nodes, set(), outputs)]
    return [cutter.piece(*span) for span in spans]
