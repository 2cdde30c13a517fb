"""Replaces groups of nodes by calls of regions, if the region's program is correct and faster.

If a large program is not faster than the rest's compiler, its operators are tried again in smaller programs. The faster programs are taken. The other
operators remain for the rest's compiler.
"""
from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import map_arg
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from . import library, mutations
from .budget import USEFUL, Budget, bound_of, seconds_of, weights_of
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
    known: dict   # name -> real tensor, if known


def _turns(parts, options):
    """Number of sizes of programs to try, given the largest group."""
    largest = max((g.program.operators for g in parts.groups), default=0)
    return 1 + sum(most < largest for most in options.max_ops[1:])


def fuse(gm, weights, kind, target, options, report, whole=None):
    """Changes gm, and returns the regions that it calls. whole: inductor.Later of the original graph, which may be compiled during a search."""
    regions, budget, seconds = [], None, seconds_of(options, len(report.nodes), kind)
    for turn, most in enumerate(options.max_ops):
        if turn and not any(n.meta.get("mica_tried", 0) > most for n in gm.graph.nodes):
            continue
        static = {n for n in gm.graph.nodes if n.op == "placeholder" and n.name in weights.static}
        # Views of "live" weights are computed in the programs, so no node counts as prepared.
        parts, prepared = partition(gm.graph, static if options.weights == "copy" else set(), kind, options.min_ops, options.min_work, most)
        if not options.buckets:
            _leave_dynamic(parts)
        budget = budget or Budget(seconds, _turns(parts, options), USEFUL[kind])
        _say_reasons(parts, prepared, report)
        regions += _one_turn(gm, parts, prepared, weights, target, options, report, budget, whole)
    report.seconds = budget.spent
    for region in budget.late:
        region.taken = None  # in another graph there may be time to decide it
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
    """The group's nodes, with copies of shared views and of constants whose numbers rows read, so that each node belongs to one group."""
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


def _one_turn(gm, parts, prepared, weights, target, options, report, budget, whole):
    if not parts.groups:
        return []
    sets = [_own_copies(gm, g, prepared) for g in parts.groups]
    gm.graph.eliminate_dead_code()  # removes nodes that were replaced by copies
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    sets = [dict.fromkeys(sorted((n for n in s if n in order), key=order.get)) for s in sets]
    fuse_by_partitions(gm, sets, prefix="mica_", always_return_tuple=True)
    for node in gm.graph.nodes:
        if node.op == "call_module":
            _as_needed(getattr(gm, node.target), node)
    mutations.to_the_end(gm.graph)
    maker = _Maker(gm, weights, target, options, report, budget, whole)
    budget.begin(maker.weights_of(parts.groups))
    regions = [r for r in (maker.replace(k, group) for k, group in enumerate(parts.groups)) if r is not None]
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    return regions


def _as_needed(module, call):
    """Orders the nodes of a group as its results need them, so that equal groups are equal modules, independent of torch's order."""
    before = [n for n in module.graph.nodes if n.op == "placeholder"]
    end = next(n for n in module.graph.nodes if n.op == "output")
    order, todo = {}, list(reversed(end.all_input_nodes))
    while todo:
        missing = [a for a in todo[-1].all_input_nodes if a not in order]
        if missing:
            todo += reversed(missing)
        else:
            order[todo.pop()] = None
    graph, made = torch.fx.Graph(), {}
    inputs = [*(n for n in order if n.op == "placeholder"), *(n for n in before if n not in order)]
    for n in [*inputs, *(n for n in order if n.op != "placeholder")]:
        made[n] = graph.node_copy(n, made.__getitem__)
    graph.output(map_arg(end.args[0], made.__getitem__))
    module.graph = graph
    place = {n: i for i, n in enumerate(before)}
    call.args = tuple(call.args[place[n]] for n in inputs)


class _Maker:
    """Makes regions of the groups' submodules, one for each distinct group."""

    def __init__(self, gm, weights, target, options, report, budget, whole):
        self.gm, self.weights, self.target, self.options, self.report, self.budget, self.whole = gm, weights, target, options, report, budget, whole
        self.base = len(report.programs)
        self.texts, self.shares = [], {}  # texts of groups; text -> weight in the turn
        self.undecided = set()  # texts without a decision
        self.first = {}  # key of a region -> the name of its first program in this graph

    def region(self, k):
        node = next(n for n in self.gm.graph.nodes if n.op == "call_module" and n.target == f"mica_{k}")
        static = [a.name in self.weights.static for a in node.args]
        frozen = [s and self._may_freeze(a.name) for s, a in zip(static, node.args)]
        return node, Region(f"program {self.base + k}", _with_strides_of(getattr(self.gm, node.target), node.args), static, frozen, self.target,
                            self.options)

    def _may_freeze(self, name):
        """Whether a CPU's program may compute from this weight in advance: torch counts its changes."""
        weight = self.weights.known.get(name)
        return self.options.weights == "copy" and weight is not None and weight.device.type == "cpu" and not weight.is_inference()

    def weights_of(self, groups):
        """Weights of the distinct programs without a decision. Groups of different nodes may have the same text."""
        regions = [self.region(k)[1] for k in range(len(groups))]
        self.texts = [region.text() or region.key() for region in regions]
        self.shares = weights_of([(text, bound_of(group.program)) for text, group in zip(self.texts, groups)])
        known = {text for text, region in zip(self.texts, regions) if library.is_decided(region.key())}
        self.undecided = set(self.shares) - known
        return [w for text, w in self.shares.items() if text in self.undecided]

    def replace(self, k, group):
        """Replaces the submodule by a call of its region, or by its nodes. Returns the region if it is called."""
        node, own = self.region(k)
        taken = Taken(own.name, group.program.operators, group.program.text)  # decision for this graph
        key, region = library.register(own)  # another graph's region, if that is the same
        if region.taken is None:
            self._decide(region, node, taken, self.texts[k])
        taken.like(region.taken)
        taken.same_as = self.first.get(key, "")
        self.first.setdefault(key, own.name)
        if region.taken.late:
            self.budget.late.add(region)
        self.report.programs.append(taken)
        delattr(self.gm, node.target)
        if not taken.taken and region.symbol is None:
            return _put_back(self.gm, node, own, taken.operators)
        _call(self.gm, node, key, region)
        return region

    def _decide(self, region, node, taken, text):
        weight, first = self.shares[text], text in self.undecided
        self.undecided.discard(text)
        seconds = self.budget.share_of(weight)
        log.info("%s: %d operators, at most %.3g seconds", taken.name, taken.operators, seconds)
        region.taken, region.seconds, region.budget, region.whole = dataclasses.replace(taken), seconds, self.budget, self.whole
        known = self.weights.known
        self.report.judged += 1
        with self.budget.program(weight, first):
            _decide(region, {p: known[a.name] for p, a in zip(region.placeholders, node.args) if a.name in known})
        region.whole = None  # drops the reference, as the region may outlive the graph
        log.info("%s", region.taken.line())


def _with_strides_of(module, args):
    """The group's nodes, with the strides of the arguments at its placeholders. Results of regions are dense."""
    for p, a in zip((n for n in module.graph.nodes if n.op == "placeholder"), args):
        p.meta["val"] = a.meta.get("val")
    return module


def _decide(region, known):
    """Compiles the region's program and measures it. For a dynamic region the first call does this."""
    with real_tensors():
        if region.symbol is not None:
            region.taken.sizes = {}
            if region.options.rest == "inductor" and region.options.take == "faster":
                region.fallback = _by_inductor(region)
        else:
            region.programs[0] = region.compile(0, known, region.taken)


def _by_inductor(region):
    """Inductor's code for the region's nodes, compiled at the first call for each number of rows."""
    compiled = torch.compile(region.module, backend="inductor", dynamic=True)

    def call(*args):
        with torch.no_grad():
            return compiled(*args)
    return call


def _call(gm, node, key, region):
    """Replaces the submodule by a call of the region."""
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
    """Replaces the submodule by its nodes. Programs of fewer operators may still take them."""
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
    """The graph as a Python function, which calls regions without torch's dispatcher."""
    mutations.in_place(gm.graph)
    for node in gm.graph.nodes:
        if is_call(node):
            tensors, sizes, key = node.args
            region = library.region(key)
            node.target, node.args = _plain(region), tuple(region.joined(tensors, sizes))
    return torch.fx.GraphModule(gm, gm.graph).forward  # the class of gm may be a lazy one, which tests in each call whether it is compiled


def _plain(region):
    def mica_region(*args):
        return region(*args)

    def mica_region_owned(*args):
        return library.owned(region(*args), [a for a in args if isinstance(a, torch.Tensor)])
    return mica_region if region.symbol is None else mica_region_owned
