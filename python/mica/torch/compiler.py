"""The backend: torch.compile(model, backend="mica").

Graphs are taken after AOTAutograd and not from Dynamo directly: there, methods, modules and functions have become operators
of ATen, changes in place have become values, autocast has become casts, and every node knows its shape. No decompositions are
asked for, so that softmax, norms and attention are still one operator each.

What is not taken goes to Inductor as a graph with calls of mica::run in it, or runs in eager mode. A graph that needs gradients
goes to Inductor (or eager) as it came.
"""
from __future__ import annotations

import logging
import threading

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions
from functorch.compile import make_boxed_func

from . import engine, library
from .ops import VIEWS, name_of
from .options import options_of
from .partition import partition
from .program import symbols_of
from .region import Region, real_tensors
from .report import Node, Report, Taken

log = logging.getLogger("mica.torch")
_listeners = threading.local()   # reports go to whoever explains, in this thread


def backend(gm, example_inputs, *, options=None, mode=None, **_):
    """The function that torch.compile calls, once a graph."""
    options = options_of(options)
    report = Report()
    for listener in getattr(_listeners, "lists", []):
        listener.append(report)
    if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in example_inputs):
        report.why = "it needs gradients"
        log.info("graph %s", report)
        return _as_it_is(gm, example_inputs, options)

    def compiler(graph, inputs):
        return make_boxed_func(_compile(graph, inputs, example_inputs, options, report))

    return aot_autograd(fw_compiler=compiler, decompositions={})(gm, example_inputs)


def _as_it_is(gm, example_inputs, options):
    if options.rest == "eager":
        return gm.forward
    from torch._inductor.compile_fx import compile_fx
    return compile_fx(gm, example_inputs)


def _device_kind(graph):
    kinds = {t.device.type for n in graph.nodes for t in [n.meta.get("val")] if isinstance(t, torch.Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"


def _static(graph, real):
    """Placeholders that are weights, and the real tensors behind those that can be told."""
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    indices = list(getattr(meta, "static_input_indices", None) or [])
    static = {placeholders[i] for i in indices if i < len(placeholders)}
    known = {}  # by name: fusing makes new nodes
    if len(real) == len(placeholders):
        for p, t in zip(placeholders, real):
            val = p.meta.get("val")
            if p in static and isinstance(t, torch.Tensor) and type(t) in (torch.Tensor, torch.nn.Parameter) \
                    and tuple(t.shape) == tuple(val.shape) and t.dtype is val.dtype:
                with real_tensors():
                    known[p.name] = t.detach()
    return static, known


def _compile(gm, inputs, real, options, report):
    kind = _device_kind(gm.graph)
    device = next((n.meta["val"].device for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)
                   and n.meta["val"].device.type == kind), torch.device("cpu"))
    _list_nodes(gm.graph, report)
    try:
        target = options.target or engine.target_of(device)
    except engine.EngineError as error:
        report.why = str(error)
        return _rest(gm, inputs, options)
    static, known = _static(gm.graph, real)
    # "live" weights are part of the programs: then no node counts as prepared.
    parts, prepared = partition(gm.graph, static if options.weights == "copy" else set(), kind, options.min_ops,
                                options.min_work, options.max_ops)
    if not options.buckets:
        _leave_dynamic(parts)
    _say_reasons(parts, prepared, report)
    regions = _fuse(gm, parts, prepared, static, known, target, options, report)
    if regions:
        gm.recompile()
    log.info("graph %s", report)
    return _rest(gm, inputs, options)


def _leave_dynamic(parts):
    for group in list(parts.groups):
        if any(symbols_of(n.meta["val"]) for n in group.nodes if isinstance(n.meta.get("val"), torch.Tensor)):
            group.why = "its extents are dynamic, and there are no buckets"
            parts.groups.remove(group)
            parts.left.append(group)


def _list_nodes(graph, report):
    for n in graph.nodes:
        if n.op == "call_function":
            val = n.meta.get("val")
            shape = str(list(val.shape)).replace("'", "") if isinstance(val, torch.Tensor) else ""
            if isinstance(val, (torch.Tensor, list, tuple)):
                report.nodes.append(Node(n.name, name_of(n.target) or str(n.target), shape))


def _say_reasons(parts, prepared, report):
    by_name = {n.name: n for n in report.nodes}
    for node in prepared:
        by_name[node.name].why = "made once, of weights alone"
    for node, why in parts.reasons.items():
        by_name[node.name].why = why
    for group in parts.left:
        for node in group.nodes:
            by_name[node.name].why = group.why
    for k, group in enumerate(parts.groups):
        for node in group.nodes:
            by_name[node.name].program = f"program {k}"


def _own_prepared(gm, nodes, prepared):
    """Copies for this group of the prepared nodes that it uses, so that each belongs to one group."""
    copies = []
    for node in nodes:
        def own(arg):
            if arg not in prepared:
                return arg
            source = own(arg.all_input_nodes[0])
            with gm.graph.inserting_before(node):
                copy = gm.graph.node_copy(arg, lambda n: source if n is arg.all_input_nodes[0] else n)
            copies.append(copy)
            return copy
        node.args = fx.map_arg(node.args, own)
        node.kwargs = fx.map_arg(node.kwargs, own)
    return copies


def _fuse(gm, parts, prepared, static, known, target, options, report):
    """Groups become calls of regions, where a region's program is right and fast."""
    if not parts.groups:
        return []
    sets = [[*_own_prepared(gm, g.nodes, prepared), *g.nodes] for g in parts.groups]
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    fuse_by_partitions(gm, [dict.fromkeys(sorted(s, key=order.get)) for s in sets], prefix="mica_",
                       always_return_tuple=True)
    regions, static = [], {n.name for n in static}
    for k in range(len(parts.groups)):
        node = next(n for n in gm.graph.nodes if n.op == "call_module" and n.target == f"mica_{k}")
        region = Region(f"program {k}", getattr(gm, node.target), [a.name in static for a in node.args], target, options)
        taken = Taken(region.name, parts.groups[k].program.operators, parts.groups[k].program.text)
        report.programs.append(taken)
        key, region = library.register(region)
        if region.taken is None:
            region.taken = taken
            _decide(region, taken, {p: known[a.name] for p, a in zip(region.placeholders, node.args)
                                    if a.name in known})
        else:  # the same computation was met before
            first = region.taken
            for name in ("taken", "why", "us", "rest_us", "error", "sizes"):
                setattr(taken, name, getattr(first, name))
        _put(gm, node, key, region, taken.taken or region.symbol is not None, options)
        if taken.taken or region.symbol is not None:
            regions.append(region)
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return regions


def _decide(region, taken, known):
    """Compiles the region's program and measures it; of a dynamic one, that waits for the first call."""
    with real_tensors():
        if region.options.rest == "inductor" and region.options.take == "faster":
            region.fallback = _inductor(region)
        if region.symbol is None:
            region.programs[0] = region.compile(0, region.examples(0, known), taken)
        else:
            taken.sizes = {}


def _inductor(region):
    """What Inductor makes of the region's nodes when they are called first."""
    compiled = torch.compile(region.module, backend="inductor", dynamic=region.symbol is not None)

    def call(*args):
        with torch.no_grad():
            return compiled(*args)
    return call


def _put(gm, node, key, region, taken, options):
    """A call of the region in place of the submodule; or the nodes again, where it is not taken."""
    graph = gm.graph
    if not taken:
        values = dict(zip(region.placeholders, node.args))
        with graph.inserting_before(node):
            for n in region.module.graph.nodes:
                if n.op == "call_function":
                    values[n] = graph.node_copy(n, lambda m: values[m])
        results = [values[o] for o in region.outputs]
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        return
    tensors = [a for a in node.args if isinstance(a.meta.get("val"), torch.Tensor)]
    sizes = [a for a in node.args if a not in tensors]
    with graph.inserting_before(node):
        call = graph.call_function(torch.ops.mica.run.default, (tensors, sizes, key))
    call.meta["val"] = [o.meta["val"] for o in region.outputs]
    node.replace_all_uses_with(call)
    graph.erase_node(node)


def _direct(gm):
    """The graph as Python, which calls regions without torch's dispatcher."""
    for node in gm.graph.nodes:
        if node.target is torch.ops.mica.run.default:
            tensors, sizes, key = node.args
            region = library.region(key)
            node.target, node.args = _plain(region), tuple(region.joined(tensors, sizes))
    gm.recompile()
    return gm.forward


def _plain(region):
    def mica_region(*args):
        return region(*args)
    return mica_region


def _rest(gm, inputs, options):
    """Who runs the graph: with nothing but calls and views in it, torch itself."""
    work = [n for n in gm.graph.nodes if n.op == "call_function" and name_of(n.target) not in VIEWS | {"getitem"}
            and isinstance(n.meta.get("val"), (torch.Tensor, list, tuple))]
    if options.rest == "eager" or all(n.target is torch.ops.mica.run.default for n in work):
        return _direct(gm)
    from torch._inductor.compile_fx import compile_fx
    with torch._guards.tracing(None):
        return compile_fx(gm, inputs)
