"""Is a program right, and is it faster? On random tensors of the real shapes, alternating with what would run in its place."""
from __future__ import annotations

import math
import statistics
import time

import torch

# Relative norm of the difference to eager, per dtype of the result: eager itself rounds after every operator.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def example(t, shape, generator):
    """Random elements of t's kind; weights (matrices without a batch) as small as those of a network are."""
    if t.dtype is torch.bool:
        x = torch.rand(shape, generator=generator) < 0.5
        if x.ndim:  # no row is hidden whole, whether true hides or shows
            x[..., :1], x[..., 1:2] = True, False
    elif t.is_floating_point():
        x = torch.randn(shape, generator=generator)
        if len(shape) == 2:
            x = x / math.sqrt(max(shape))
        x = x.to(t.dtype)
    else:
        x = torch.zeros(shape, dtype=t.dtype)
    return x.to(t.device)


def difference(got, want):
    """The largest relative norm of a difference, as a part of what is accepted."""
    worst = 0.0
    for g, w in zip(got, want):
        if g.shape != w.shape or g.dtype != w.dtype:
            return math.inf
        g, w = g.double(), w.double()
        scale = w.norm().item()
        part = (g - w).norm().item() / scale if scale > 0 else (g - w).norm().item()
        if not part <= worst:  # a NaN is no part of anything
            worst = part if part == part else math.inf
    return worst


def time_once(f, device):
    """Microseconds of one call."""
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3
    begin = time.perf_counter()
    f()
    return (time.perf_counter() - begin) * 1e6


def race(a, b, device, seconds=0.5):
    """Median microseconds of a call of a and of b, called by turns."""
    for f in (a, b):
        f(), f()
    times = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 200):
        for f, kept in ((a, times[0]), (b, times[1])):
            kept.append(time_once(f, device))
    return statistics.median(times[0]), statistics.median(times[1])
