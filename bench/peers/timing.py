"""Time of a launch: replays of a CUDA graph of many launches."""
import statistics
import time
import traceback

from .env import torch


class CaptureError(RuntimeError):
    pass


FAILED_GRAPHS = []  # kept alive: the allocator still holds their filters


class Fatal(RuntimeError):
    """The CUDA context is gone: this process cannot measure any more."""


def first_line(e, n=220):
    s = str(e).strip() or repr(e)
    lines = [x.strip() for x in s.splitlines() if x.strip()]
    text = lines[0] if lines else ""
    if text.endswith("raised:") and len(lines) > 1:
        text += " " + lines[1]
    return ("%s: %s" % (type(e).__name__, text))[:n]


def is_fatal(e):
    s = str(e)
    return any(x in s for x in ("illegal memory access", "unspecified launch failure", "misaligned address",
                                "device-side assert", "CUDA error: an illegal instruction",
                                "CUDA_ERROR_ILLEGAL", "launch timed out"))


class Maker:
    """Random inputs from a generator of our own (a failed capture cannot poison it)."""

    def __init__(self, device, dtype, seed):
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        self.device = device
        self.dtype = dtype

    def randn(self, shape, std=1.0):
        t = torch.randn(shape, generator=self.gen, device=self.device, dtype=self.dtype)
        return t if std == 1.0 else t.mul_(std)


def rel_err(out, ref):
    if out.numel() == ref.numel():
        out = out.reshape(ref.shape)  # folded attention results: same logical order
    if tuple(out.shape) != tuple(ref.shape):
        raise RuntimeError("wrong output shape %s, expected %s" % (tuple(out.shape), tuple(ref.shape)))
    d = torch.linalg.vector_norm((out.float() - ref).reshape(-1))
    e = float(d / torch.linalg.vector_norm(ref.reshape(-1)))
    return e if e == e else float("inf")


def heal():
    """After a failed capture the default generator believes it is still captured: a
    capture that succeeds clears that."""
    try:
        dev_sync = torch.cuda.synchronize
        dev_sync()
        x = torch.zeros(8, device="cuda")
        g = torch.cuda.CUDAGraph()
        g.capture_begin(capture_error_mode="thread_local")
        x.add_(1)
        g.capture_end()
        dev_sync()
    except Exception:
        traceback.print_exc()


def graph_time(fn, ins, n_launch, reps, ring):
    """Median, minimum and spread of one launch in us, and the last output."""
    dev_sync = torch.cuda.synchronize
    dev_sync()
    if torch.cuda.memory_reserved() > 48 << 30:
        torch.cuda.empty_cache()  # pools of earlier graphs; nothing can be freed in a capture
    g = torch.cuda.CUDAGraph()
    outs = [None] * max(1, ring)
    err = None
    g.capture_begin(capture_error_mode="thread_local")
    try:
        for i in range(n_launch):
            outs[i % len(outs)] = None
            outs[i % len(outs)] = fn(*ins[i % len(ins)])
    except BaseException as e:  # noqa: BLE001 - the capture must be ended whatever happened
        err = e
    try:
        g.capture_end()
    except BaseException as e:  # noqa: BLE001
        err = err or e
    if err is not None:
        FAILED_GRAPHS.append(g)
        if isinstance(err, KeyboardInterrupt):
            raise err
        heal()
        raise CaptureError(first_line(err)) from err
    last = outs[(n_launch - 1) % len(outs)]
    outs = None
    t0 = time.perf_counter()
    for i in range(200):  # the clocks sink while the host compiles: warm up for 25 ms
        g.replay()
        if i >= 2:
            dev_sync()
            if reps < 20 or time.perf_counter() - t0 > 0.025:
                break
    evs = []
    for _ in range(reps):
        a = torch.cuda.Event(enable_timing=True)
        b = torch.cuda.Event(enable_timing=True)
        a.record()
        g.replay()
        b.record()
        evs.append((a, b))
    dev_sync()
    ts = sorted(a.elapsed_time(b) * 1e3 / n_launch for a, b in evs)
    return statistics.median(ts), ts[0], ts[int(len(ts) * 0.9)], last, g


def loop_time(fn, ins, n_launch, reps):
    torch.cuda.synchronize()
    ts = []
    for _ in range(reps):
        a = torch.cuda.Event(enable_timing=True)
        b = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        a.record()
        for i in range(n_launch):
            fn(*ins[i % len(ins)])
        b.record()
        torch.cuda.synchronize()
        ts.append(a.elapsed_time(b) * 1e3 / n_launch)
    ts.sort()
    return statistics.median(ts), ts[0], ts[int(len(ts) * 0.9)]
