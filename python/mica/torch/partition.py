"""Decides which nodes of a graph of ATen operators become programs.

1. Every node is tried alone: its row of `ops.py` emits it for inputs of its shapes. If the row refuses, the node is left, with the reason.
2. Other nodes are joined along edges into groups, as large as possible without a cycle in the graph of groups. (If a value leaves a group and enters
   it again, the group cannot be one call.)
3. Views at a group's end are left to torch, where they cost nothing. A group that is too large is cut (`cut.py`). A group with too few operators or
   too little work is left.
4. Each group is emitted as a whole. If a node fails, because its dtype in the program is narrower than in torch, it is left, and the procedure
   starts again without it.

Weights are inputs that torch marks as static. Views and casts of a weight, and its comparisons with numbers, belong to no group: they are computed
once (`weights.py`). A group that needs one gets a copy of these nodes, which runs if the group's kernels cannot.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

import mica

from . import engine
from .cut import pieces
from .emit import Cannot, Value
from .graphs import is_call
from .mutations import writes
from .ops import CASTS, COMPARES, VIEWS, name_of, narrows, widens
from .program import Builder, Shapes, build, symbols_of

STRIDED = {"aten.as_strided.default", "aten.view_as_complex.default", "aten.view_as_real.default"}


@dataclass
class Group:
    nodes: list           # in topological order
    outputs: list
    light: set            # views among the nodes that the group copies
    program: object = None
    why: str = ""         # reason why it was left; empty: taken


@dataclass
class Parts:
    groups: list = field(default_factory=list)   # taken
    left: list = field(default_factory=list)     # groups with too few operators or too little work
    reasons: dict = field(default_factory=dict)  # node -> reason why it is in no group


ROW = 16  # bytes: GPUs load tiles of matrices whose rows begin at multiples of it


def _ragged(val, source):
    """Whether a copy of this view of a GPU's weight would have rows of odd sizes, which the weight itself does not have."""
    return val.device.type == "cuda" and min(val.ndim, source.ndim) >= 2 and bool(
        val.shape[-1] * val.itemsize % ROW) and source.shape[-1] * source.itemsize % ROW == 0 and source.is_contiguous()


def prepared_of(graph, static):
    """node -> weight, for views and casts of weights, and for masks computed from them. Excluded are views that repeat elements, because a copy would
    be larger, and transposed weights whose rows would be ragged: a program reads the weight itself."""
    made = {}
    for node in graph.nodes:
        if node.op != "call_function" or name_of(node.target) not in VIEWS | COMPARES:
            continue
        val = node.meta.get("val")
        sources = node.all_input_nodes
        if len(sources) == 1 and isinstance(val, torch.Tensor) and not symbols_of(val):
            weight = made.get(sources[0], sources[0] if sources[0] in static else None)
            if weight is not None and val.numel() <= sources[0].meta["val"].numel() and not _ragged(val, sources[0].meta["val"]):
                made[node] = weight
    return made


def try_alone(node, prepared, shapes, narrow, ranges):
    """(reason why this node cannot be taken, or None; its values). narrow: dtypes in Mica of values that were tried before. ranges: of those that are
    computed whole numbers; this node's is added. A group without the node that computes them is refused when it is built."""
    b = Builder(prepared, shapes, narrow=narrow, ranges=ranges)
    try:
        symbols = set()
        for n in (node, *node.all_input_nodes):
            if isinstance(n.meta.get("val"), torch.Tensor):
                symbols |= symbols_of(n.meta["val"])
        if len(symbols) > 1:
            return "two dynamic extents", None
        result = b.emit(node)
    except Cannot as c:
        return str(c), None
    for k, v in enumerate(result if isinstance(result, list) else [result]):
        if isinstance(v, Value) and b.emitter.computed(v):
            ranges[(node, k) if isinstance(result, list) else node] = b.emitter.computed(v)
    return None, result


def device_reason(node, kind):
    for n in (node, *node.all_input_nodes):
        val = n.meta.get("val")
        for t in val if isinstance(val, (list, tuple)) else [val]:
            if isinstance(t, torch.Tensor) and t.device.type != kind:
                return f"on {t.device.type}, not on {kind}"
    return None


def strided_users(node):
    """Users that need this tensor's strides, which torch chooses and Mica does not know."""
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and not val.is_contiguous() and any(
        name_of(u.target) in STRIDED for u in node.users)


def examine(graph, prepared, kind, banned, tried):
    """(reasons, alone). reasons: node -> reason why it cannot be taken. alone: other nodes, except those of a rejected program of at
    most `tried` operators."""
    reasons, alone, narrow, ranges = {}, set(), {}, {}
    shapes = Shapes()
    for node in graph.nodes:
        if node.op != "call_function" or node in prepared or node.meta.get("mica_tried", math.inf) <= tried:
            continue
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, int, float)):
            continue  # arithmetic on extents
        if is_call(node.args[0] if name_of(node.target) == "getitem" else node):
            continue  # tried in an earlier turn
        why = banned.get(node) or node.meta.get("mica_shared") or ("it changes an input in place" if writes(node) else "")
        why = why or device_reason(node, kind)
        if not why and name_of(node.target) == "getitem":
            of = narrow.get(node.args[0])
            if node.args[0] not in alone:
                why = "a result of a node that is left"
            elif node.args[1] >= len(of):
                why = f"result {node.args[1]}, which no program makes"
            else:
                narrow[node] = of[node.args[1]]
                if tuple(node.args) in ranges:
                    ranges[node] = ranges[tuple(node.args)]
        elif not why and strided_users(node):
            why = "its strides are asked for"
        elif not why:
            why, result = try_alone(node, prepared, shapes, narrow, ranges)
            if not why:
                narrow[node] = [v.dtype for v in result] if isinstance(result, list) else result.dtype
        if why:
            reasons[node] = why
        else:
            alone.add(node)
    return reasons, _whole(alone, reasons)


def _whole(alone, reasons):
    """Removes a node with several results if some use of them cannot be taken."""
    for node in [n for n in alone if isinstance(n.meta.get("val"), (list, tuple))]:
        if any(u not in alone for u in node.users):
            alone.discard(node)
            reasons[node] = "a result of it is used that no program makes"
            for u in node.users:
                if u in alone:
                    alone.discard(u)
                    reasons[u] = "a result of a node that is left"
    return alone


class Groups:
    """Groups of nodes, which are joined without making a cycle."""

    def __init__(self, graph, alone):
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.of = {}
        self.members = {}
        for n in graph.nodes:
            self.of[n] = n
            self.members[n] = [n]
        self.symbols = {n: symbols_of(n.meta["val"]) if isinstance(n.meta.get("val"), torch.Tensor) else set()
                        for n in graph.nodes}
        self.first, self.last = dict(self.order), dict(self.order)  # positions of a group's first and last node

    def find(self, n):
        while self.of[n] is not n:
            n = self.of[n]
        return n

    def join(self, a, b, force=False):
        """Joins the groups of the nodes a and b of an edge a -> b, if that makes no cycle."""
        a, b = self.find(a), self.find(b)
        if a is b:
            return
        if not force and (self._another_way(a, b) or len(self.symbols[a] | self.symbols[b]) > 1):
            return
        self.of[b] = a
        self.members[a] += self.members.pop(b)
        self.symbols[a] = self.symbols[a] | self.symbols[b]
        self.first[a] = min(self.first[a], self.first[b])
        self.last[a] = max(self.last[a], self.last[b])

    def _next(self, g):
        return {self.find(u) for n in self.members[g] for u in n.users} - {g}

    def _another_way(self, a, b):
        """Whether there is a path from a to b through a third group."""
        seen, todo = set(), [g for g in self._next(a) if g is not b]
        while todo:
            g = todo.pop()
            if g is b:
                return True
            if g in seen:
                continue
            seen.add(g)
            todo += [h for h in self._next(g) if h not in seen and h is not a and self.first[h] <= self.last[b]]
        return False


# Operators that read few elements of their first operand. The rest's compiler computes these elements alone if it makes the operand too.
PICKS = {"aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default", "aten.gather.default"}


def _leaves(node, inside, but):
    """Whether a node outside reads this node or a view of it. but: a user that does not count."""
    return any(u not in inside or (name_of(u.target) in VIEWS and _leaves(u, inside, but)) for u in node.users if u is not but)


def _is_picked(node, inside):
    """Whether only picks read the node, and its operands are results of the program all the same. A program would write elements that nobody
    reads, such as those of a log_softmax over a vocabulary, next to the logits."""
    if not node.users or any(u.op != "call_function" or name_of(u.target) not in PICKS or u.args[0] is not node for u in node.users):
        return False
    for operand in node.all_input_nodes:
        while operand in inside and name_of(operand.target) in VIEWS:
            operand = operand.all_input_nodes[0]
        if operand in inside and not _leaves(operand, inside, node):
            return False
    return True


def split_off_ends(nodes):
    """(the nodes without those at the end that are left, reasons for these). The users of a left node are all outside. Views are left, but not
    narrowing casts, because a program's values are narrow already."""
    inside, reasons = set(nodes), {}
    for n in reversed(nodes):
        if any(u in inside for u in n.users) or any(isinstance(i.meta.get("val"), (list, tuple)) for i in n.all_input_nodes):
            continue
        if name_of(n.target) in VIEWS and not narrows(n):
            reasons[n] = "a view at the end of a program"
        elif _is_picked(n, inside):
            reasons[n] = "few of its elements are read"
        else:
            continue
        inside.discard(n)
    return [n for n in nodes if n in inside], reasons


def widened(nodes, output):
    """The widening casts of a group from which this output is computed in 32 bits."""
    inside, todo, seen, casts = set(nodes), [output], set(), set()
    while todo:
        n = todo.pop()
        val = n.meta.get("val")
        if n not in inside or n in seen or (isinstance(val, torch.Tensor) and val.dtype is not torch.float32):
            continue
        seen.add(n)
        if widens(n):
            casts.add(n)
        else:
            todo += n.all_input_nodes
    return [n for n in nodes if n in casts]


def partition(graph, static, kind, min_ops, min_work, max_ops):
    """(Parts, the nodes computed from weights alone). max_ops: largest number of operators of a group, views not counted. Nodes of a rejected
    program are tried again if it was larger than max_ops. node.meta["mica_tried"] is its number of operators."""
    banned = {}
    prepared = prepared_of(graph, static)
    while True:
        parts = _once(graph, prepared, kind, min_ops, min_work, max_ops, banned)
        if parts is not None:
            return parts, prepared


def _joined(graph, alone):
    """The groups as lists of nodes, in topological order."""
    groups = Groups(graph, alone)
    for node in graph.nodes:
        if node in alone and isinstance(node.meta.get("val"), (list, tuple)):
            for u in node.users:
                groups.join(node, u, force=True)
    for node in graph.nodes:
        for user in node.users:
            if node in alone and user in alone:
                groups.join(node, user)
    return [sorted(members, key=groups.order.get) for head, members in groups.members.items() if head in alone]


def _once(graph, prepared, kind, min_ops, min_work, max_ops, banned):
    reasons, alone = examine(graph, prepared, kind, banned, max_ops)
    parts, failed = Parts(reasons=reasons), False
    for nodes in _joined(graph, alone):
        kept, ends = split_off_ends(nodes)
        reasons.update(ends)
        for piece in pieces(kept, max_ops) if kept else []:
            if piece.outputs:
                failed |= not _add(parts, Group(piece.nodes, piece.outputs, piece.light), prepared, min_ops, min_work, banned)
    return None if failed else parts


def _add(parts, group, prepared, min_ops, min_work, banned):
    """Adds a group to parts. False: a node was banned, and the procedure must start again."""
    try:
        group.program = build(group.nodes, group.outputs, prepared, Shapes(), "p")
        _check_widths(group.program)
    except Cannot as c:
        casts = widened(group.nodes, c.node) if c.node in group.outputs and "result of dtype" in str(c) else []
        for n in casts or [c.node]:
            banned[n] = f"{c}, as part of a larger program"
        return False
    group.why = _not_worth(group.program, min_ops, min_work)
    (parts.left if group.why else parts.groups).append(group)
    return True


def _check_widths(program):
    """Raises Cannot if the language gives a result fewer bits than torch does. Constants, indices and conditions have the dtype of what they meet."""
    try:
        _, made = engine.signature(program.text)
    except mica.Error:  # compiling it gives the reason
        return
    for o, (dtype, _) in zip(program.outputs, made):
        of = o.node.all_input_nodes
        exact = name_of(o.node.target) in CASTS and of[0].meta["val"].dtype is torch.bool  # 0 and 1
        if dtype.is_floating_point and dtype.itemsize < o.dtype.itemsize and not exact:
            c = Cannot(f"a result of dtype {str(dtype).removeprefix('torch.')}")
            c.node = o.node
            raise c


def _not_worth(program, min_ops, min_work):
    if not program.inputs:
        return "it reads nothing"
    if program.operators < min_ops:
        return f"{program.operators} operator{'s' * (program.operators != 1)}, fewer than {min_ops}"
    if program.work < min_work:
        return f"about {program.work:.3g} operations, fewer than {min_work:.3g}"
    return ""
