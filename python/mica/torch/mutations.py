"""Changes in place of a graph's inputs, such as the write of a cache.

AOTAutograd makes values of them, and ends the graph with one aten.copy_ for each input that changes. Inductor turns the pair of an
index_copy and its copy_ into a write of the rows alone. A graph that runs as Python is rewritten here to the same effect.
A program of Mica changes no tensor.
"""
from __future__ import annotations

import operator

import torch

aten = torch.ops.aten

# Operators whose first argument may be written in place, where nothing reads the old value later.
IN_PLACE = {
    aten.index_copy.default: aten.index_copy_.default, aten.index_put.default: aten.index_put_.default,
    aten.index_add.default: aten.index_add_.default, aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
    aten.scatter.src: aten.scatter_.src, aten.scatter.value: aten.scatter_.value, aten.scatter_add.default: aten.scatter_add_.default,
    aten.add.Tensor: aten.add_.Tensor, aten.mul.Tensor: aten.mul_.Tensor, aten.masked_fill.Scalar: aten.masked_fill_.Scalar,
}


def writes(node):
    """An operator that changes an argument."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    return schema is not None and schema.is_mutable


def is_last_write(node):
    """The copy_ of an input that AOTAutograd puts at the end of a graph."""
    return node.target is aten.copy_.default and node.args[0].op == "placeholder"


def written(graph):
    """Placeholders that the graph changes."""
    return {n.args[0] for n in graph.nodes if writes(n) and n.args and isinstance(n.args[0], torch.fx.Node) and n.args[0].op == "placeholder"}


def is_regular(graph):
    """Every change is a last write: what reads an input reads it before."""
    ended, changed = False, written(graph)
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if writes(node) and not is_last_write(node):
            return False
        if ended and not writes(node) and any(a in changed for a in node.all_input_nodes):
            return False
        ended |= writes(node)
    return True


def to_the_end(graph):
    """Moves the last writes behind all other nodes: a sort by data alone does not know that they come last."""
    end = next(n for n in graph.nodes if n.op == "output")
    for node in [n for n in graph.nodes if n.op == "call_function" and is_last_write(n)]:
        end.prepend(node)


def _may_alias(node):
    """The result may be a view of an argument. Results of programs never are."""
    if node.op != "call_function":
        return node.op != "output"
    if node.target is operator.getitem:
        return _may_alias(node.args[0])
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(r.alias_info is not None for r in schema.returns)


def _readers(node, but=None):
    """Nodes that read the elements of this one, also through views; `but` is not asked."""
    for user in node.users:
        if user is not but:
            yield user
            if _may_alias(user):
                yield from _readers(user)


def _chain(write):
    """Operators from the input to the value that is written to it, each of which changes the one before; [] where that is not so."""
    found, node = [], write.args[1]
    while node is not write.args[0]:
        if not isinstance(node, torch.fx.Node) or node.target not in IN_PLACE or not isinstance(node.args[0], torch.fx.Node):
            return []
        found.append(node)
        node = node.args[0]
    return found[::-1]


def _fits(node):
    """The result has the shape and dtype of the argument that it would be written to."""
    made, base = node.meta["val"], node.args[0].meta["val"]
    return made.shape == base.shape and made.dtype == base.dtype


def _reads_old(write, node, order):
    """Somebody reads the value before `node` when it has changed it, or `node` itself reads it by another argument too."""
    base = node.args[0]
    readers = list(_readers(base, write))
    return base in node.args[1:] or readers.count(node) > 1 or any(order[r] > order[node] for r in readers)


def _is_safe(write, chain, order):
    """Nobody reads an old value too late, and the result of the graph is none of the values."""
    if not all(_fits(n) for n in chain) or any(_reads_old(write, n, order) for n in chain):
        return False
    return not any(r.op == "output" for r in _readers(chain[-1], write))


def in_place(graph):
    """Writes inputs in place where that gives the same results. The number of copies of whole inputs that this saves."""
    order, saved = {n: i for i, n in enumerate(graph.nodes)}, 0
    for write in [n for n in graph.nodes if n.op == "call_function" and is_last_write(n)]:
        chain = _chain(write)
        if chain and _is_safe(write, chain, order):
            for node in chain:
                node.target = IN_PLACE[node.target]
            write.replace_all_uses_with(chain[-1])  # a result of the graph that is the input
            graph.erase_node(write)
            saved += len(chain) + 1
    return saved
