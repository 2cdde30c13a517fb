#!/usr/bin/env python3
"""Models by eager mode, Inductor and Mica: four in plain torch (examples/python/torch_models.py), and, if they are named, whole ones of Hugging
Face's transformers (bench/whole_models.py). On a GPU all peers run in one process. On a CPU each peer has a separate process, which
is stopped while others are timed. So spinning threads of one peer do not slow down another.

    python bench/torch_models.py [--time SECONDS] [--only NAMES] [--how calls,captured,reduce-overhead] [--dtype bfloat16] > bench/torch_models.csv
    python bench/torch_models.py --only whole,llama --how captured --dtype bfloat16 --peers inductor,reduce,autotune > bench/torch_models_h200.csv

A row is a model run in one way: by calls, with the host's time; in a CUDA graph that we capture, which leaves the host out; or as
torch.compile(mode="reduce-overhead") does it. Calls alternate; a row has the median microseconds and the quartiles of each, the relative norm of
the difference to the model in float64, and how many nodes Mica took. On a GPU (if torch sees one) in f16, on the CPU in f32 with two threads;
--dtype names another. Peers: `inductor` in its default mode or that of `how`; `reduce`, its mode reduce-overhead, which captures calls itself;
`autotune`, its search for the best products, which takes minutes; `onnxruntime` on a CPU, which has no products of bf16. `ratio` is the time of the
fastest peer over Mica's. `_first` are the seconds of a first call, each with empty caches, and `first_ratio` those of Mica over Inductor's. If no
node is taken, Mica and Inductor run the same code, and their ratio is noise.
--kernels FILE keeps the kernels of a call on a GPU, a row for each kernel of each way: launches and microseconds of a call.
With $MICA_GPU_LOCK several of these commands share a GPU: they time one after the other, but compile side by side, which makes first calls longer.
"""
import argparse
import atexit
import copy
import csv
import logging
import multiprocessing
import os
import platform
import signal
import statistics
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "examples", "python"))

import torch
import torch_models as models
from commit import commit
from torch._inductor.utils import fresh_cache
from torch_kernels import kernels

import mica
import mica.torch
from mica.torch.measure import captured, time_calls, turn_on

# How: the mode of torch.compile, other options of Mica, the mode with Inductor's search.
HOW = {"calls": ("default", {}, "max-autotune-no-cudagraphs"), "captured": ("default", {"graphs": True}, "max-autotune-no-cudagraphs"),
       "reduce-overhead": ("reduce-overhead", {}, "max-autotune")}
log = logging.getLogger("mica.torch.bench")
PEERS = ("inductor", "reduce", "autotune", "onnxruntime")
PLAIN = ("llama", "bert", "lora", "mixtral")
WHOLE = ("llama-3.2-1b", "bert-base", "vit-b16", "gpt2", "whisper-tiny")
REST = 0.005      # seconds between the calls of two processes, in which the threads of the first go to sleep
ROUND = 50e3      # microseconds of calls that a process is timed for at once


def plain(name, gpu):
    """model, inputs; smaller on the CPU."""
    d, t = (1024, 384) if gpu else (512, 64)
    if name == "llama":
        return models.LlamaLayer(d, d // 64, d // 256, d * 11 // 4), (torch.randn(1, t, d), *models.rotary(t, 64))
    if name == "bert":
        return models.BertAttention(d, d // 64), (torch.randn(2, t, d), torch.arange(t)[None] >= torch.tensor([[t - 7], [t - 3]]))
    if name == "lora":
        return models.LoraLinear(4 * d, 4 * d, 16), (torch.randn(16, 4 * d),)
    return models.MixtralExperts(d, 2 * d, 8), (torch.randn(4, d) / 8,)


def case(name, gpu, given):
    """model, inputs, the same in each process."""
    torch.manual_seed(0)
    if name in PLAIN:
        model, inputs = plain(name, gpu)
    else:
        import whole_models
        with torch.device("cuda" if gpu else "cpu"):
            model, inputs = whole_models.case(name, gpu, given.layers)[1:]
    to = ("cuda" if gpu else "cpu", dtype_of(gpu, given))
    inputs = tuple(x.to(*to) if x.is_floating_point() else x.to(to[0]) for x in inputs)
    return converted(model.to(to[0]), to[1]).eval(), inputs


def dtype_of(gpu, given):
    return getattr(torch, given.dtype or ("float16" if gpu else "float32"))


def converted(model, dtype):
    """The model with parameters of this dtype. Buffers that it computed in 32 bits, such as angles, stay as they are."""
    for p in model.parameters():
        p.data = p.data.to(dtype) if p.is_floating_point() else p.data
    return model


def in_float64(model, inputs):
    return converted(copy.deepcopy(model), torch.float64)(*(x.double() if x.is_floating_point() else x for x in inputs))


class Runs:
    """The ways to run a model in one row, made on demand: a timed call, an error, the seconds of the first call."""

    def __init__(self, model, inputs, how):
        self.model, self.inputs, self.how, self.device = model, inputs, how, inputs[0].device
        self.want = in_float64(model, inputs)
        self.calls, self.errors, self.first, self.failed, self.told = {}, {}, {}, {}, {}
        torch._dynamo.reset()

    def add(self, name, f, itself=False):
        """f: a function without arguments that returns the call. itself: the call captures itself in CUDA graphs, or is not torch's. A failure is
        printed, and the way has no time."""
        try:
            f = f()
            began = time.monotonic()
            got = f(*self.inputs)
            self.first[name] = time.monotonic() - began
            self.errors[name] = ((got.double() - self.want).norm() / self.want.norm()).item()
            call = lambda: f(*self.inputs)
            captures = self.how == "captured" or (self.how == "reduce-overhead" and name == "eager")
            with turn_on(self.device):
                self.calls[name] = captured(call) if self.device.type == "cuda" and captures and not itself else call
                self.calls[name]()
                us = time_calls(self.calls[name], 3, self.device)
            log.info("%s: first call %.1f s, then %.1f us, error %.2g", name, self.first[name], us, self.errors[name])
        except Exception as error:  # onnxruntime has its own exceptions
            self.failed[name] = f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

    def add_way(self, name, given):
        """Eager mode, a peer or Mica. Compiled ones begin with empty caches of Inductor."""
        mode, _, searching = HOW[self.how]
        if name == "eager":
            return self.add(name, lambda: self.model)
        with fresh_cache():
            if name == "mica":
                return self.add_mica(given)
            if name == "onnxruntime":
                return self.add(name, lambda: in_onnxruntime(self.model, self.inputs), itself=True)
            mode = {"inductor": mode, "reduce": "reduce-overhead", "autotune": searching}[name]
            compiled = torch.compile(self.model, backend="inductor", **({} if mode == "default" else {"mode": mode}))
            self.add(name, lambda: compiled, itself=name == "reduce" or self.how == "reduce-overhead")

    def add_mica(self, given):
        sizes = {"min_ops": given.min_ops, **({"max_ops": given.max_ops.split(",")} if given.max_ops else {})}
        options = {"time": given.time, "take": given.take, **sizes, **HOW[self.how][1], "mode": HOW[self.how][0]}
        reports = []
        mica.torch.compiler._listeners.lists = [reports]
        compiled = torch.compile(self.model, backend=mica.torch.backend, options=options)
        self.add("mica", lambda: compiled, itself=self.how == "reduce-overhead")
        mica.torch.compiler._listeners.lists = []
        e = mica.torch.Explanation(reports)
        if given.why:
            print(e.details(), file=sys.stderr)
        whole = [f"whole: {g.us:.1f} us against {g.rest_us:.1f}" for g in e.graphs if g.us is not None]
        self.told = {"nodes": sum(len(g.nodes) for g in e.graphs), "taken": len(e.taken), "graphs": len(e.graphs),
                     "programs": sum(p.taken for p in e.programs), "distinct": sum(not p.same_as for p in e.programs),
                     "said": "; ".join([*whole, *(p.line() for p in e.programs if not p.same_as)])}

    def timed(self, rounds):
        """name -> microseconds, in rounds that alternate."""
        with turn_on(self.device):
            for f in self.calls.values():
                f(), f(), f()
            n = max(1, min(20, int(500 / max(time_calls(f, 1, self.device) for f in self.calls.values()))))
            times = {k: [] for k in self.calls}
            for _ in range(rounds):
                for k, f in self.calls.items():
                    times[k].append(time_calls(f, n, self.device))
        return times

    def close(self):
        """Frees nothing: no process outlives it."""


def serve(pipe, name, way, how, given):
    """The process of one way: sends its errors and first seconds. Then, for each request, it makes one untimed call and times n calls."""
    torch.set_num_threads(2)
    with torch.no_grad():
        warm("cpu")
        runs = Runs(*case(name, False, given), how)
        runs.add_way(way, given)
        pipe.send((runs.errors, runs.first, runs.failed, runs.told))
        while n := pipe.recv():
            runs.calls[way]()
            pipe.send(time_calls(runs.calls[way], n, runs.device))


class Processes:
    """Like Runs, on a CPU, with a process for each way. Processes are forked, because importing torch is slow. This process computes nothing."""

    def __init__(self, name, how):
        self.name, self.how, self.pipes, self.processes = name, how, {}, {}
        self.errors, self.first, self.failed, self.told = {}, {}, {}, {}

    def add_way(self, way, given):
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, self.name, way, self.how, given))
        process.start()
        theirs.close()
        try:
            errors, first, failed, told = ours.recv()
        except EOFError:  # it printed the reason on standard error
            self.failed[way] = f"{way} failed: its process ended"
            return
        for kept, new in zip((self.errors, self.first, self.failed, self.told), (errors, first, failed, told)):
            kept.update(new)
        if failed:
            ours.send(0)
        else:
            self.pipes[way], self.processes[way] = ours, process
            atexit.register(lambda: process.is_alive() and process.kill())  # also if this process fails while that one is stopped
            os.kill(process.pid, signal.SIGSTOP)

    def time_of(self, way, n):
        """Only this process runs: threads of a peer may spin long after a call."""
        time.sleep(REST)
        os.kill(self.processes[way].pid, signal.SIGCONT)
        self.pipes[way].send(n)
        us = self.pipes[way].recv()
        os.kill(self.processes[way].pid, signal.SIGSTOP)
        return us

    def timed(self, rounds):
        n = max(1, min(20, int(ROUND / max(self.time_of(way, 1) for way in self.pipes))))
        times = {way: [] for way in self.pipes}
        for _ in range(rounds):
            for way, kept in times.items():
                kept.append(self.time_of(way, n))
        return times

    def close(self):
        for way, pipe in self.pipes.items():
            os.kill(self.processes[way].pid, signal.SIGCONT)
            pipe.send(0)


def in_onnxruntime(model, inputs):
    """The model exported to ONNX, on the CPU."""
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, inputs, path, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda *given: torch.from_numpy(session.run(None, {n: x.numpy() for n, x in zip(names, given)})[0])


def warm(device):
    """Compiles a small function, so that a model's first call excludes work that torch does once per process."""
    torch.compile(lambda x: x.sin().sum(-1))(torch.ones(8, 8, device=device))


def row(name, gpu, given, how):
    runs = Runs(*case(name, gpu, given), how) if gpu else Processes(name, how)
    peers = [p for p in PEERS if p in given.peers.split(",")]
    try:
        for way in ("eager", *peers, "mica"):
            runs.add_way(way, given)
        times = runs.timed(given.rounds)
        if gpu and given.kernels:
            with open(given.kernels, "a", newline="") as file:
                csv.writer(file).writerows([name, how, way, f"{launches:g}", f"{us:.1f}", kernel]
                                           for way, call in runs.calls.items() for kernel, launches, us in kernels(call))
    finally:  # ends processes that still wait for a call
        runs.close()
    out = {"model": name, "how": how, "dtype": str(dtype_of(gpu, given)).removeprefix("torch."),
           "device": torch.cuda.get_device_name() if gpu else platform.processor() or platform.machine()}
    median = {}
    for k in ("eager", *PEERS, "mica"):
        q = statistics.quantiles(times[k], n=4) if k in times else [None] * 3
        median[k] = q[1]
        out |= {f"{k}_{what}": "" if v is None else f"{v:.1f}" for what, v in zip(("us", "p25", "p75"), (q[1], q[0], q[2]))}
        out[f"{k}_error"] = f"{runs.errors[k]:.2g}" if k in runs.errors else ""
        out[f"{k}_first"] = f"{runs.first[k]:.1f}" if k in runs.first else ""
    fastest = min((median[k] for k in peers if median[k]), default=None)
    out["ratio"] = f"{fastest / median['mica']:.3f}" if fastest and median["mica"] else ""
    out["first_ratio"] = f"{runs.first['mica'] / runs.first['inductor']:.2f}" if {"mica", "inductor"} <= runs.first.keys() else ""
    out |= runs.told | {"said": "; ".join([*runs.failed.values(), runs.told.get("said", "")])}
    return out | {"torch": torch.__version__, "mica": mica.__version__, "commit": commit()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--time", type=float, default=0, help="seconds for each graph; 0: by its nodes, as the backend does")
    arguments.add_argument("--max-ops", help="operators of a program, with commas: smaller ones are tried where that is not faster")
    arguments.add_argument("--min-ops", type=int, default=2, help="operators of a program at least: smaller ones have none of the time")
    arguments.add_argument("--dtype", choices=("float32", "float16", "bfloat16"),
                           help="of weights and inputs: else float16 on a GPU, float32 without")
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--only", default=",".join(PLAIN), help="models, with commas: %(default)s; `whole` for all whole ones")
    arguments.add_argument("--layers", type=int, help="of whole models, in place of all")
    arguments.add_argument("--how", default="", help="ways to run, with commas: " + ", ".join(HOW))
    arguments.add_argument("--take", choices=("faster", "all"), default="faster")
    arguments.add_argument("--peers", default="inductor", help="with commas: " + ", ".join(PEERS))
    arguments.add_argument("--why", action="store_true", help="when what is done, and what became of each node, on standard error")
    arguments.add_argument("--kernels", help="a CSV file for the kernels of a call on a GPU")
    arguments.add_argument("--until", type=float, help="seconds after which no further row is begun")
    given = arguments.parse_args()
    if set(given.peers.split(",")) - set(PEERS):
        arguments.error(f"peers are {', '.join(PEERS)}")
    if given.why:
        logging.basicConfig(format="%(asctime)s %(message)s")
        logging.getLogger("mica.torch").setLevel(logging.INFO)
    gpu = torch.cuda.is_available()
    if not gpu and "captured" in given.how:
        arguments.error("captured needs a GPU")
    ways = given.how.split(",") if given.how else list(HOW) if gpu else ["calls"]
    writer, began, names = None, time.monotonic(), given.only.split(",")
    if gpu:
        warm("cuda")
    with torch.no_grad():
        for name in [n for n in PLAIN + WHOLE if n in names or (n in WHOLE and "whole" in names)]:
            for how in ways:
                if given.until and time.monotonic() - began > given.until:
                    continue
                r = row(name, gpu, given, how)
                if writer is None:
                    writer = csv.DictWriter(sys.stdout, r.keys())
                    writer.writeheader()
                writer.writerow(r)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
