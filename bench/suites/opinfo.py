#!/usr/bin/env python3
"""Samples of torch's own OpInfo database, for the operators that Mica has rows for: right, wrong, failed, or left.

    opinfo.py [--device cuda|cpu] [--csv FILE] [--only REGEX] [--samples N] [--time S] [--workers N] [--until S] [--dtype float32]

torch's database imports the package `expecttest`.
Each operator is one function of up to --samples of its samples, spread evenly over all of them. torch.compile(backend="mica") compiles it with
`take="all"`, so that every node with a row becomes a kernel of Mica's, and the rest runs in eager mode. A result is right if it is as near to eager
mode's as the backend asks of its programs, and NaN where eager mode's is. A result of 16 bits may be as near to that of float64 instead. An operator
is left if it has no row, and not counted. Column `why` also has the reasons of programs that were made and not taken. Exit status 1: a result is
wrong, compiling failed, or the process that compiled it ended.
"""
import argparse
import collections
import copy
import csv
import math
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernelbench import device_name  # noqa: E402

COLUMNS = ["operator", "fate", "samples", "results", "nodes", "taken", "worst", "seconds", "dtype", "device", "torch", "mica", "why"]
FAULTS = ("wrong", "failed", "crashed")
SEED = 20
OPS = []  # of each process, as they cannot be sent


def samples_of(op, device, dtype, most):
    """Evenly spread samples of tensors alone, without an empty one."""
    every = [s for s in op.sample_inputs(device, dtype, requires_grad=False) if isinstance(s.input, torch.Tensor) and s.input.numel()]
    step = max(1, math.ceil(len(every) / most))
    return every[::step]


def tensors_of(x):
    """The tensors of a result, those with strides."""
    return [y for y in torch.utils._pytree.tree_leaves(x) if isinstance(y, torch.Tensor) and y.layout is torch.strided]


def comparable(op, x, args, kwargs, results):
    """Results as they are compared. torch does not define which of equal elements topk chooses: its indices count as the elements there, and as
    distinct."""
    if op.name != "topk" or not x.ndim:
        return results
    values, at = results
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    return [values, x.gather(dim, at), at.sort(dim).values.diff(dim=dim) > 0]


def off(got, want):
    """How many times the accepted difference a result is off. NaN and infinities are to be where eager mode has them."""
    from mica.torch import measure
    if got.is_complex() and want.is_complex():  # torch compares no complex numbers of half precision
        got, want = (torch.view_as_real(x.resolve_conj()) for x in (got, want))
    if got.shape != want.shape or got.dtype != want.dtype or not torch.equal(got.isnan(), want.isnan()) or not torch.equal(got.isinf(), want.isinf()):
        return math.inf
    if not torch.equal(got[want.isinf()], want[want.isinf()]):  # of another sign
        return math.inf
    if got.is_floating_point():
        got, want = (x.nan_to_num(0, 0, 0) for x in (got, want))
    part, most = measure.difference([got], [want])
    return part / most if most else math.inf if part else 0


def in_64_bits(x):
    return torch.utils._pytree.tree_map(lambda y: y.double() if isinstance(y, torch.Tensor) and y.is_floating_point() else y, x)


def off_of_sample(op, x, args, kwargs, want, got):
    """How far a sample's results are off eager mode's; of 16 bits, off those in float64 if they are nearer: exp(12) exceeds f16, and log(1 + exp(12))
    does not."""
    worst = max((off(g, w) for g, w in zip(got, want, strict=True)), default=0)
    if worst <= 1 or x.dtype not in (torch.float16, torch.bfloat16):
        return worst
    exact = comparable(op, x, args, kwargs, tensors_of(op.op(in_64_bits(x), *in_64_bits(args), **in_64_bits(kwargs))))
    return min(worst, max(off(g, w.to(g.dtype)) for g, w in zip(got, exact, strict=True)))


def run(op, device, dtype, a):
    from mica.torch import backend
    from mica.torch.compiler import _listeners
    torch._dynamo.reset()  # there is a limit to the times that one function is compiled
    chosen = []
    for s in samples_of(op, device, dtype, a.samples):
        mine = copy.deepcopy((s.args, s.kwargs))  # running statistics, which samples share, are changed in place
        try:
            eager = tensors_of(op.op(s.input, *copy.deepcopy(s.args), **copy.deepcopy(s.kwargs)))
            chosen.append((s.input, *mine, comparable(op, s.input, *mine, eager)))
        except Exception:  # not a sample for this device
            continue

    def all_of(*inputs):
        return [op.op(x, *args, **kwargs) for x, (_, args, kwargs, _) in zip(inputs, chosen)]
    graphs = []
    _listeners.lists = [graphs]
    options = {"take": "all", "rest": "eager", "min_ops": 1, "min_work": 0, "time": a.time, "summary": False, "faults": "raise"}
    got = torch.compile(all_of, backend=backend, options=options, dynamic=False)(*(c[0] for c in chosen))
    got = [comparable(op, *c[:3], tensors_of(x)) for c, x in zip(chosen, got, strict=True)]
    taken, nodes = sum(len(g.taken) for g in graphs), sum(len(g.nodes) for g in graphs)
    worst = max((off_of_sample(op, *c, mine) for c, mine in zip(chosen, got, strict=True)), default=0)
    fate = "left" if not taken else "right" if worst <= 1 else "wrong"
    why = "; ".join(dict.fromkeys(p.why for g in graphs for p in g.programs if p.why))[:300]
    return {"fate": fate, "samples": len(chosen), "results": sum(map(len, got)), "nodes": nodes, "taken": taken, "worst": f"{worst:.2g}", "why": why}


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def row(job):
    k, a, end = job
    op = OPS[k]
    begin = time.monotonic()
    if begin > end:
        return None
    try:
        torch.set_num_threads(1), torch.manual_seed(SEED)
        with torch.no_grad():
            made = run(op, a.device, getattr(torch, a.dtype), a)
    except Exception as error:
        made = {"fate": "failed", "why": f"{type(error).__name__}: {error}".replace("\n", " ")[:300]}
    return {"operator": name_of(op), **made, "seconds": f"{time.monotonic() - begin:.1f}"}


def prepare(a):
    """The operators, in an order that was drawn once. To list them asks the GPU, so that a process that did cannot fork one that uses it."""
    from torch.testing._internal.common_methods_invocations import op_db
    OPS.extend(op for op in op_db if re.search(a.only, op.name) and op.supports_dtype(getattr(torch, a.dtype), a.device))
    random.Random(SEED).shuffle(OPS)


def serve(link, a):
    """A worker: a row for every number of an operator, until the number is None."""
    prepare(a)
    for job in iter(link.recv, None):
        link.send(row(job))


class Worker:
    """One process and the operator that it works on. A process that ended is seen as the end of its pipe."""

    def __init__(self, a):
        self.a, self.k, spawn = a, None, multiprocessing.get_context("spawn")
        self.link, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(theirs, a), daemon=True)
        self.process.start(), theirs.close()

    def begin(self, jobs):
        job = next(jobs, None)
        self.k = job and job[0]
        try:
            self.link.send(job)
        except BrokenPipeError:  # it ended while it had no work: the next read says so
            pass
        return job is not None

    def end(self):
        """The row of its operator, and a worker that lives: itself, or another in place of one that crashed."""
        try:
            return self.link.recv(), self
        except (EOFError, ConnectionResetError):
            self.process.join()
            return {"operator": name_of(OPS[self.k]), "fate": "crashed", "why": f"exit status {self.process.exitcode}"}, Worker(self.a)


def rows(a, end):
    """Rows of all operators, in the order in which they end."""
    jobs = ((k, a, end) for k in range(len(OPS)))
    busy = [w for w in (Worker(a) for _ in range(a.workers)) if w.begin(jobs)]
    while busy:
        ready = multiprocessing.connection.wait([w.link for w in busy])
        for w in [w for w in busy if w.link in ready]:
            made, heir = w.end()
            busy.remove(w)
            if heir.begin(jobs):
                busy.append(heir)
            yield made


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu")), p.add_argument("--csv", default=os.devnull)
    p.add_argument("--only", default="", help="a regular expression of names"), p.add_argument("--dtype", default="float32")
    p.add_argument("--samples", type=int, default=4, help="of an operator")
    p.add_argument("--time", type=float, default=10, help="seconds of Mica for the samples of an operator")
    p.add_argument("--workers", type=int, default=1), p.add_argument("--until", type=float, default=math.inf, help="seconds after which none begins")
    a = p.parse_args()
    end = time.monotonic() + a.until
    import mica
    os.environ.setdefault("MICA_GPU_LOCK", os.path.join(tempfile.mkdtemp(), "lock"))
    prepare(a)
    version = " ".join(map(str, mica._mica.version()))
    counts, same = collections.Counter(), {"dtype": a.dtype, "device": device_name(a.device), "torch": torch.__version__, "mica": version}
    with open(a.csv, "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader()
        for made in rows(a, end):
            if made is None:
                continue
            out.writerow(made | same), f.flush()
            counts[made["fate"]] += 1
            if made["fate"] in FAULTS:
                print(f"{made['operator']:36} {made['fate']:7} {made.get('worst', ''):>9}  {made.get('why', '')[:140]}", flush=True)
    print(", ".join(f"{counts[k]} {k}" for k in ("right", *FAULTS, "left")))
    return int(any(counts[k] for k in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
