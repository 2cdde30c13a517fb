#!/usr/bin/env python3
"""bench/cpu_peers.py - Mica beside onnxruntime and jax.jit on the CPU, in one process.

    python3 -m venv build/peers && build/peers/bin/pip install numpy onnx onnxruntime "jax[cpu]"
    build/peers/bin/python bench/cpu_peers.py --csv bench/cpu_peers.csv
    build/peers/bin/python bench/cpu_peers.py --only softmax --rounds 5

Peers.  Mica: the C that `mica optimize --target cpu --measure 16` saves, compiled with the line at the head of its
header and called through ctypes; the program's inputs and its output are numpy arrays. onnxruntime: models made by
onnx.helper, every graph optimization, two threads, inputs and output bound once (no copy, no allocation in a call).
jax: jit, inputs on the device, the result waited for. A peer may bring several forms of a workload (operators of its
own that fuse more); each is a row, and the best of a peer is what counts. All see the same numbers; every result is
held against float64 first, and what is wrong is not timed.

How it times.  In a round every engine has a turn, in an order that rotates: a pause in which the threads of others fall
asleep, two calls unmeasured, then calls of which each is timed, for at least 30 ms; the turn's median is its figure.
A turn in which other processes took over 4 % of the machine, or in which this one's threads waited for a processor for
over 2 % of it, is run again, and counted where patience ends (loud_turns). With --realtime the turns go before all
other processes, for a machine in use: then only their traffic in caches and memory is left. The table has the median
over rounds, the quartiles and the least. The floor is a copy of as many bytes as the program has to move, timed as another engine.
"""
import argparse
import csv
import ctypes
import datetime
import mmap
import os
import platform
import subprocess
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
import numpy as np  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from commit import commit  # noqa: E402
from cpu_peers_work import WORK, jax_forms, onnx_forms  # noqa: E402
from saved_kernel import saved_kernel  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
THREADS = 2
TURN_S, PAUSE_S = 0.03, 0.02
MAX_OTHERS, MAX_WAITED, TRIES = 0.04, 0.02, 50
HUGE = 2 << 20
TOLERANCE = 2e-5  # relative norm of the difference from float64


# ---- engines: a name, a call without arguments, and .result() with the result of the last call ----

class Engine:
    def __init__(self, name, form, call, result):
        self.name, self.form, self.call, self.result, self.turns, self.error = name, form, call, result, [], 0.0


def huge_room(size):
    """A workspace like that of Mica's modules: on huge pages if the system provides them."""
    room = mmap.mmap(-1, size + 2 * HUGE)
    room.madvise(mmap.MADV_HUGEPAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return room, at + -at % HUGE


def mica_engine(work, arrays, shape, options):
    """The saved kernel: optimized, compiled, loaded; inputs and the output are numpy's."""
    out = os.path.join(options.folder, "".join(c if c.isalnum() else "_" for c in work.name))
    command = [options.mica, "optimize", os.path.join(ROOT, work.file), "--dtype", "f32", "--target", "cpu", "--quiet", "--fresh",
               "--threads", str(THREADS), "--measure", "16", "--out", out]
    for key, value in work.params.items():
        command += ["--set", "%s=%d" % (key, value)]
    subprocess.run((["chrt", "-r", "1"] if options.realtime else []) + command, check=True)
    lib = saved_kernel(out)
    run, need = getattr(lib, "mica_" + work.program), getattr(lib, "mica_%s_workspace" % work.program)
    need.restype = ctypes.c_size_t
    room, at = huge_room(need())
    result = np.empty(shape, np.float32)
    inputs = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    outputs = (ctypes.c_void_p * 1)(result.ctypes.data)
    memory = ctypes.c_void_p(at)
    keep = (room, arrays)  # live as long as the call
    return Engine("mica", "", lambda run=run, keep=keep: run(inputs, outputs, memory), lambda: result)


def onnx_engines(work, arrays, shape):
    import onnxruntime as ort
    for form, model in onnx_forms(work, shape):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            bound, result = session.io_binding(), np.empty(shape, np.float32)
            for i, a in zip(session.get_inputs(), arrays):
                bound.bind_ortvalue_input(i.name, ort.OrtValue.ortvalue_from_numpy(a))
            held = ort.OrtValue.ortvalue_from_numpy(result)
            bound.bind_ortvalue_output(session.get_outputs()[0].name, held)
            session.run_with_iobinding(bound)
        except Exception as e:  # this version lacks the form
            print("# onnxruntime %s of %s: %s" % (form, work.name, str(e).splitlines()[0][:160]), file=sys.stderr)
            continue
        yield Engine("onnxruntime", form, lambda s=session, b=bound: s.run_with_iobinding(b),
                     lambda h=held: h.numpy())


def jax_engines(work, arrays):
    import jax
    device = [jax.device_put(a) for a in arrays]
    for form, function in jax_forms(work):
        fast = jax.jit(function).lower(*device).compile()
        last = [None]

        def call(fast=fast, last=last):
            last[0] = fast(*device).block_until_ready()
        yield Engine("jax", form, call, lambda last=last: np.asarray(last[0]))


def copy_engine(work, arrays, shape):
    """Copies the bytes that the program must move at least: reads half, writes half, with two threads of numpy."""
    from concurrent.futures import ThreadPoolExecutor
    floats = (sum(a.size for a in arrays) + int(np.prod(shape))) // 2
    src, dst = np.ones(floats, np.float32), np.zeros(floats, np.float32)
    pool, half = ThreadPoolExecutor(1), floats // 2

    def call():
        other = pool.submit(np.copyto, dst[half:], src[half:])
        np.copyto(dst[:half], src[:half])
        other.result()
    return Engine("copy", "", call, lambda: None)


# ---- timing ----

def waited_ns():
    """Time in which threads of this process were ready but had no processor."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/schedstat" % task) as f:
                total += int(f.read().split()[1])
        except OSError:
            pass
    return total


def busy_s():
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, soft, steal = [int(x) for x in f.readline().split()[1:9]]
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def scheduled(policy, priority):
    for task in os.listdir("/proc/self/task"):
        try:
            os.sched_setscheduler(int(task), policy, os.sched_param(priority))
        except ProcessLookupError:  # the thread has ended
            pass


def one_turn(engine, realtime):
    """Median seconds of a call, and whether the machine was otherwise idle."""
    time.sleep(PAUSE_S)
    if realtime:
        scheduled(os.SCHED_RR, 5)
    busy, mine, waited, start = busy_s(), time.process_time(), waited_ns(), time.perf_counter()
    engine.call(), engine.call()
    took, end = [], time.perf_counter() + TURN_S
    while len(took) < 5 or time.perf_counter() < end:
        t = time.perf_counter_ns()
        engine.call()
        took.append(time.perf_counter_ns() - t)
    wall = time.perf_counter() - start
    if realtime:
        scheduled(os.SCHED_OTHER, 0)
    others = busy_s() - busy - (time.process_time() - mine)
    quiet = others < MAX_OTHERS * wall * os.cpu_count() + 0.015 and waited_ns() - waited < MAX_WAITED * wall * 1e9
    return float(np.median(took)) / 1e9, quiet


def time_all(engines, options):
    """Runs rounds in rotating order. Returns the number of turns that were disturbed."""
    loud = 0
    for r in range(options.rounds):
        for k in range(len(engines)):
            engine = engines[(k + r) % len(engines)]
            for attempt in range(options.patience):
                seconds, quiet = one_turn(engine, options.realtime)
                if quiet:
                    break
                time.sleep(0.1)
            loud += not quiet
            engine.turns.append(seconds)
    return loud


# ---- the table ----

def held_against(engines, want):
    """Records with correct results."""
    good = []
    for e in engines:
        e.call()
        got = e.result()
        if got is not None:
            e.error = float(np.linalg.norm(got.astype(np.float64).reshape(want.shape) - want) / np.linalg.norm(want))
        if e.error <= TOLERANCE:
            good.append(e)
        else:
            print("# %s %s is off by %.2g and not timed" % (e.name, e.form, e.error), file=sys.stderr)
    return good


def rows_of(work, engines, facts):
    figure = {id(e): np.percentile(np.array(e.turns) * 1e6, [50, 25, 75, 0]) for e in engines}
    own = next((figure[id(e)][0] for e in engines if e.name == "mica"), float("nan"))
    for e in engines:
        mid, low, high, least = figure[id(e)]
        yield dict(workload=work.name, engine=e.name, form=e.form, us="%.2f" % mid, p25="%.2f" % low, p75="%.2f" % high, least="%.2f" % least,
                   mica_times_as_fast="%.3f" % (mid / own), rel_err="%.1e" % e.error, **facts)


def facts_of():
    import jax
    import onnxruntime
    cpu = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "?")
    return dict(cpu=cpu, threads=THREADS, commit=commit(), date=datetime.date.today().isoformat(),
                versions="onnxruntime %s; jax %s; numpy %s; python %s" % (
                    onnxruntime.__version__, jax.__version__, np.__version__, platform.python_version()))


def run_one(work, options, facts):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s, np.float32) * np.float32(k) for s, k in work.inputs]
    want = work.reference(*[a.astype(np.float64) for a in arrays])
    engines = [mica_engine(work, arrays, want.shape, options)]
    engines += onnx_engines(work, arrays, want.shape)
    engines += jax_engines(work, arrays)
    engines = held_against(engines, want) + [copy_engine(work, arrays, want.shape)]
    loud = time_all(engines, options)
    rows = list(rows_of(work, engines, dict(loud_turns=loud, rounds=options.rounds, **facts)))
    for r in rows:
        print("%-24s %-12s %-28s %10s us  [%s, %s] %9s %7s  err %s" % (
            r["workload"], r["engine"], r["form"], r["us"], r["p25"], r["p75"], r["least"], r["mica_times_as_fast"], r["rel_err"]))
    peers = [float(r["mica_times_as_fast"]) for r in rows if r["engine"] in ("onnxruntime", "jax")]
    print("%-24s %.2f times the best peer, %d loud turns\n" % (work.name, min(peers), loud), flush=True)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="workloads whose name begins with this")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--patience", type=int, default=TRIES, help="turns tried for a quiet one")
    p.add_argument("--realtime", action="store_true",
                   help="turns and searches before all others (as root), for a machine in use")
    p.add_argument("--csv", help="where the rows go")
    p.add_argument("--mica", default=os.path.join(ROOT, "build/mica"))
    p.add_argument("--folder", default=os.path.join(ROOT, "build/cpu_peers"))
    options = p.parse_args()
    facts, rows = facts_of(), []
    for work in WORK:
        if work.name.startswith(options.only):
            rows += run_one(work, options, facts)
    if options.csv and rows:
        with open(options.csv, "w", newline="") as f:
            out = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
            out.writeheader()
            out.writerows(rows)


if __name__ == "__main__":
    main()
