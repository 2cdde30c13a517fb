"""Shared by the demos of Mirage's programs: options, inputs, and the numbers held against numpy's."""
import argparse
import time

import numpy as np


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--scale", type=int, default=1, help="divides the large extents: 1 is the size of the original demo")
    p.add_argument("--time", type=float, default=120, help="seconds for the search and all")
    p.add_argument("--target", help="cpu, sm_90a, ...; this machine's GPU unless given, or its CPU")
    a = p.parse_args()
    return a, dict(time=a.time, target=a.target, dtype="f32")  # f32: CPUs compute in it


def random_inputs(*shapes):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(s) / s[-2] ** 0.5 if len(s) > 1 else rng.standard_normal(s)).astype("f4") for s in shapes]


def check(name, optimized, inputs, want):
    """The result against numpy's in float64; then the time of a call."""
    got = optimized(inputs=inputs)[0]
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert got.shape == want.shape and error < 1e-4, f"{name}: relative error {error}"
    took = []
    for _ in range(10):
        start = time.perf_counter()
        optimized(inputs=inputs)
        took.append(time.perf_counter() - start)
    faster = optimized.program.speedup
    print(f"{name}: {min(took) * 1e6:.0f} us" + (f", {faster:.2f} times faster than op by op" if faster else "") + f", relative error {error:.1e}")


def doubles(*arrays):
    return [a.astype("f8") for a in arrays]
