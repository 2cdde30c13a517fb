"""Checks and times programs on random tensors of the real shapes, alternating with the code that would run in their place."""
from __future__ import annotations

import contextlib
import fcntl
import math
import os
import statistics
import threading
import time

import torch

from mica import _mica

# Allowed relative norm of the difference to eager mode, by dtype of the result.
TOLERANCE = {getattr(torch, row["array"]): row["tolerance"] for row in _mica.dtypes if hasattr(torch, row["array"])}
SAMPLE = 500  # microseconds of the calls in one sample
LEAST = 1e-3  # smallest positive input: some random numbers would be 0 otherwise, and log(0) is not finite
CHUNK = 1 << 26  # elements that are compared at a time in 64 bits


ANY, POSITIVE, UNIT = "any", "positive", "from 0 to 1"  # ranges of random numbers


def example(t, shape, strides, generator, span=ANY, limits=(0, 0)):
    """A random tensor of t's dtype with these strides. Matrices without a batch are taken for weights, with numbers as small as in a network.
    span: range of the numbers. limits: least and largest integer. The generator's device draws the numbers."""
    where = generator.device
    if t.dtype is torch.bool:
        x = torch.rand(shape, generator=generator, device=where) < 0.5
        if x.ndim:  # no row is hidden completely, for either meaning of true
            x[..., :1], x[..., 1:2] = True, False
    elif t.is_floating_point():
        x = torch.randn(shape, generator=generator, device=where)
        if len(shape) == 2:
            x /= math.sqrt(max(shape))
        if span != ANY:
            x = (x.abs() if span == POSITIVE else x.abs().frac()).clamp(min=LEAST)
        x = x.to(t.dtype)
    else:
        x = torch.randint(limits[0], limits[1] + 1, shape, generator=generator, device=where).to(t.dtype)
    return _with_strides(x.to(t.device), strides)


def _with_strides(x, strides):
    """x's numbers in a tensor with these strides, which may leave gaps or share elements. Inductor's code refuses tensors with other strides."""
    shape, strides = tuple(x.shape), tuple(strides)
    if x.stride() == strides or not x.numel():
        return x
    least = 1  # elements up to the last one
    for stride, extent in sorted((s, e) for s, e in zip(strides, shape) if e > 1):
        if stride < least:  # elements are shared
            length = 1 + sum(s * (e - 1) for s, e in zip(strides, shape))
            return x.reshape(-1).repeat(-(-length // x.numel()))[:length].as_strided(shape, strides)
        least += stride * (extent - 1)
    return torch.empty_strided(shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def generator(device, seed=1):
    """A generator on the device of the tensors, because drawing gigabytes on a CPU takes seconds."""
    return torch.Generator(device).manual_seed(seed)


def finite(t):
    return all(bool(part.isfinite().all()) for part in t.reshape(-1).split(CHUNK))


def distance(got, want):
    """Norm of the difference and norm of `want`, in 64 bits."""
    off = scale = 0.0
    for g, w in zip(got.reshape(-1).split(CHUNK), want.reshape(-1).split(CHUNK)):
        g, w = g.double(), w.double()
        off, scale = math.hypot(off, (g - w).norm().item()), math.hypot(scale, w.norm().item())
    return off, scale


MARGIN = 4  # factor: on other inputs, differences may be larger than on these random ones by it


def off_alone(got, want, close):
    """Number of elements whose difference to eager mode exceeds 1 / MARGIN of the limit close = (relative, absolute) of torch.allclose."""
    relative, absolute = (c / MARGIN for c in close)
    pairs = ((g, w) for a, b in zip(got, want) for g, w in zip(a.reshape(-1).split(CHUNK), b.reshape(-1).split(CHUNK)))
    return sum(int((~torch.isclose(g, w, rtol=relative, atol=absolute)).sum()) for g, w in pairs)


def accepted(dtype, tolerance=0.0):
    """Allowed relative norm of a result's difference to eager mode. tolerance: limit for all dtypes; 0: by dtype."""
    return tolerance or TOLERANCE.get(dtype, TOLERANCE[torch.float32])


def _times(part, most):
    """Difference divided by the allowed one. Integers must be equal."""
    return part / most if most else math.inf if part else 0.0


def difference(got, want, tolerance=0.0):
    """(relative norm of the difference, limit) of the result for which their ratio is largest."""
    worst, limit = 0.0, accepted(want[0].dtype, tolerance)
    for g, w in zip(got, want):
        most = accepted(w.dtype, tolerance)
        if g.shape != w.shape or g.dtype != w.dtype:
            return math.inf, most
        off, scale = distance(g, w)
        part = off / scale if scale > 0 else off
        part = part if part == part else math.inf  # NaN counts as infinite
        if _times(part, most) > _times(worst, limit):
            worst, limit = part, most
    return worst, limit


def time_calls(f, n, device):
    """Microseconds of one call, from n calls in sequence. On a GPU the time is that from the start of the first kernel to the end of the last."""
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(n):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / n
    begin = time.perf_counter()
    for _ in range(n):
        f()
    return (time.perf_counter() - begin) * 1e6 / n


def captured(f):
    """f captured as a CUDA graph, so that its time does not include launches by the host."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # CUDA calls of other threads do not disturb it
            kept = f()
    except RuntimeError:
        torch.cuda.synchronize()
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
            torch.zeros(1, device="cuda")  # a generator stays in the state of a capture until one succeeds
        raise

    def replay():
        graph.replay()
        return kept
    return replay


PAUSE = 1e-3  # seconds between two tries to get the turn, as in src/gpu/turn.c


class _Turn(threading.local):
    """State of this thread: whether it has the turn, and its seconds of waiting for turns."""
    held, waited = False, 0.0


_turn = _Turn()


def has_turn():
    return _turn.held


def clock():
    """Time in seconds, without the time in which this thread, or a race of this process, waited for a turn."""
    return time.monotonic() - _turn.waited - _mica.turn_waited()


def _is_busy(f):
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        pass
    return False


def _opened(path):
    """The opened lock file; None without a path, or if it cannot be opened."""
    try:
        return open(path, "a", encoding="utf-8") if path else None
    except OSError:
        return None


@contextlib.contextmanager
def turn():
    """Context in which no other process with the same $MICA_GPU_LOCK uses the GPU, as in races (src/gpu/turn.c). A turn within a turn is part of the
    outer one. Without the variable, or if its file cannot be opened, nothing waits. A search within a turn would wait for the same turn forever, so
    `engine.compile` refuses it."""
    f = None if _turn.held else _opened(os.environ.get("MICA_GPU_LOCK"))
    if f is None:
        yield
        return
    with f:
        begin = time.monotonic()
        while _is_busy(f):  # no blocking flock: it would always win against races, which only try again and again
            time.sleep(PAUSE)
        _turn.waited += time.monotonic() - begin
        _turn.held = True
        try:
            yield
        finally:
            _turn.held = False
            fcntl.flock(f, fcntl.LOCK_UN)  # closing is not enough if a forked process has the file open


def turn_on(device):
    """The turn if the device is a GPU, else an empty context."""
    return turn() if device.type == "cuda" else contextlib.nullcontext()


def race(a, b, device, graphs=False, seconds=0.5):
    """Median microseconds of a call of a and of b, measured by turns. graphs: both are captured as CUDA graphs. Otherwise both are timed on a GPU as
    plain calls, where the host's time counts if it is longer, and captured if that is possible. The times that differ more are returned: if two
    calls keep the host equally busy, the kernels decide."""
    if device.type != "cuda":
        return _race(a, b, device, graphs, seconds)
    with torch.cuda.device(device), turn():  # streams and events belong to the current device
        if graphs:
            return _race(a, b, device, graphs, seconds)
        times = [_race(a, b, device, False, seconds / 2)]
        with contextlib.suppress(RuntimeError):  # not capturable in a CUDA graph
            times.append(_race(a, b, device, True, seconds / 2))
        return max(times, key=lambda t: abs(math.log(t[0] / t[1])))


def _race(a, b, device, graphs, seconds):
    for f in (a, b):
        f(), f()
    if graphs and device.type == "cuda":
        a, b = captured(a), captured(b)
        a(), b()
    calls = max(1, min(20, int(SAMPLE / max(time_calls(a, 1, device), time_calls(b, 1, device), 1))))
    times = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 200):
        for f, kept in ((a, times[0]), (b, times[1])):
            kept.append(time_calls(f, calls, device))
    return statistics.median(times[0]), statistics.median(times[1])
