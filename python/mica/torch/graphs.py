"""Functions on torch's graphs: copies, views, calls of regions, and weights that CUDA graphs read."""
from __future__ import annotations

import torch
from torch import fx

from .emit import Cannot
from .program import Shapes


def is_call(node):
    """Whether the node calls a region."""
    return node.target is torch.ops.mica.run.default


def copy_of(gm):
    """A copy of the module, for a compiler that changes its argument."""
    graph = fx.Graph()
    copied = {}
    result = graph.graph_copy(gm.graph, copied)
    graph.output(result)
    for a, b in copied.items():
        b.meta = dict(a.meta)
    made = fx.GraphModule(gm, graph)
    made.meta = dict(gm.meta)
    return made


def any_strides(graph):
    """Replaces views by reshapes. A view is valid for certain strides only. Results of programs are row-major, but those of the same operators in
    torch, such as attention, need not be."""
    for node in graph.nodes:
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            node.target = torch.ops.aten.reshape.default


def without_empty(graph):
    """Removes operands without elements from concatenations. Partial rotations of whole heads have such operands."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.cat.default:
            kept = [a for a in node.args[0] if not _is_empty(a.meta.get("val"))]
            if kept and len({a.meta["val"].dtype for a in node.args[0]}) == 1:
                node.args = (kept, *node.args[1:])


def _is_empty(val):
    return isinstance(val, torch.Tensor) and any(isinstance(s, int) and s == 0 for s in val.shape)


def by_stride(sizes, strides):
    """The dimensions of a dense tensor by decreasing stride; None if it has gaps or shared elements."""
    order, apart = sorted(range(len(sizes)), key=lambda d: strides[d], reverse=True), 1
    for d in reversed(order):
        if sizes[d] != 1 and strides[d] != apart:
            return None
        apart *= sizes[d]
    return order


def _order_of(val):
    shapes = Shapes()
    try:
        return by_stride(shapes.shape(val), shapes.strides(val))
    except Cannot:  # three dynamic extents, or one that depends on data
        return None


def keep_strides(gm, before):
    """Gives results of gm the strides that they have in `before`, the same graph run by torch. Callers may make views that depend on them."""
    (results,), (was,) = (next(n for n in m.graph.nodes if n.op == "output").args for m in (gm, before))
    end = next(n for n in gm.graph.nodes if n.op == "output")
    aten, made = torch.ops.aten, []
    for node, old in zip(results, was):
        val = old.meta.get("val") if isinstance(old, fx.Node) and old.op == "call_function" else None
        order = _order_of(val) if isinstance(val, torch.Tensor) else None
        if order is not None and order != sorted(order):
            with gm.graph.inserting_before(end):
                turned = gm.graph.call_function(aten.permute.default, (node, order))
                dense = gm.graph.call_function(aten.contiguous.default, (turned,))
                node = gm.graph.call_function(aten.permute.default, (dense, [order.index(d) for d in range(len(order))]))
            node.meta["val"] = val
        made.append(node)
    end.args = (type(results)(made),)
    gm.recompile()


def fresh_weights(run, gm, regions):
    """A function that updates copies of changed weights in place before it calls `run`. A replayed CUDA graph reads them at the same address."""
    placeholders = {n: i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    by_key = {r.key(): r for r in regions}
    prepared = []
    for n in gm.graph.nodes:
        if is_call(n) and n.args[2] in by_key:
            region = by_key[n.args[2]]
            args = region.joined(n.args[0], n.args[1])
            for at, p in region.prepared_inputs():
                weights = [args[k] for k in (at if isinstance(at, tuple) else (at,))]
                if all(w in placeholders for w in weights):
                    prepared.append((p, [placeholders[w] for w in weights]))

    def call(*args):
        with torch.no_grad():
            for p, places in prepared:
                p(*(args[i] for i in places))
        return run(*args)
    return call if prepared else run
