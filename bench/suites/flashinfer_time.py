#!/usr/bin/env python3
"""Times programs of FlashInfer-Bench's definitions on this machine's GPU: Mica's, the definition's reference, and what torch has for it.

    flashinfer_time.py DEFINITION.json... --csv FILE [--workloads FILE.jsonl]... [--time S] [--workers N] [--until S] [--device cuda|cpu]

Definitions and workloads are files of github.com/flashinfer-ai/flashinfer-bench (`flashinfer_trace/`); nothing of it is copied. Workloads of a
definition are those with its name. A definition without any takes those of --axes. Each is a program (flashinfer.py), which Mica has --time seconds
for. The order of all workloads was drawn once with a fixed seed, so what has run after --until seconds is a random sample.

Baselines are the reference, torch's own operator (`linear`, `rms_norm`), and for norms the reference by torch.compile. Column `best_us` is the least
of these. A time is the median of replays of a CUDA graph, in rounds that alternate. Calls in a graph rotate among copies of the inputs, as many as
exceed the L2 cache, and 64 at most. A result is right if each element is as near to the reference as the suite asks: within 0.01, or within 1%.
Exit status 1: a result is wrong, or a workload failed.
"""
import argparse
import csv
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
import traceback

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flashinfer import Refused, all_sizes, epsilon, extents, program  # noqa: E402
from kernelbench import device_name  # noqa: E402

COLUMNS = ["op_type", "definition", "sizes", "fate", "mica_us", "reference_us", "torch_us", "compiled_us", "best_us", "over_best", "largest",
           "seconds", "time", "device", "torch", "mica", "why"]
NEAR = 0.01        # of the suite: absolute and relative tolerance
SETS, CACHE = 64, 2.2  # most copies of the inputs, and how many L2 caches they fill
CALLS, GRAPH, ROUNDS = 64, 5e3, 15  # most calls of a graph, microseconds of one, and rounds
SEED = 20


def inputs_of(definition, sizes, device, generator):
    """Random tensors as the suite draws them."""
    return [torch.randn(extents(definition, t, sizes), generator=generator, device=device).to(getattr(torch, t["dtype"]))
            for t in definition["inputs"].values()]


def operators(definition, reference):
    """Other ways of torch for a definition: an operator of its own, and the reference compiled, which for a product calls the same library."""
    if definition["op_type"] == "gemm":
        return {"torch": torch.nn.functional.linear}
    compiled = {"compiled": torch.compile(reference, dynamic=False)}
    if len(definition["inputs"]) > 2:
        return compiled
    eps = float(epsilon(definition))
    return compiled | {"torch": lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, eps)}


def once(f, sets, calls):
    """Microseconds of `calls` calls on the CPU."""
    begin = time.perf_counter()
    for k in range(calls):
        f(*sets[k % len(sets)])
    return 1e6 * (time.perf_counter() - begin)


def captured(f, sets, calls):
    """A CUDA graph of calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for k in range(calls):
            f(*sets[k % len(sets)])
    return graph


def replay(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end)


def timed(ways, sets, device):
    """Name -> median microseconds of a call."""
    for f in ways.values():
        for _ in range(3):
            f(*sets[0])
    if device == "cpu":
        run = {name: lambda f=f: once(f, sets, len(sets)) / len(sets) for name, f in ways.items()}
    else:
        torch.cuda.synchronize()
        slowest = max(replay(captured(f, sets, 2)) / 2 for f in ways.values())
        calls = max(2, min(CALLS, int(GRAPH / slowest)))
        graphs = {name: captured(f, sets, calls) for name, f in ways.items()}
        run = {name: lambda g=g: replay(g) / calls for name, g in graphs.items()}
    took, names = {name: [] for name in ways}, list(ways)
    for r in range(ROUNDS + 1):
        for name in names[r % len(names):] + names[:r % len(names)]:
            took[name].append(run[name]())
    return {name: statistics.median(x[1:]) for name, x in took.items()}


def measure(definition, sizes, name, a):
    import mica
    from mica.torch.measure import turn
    generator = torch.Generator(a.device).manual_seed(SEED)
    begin = time.monotonic()
    first = inputs_of(definition, sizes, a.device, generator)
    target = "cpu" if a.device == "cpu" else mica._mica.Context().gpu_target(0)
    f = mica.optimize(program(definition, sizes, name), target=target, time=a.time, progress=False)
    seconds = time.monotonic() - begin
    scope = {"__name__": __name__}  # a module that torch.compile finds
    exec(compile(definition["reference"], "reference", "exec"), scope)
    ways = {"mica": f, "reference": scope["run"], **operators(definition, scope["run"])}
    with torch.no_grad(), turn():
        got, want = f(*first), scope["run"](*first)
        got, want = (x if isinstance(x, (tuple, list)) else (x,) for x in (got, want))
        far = max(float(((g.float() - w.float()).abs() / (NEAR * w.float().abs()).clamp(min=NEAR)).max()) for g, w in zip(got, want, strict=True))
        n = sum(x.numel() * x.element_size() for x in (*first, *want))
        cache = torch.cuda.get_device_properties(0).L2_cache_size if a.device == "cuda" else 0
        sets = [first] + [inputs_of(definition, sizes, a.device, generator) for _ in range(min(SETS, math.ceil(CACHE * cache / n)) - 1)]
        us = timed(ways, sets, a.device)
    best = min(v for k, v in us.items() if k != "mica")
    return {"fate": "right" if far <= 1 else "wrong", "best_us": f"{best:.2f}", "over_best": f"{best / us['mica']:.3f}", "largest": f"{far:.2f}",
            "seconds": f"{seconds:.1f}", **{f"{k}_us": f"{v:.2f}" for k, v in us.items()}}


def row(job):
    definition, sizes, a, end = job
    if time.monotonic() > end:
        return None
    text = ", ".join(f"{k}={v}" for k, v in sizes.items())
    made = {"op_type": definition["op_type"], "definition": definition["name"], "sizes": text}
    try:
        made |= measure(definition, sizes, "_".join([definition["name"], *map(str, sizes.values())]), a)
    except Exception as error:
        traceback.print_exc()
        made |= {"fate": "failed", "why": f"{type(error).__name__}: {error}"[:200]}
    return made


def jobs_of(a):
    found = []
    for path in a.definitions:
        with open(path, encoding="utf-8") as f:
            definition = json.load(f)
        rows = []
        for file in a.workloads:
            with open(file, encoding="utf-8") as f:
                rows += [r["workload"]["axes"] for r in map(json.loads, filter(str.strip, f)) if r["definition"] == definition["name"]]
        own = argparse.Namespace(workloads=None, axes=[",".join(f"{k}={v}" for k, v in r.items()) for r in rows] or a.axes)
        try:
            for sizes in all_sizes(definition, own):
                program(definition, sizes, "p")
                found.append((definition, sizes))
        except Refused as why:
            print(f"{definition['name']}: {why}")
    random.Random(SEED).shuffle(found)
    return found


def summary(rows):
    for kind in sorted({r["op_type"] for r in rows}):
        some = [r for r in rows if r["op_type"] == kind]
        x = [float(r["over_best"]) for r in some if r["fate"] == "right"]
        mean = math.exp(sum(map(math.log, x)) / len(x)) if x else math.nan
        wrong, failed = (sum(r["fate"] == k for r in some) for k in ("wrong", "failed"))
        print(f"{kind:20} {len(some):4} run, {len(x)} right, {wrong} wrong, {failed} failed;"
              f" at least as fast as the best baseline {sum(v >= 1 for v in x)}, within 3% {sum(v >= 0.97 for v in x)}; geometric mean {mean:.3f}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("definitions", nargs="+"), p.add_argument("--workloads", action="append", default=[]), p.add_argument("--csv", required=True)
    p.add_argument("--axes", action="append", default=[], help="NAME=VALUE, of definitions without workloads")
    p.add_argument("--time", type=float, default=30, help="seconds of Mica for a program"), p.add_argument("--workers", type=int, default=1)
    p.add_argument("--until", type=float, default=math.inf, help="seconds after which no workload begins")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    a = p.parse_args()
    end, rows = time.monotonic() + a.until, []
    import mica  # before processes are forked: it uses no GPU
    import mica.torch  # noqa: F401
    os.environ.setdefault("MICA_GPU_LOCK", os.path.join(tempfile.mkdtemp(), "lock"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    same = {"time": a.time, "torch": torch.__version__, "mica": " ".join(map(str, mica._mica.version()))}
    with open(a.csv, "w", newline="") as f, multiprocessing.get_context("fork").Pool(a.workers) as pool:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader()
        for made in pool.imap_unordered(row, [(d, s, a, end) for d, s in jobs_of(a)]):
            if made is None:
                continue
            rows.append(made), out.writerow(made | same | {"device": device_name(a.device)}), f.flush()
            print(f"{made['definition']:24} {made['sizes']:18} {made['fate']:7} {made.get('mica_us', ''):>9} {made.get('best_us', ''):>9}"
                  f" {made.get('over_best', ''):>7}  {made.get('why', '')[:80]}", flush=True)
    summary(rows)
    return int(any(r["fate"] != "right" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
