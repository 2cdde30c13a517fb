#!/usr/bin/env python3
"""Four models in plain torch (examples/python/torch_models.py) by eager mode, Inductor and Mica, in one process.

    python bench/torch_models.py [--time SECONDS] [--only NAME] [--how calls,captured,reduce-overhead] [--dtype bfloat16] > bench/torch_models.csv

A row is a model run in one way: by calls, with the host's time; in a CUDA graph that we capture, which leaves the host out; or as
torch.compile(mode="reduce-overhead") does it. Calls alternate; a row has the median microseconds and the quartiles of each,
the relative norm of the difference to the model in float64, and how many nodes Mica took. On a GPU (if torch sees one) in f16, on the
CPU in f32 with two threads. --autotune adds Inductor's search for the best products, which takes minutes.
"""
import argparse
import copy
import csv
import os
import platform
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "examples", "python"))

import torch
import torch_models as models

import mica
import mica.torch
from mica.torch.measure import captured, time_calls

# How: the mode of torch.compile, what Mica is told besides, the mode with Inductor's search.
HOW = {"calls": ("default", {}, "max-autotune-no-cudagraphs"), "captured": ("default", {"graphs": True}, "max-autotune-no-cudagraphs"),
       "reduce-overhead": ("reduce-overhead", {}, "max-autotune")}


def cases(gpu):
    """name, model, inputs; smaller on the CPU."""
    d, t = (1024, 384) if gpu else (512, 64)
    hidden = torch.arange(t)[None] >= torch.tensor([[t - 7], [t - 3]])
    return [
        ("llama", models.LlamaLayer(d, d // 64, d // 256, d * 11 // 4), (torch.randn(1, t, d), *models.rotary(t, 64))),
        ("bert", models.BertAttention(d, d // 64), (torch.randn(2, t, d), hidden)),
        ("lora", models.LoraLinear(4 * d, 4 * d, 16), (torch.randn(16, 4 * d),)),
        ("mixtral", models.MixtralExperts(d, 2 * d, 8), (torch.randn(4, d) / 8,)),
    ]


def commit():
    try:
        return subprocess.run(["git", "-C", here, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("MICA_COMMIT", "")


def in_float64(model, inputs):
    return copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))


def callables(model, inputs, options, how, autotune):
    """name -> the model as it runs in this way."""
    mode, also, searching = HOW[how]
    runs = {"eager": model}
    modes = {"inductor": mode, **({"autotune": searching} if autotune else {})}
    for name, m in modes.items():
        runs[name] = torch.compile(model, backend="inductor", **({} if m == "default" else {"mode": m}))
        for _ in range(3):
            runs[name](*inputs)
    return runs, {**options, **also, "mode": mode}


def timed(runs, inputs, how, rounds):
    """name -> microseconds, in rounds that alternate."""
    device = inputs[0].device
    calls = {k: (lambda f=f: f(*inputs)) for k, f in runs.items()}
    if device.type == "cuda":  # eager mode has no reduce-overhead of its own
        calls = {k: captured(f) if how == "captured" or (how == "reduce-overhead" and k == "eager") else f for k, f in calls.items()}
    for f in calls.values():
        f(), f()
    n = max(1, min(20, int(500 / max(time_calls(f, 1, device) for f in calls.values()))))
    times = {k: [] for k in calls}
    for _ in range(rounds):
        for k, f in calls.items():
            times[k].append(time_calls(f, n, device))
    return times


def row(name, model, inputs, given, how):
    device = inputs[0].device
    want = in_float64(model, inputs)
    sizes = {"max_ops": given.max_ops.split(",")} if given.max_ops else {}
    runs, options = callables(model, inputs, {"time": given.time, "take": given.take, **sizes}, how, given.autotune)
    began = time.monotonic()
    explanation = mica.torch.explain(model, *inputs, options=options)
    seconds = time.monotonic() - began
    began = time.monotonic()
    runs["mica"] = torch.compile(model, backend=mica.torch.backend, options=options)
    for _ in range(3):
        runs["mica"](*inputs)
    again = time.monotonic() - began
    errors = {k: ((f(*inputs).double() - want).norm() / want.norm()).item() for k, f in runs.items()}
    out = {"model": name, "how": how, "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
           "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()}
    times = timed(runs, inputs, how, given.rounds)
    for k in ("eager", "inductor", "autotune", "mica"):
        q = statistics.quantiles(times[k], n=4) if k in times else [None] * 3
        out |= {f"{k}_{what}": "" if v is None else f"{v:.1f}" for what, v in zip(("us", "p25", "p75"), (q[1], q[0], q[2]))}
        out[f"{k}_error"] = f"{errors[k]:.2g}" if k in errors else ""
    nodes = sum(len(g.nodes) for g in explanation.graphs)
    said = [f"whole: {g.us:.1f} us against {g.rest_us:.1f}" for g in explanation.graphs if g.us is not None]
    out |= {"nodes": nodes, "taken": len(explanation.taken), "programs": sum(p.taken for p in explanation.programs),
            "seconds": f"{seconds:.0f}", "seconds_again": f"{again:.0f}",
            "said": "; ".join([*said, *(p.line() for p in explanation.programs)])}
    return out | {"torch": torch.__version__, "mica": mica.__version__, "commit": commit()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--time", type=float, default=60, help="seconds for each program")
    arguments.add_argument("--max-ops", help="operators of a program, with commas: smaller ones are tried where that is not faster")
    arguments.add_argument("--dtype", choices=("float32", "float16", "bfloat16"),
                           help="of weights and inputs: else float16 on a GPU, float32 without")
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--only", help="one model, or several with commas")
    arguments.add_argument("--how", default="", help="ways to run, with commas: " + ", ".join(HOW))
    arguments.add_argument("--take", choices=("faster", "all"), default="faster")
    arguments.add_argument("--autotune", action="store_true", help="also Inductor with its search for products")
    arguments.add_argument("--until", type=float, help="seconds after which no further row is begun")
    given = arguments.parse_args()
    gpu = torch.cuda.is_available()
    torch.manual_seed(0)
    if not gpu:
        torch.set_num_threads(2)
    to = ("cuda" if gpu else "cpu", getattr(torch, given.dtype or ("float16" if gpu else "float32")))
    if not gpu and "captured" in given.how:
        arguments.error("captured needs a GPU")
    ways = given.how.split(",") if given.how else list(HOW) if gpu else ["calls"]
    writer, began = None, time.monotonic()
    with torch.no_grad():
        for name, model, inputs in cases(gpu):
            if given.only and name not in given.only.split(","):
                continue
            inputs = tuple(x.to(*to) if x.is_floating_point() else x.to(to[0]) for x in inputs)
            model = model.to(*to).eval()
            for how in ways:
                if given.until and time.monotonic() - began > given.until:
                    continue
                r = row(name, model, inputs, given, how)
                if writer is None:
                    writer = csv.DictWriter(sys.stdout, r.keys())
                    writer.writeheader()
                writer.writerow(r)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
