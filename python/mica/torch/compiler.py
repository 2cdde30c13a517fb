"""The backend: torch.compile(model, backend="mica").

Graphs are taken from AOTAutograd, not from Dynamo. AOTAutograd replaces methods, modules and functions by operators of ATen, in-place changes by
values, and autocast by casts; every node knows its shape. It is called without decompositions, so that softmax, norms and attention remain single
operators.

Other nodes go to Inductor as a graph with calls of mica::run, or run in eager mode. A graph that needs gradients goes to Inductor (or eager mode)
unchanged.
"""
from __future__ import annotations

import dataclasses
import logging
import os
import re
import sys
import threading

import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func

from . import engine, fuse, inductor, masks, measure, mutations, verdicts
from .graphs import any_strides, copy_of, fresh_weights, is_call, keep_strides, without_empty
from .ops import VIEWS, name_of
from .options import options_of
from .region import real_tensors
from .report import Node, Report
from .summary import NO_GRAD, one_line

log = logging.getLogger("mica.torch")
_listeners = threading.local()   # receivers of reports in this thread, for `explain`


def backend(gm, example_inputs, *, options=None, mode=None, **_):
    """The backend: torch.compile calls it once for each graph."""
    options = options_of(options, mode)
    engine.check_target(options.target)
    report = Report()
    listeners = getattr(_listeners, "lists", [])
    for listener in listeners:
        listener.append(report)
    say = options.summary and not listeners
    tracked = sum(isinstance(t, torch.Tensor) and t.requires_grad for t in example_inputs) if torch.is_grad_enabled() else 0
    if tracked:
        report.why = f"it needs gradients: {tracked} of its inputs and weights track them; {NO_GRAD}"
        _tell(report, say)
        return _as_it_is(gm, example_inputs, options)

    def compiler(graph, inputs):
        run = make_boxed_func(_compile(graph, inputs, example_inputs, options, report))
        _tell(report, say)
        return run

    context = torch._guards.TracingContext.try_get()
    before = dict(vars(context)) if context is not None else {}
    try:
        # In-place changes of the model remain in place. Otherwise whole caches would be copied, also in the part that Inductor compiles.
        return aot_autograd(fw_compiler=compiler, decompositions={}, keep_inference_input_mutations=True)(gm, example_inputs)
    except _NothingTaken:  # no work in this clause: the exception keeps the frames of the attempt alive
        pass
    if context is not None:
        vars(context).clear()
        vars(context).update(before)
    report.compilations += 1
    _tell(report, say)
    return _as_it_is(gm, example_inputs, options)


class _NothingTaken(Exception):
    """No program is taken. Inductor gets Dynamo's graph, and compiles it as without Mica."""


def _tell(report, say):
    """Prints one line after a compilation. The logger gets all details."""
    log.info("a graph: %s", report)
    if say:
        print(f"mica: {one_line(report)}", file=sys.stderr)


def _as_it_is(gm, example_inputs, options):
    if options.rest == "eager":
        return gm.forward
    from torch._inductor.compile_fx import compile_fx
    return compile_fx(gm, example_inputs, config_patches=inductor.settings_of(options.mode) or None)


def _device_of(graph):
    devices = [n.meta["val"].device for n in graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    return next((d for d in devices if d.type == "cuda"), torch.device("cpu"))


def _static(graph, real):
    """Names of placeholders with a fixed address, the real tensors of those for which they are known, and the other inputs of integers or
    booleans. Random ones might be no indices of the tables that the graph reads, and a GPU ends all work of the process after such an index."""
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    indices = list(getattr(meta, "static_input_indices", None) or [])
    static = {placeholders[i].name for i in indices if i < len(placeholders)}
    known, numbers = {}, {}
    if len(real) == len(placeholders):
        for p, t in zip(placeholders, real):
            val = p.meta.get("val")
            if type(t) not in (torch.Tensor, torch.nn.Parameter) or not isinstance(val, torch.Tensor):
                continue
            if any(isinstance(s, torch.SymInt) for s in val.shape):  # a comparison would fix the extent
                continue
            if tuple(t.shape) != tuple(val.shape) or t.dtype is not val.dtype:
                continue
            with real_tensors():
                if p.name in static:
                    known[p.name] = t.detach()
                elif not t.is_floating_point() and not t.is_complex():
                    numbers[p.name] = t.detach()
    return static, known, numbers


def _compile(gm, inputs, real, options, report):
    _list_nodes(gm.graph, report)
    static, known, numbers = _static(gm.graph, real)
    before = copy_of(gm)
    changed = {p.name for p in mutations.written(gm.graph)}
    weights = fuse.Weights(static - changed, _apart(known, changed))
    given = _Given(weights.known, numbers, changed)
    try:
        return _counted(_with_programs(gm, before, inputs, static, weights, given, options, report), before.graph)
    except _NothingTaken:
        raise
    except Exception as error:  # an error here costs speed only; the model still runs
        if options.faults == "raise":
            raise
        log.warning("a graph is left to %s as a whole, because taking programs out of it failed; please report this", options.rest, exc_info=True)
        report.why = "taking programs failed: %s: %s" % (type(error).__name__, error)
        report.leave(report.why)
        return _rest(before, inputs, static, options)


def _apart(known, changed):
    """The tensors that share no storage with those that the graph changes. Measurements use them, and change only copies."""
    storages = {t.untyped_storage()._cdata for name, t in known.items() if name in changed}
    return {name: t for name, t in known.items() if t.untyped_storage()._cdata not in storages}


def _counted(run, graph):
    """Makes changes by the graph increase the version counters of tensors, by which outdated copies of weights are found."""
    changed = mutations.written(graph)
    places = [i for i, p in enumerate(n for n in graph.nodes if n.op == "placeholder") if p in changed]
    if not places:
        return run

    def call(*args):
        results = run(*args)
        torch.autograd.graph.increment_version([args[i] for i in places if not args[i].is_inference()])
        return results
    return call


def _with_programs(gm, before, inputs, static, weights, given, options, report):
    compilations = inductor.compilations
    try:
        return _chosen(gm, before, inputs, static, weights, given, options, report)
    finally:
        report.compilations = inductor.compilations - compilations


def _chosen(gm, before, inputs, static, weights, given, options, report):
    if not mutations.is_regular(gm.graph):
        report.why = "it changes tensors in place before its end"
        report.leave(report.why)
        return _nothing(before, inputs, static, options)
    device = _device_of(gm.graph)
    report.gone({n.meta["mica_name"] for n in masks.simplify(gm.graph) if "mica_name" in n.meta}, masks.GONE)
    any_strides(gm.graph)
    without_empty(gm.graph)
    try:
        target = options.target or engine.target_of(device)
        whole = inductor.Later(lambda: _whole(before, inputs, given, static, options))
        regions = fuse.fuse(gm, weights, device.type, target, options, report, whole)
    except engine.EngineError as error:  # there is no target for this GPU
        regions, report.why = [], str(error)
    if not regions:
        return _nothing(before, inputs, static, options)
    keep_strides(gm, before)
    run = _rest(gm, inputs, static, options)
    if options.take == "faster" and options.rest == "inductor" and _matters(gm, regions):
        run = _faster(run, gm, before, given, static, options, report, whole)
    return fresh_weights(run, gm, regions) if inductor.in_graphs(options.mode) else run


def _list_nodes(graph, report):
    for n in graph.nodes:
        if n.op == "call_function":
            n.meta["mica_name"] = n.name  # the name survives fusing and splitting, which make new nodes
            val = n.meta.get("val")
            shape = str(list(val.shape)).replace("'", "") if isinstance(val, torch.Tensor) else ""
            if isinstance(val, (torch.Tensor, list, tuple)):
                report.nodes.append(Node(n.name, name_of(n.target) or str(n.target), shape, where=_line_of(n)))


def _line_of(node):
    """file:line of the model's source for this node, "" if unknown."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{os.path.basename(lines[-1][0])}:{lines[-1][1]}" if lines else ""


# ---- execution of the graph ----

def _work(graph):
    """Nodes that cost time: calls of regions, and nodes left to the rest's compiler."""
    return [n for n in graph.nodes if n.op == "call_function" and name_of(n.target) not in VIEWS | {"getitem"}
            and isinstance(n.meta.get("val"), (torch.Tensor, list, tuple))]


def _rest(gm, inputs, static, options):
    """A function that runs the graph. torch itself runs a graph of calls and views only, unless CUDA graphs are wanted."""
    everything = all(is_call(n) for n in _work(gm.graph))
    if options.rest == "eager" or (everything and not inductor.in_graphs(options.mode)):
        return fuse.direct(gm)
    return inductor.compile(copy_of(gm), inputs, options.mode, _places(gm, static))


def _nothing(gm, inputs, static, options):
    if options.rest == "inductor":
        raise _NothingTaken
    return _rest(gm, inputs, static, options)


def _places(gm, static):
    return [i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder") if n.name in static]


def _matters(gm, regions):
    """Whether the graph is more than one region with a known time. If so it is measured as a whole: calls cost time, and Inductor could fuse nodes
    across regions."""
    return all(r.symbol is None for r in regions) and len(_work(gm.graph)) > 1


@dataclasses.dataclass
class _Given:
    """Inputs of the whole graph for measurements."""
    known: dict    # name -> real tensor of a weight
    numbers: dict  # name -> integers or booleans of the first call, of which measurements use copies
    changed: set   # names of inputs that the graph changes


def _examples(graph, given):
    """A tensor for each input: a known one, or a random one. None if an extent is unknown."""
    examples, generator = [], measure.generator(_device_of(graph))
    for p in (n for n in graph.nodes if n.op == "placeholder"):
        val = p.meta.get("val")
        if not isinstance(val, torch.Tensor) or any(isinstance(s, torch.SymInt) for s in val.shape):
            return None
        with real_tensors():
            if p.name in given.known:
                examples.append(given.known[p.name])
            elif p.name in given.numbers:
                examples.append(given.numbers[p.name].clone())
            else:
                examples.append(measure.example(val, tuple(val.shape), val.stride(), generator))
    return examples


def _whole(before, inputs, given, static, options):
    """The whole graph compiled by Inductor, for measurement. It does not use CUDA graphs itself, so that the caller can capture it in one."""
    if not inductor.in_graphs(options.mode):
        return inductor.compile(copy_of(before), inputs, options.mode, _places(before, static))
    with real_tensors():
        return inductor.compile_alone(before, _examples(before.graph, given), options.mode, _places(before, static))


def _restored(graph, given, examples):
    """A function that calls f with the examples. Integers that the graph changes, such as the length of a cache, are the same in each call."""
    names = [n.name for n in graph.nodes if n.op == "placeholder"]
    with real_tensors():
        first = [(x, x.clone()) for name, x in zip(names, examples) if name in given.changed and not x.is_floating_point()]

    def call(f):
        for x, was in first:
            x.copy_(was)
        return f(*examples)
    return call


def _faster(run, gm, before, given, static, options, report, whole):
    """`run`, or the whole graph compiled by Inductor if that is faster."""
    device, graphs = _device_of(before.graph), options.timed_in_graphs
    examples = _examples(before.graph, given)
    if examples is None:
        return run
    call = _restored(before.graph, given, examples)
    key = verdicts.key_of(device, before.code, [(tuple(e.shape), e.dtype) for e in examples], options, gm.code)
    times = verdicts.recall(options.folder(), key)
    if times is None:
        try:
            theirs = whole.get()
        except RuntimeError as error:  # there is no alternative to compare with
            log.info("the whole graph was not compiled: %s", str(error).split("\n")[0])
            return run
        with real_tensors():
            ours = inductor.compile_alone(gm, examples, options.mode, _places(gm, static)) if inductor.in_graphs(options.mode) else run
            try:
                times = measure.race(lambda: call(ours), lambda: call(theirs), device, graphs)
            except RuntimeError as error:  # not capturable in a CUDA graph
                report.leave(f"together with the rest not measured: {str(error).splitlines()[0]}")
                raise _NothingTaken from None
        verdicts.remember(options.folder(), key, *times)
    report.us, report.rest_us = times
    if times[0] < times[1]:
        return run
    report.leave("together with the rest not faster than the rest's compiler alone")
    raise _NothingTaken
