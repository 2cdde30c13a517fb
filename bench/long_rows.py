#!/usr/bin/env python3
"""Times reductions of a few long rows on a CPU: torch and one or more builds of Mica, in one process.

    python3 bench/long_rows.py [--mica build/mica]... [--threads 2] [--rounds 9]

Each build optimizes the program and saves C, which the script compiles and calls through ctypes. A round times each engine once, for at least
20 ms, in an order that rotates. The table has the least time of a call in us: other processes disturb this figure least. Each result is compared
with float64 before it is timed.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from saved_kernel import saved_kernel  # noqa: E402

PROGRAMS = {
    "sum": ("sum(X, dim=1)", lambda x: x.sum(1, keepdim=True)),
    "logsumexp": ("logsumexp(X, dim=1)", lambda x: torch.logsumexp(x, 1, keepdim=True)),
    "softmax": ("softmax(X, dim=1)", lambda x: torch.softmax(x, 1)),
    "layer_norm": ("layer_norm(X)", lambda x: torch.nn.functional.layer_norm(x, x.shape[1:])),
}
SHAPES = [(1, 1000003), (3, 500009)]
TURN_S = 0.02


def mica_call(mica, folder, text, x, shape, threads):
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(folder, "p.mica")
    with open(source, "w") as f:
        f.write("program p {\n  X: f32[%d, %d]\n  return %s\n}\n" % (x.shape[0], x.shape[1], text))
    subprocess.run([mica, "optimize", source, "--target", "cpu", "--quiet", "--no-db", "--threads", str(threads), "--out", folder], check=True)
    lib = saved_kernel(folder)
    lib.mica_p_workspace.restype = ctypes.c_size_t
    room = np.zeros(lib.mica_p_workspace() // 4 + 1024, np.float32)
    at = ctypes.c_void_p(room.ctypes.data + -room.ctypes.data % 64)
    result = np.empty(shape, np.float32)
    inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(result.ctypes.data)
    keep = (lib, room, x, result)
    return lambda keep=keep: lib.mica_p(inputs, outputs, at), result


def turn(call):
    call(), call()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < TURN_S or len(times) < 3:
        t = time.perf_counter()
        call()
        times.append(time.perf_counter() - t)
    return min(times)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mica", action="append", help="a build; may be given again")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--folder", default="build/long_rows")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    builds = args.mica or ["build/mica"]
    print("program,rows,columns,torch us," + ",".join("%s us" % m for m in builds))
    for name, (text, form) in PROGRAMS.items():
        for rows, columns in SHAPES:
            x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)
            t = torch.from_numpy(x)
            want = form(t.double()).numpy()
            calls = [lambda t=t: form(t)]
            for i, mica in enumerate(builds):
                folder = os.path.join(args.folder, "%s_%d_%d" % (name, rows, i))
                call, result = mica_call(mica, folder, text, x, want.shape, args.threads)
                call()
                assert np.allclose(result, want, rtol=1e-4, atol=2e-3 if name == "sum" else 1e-5), (name, mica)
                calls.append(call)
            times = [[] for _ in calls]
            for r in range(args.rounds):
                for k in range(len(calls)):
                    i = (k + r) % len(calls)
                    times[i].append(turn(calls[i]))
            print("%s,%d,%d,%s" % (name, rows, columns, ",".join("%.0f" % (1e6 * min(x)) for x in times)), flush=True)


if __name__ == "__main__":
    main()
