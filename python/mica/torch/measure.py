"""Is a program right, and is it faster? On random tensors of the real shapes, alternating with what would run in its place."""
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

from .graphs import by_stride

# Relative norm of the difference to eager, per dtype of the result.
TOLERANCE = {getattr(torch, row["array"]): row["tolerance"] for row in _mica.dtypes if hasattr(torch, row["array"])}
SAMPLE = 500  # microseconds of calls that are timed together
LEAST = 1e-3  # positive number: among many some would be zero, whose logarithm is not finite
CHUNK = 1 << 26  # elements that are compared at a time, as they become 64 bits wide


ANY, POSITIVE, UNIT = "any", "positive", "from 0 to 1"  # spans of numbers


def example(t, shape, strides, generator, span=ANY, limits=(0, 0)):
    """Random elements of t's kind, with these strides where they are dense; weights (matrices without a batch) as small as those of a
    network are. span: of the numbers. limits: the least and the largest whole number. They are drawn where the generator is."""
    where = generator.device
    if t.dtype is torch.bool:
        x = torch.rand(shape, generator=generator, device=where) < 0.5
        if x.ndim:  # no row is hidden whole, whether true hides or shows
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
    if by_stride(shape, strides):
        x = torch.empty_strided(shape, strides, dtype=x.dtype, device=where).copy_(x)
    return x.to(t.device)


def generator(device, seed=1):
    """Random numbers are drawn where tensors lie: those of gigabytes take seconds on a CPU."""
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


MARGIN = 4  # random inputs are one case of many: on others elements may be so many times as far off


def off_alone(got, want, close):
    """How many elements differ from eager's by more than a MARGIN-th of what close = (relative, absolute) allows, as torch.allclose has it."""
    relative, absolute = (c / MARGIN for c in close)
    pairs = ((g, w) for a, b in zip(got, want) for g, w in zip(a.reshape(-1).split(CHUNK), b.reshape(-1).split(CHUNK)))
    return sum(int((~torch.isclose(g, w, rtol=relative, atol=absolute)).sum()) for g, w in pairs)


def accepted(dtype, tolerance=0.0):
    """The relative norm of a difference to eager that a result may have. tolerance: of all dtypes, 0 for that of each."""
    return tolerance or TOLERANCE.get(dtype, TOLERANCE[torch.float32])


def _times(part, most):
    """How many times what is accepted a difference is. Whole numbers are to be equal."""
    return part / most if most else math.inf if part else 0.0


def difference(got, want, tolerance=0.0):
    """The relative norm of a difference and what is accepted, of the result that comes closest to that or exceeds it most."""
    worst, limit = 0.0, accepted(want[0].dtype, tolerance)
    for g, w in zip(got, want):
        most = accepted(w.dtype, tolerance)
        if g.shape != w.shape or g.dtype != w.dtype:
            return math.inf, most
        off, scale = distance(g, w)
        part = off / scale if scale > 0 else off
        part = part if part == part else math.inf  # a NaN is no part of anything
        if _times(part, most) > _times(worst, limit):
            worst, limit = part, most
    return worst, limit


def time_calls(f, n, device):
    """Microseconds of one call of n, one after the other; on a GPU from the first kernel's beginning to the last one's end."""
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
    """A call of f as a CUDA graph: the kernels without the time that the host takes to launch them."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # what other threads do meanwhile is theirs
        kept = f()

    def replay():
        graph.replay()
        return kept
    return replay


PAUSE = 1e-3  # seconds between two questions for the turn, as in src/gpu/turn.c


class _Turn(threading.local):
    """State of this thread: whether it has the turn, and the seconds that it has waited for turns."""
    held, waited = False, 0.0


_turn = _Turn()


def has_turn():
    return _turn.held


def clock():
    """Seconds of this thread without those in which it, or a race of this process, waited for a turn."""
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
    """The file with the lock; None without a path, or where it cannot be opened."""
    try:
        return open(path, "a", encoding="utf-8") if path else None
    except OSError:
        return None


@contextlib.contextmanager
def turn():
    """Processes with the same $MICA_GPU_LOCK use the GPU one after the other, as races do (src/gpu/turn.c). A turn within a turn is part of it.
    Without the variable, or where its file cannot be opened, nobody waits. No search may begin within a turn: its race would wait for the turn,
    and so for itself. `engine.compile` refuses that."""
    f = None if _turn.held else _opened(os.environ.get("MICA_GPU_LOCK"))
    if f is None:
        yield
        return
    with f:
        begin = time.monotonic()
        while _is_busy(f):  # who waits within flock would always come before who asks again and again, as races do
            time.sleep(PAUSE)
        _turn.waited += time.monotonic() - begin
        _turn.held = True
        try:
            yield
        finally:
            _turn.held = False
            fcntl.flock(f, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file open, too


def turn_on(device):
    """The turn, where the device is a GPU."""
    return turn() if device.type == "cuda" else contextlib.nullcontext()


def race(a, b, device, graphs=False, seconds=0.5):
    """Median microseconds of a call of a and of b, by turns. graphs: both as CUDA graphs; else with the host's time, where that is what
    a loop of calls waits for."""
    if device.type != "cuda":
        return _race(a, b, device, graphs, seconds)
    with torch.cuda.device(device), turn():  # streams and events are those of the current one
        return _race(a, b, device, graphs, seconds)


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
