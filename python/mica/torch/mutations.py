"""In-place changes of a graph's inputs, such as updates of a cache.

AOTAutograd replaces them by operators with new results, and ends the graph with one aten.copy_ for each changed input. Inductor compiles an
index_copy and its copy_ to a write of the changed rows only. This module rewrites graphs that run as Python in the same way. A program of Mica
changes no tensor.
"""
from __future__ import annotations

import operator

import torch

aten = torch.ops.aten

# Operators that may write to their first argument in place, if nothing reads the old value later.
IN_PLACE = {
    aten.index_copy.default: aten.index_copy_.default, aten.index_put.default: aten.index_put_.default,
    aten.index_add.default: aten.index_add_.default, aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
    aten.scatter.src: aten.scatter_.src, aten.scatter.value: aten.scatter_.value, aten.scatter_add.default: aten.scatter_add_.default,
    aten.add.Tensor: aten.add_.Tensor, aten.mul.Tensor: aten.mul_.Tensor, aten.masked_fill.Scalar: aten.masked_fill_.Scalar,
}


def writes(node):
    """Whether the node's operator changes an argument."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    return schema is not None and schema.is_mutable


def is_last_write(node):
    """Whether the node is the copy_ to an input that AOTAutograd puts at the end of a graph."""
    return node.target is aten.copy_.default and node.args[0].op == "placeholder"


def written(graph):
    """Placeholders that the graph changes."""
    return {n.args[0] for n in graph.nodes if writes(n) and n.args and isinstance(n.args[0], torch.fx.Node) and n.args[0].op == "placeholder"}


def is_regular(graph):
    """Whether every change is a last write, so that all reads of an input precede its change."""
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
    """Moves the last writes behind all other nodes, because a topological sort may place them earlier."""
    end = next(n for n in graph.nodes if n.op == "output")
    for node in [n for n in graph.nodes if n.op == "call_function" and is_last_write(n)]:
        end.prepend(node)


def _may_alias(node):
    """Whether the result may be a view of an argument. Results of programs never are."""
    if node.op != "call_function":
        return node.op != "output"
    if node.target is operator.getitem:
        return _may_alias(node.args[0])
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(r.alias_info is not None for r in schema.returns)


def _readers(node, but=None):
    """Nodes other than `but` that read the elements of this one, also through views."""
    for user in node.users:
        if user is not but:
            yield user
            if _may_alias(user):
                yield from _readers(user)


def _chain(write):
    """Operators from the input to the value that is written to it, each a change of the previous one's result; [] if there is no such chain."""
    found, node = [], write.args[1]
    while node is not write.args[0]:
        if not isinstance(node, torch.fx.Node) or node.target not in IN_PLACE or not isinstance(node.args[0], torch.fx.Node):
            return []
        found.append(node)
        node = node.args[0]
    return found[::-1]


def _fits(node):
    """Whether the result has the shape and dtype of the argument to which it would be written."""
    made, base = node.meta["val"], node.args[0].meta["val"]
    return made.shape == base.shape and made.dtype == base.dtype


def _reads_old(write, node, order):
    """Whether a node reads the old value after `node` has changed it, or `node` reads it by another argument too."""
    base = node.args[0]
    readers = list(_readers(base, write))
    return base in node.args[1:] or readers.count(node) > 1 or any(order[r] > order[node] for r in readers)


def _is_safe(write, chain, order):
    """Whether no node reads an old value too late, and no value of the chain is a result of the graph."""
    if not all(_fits(n) for n in chain) or any(_reads_old(write, n, order) for n in chain):
        return False
    return not any(r.op == "output" for r in _readers(chain[-1], write))


def in_place(graph):
    """Rewrites changes of inputs to in-place operators if the results are the same. Returns the number of copies of whole inputs that this saves."""
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
