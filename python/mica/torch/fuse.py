"""Groups of nodes become calls of regions, where a region's program is right and fast.

Where a large program is not faster than what would run in its place, its operators are tried again as smaller ones: what is
faster in parts is then taken, and the rest stays with the rest's compiler.
"""
from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import map_arg
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from . import inductor, library
from .graphs import is_call
from .ops import READS_NUMBERS, constant, name_of
from .partition import partition
from .program import symbols_of
from .region import Region, real_tensors
from .report import Taken

log = logging.getLogger("mica.torch")


@dataclass
class Weights:
    static: set   # names of placeholders that are weights
    known: dict   # name -> the tensor behind it, where that is known


def fuse(gm, weights, kind, target, options, report):
    """Changes gm. Gives the regions that it calls."""
    regions = []
    for turn, most in enumerate(options.max_ops):
        if turn and not any(n.meta.get("mica_tried", 0) > most for n in gm.graph.nodes):
            continue
        static = {n for n in gm.graph.nodes if n.op == "placeholder" and n.name in weights.static}
        # "live" weights are part of the programs: then no node counts as prepared.
        parts, prepared = partition(gm.graph, static if options.weights == "copy" else set(), kind, options.min_ops, options.min_work, most)
        if not options.buckets:
            _leave_dynamic(parts)
        # Smaller programs share the time of a whole one.
        shared = dataclasses.replace(options, time=options.time / len(parts.groups)) if turn and parts.groups else options
        _say_reasons(parts, prepared, report)
        regions += _one_turn(gm, parts, prepared, weights, target, shared, report)
    if regions:
        gm.recompile()
    return regions


def _leave_dynamic(parts):
    for group in list(parts.groups):
        if any(symbols_of(n.meta["val"]) for n in group.nodes if isinstance(n.meta.get("val"), torch.Tensor)):
            group.why = "its extents are dynamic, and there are no buckets"
            parts.groups.remove(group)
            parts.left.append(group)


def _say_reasons(parts, prepared, report):
    by_name, base = {n.name: n for n in report.nodes}, len(report.programs)

    def of(node):
        return by_name[node.meta["mica_name"]]
    for node in prepared:
        of(node).why = "made once, of weights alone"
    for node, why in parts.reasons.items():
        of(node).why, of(node).program = why, ""
    for group in parts.left:
        for node in group.nodes:
            of(node).why, of(node).program = group.why, ""
    for k, group in enumerate(parts.groups):
        for node in group.nodes:
            of(node).program = f"program {base + k}"


def _own_copies(gm, group, shared):
    """The group's nodes with copies of the shared ones among those that it reads through, so that each belongs to one group. Constants
    that rows read the number of are such too."""
    made, own = {}, []

    def copy(arg, before, user):
        number = constant(arg) is not None and name_of(user.target) in READS_NUMBERS
        if arg not in shared and arg not in group.light and not number:
            return arg
        if arg not in made:
            into = {a: copy(a, before, arg) for a in arg.all_input_nodes}
            with gm.graph.inserting_before(before):
                made[arg] = gm.graph.node_copy(arg, into.__getitem__)
            own.append(made[arg])
        return made[arg]
    for node in group.nodes:
        if node in group.light:
            continue
        node.args = map_arg(node.args, lambda a: copy(a, node, node))
        node.kwargs = map_arg(node.kwargs, lambda a: copy(a, node, node))
        own.append(node)
    return own


def _one_turn(gm, parts, prepared, weights, target, options, report):
    if not parts.groups:
        return []
    sets = [_own_copies(gm, g, prepared) for g in parts.groups]
    gm.graph.eliminate_dead_code()  # what there are only copies of now
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    fuse_by_partitions(gm, [dict.fromkeys(sorted(s, key=order.get)) for s in sets], prefix="mica_", always_return_tuple=True)
    regions, base = [], len(report.programs)
    for k, group in enumerate(parts.groups):
        name = f"program {base + k}"
        node = next(n for n in gm.graph.nodes if n.op == "call_module" and n.target == f"mica_{k}")
        own = Region(name, _with_strides_of(getattr(gm, node.target), node.args), [a.name in weights.static for a in node.args], target, options)
        taken = Taken(name, group.program.operators, group.program.text)  # of this graph, which may leave it in the end
        log.info("%s: %d operators, at most %g seconds", name, taken.operators, options.time)
        key, region = library.register(own)  # one of another graph, where that has the same
        if region.taken is None:
            region.taken = dataclasses.replace(taken)
            _decide(region, {p: weights.known[a.name] for p, a in zip(region.placeholders, node.args) if a.name in weights.known})
            log.info("%s", region.taken.line())
        taken.like(region.taken)
        report.programs.append(taken)
        if taken.taken or region.symbol is not None:
            _call(gm, node, key, region)
            regions.append(region)
        else:
            _put_back(gm, node, own, taken.operators)
        delattr(gm, f"mica_{k}")
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return regions


def _with_strides_of(module, args):
    """The group's nodes, whose placeholders know the strides of what comes to them. Regions that were taken before give dense results."""
    for p, a in zip((n for n in module.graph.nodes if n.op == "placeholder"), args):
        p.meta["val"] = a.meta.get("val")
    return module


def _decide(region, known):
    """Compiles the region's program and measures it; of a dynamic one, that waits for the first call."""
    with real_tensors():
        if region.symbol is not None:
            region.taken.sizes = {}
            if region.options.rest == "inductor" and region.options.take == "faster":
                region.fallback = _by_inductor(region)
        else:
            region.programs[0] = region.compile(0, known, region.taken)


def _by_inductor(region):
    """What Inductor makes of the region's nodes, for each number of rows when it is called first."""
    compiled = torch.compile(region.module, backend="inductor", dynamic=True)

    def call(*args):
        with torch.no_grad():
            return compiled(*args)
    return call


def _call(gm, node, key, region):
    """A call of the region in place of the submodule."""
    tensors = [a for a in node.args if isinstance(a.meta.get("val"), torch.Tensor)]
    sizes = [a for a in node.args if a not in tensors]
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(torch.ops.mica.run.default, (tensors, sizes, key))
    with unset_fake_temporarily():
        call.meta["val"] = [t if region.symbol is not None else t.contiguous() for t in node.meta["val"]]
    node.replace_all_uses_with(call)
    for user in call.users:
        user.meta["val"] = call.meta["val"][user.args[1]]
    gm.graph.erase_node(node)


def _put_back(gm, node, region, tried):
    """The nodes in place of the submodule. Programs of fewer operators may still take them."""
    values = dict(zip(region.placeholders, node.args))
    with gm.graph.inserting_before(node):
        for n in region.module.graph.nodes:
            if n.op == "call_function":
                values[n] = gm.graph.node_copy(n, lambda m: values[m])
                values[n].meta["mica_tried"] = tried
    results = [values[o] for o in region.outputs]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def direct(gm):
    """The graph as Python, which calls regions without torch's dispatcher."""
    for node in gm.graph.nodes:
        if is_call(node):
            tensors, sizes, key = node.args
            region = library.region(key)
            node.target, node.args = _plain(region), tuple(region.joined(tensors, sizes))
    return torch.fx.GraphModule(gm, gm.graph).forward  # torch's own is a lazy one, which looks at each call whether it is compiled


def _plain(region):
    def mica_region(*args):
        return region(*args)
    return mica_region
