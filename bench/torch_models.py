#!/usr/bin/env python3
"""Four models in plain torch (examples/python/torch_models.py) by eager mode, Inductor and Mica, in one process.

    python bench/torch_models.py [--time SECONDS] [--rounds N] [--only NAME] > bench/torch_models.csv

Calls of the three alternate; a row has the median microseconds and the quartiles of each, the relative norm of the difference to
eager, and how many nodes Mica took. On a GPU (if torch sees one) in f16, on the CPU in f32 with two threads.
"""
import argparse
import csv
import os
import platform
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "examples", "python"))

import torch
import torch_models as models

import mica
import mica.torch
from mica.torch.measure import time_once


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
        return ""


def row(name, model, inputs, options, rounds):
    device = inputs[0].device
    explanation = mica.torch.explain(model, *inputs, options=options)
    torch._dynamo.reset()
    runs = {"eager": model, "inductor": torch.compile(model, backend="inductor"),
            "mica": torch.compile(model, backend=mica.torch.backend, options=options)}
    want = model(*inputs)
    error = max(((runs[k](*inputs) - want).double().norm() / want.double().norm()).item() for k in ("inductor", "mica"))
    times = {k: [] for k in runs}
    for _ in range(rounds + 3):
        for k, f in runs.items():
            times[k].append(time_once(lambda: f(*inputs), device))
    out = {"model": name, "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()}
    for k, us in times.items():
        q = statistics.quantiles(us[3:], n=4)
        out |= {f"{k}_us": f"{q[1]:.1f}", f"{k}_p25": f"{q[0]:.1f}", f"{k}_p75": f"{q[2]:.1f}"}
    nodes = sum(len(g.nodes) for g in explanation.graphs)
    out |= {"error": f"{error:.2g}", "nodes": nodes, "taken": len(explanation.taken), "programs": sum(p.taken for p in explanation.programs),
            "left": "; ".join(p.line() for p in explanation.programs if not p.taken)}
    return out | {"torch": torch.__version__, "mica": mica.__version__, "commit": commit()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--time", type=float, default=60, help="seconds for each program")
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--only", help="one model")
    arguments.add_argument("--take", choices=("faster", "all"), default="faster")
    given = arguments.parse_args()
    gpu = torch.cuda.is_available()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    to = ("cuda", torch.float16) if gpu else ("cpu", torch.float32)
    writer = None
    with torch.no_grad():
        for name, model, inputs in cases(gpu):
            if given.only and name != given.only:
                continue
            inputs = tuple(x.to(*to) if x.is_floating_point() else x.to(to[0]) for x in inputs)
            r = row(name, model.to(*to).eval(), inputs, {"time": given.time, "take": given.take}, given.rounds)
            if writer is None:
                writer = csv.DictWriter(sys.stdout, r.keys())
                writer.writeheader()
            writer.writerow(r)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
