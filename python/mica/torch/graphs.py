"""Graphs of torch: copies of them, views in them, and weights that CUDA graphs read."""
from __future__ import annotations

import torch
from torch import fx


def copy_of(gm):
    """Another module of the same nodes; compilers change theirs."""
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
    """Views that torch may take because of the strides of what is viewed become reshapes: results of programs are dense row by row,
    where those of the same operators in torch (attention's, say) need not be."""
    for node in graph.nodes:
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            node.target = torch.ops.aten.reshape.default


def fresh_weights(run, gm, regions):
    """A replayed CUDA graph reads copies of weights where they were: those of weights that have changed are made anew before it."""
    placeholders = {n: i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    by_key = {r.key(): r for r in regions}
    prepared = []
    for n in gm.graph.nodes:
        if n.target is torch.ops.mica.run.default and n.args[2] in by_key:
            region = by_key[n.args[2]]
            args = region.joined(n.args[0], n.args[1])
            prepared += [(p, placeholders[args[at]]) for at, p in region.prepared_inputs() if args[at] in placeholders]

    def call(*args):
        with torch.no_grad():
            for p, i in prepared:
                p(args[i])
        return run(*args)
    return call if prepared else run
