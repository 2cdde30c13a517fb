#!/usr/bin/env python3
"""Tasks of KernelBench, each in a process of its own: the child of kernelbench.py. It imports torch, Mica and the suite once, uses no GPU, and
forks a process for each request. Requests are lines of JSON on standard input, answers lines of JSON on standard output."""
import argparse
import ast
import contextlib
import copy
import faulthandler
import glob
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import math
import os
import select
import signal
import statistics
import sys
import tempfile
import time
import traceback
import types

import torch

SEED, LARGE, CHECKS, WARM_UP, ROUNDS = 42, 256, 5, 2, 5
TIMING = 2  # cores that compilers leave to who times
LEAST, SECONDS = 6, 0.5  # calls that are timed, and seconds that they may take where there are more
EXCUSED = 2  # of eager mode's error, what Mica's may be where both fail the check
PATIENCE = 20  # seconds for the size of a task
LOOK = 0.02  # seconds between two looks for processes that have ended
COPIES = 2.75  # of inputs, weights and results that are alive at once; at its turn a task may have more


class Scaled(ast.NodeTransformer):
    """Whole numbers of LARGE and more, smaller."""

    def __init__(self, by):
        self.by = by

    def visit_Constant(self, node):
        return ast.Constant(max(node.value // self.by, 1)) if type(node.value) is int and node.value >= LARGE else node


def load(path, scale):
    """The names of a task's file. Its sizes stand in assignments outside of classes and functions."""
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    if scale > 1:
        tree.body = [Scaled(scale).visit(s) if isinstance(s, ast.Assign) else s for s in tree.body]
        tree = ast.fix_missing_locations(tree)
    names = {"__name__": "task"}
    exec(compile(tree, path, "exec"), names)
    return names


def size(path, scale):
    """Bytes, of tensors without memory."""
    task = load(path, scale)
    with torch.device("meta"), torch.no_grad():
        model, inputs = task["Model"](*task["get_init_inputs"]()), task["get_inputs"]()
        results = model(*[x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs])
    results = results if isinstance(results, (tuple, list)) else [results]
    tensors = [t for t in [*inputs, *model.parameters(), *results] if isinstance(t, torch.Tensor)]
    n = sum(t.numel() * t.element_size() for t in tensors)
    return {"bytes": int(COPIES * n)}


def late(*_):
    raise TimeoutError


def sizes(paths, scale):
    found = {}
    signal.signal(signal.SIGALRM, late)
    for path in paths:
        signal.alarm(PATIENCE)
        try:
            found[path] = size(path, scale)
        except Exception:  # tasks that read values, or have operators that such tensors lack
            found[path] = {"bytes": 8 << 30}
        signal.alarm(0)
    return found


# ---- the suite ----

class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that the suite imports for other things than a check, where they are not installed: modules of empty classes."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = self.empty
        return module

    @staticmethod
    def empty(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *_, **fields: self.__dict__.update(fields)})

    def exec_module(self, module):
        pass


def imported(folder):
    """The packages that files of a folder import."""
    found = set()
    for file in glob.glob(os.path.join(folder, "*.py")):
        with open(file, encoding="utf-8") as f:
            nodes = list(ast.walk(ast.parse(f.read())))
        found |= {a.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
        found |= {n.module.split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and n.module and not n.level}
    return found


def suite(checkout, device):
    """kernelbench.eval and kernelbench.timing."""
    if device == "cpu":  # the suite waits for a GPU
        torch.cuda.synchronize = lambda *_, **__: None
    sys.path.insert(0, os.path.join(checkout, "src"))
    sys.meta_path.append(absent := Absent(imported(os.path.join(checkout, "src", "kernelbench"))))
    found = importlib.import_module("kernelbench.eval"), importlib.import_module("kernelbench.timing")
    sys.meta_path.remove(absent)
    return found


def drawn(f, device):
    """f with random numbers from the device: those of gigabytes take tens of seconds on a CPU."""
    def call(*args):
        with device:
            return f(*args)
    return call


def samples(timing, f, inputs, trials, device, warm_up):
    """Returns the microseconds of each of `trials` calls, measured by the suite."""
    if device.type == "cuda":
        ms = timing.get_timing_function("cuda_event")(f, inputs, num_warmup=warm_up, num_trials=trials, discard_first=1, verbose=False, device=device)
        return [1e3 * x for x in ms]
    for _ in range(warm_up):
        f(*inputs)
    took = []
    for _ in range(trials):
        begin = time.perf_counter()
        f(*inputs)
        took.append(1e6 * (time.perf_counter() - begin))
    return took


def timed(timing, runs, inputs, trials, device):
    """The microseconds of each call of each. Calls are the suite's, in rounds that alternate, each in a turn of its own on a GPU. Each round begins
    with another one."""
    from mica.torch.measure import PAUSE, turn_on
    with turn_on(device):
        once = max(statistics.mean(samples(timing, f, inputs, 1, device, WARM_UP)) for f in runs.values()) / 1e6
    calls = max(LEAST, min(trials, int(SECONDS / once)))
    rounds = min(ROUNDS, calls // 2)
    took = {name: [] for name in runs}
    names = list(runs)
    for r in range(rounds):
        first = r % len(names)
        with turn_on(device):
            for name in names[first:] + names[:first]:
                took[name] += samples(timing, runs[name], inputs, calls // rounds, device, 1)
        if device.type == "cuda":
            time.sleep(2 * PAUSE)  # who waits for a turn asks after each pause
    return took


def in_float64(model, inputs):
    return copy.deepcopy(model).double()(*(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs))


def errors(model, runs, inputs):
    """Relative norms of the difference to the model in float64; none where there is no room or no operator for that."""
    from mica.torch.measure import distance
    try:
        want = in_float64(model, inputs)
        off = {name: distance(f(*inputs), want) for name, f in runs.items()}
        return {name: o / scale for name, (o, scale) in off.items()}
    except Exception:
        return {}


def is_ill(model, inputs, tolerance):
    """Whether eager mode itself fails the check where the model in float64 is the reference: its results are rounding errors."""
    return not torch.allclose(model(*inputs).double(), in_float64(model, inputs), rtol=tolerance, atol=tolerance)


def in_turn(f):
    """The function, called while this process has the turn on the GPU, so that tasks do not disturb each other's times."""
    from mica.torch.measure import turn

    def call(*args, **kwargs):
        with turn():
            return f(*args, **kwargs)
    return call


# ---- where the seconds go ----

class Spent:
    """Seconds by phases of a task: each ends when the next one begins."""

    def __init__(self, since):
        self.phases, self.name, self.begun = {}, "start", since

    def begin(self, name):
        now = time.time()
        self.phases[self.name] = self.phases.get(self.name, 0) + now - self.begun
        self.name, self.begun = name, now

    def text(self):
        self.begin("")
        return ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.phases.items())


STAGES = ("search", "pick", "inputs", "reference on the GPU", "reference kernels", "reference checked", "load", "run", "compilers", "check", "rounds",
          "last round", "final", "turn", "prove")  # spans of a job


def spans(path):
    """Seconds of a job's stages, and when the first program was measured, from its trace."""
    try:
        with open(path, encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("pass", "stage")]
    except (OSError, ValueError, KeyError):
        return ""
    took = {s: sum(e["dur"] for e in events if e["name"] == s) / 1e6 for s in STAGES}
    measured = [e["ts"] + e["dur"] for e in events if e["name"] == "rounds"]
    begun = min((e["ts"] for e in events), default=0)
    first = [f"first measured {(min(measured) - begun) / 1e6:.1f}"] if measured else []
    return ", ".join([*first, f"batches {len(measured)}", *(f"{s} {t:.1f}" for s, t in took.items() if t >= 0.05)])


@contextlib.contextmanager
def traced():
    """A list that gets a line for each program that Mica optimizes meanwhile: where its seconds went."""
    import mica
    optimize, lines = mica.optimize, []

    def watched(*args, **kwargs):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            try:
                return optimize(*args, trace=trace, **kwargs)
            finally:
                lines.append(spans(trace))
    mica.optimize = watched
    try:
        yield lines
    finally:
        mica.optimize = optimize


# ---- a task ----

def compiled(model, inputs, options):
    """The model by Mica, called once, and what became of its graphs."""
    from mica.torch import backend
    from mica.torch.compiler import _listeners
    graphs = []
    _listeners.lists = [graphs]
    f = torch.compile(model, backend=backend, options=options)
    f(*inputs)
    return f, graphs


@contextlib.contextmanager
def compiled_by_inductor():
    """A list that gets, for each graph that Mica leaves to Inductor as it came, how many graphs Inductor did not have in its cache then."""
    from mica.torch import compiler
    leave, counts = compiler._as_it_is, []

    def counted(*args):
        before = misses()
        run = leave(*args)
        counts.append(misses() - before)
        return run
    compiler._as_it_is = counted
    try:
        yield counts
    finally:
        compiler._as_it_is = leave


def misses():
    """Graphs that Inductor had to compile, as its cache did not have them."""
    from torch._dynamo.utils import counters
    return counters["inductor"]["fxgraph_cache_miss"] + counters["inductor"]["fxgraph_cache_bypass"]


def out_of_memory(check):
    """Raises the error if the check found no room: the task runs again alone."""
    if "out of memory" in str(check.metadata.get("runtime_error", "")):
        raise torch.OutOfMemoryError(str(check.metadata["runtime_error"]))


def fate(check, trials):
    if check.correctness:
        return "right", ""
    out_of_memory(check)
    m = check.metadata
    if "runtime_error" in m:
        return "failed", f"{m.get('runtime_error_name', '')}: {m['runtime_error']}"[:300]
    return "wrong", f"{m.get('correctness_issue', '')}, largest difference {max(map(float, m.get('max_difference', ['nan'])))}, {trials} trials right"


def fit(evaluation, model, get_inputs, device):
    """Why the suite's check cannot tell anything of a task: eager mode fails it against itself, as with dropout; "" where it passes."""
    check = evaluation.run_and_check_correctness(model, model, get_inputs, {}, 1, seed=SEED, device=device)
    out_of_memory(check)
    return "" if check.correctness else "eager mode fails the suite's check against itself"


def is_near(off):
    """Whether Mica's result is nearly as right as eager mode's. off: errors against float64."""
    return off.get("mica", math.inf) <= EXCUSED * off.get("eager", 0)


def nothing(ended, why):
    return {"fate": ended, "why": why[:300], "us": {}, "mean_us": {}, "errors": {}, "trials": "", "calls": "", "nodes": 0, "taken": 0, "programs": 0,
            "same_code": "", "said": "", "spent": "", "job": ""}


def cores():
    """The cores for compilers, and those for who times; where there are few, all are for both."""
    every = sorted(os.sched_getaffinity(0))
    return (every[:-TIMING], every[-TIMING:]) if len(every) >= 4 * TIMING else (every, every)


def run(a):
    spent = Spent(a.begun)
    compiling, timing_cores = cores()
    os.sched_setaffinity(0, compiling)
    from mica.torch import measure
    from mica.torch.measure import turn_on
    from mica.torch.summary import five_lines
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    evaluation, timing = a.suite or suite(a.checkout, a.device)
    torch._inductor.config.fallback_random = True  # dropout has eager mode's numbers
    # f32 stays f32, as in products: else Inductor's layouts make a convolution tf32 that is f32 in eager mode
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(2)
    CachingAutotuner.benchmark_all_configs = in_turn(CachingAutotuner.benchmark_all_configs)
    device = torch.device(a.device, 0) if a.device == "cuda" else torch.device("cpu")
    task = load(a.task, a.scale)
    get_inputs = drawn(task["get_inputs"], device)

    def inputs_of(seed):
        evaluation.set_seed(seed)
        return [evaluation._process_input_tensor(x, device) for x in get_inputs()]
    if a.device == "cuda":  # makes its context and loads cuBLAS and cuDNN outside of the turn
        torch.ones(16, 16, device=device) @ torch.ones(16, 16, device=device)
        torch.nn.functional.conv2d(torch.ones(1, 8, 8, 8, device=device), torch.ones(8, 8, 3, 3, device=device))
        torch.cuda.synchronize()
    spent.begin("eager mode")
    evaluation.set_seed(SEED)
    begun = task["get_init_inputs"]()
    evaluation.set_seed(SEED)
    with turn_on(device):
        model = drawn(task["Model"], device)(*begun).to(device=device, dtype=torch.float32)
        inputs = inputs_of(SEED)
    with torch.no_grad():
        try:
            with turn_on(device):
                model(*inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            return nothing("unfit", f"eager mode fails: {error}")
        with turn_on(device):  # before Mica is asked anything
            unfit = fit(evaluation, model, get_inputs, device)
            if unfit:
                return nothing("unfit", unfit)
            free(device)
        spent.begin("Inductor")
        inductor = torch.compile(model)
        inductor(*inputs)
        free(device)
        spent.begin("Mica")
        tolerance = evaluation.get_tolerance_for_precision(torch.float32)
        options = {"time": a.time, "min_ops": 1, "summary": False, "close": (tolerance, tolerance), "take": a.take,
                   **({} if a.level == 3 else {"max_ops": 256})}
        with traced() as jobs, compiled_by_inductor() as missed:
            mica, graphs = compiled(model, inputs, options)
        taken = any(g.used for g in graphs)
        same_code = int(not taken and not any(missed))
        del inputs
        free(device)
        spent.begin("check")
        os.sched_setaffinity(0, timing_cores)
        # everything is compiled: from here on the GPU is this process's, by turns
        with torch.compiler.set_stance("fail_on_recompile"), contextlib.redirect_stdout(io.StringIO()):
            with turn_on(device):
                check = evaluation.run_and_check_correctness(model, mica, get_inputs, {}, CHECKS, seed=SEED, device=device)
                free(device)
            with turn_on(device):
                runs, inputs = {"eager": model, "inductor": inductor, "mica": mica}, inputs_of(SEED)
            spent.begin("timing")
            took = timed(timing, runs, inputs, a.trials, device)
            trials = check.metadata.get("correctness_trials", "")
            ended, why = fate(check, trials)
            spent.begin("errors")
            off = {}
            if ended == "wrong" or taken:
                with turn_on(device):
                    off = errors(model, runs, inputs)
            if ended == "wrong":
                with turn_on(device):
                    other = evaluation.run_and_check_correctness(model, inductor, get_inputs, {}, CHECKS, seed=SEED, device=device)
                    ill = is_near(off) and is_ill(model, inputs, tolerance)
                why += "; Inductor's results fail the check, too" * (not other.correctness) + "; no program of Mica's is in it" * (not taken)
                if ill:
                    ended, why = "unfit", f"eager mode fails the check against float64, its error is {off['eager']:.2g}; {why}"
    lines = five_lines(graphs).split("\n")
    return {"fate": ended, "why": why, "trials": trials.strip("()").replace(" ", ""), "calls": len(took["eager"]), "errors": off,
            "us": {name: statistics.median(x) for name, x in took.items()}, "mean_us": {name: statistics.mean(x) for name, x in took.items()},
            "nodes": sum(len(g.nodes) for g in graphs), "taken": sum(len(g.taken) for g in graphs), "programs": sum(len(g.used) for g in graphs),
            "same_code": same_code, "said": "; ".join(line.strip() for line in lines[1:4]),
            "spent": f"{spent.text()}; turns {measure._turn.waited:.1f}",
            "job": "; ".join(line for line in jobs if line)[:600]}


def free(device):
    if device.type == "cuda":
        torch.cuda.empty_cache()


# ---- the process that forks ----

# Modules that compiling imports when it is used first, which takes seconds.
USED = ("torch._dynamo.convert_frame", "torch._functorch.aot_autograd", "torch._inductor.compile_fx", "torch._inductor.codegen.triton",
        "torch._inductor.codegen.cpp", "torch._inductor.fx_passes.post_grad", "torch._inductor.runtime.triton_heuristics", "mica.torch", "triton")


def prepare(checkout, device):
    """Imports all that tasks use. No thread is begun and no GPU is used: a forked process could not go on with either."""
    for name in USED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from mica.torch import engine
    engine.targets()
    available = torch.cuda.is_available
    torch.cuda.is_available = lambda: False  # the suite would use the GPU when it is imported
    try:
        return suite(checkout, device)
    finally:
        torch.cuda.is_available = available


def facts(a):
    import mica
    from mica.torch import engine, options
    folder = options.Options().folder()
    engine._own(folder)
    name = torch.cuda.get_device_name() if a.device == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "mica": " ".join(map(str, mica._mica.version())), "folder": folder}


def answer(a):
    if a.what == "facts":
        return facts(a)
    return sizes(a.paths, a.scale) if a.what == "sizes" else run(a)


def forked(request, prepared):
    """The process id of one that writes its answer to the file request["out"], and what it says to the file request["log"]."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        os.environ.update(request["environment"])
        for to, flags, name in ((0, os.O_RDONLY, os.devnull), (1, os.O_WRONLY, request["log"]), (2, os.O_WRONLY, request["log"])):
            os.dup2(os.open(name, flags | (os.O_APPEND if to else 0)), to)
        faulthandler.dump_traceback_later(request["dumped"])
        made = answer(types.SimpleNamespace(**request, suite=prepared))
        with open(request["out"], "w", encoding="utf-8") as f:
            json.dump(made, f)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def serve(prepared, requests, answers):
    """Forks a process for each request, until requests end. An answer {"pid"} follows at once, and {"ended", "status"} when it has ended."""
    left, running, open_ = b"", 0, True
    while open_ or running:
        if select.select([requests] if open_ else [], [], [], LOOK)[0]:
            read = os.read(requests, 1 << 16)
            open_, left = bool(read), left + read
            *lines, left = left.split(b"\n")
            for line in lines:
                answers.write(json.dumps({"pid": forked(json.loads(line), prepared)}) + "\n")
                running += 1
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            answers.write(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}) + "\n")
            running -= 1
        answers.flush()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--checkout"), p.add_argument("--device")
    p.add_argument("--bare", action="store_true", help="imports torch alone")
    a = p.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what imports say is no answer
    serve(None if a.bare else prepare(a.checkout, a.device), 0, answers)


if __name__ == "__main__":
    main()
