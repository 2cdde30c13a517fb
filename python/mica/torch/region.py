"""A region: a group of nodes at run time. It runs its program, or the nodes if the program cannot run or was rejected.

A region without a symbol has one program, made when the graph is compiled. A region with a symbol has a program for each bucket. A call with n rows
uses the smallest bucket of at least n, pads the inputs with zeros at the end of their dynamic dimension, and cuts the results. Different rows are
never combined (`emit.py`), so the padding does not change results. The first call for a bucket makes its program; other threads run the nodes
meanwhile. Calls with more rows than the largest bucket run the nodes.
"""
from __future__ import annotations

import bisect
import contextlib
import dataclasses
import hashlib
import logging
import threading

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from . import engine, inductor, measure, verdicts
from .budget import Budget
from .emit import Cannot
from .ops import UNITS, is_emitted, name_of
from .program import Shapes, batch_of, build, symbols_of
from .report import Taken
from .weights import Frozen, Prepared, capturing

log = logging.getLogger("mica.torch")


@contextlib.contextmanager
def real_tensors():
    """Context without tracing and fake tensors, in which tensors have elements."""
    with _disable_current_modes(), unset_fake_temporarily(), torch._guards.tracing(None), torch.no_grad():
        yield


def chain_module(chain, weight):
    """The chain of views as a function of the weight. Nodes between nodes of the chain that are not part of it are left out."""
    graph, env = fx.Graph(), {}
    env[weight] = graph.placeholder("weight")

    def of(node):
        while node not in env:
            node = node.all_input_nodes[0]
        return env[node]
    for node in chain:
        env[node] = graph.node_copy(node, of)
    graph.output(env[chain[-1]])
    return fx.GraphModule({}, graph)


def _about(val):
    """Properties of a tensor or an extent on which a program depends."""
    if not isinstance(val, torch.Tensor):
        return type(val).__name__, str(val)
    return str(val.dtype), str(val.device), *(tuple(str(s) for s in sizes) for sizes in (val.shape, val.stride()))


class Region:
    """module: a GraphModule of the group, which runs if the program does not. static: by placeholder, whether it is a weight. frozen: by placeholder,
    whether it is a weight whose changes are counted."""

    def __init__(self, name, module, static, frozen, target, options):
        self.name, self.module, self.target, self.options = name, module, target, options
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.nodes = [n for n in module.graph.nodes if n.op == "call_function"]
        self.outputs = list(next(n for n in module.graph.nodes if n.op == "output").args[0])
        self.static = {p for p, s in zip(self.placeholders, static) if s}
        self.frozen = {p for p, f in zip(self.placeholders, frozen) if f}
        self.prepared = {}
        self.fallback = module  # runs in place of a program; with a symbol it may be compiled by Inductor
        self.lock = threading.Lock()
        symbols = set()
        for n in (*self.placeholders, *self.nodes):
            if isinstance(n.meta.get("val"), torch.Tensor):
                symbols |= symbols_of(n.meta["val"])
        self.symbol = symbols.pop() if symbols else None
        self.programs = {}       # bucket (0 without a symbol) -> _Program, or None: the nodes run
        self.taken = None        # the decision for the report
        self.seconds = options.time or engine.LONGEST  # for a bucket's program
        self.budget = Budget(self.seconds)
        self.whole = None  # inductor.Later of the whole graph, which is compiled during the first search
        self.is_tensor = [isinstance(p.meta.get("val"), torch.Tensor) for p in self.placeholders]
        self.device = next(p.meta["val"].device for p, t in zip(self.placeholders, self.is_tensor) if t)
        if self.symbol is not None:
            self.rows_of = next((i, *batch_of(p.meta["val"])[:2]) for i, p in enumerate(self.placeholders)
                                if isinstance(p.meta.get("val"), torch.Tensor) and batch_of(p.meta["val"]))

    def key(self):
        """A hash of this region's computation. It is equal in every process, because caches of generated code contain it."""
        what = [*self._lines(), self.target, repr(dataclasses.replace(self.options, summary=True, progress=False)), str(self.symbol)]
        return hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]

    def _lines(self):
        """The nodes as text, with numbers for names, so that equal layers of a model have equal text."""
        number = {}
        for n in self.module.graph.nodes:
            args = repr(fx.map_arg((n.args, n.kwargs), lambda a: f"%{number[a]}"))
            about = (*_about(n.meta.get("val")), n in self.static, n in self.frozen) if n.op == "placeholder" else name_of(n.target) or str(n.target)
            number[n] = len(number)
            yield f"{n.op} {about} {args if n.op != 'placeholder' else ''}"

    def build(self, bucket=0):
        from .partition import prepared_of
        static = self.static if self.options.weights == "copy" else ()
        prepared = prepared_of(self.module.graph, static)
        shapes = Shapes({self.symbol: bucket} if bucket else None)
        nodes = [n for n in self.nodes if n not in prepared and is_emitted(n) and not isinstance(n.meta.get("val"), (torch.SymInt, int))]
        return build(nodes, self.outputs, prepared, shapes, "region", frozenset(static), frozenset(self.frozen))

    def text(self):
        """The text of the program; "" if it depends on the bucket or there is none."""
        try:
            return self.build().text if self.symbol is None else ""
        except Cannot:
            return ""

    # ---- compiling ----
    def compile(self, bucket, real, taken):
        """The program of a bucket, or None. The decision is written to `taken`. real: placeholder -> tensor, for weights."""
        try:
            program = self.build(bucket)
            taken.text, taken.operators = program.text, program.operators
            judged = self.options.take == "faster" and self.options.rest == "inductor"
            beside = judged and self.symbol is None and inductor.may_run_beside(self.device, self.options.mode)
            rest = self._rest(bucket, real, program.limits)
            jobs = [rest] + [self.whole] * (self.whole is not None)
            compiled = engine.compile(program.text, self.target, self.options, self.budget.for_search(judged, beside), self.budget.share,
                                      (lambda: [job.begin() for job in jobs]) if beside else None)
        except (engine.EngineError, Cannot) as error:
            taken.why, taken.late = str(error), isinstance(error, engine.LateError)
            return None
        taken.recalled = compiled.recalled
        made = _Program(self, program, compiled, bucket)
        self._judge(made, bucket, real, taken, rest)
        if not taken.taken and not self.programs:
            self.prepared.clear()  # frees copies of weights that nothing reads
        return made if taken.taken else None

    def _rest(self, bucket, real, limits):
        """The code that would run in the program's place, as an inductor.Later. With a symbol it is the existing fallback."""
        if self.symbol is not None or self.options.rest != "inductor":
            return inductor.Later(lambda: self.fallback)
        static = [i for i, p in enumerate(self.placeholders) if p in self.static]

        def make():
            with measure.turn_on(self.device):
                examples = self.examples(bucket, real, limits=limits)
            return inductor.compile_alone(self.module, examples, self.options.mode, static)
        return inductor.Later(make)

    def _judge(self, made, bucket, real, taken, rest):
        with measure.turn_on(self.device):
            examples, want = self._sample(made, bucket, real)
            if want is None:
                taken.why = "eager's results on random inputs are not finite"
                return
            got = made(examples)
            taken.error, limit = measure.difference(got, want, self.options.tolerance)
            off = measure.off_alone(got, want, self.options.close) if self.options.close and taken.error <= limit else 0
            del got
        if not taken.error <= limit:
            taken.why = f"its results differ from eager's by {taken.error:.2g}, more than {limit:.2g}"
            return
        if off:
            taken.why = f"{off} elements differ from eager's by more than `close` allows"
            return
        if self.options.take == "faster":
            try:
                taken.us, taken.rest_us = self._race(made, examples, want[0].device, rest)
            except engine.LateError as error:
                taken.why, taken.late = str(error), True
                return
            except RuntimeError as error:  # not capturable in a CUDA graph
                taken.why = f"not measured: {str(error).splitlines()[0]}"
                return
            if taken.us >= taken.rest_us:
                untried = made.compiled.untried
                taken.why = "not faster than the rest's compiler" + (f"; {untried}: {engine.MORE_TIME}" if untried else "")
                return
        taken.taken = True

    def _judged_by(self):
        """Layouts and options on which a measurement depends. Regions with the same text and layouts are measured once."""
        about = [(*_about(p.meta.get("val")), p in self.static) for p in self.placeholders]
        return about, dataclasses.replace(self.options, summary=True, progress=False)

    def _sample(self, made, bucket, real):
        """Random inputs, and the results of eager mode; None if those are not finite."""
        # Roots and logarithms need positive inputs, which the model's other operators would provide. Eager mode of UNITS needs numbers from 0 to 1.
        for span in (measure.UNIT,) if any(name_of(n.target) in UNITS for n in self.nodes) else (measure.ANY, measure.POSITIVE):
            examples = self.examples(bucket, real, span, made.limits)
            want = self.module(*examples)
            if all(measure.finite(w) for w in want):
                return examples, want
        return examples, None

    def _race(self, made, examples, device, rest):
        """Times of the program and of the code that would run in its place, in the user's mode. They may be remembered from earlier."""
        graphs = self.options.timed_in_graphs
        folder = self.options.folder()
        key = verdicts.key_of(device, self._judged_by(), made.bucket, made.compiled.folder)
        times = verdicts.recall(folder, key)
        if times is None:
            if not self.budget.may_judge(rest.made):
                raise engine.LateError(f"no time was left to measure it; {engine.MORE_TIME}")
            with self.budget.judgement():
                other = rest.get()
                times = measure.race(lambda: made(examples), lambda: other(*examples), device, graphs)
            verdicts.remember(folder, key, *times)
        return times

    def examples(self, bucket, real, span=measure.ANY, limits=None):
        """An argument for every placeholder: the real tensor, else a random one. limits: placeholder -> range of indices."""
        generator = measure.generator(self.device)
        shapes, out = Shapes({self.symbol: bucket} if bucket else None), []
        for p in self.placeholders:
            val = p.meta.get("val")
            if p in real:
                out.append(real[p])
            elif isinstance(val, torch.Tensor):
                out.append(measure.example(val, shapes.shape(val), shapes.strides(val), generator, span, (limits or {}).get(p, (0, 0))))
            else:
                out.append(shapes.value(val))
        return out

    # ---- running ----
    def prepared_inputs(self):
        """(position of an argument, or positions of several; their Prepared) for each prepared input of the programs."""
        return [(at, make) for program in self.programs.values() if program for at, make, _ in program.makers if isinstance(make, Prepared)]

    def joined(self, tensors, sizes):
        """The arguments in order, from the separate tensors and sizes of mica::run."""
        tensors, sizes = iter(tensors), iter(sizes)
        return [next(tensors if t else sizes) for t in self.is_tensor]

    def __call__(self, *args):
        bucket = 0
        if self.symbol is not None:
            index, dim, factor = self.rows_of
            rows = args[index].shape[dim] // factor
            at = bisect.bisect_left(self.options.buckets, rows)
            if at == len(self.options.buckets):
                return self.fallback(*args)
            bucket = self.options.buckets[at]
            if bucket not in self.programs:
                self._meet(bucket, args)
        program = self.programs.get(bucket)
        if program is None:
            return self.fallback(*args)
        return program(args)

    def _meet(self, bucket, args):
        """Makes the program of a bucket at its first call, unless a CUDA graph captures the call. Calls by other threads do not wait."""
        if any(isinstance(a, torch.Tensor) and capturing(a) for a in args) or not self.lock.acquire(blocking=False):
            return
        try:
            if bucket not in self.programs:
                real = {p: a for p, a in zip(self.placeholders, args) if p in self.static}
                taken = Taken(f"{self.name}[{bucket}]", 0, "")
                try:
                    self.budget = Budget(self.seconds)
                    with real_tensors(), self.budget.program():
                        self.programs[bucket] = self.compile(bucket, real, taken)
                except Exception as error:  # an error here costs speed only; the call still runs
                    if self.options.faults == "raise":
                        raise
                    log.warning("%s is left, because making it failed; please report this", taken.name, exc_info=True)
                    taken.why = f"making it failed: {type(error).__name__}: {error}"
                    self.programs[bucket] = None
                if self.taken is not None:
                    self.taken.sizes[bucket] = taken
        finally:
            self.lock.release()


class _Program:
    """A compiled program with functions that make its inputs from the region's arguments."""

    def __init__(self, region, program, compiled, bucket):
        self.compiled, self.bucket, self.limits = compiled, bucket, program.limits
        place = {p: i for i, p in enumerate(region.placeholders)}
        self.makers = [self._maker(i, place, region) for i in program.inputs]
        # choices between whole numbers have whole numbers as results
        self.casts = [None if dtype is o.dtype else o.dtype for (dtype, _), o in zip(compiled.outputs, program.outputs)]
        self.cuts = [batch_of(o.node.meta["val"]) if bucket else None for o in program.outputs]
        self.rows_of = region.rows_of if bucket else None
        self.frozen = Frozen(compiled) if any(compiled.frozen) else None

    def _maker(self, i, place, region):
        """A function that makes the tensor of one input from the arguments, before it is made contiguous and padded."""
        pad = (i.value.batch, i.value.shape[i.value.batch]) if i.value.batch is not None and self.bucket else None
        if i.kind == "causal":
            return None, _causal(i.value, i.extra[0]), pad
        if i.kind == "joined":
            at = tuple(place[p.node] for p in i.extra)
            return at, region.prepared.setdefault((at, *map(_chain_key, i.extra)), Prepared(_side_by_side(i.extra))), pad
        at = place[i.node]
        make = chain_module(i.chain, i.node) if i.chain else None
        if make is not None:
            make = region.prepared.setdefault((at, _chain_key(i)), Prepared(make))
        if i.kind == "mask":
            hides, low = i.extra
            return at, _mask(make, hides, low, engine.DTYPES[i.value.dtype]), pad
        if i.kind == "floor":
            return at, _floor(make, i.extra[0]), pad
        return at, make, pad

    def __call__(self, args):
        rows = None
        if self.rows_of:
            index, dim, factor = self.rows_of
            rows = args[index].shape[dim] // factor
        inputs, sources = [], []
        for at, make, pad in self.makers:
            if at is None:
                x = make(args[0])
            elif isinstance(at, tuple):
                x = make(*(args[k] for k in at))
            else:
                x = args[at] if make is None else make(args[at])
            sources.append(x)
            if pad is not None and x.shape[pad[0]] != pad[1]:
                x = _padded(x, *pad)
            if not x.is_contiguous():
                x = x.contiguous()
            inputs.append(x if x.data_ptr() % 16 == 0 else x.clone())
        outputs = self.compiled(inputs) if self.frozen is None else self.frozen(sources, inputs)
        for k, (cast, cut) in enumerate(zip(self.casts, self.cuts)):
            if cut is not None and rows != self.bucket:
                outputs[k] = outputs[k].narrow(cut[0], 0, rows * cut[1]).contiguous()
            if cast is not None:
                outputs[k] = outputs[k].to(cast)
        return outputs


def _chain_key(i):
    return tuple(str((n.target, n.args[1:], n.kwargs)) for n in i.chain)


def _side_by_side(parts):
    """A function that concatenates these inputs, as views of weights, along the last dimension."""
    makes = [chain_module(p.chain, p.node) if p.chain else None for p in parts]
    return lambda *weights: torch.cat([w if make is None else make(w) for make, w in zip(makes, weights)], dim=-1)


def _padded(x, dim, extent):
    shape = list(x.shape)
    shape[dim] = extent
    y = x.new_zeros(shape)
    y.narrow(dim, 0, x.shape[dim]).copy_(x)
    return y


def _mask(prepared, hides, low, dtype):
    """A function that makes an additive mask. It needs one kernel, because the two numbers remain on the device."""
    made = {}

    def make(mask):
        mask = mask if prepared is None else prepared(mask)
        if mask.device not in made:
            made[mask.device] = [torch.tensor(v, dtype=dtype, device=mask.device) for v in ((low, 0) if hides else (0, low))]
        return torch.where(mask, *made[mask.device])
    return make


def _floor(prepared, low):
    return lambda mask: (mask if prepared is None else prepared(mask)).clamp(min=low)


def _causal(value, low):
    made = {}

    def make(like):
        if like.device not in made:
            full = torch.full(value.shape, low, dtype=engine.DTYPES[value.dtype])
            made[like.device] = torch.triu(full, diagonal=1).to(like.device)
        return made[like.device]
    return make
