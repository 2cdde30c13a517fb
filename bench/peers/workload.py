"""Workloads and the ways to compute them."""
from .env import F, torch


class Baseline:
    """One way to compute a workload.  build(ctx) returns fn(*inputs)."""

    def __init__(self, name, prio, build, prep=None, graph=True, info=False, limit=60):
        self.name = name
        self.prio = prio
        self.build = build
        self.prep = prep  # inputs -> inputs, outside the timed region
        self.graph = graph
        self.info = info  # computes less than the workload: never 'best'
        self.limit = limit  # seconds before the supervisor gives the pair up


class Workload:
    def __init__(self, name, family, shapes, flops, nbytes, make, ref, baselines, tol_mul=1.0,
                 max_copies=1 << 30, note=""):
        self.name = name
        self.family = family
        self.shapes = shapes
        self.flops = flops
        self.nbytes = nbytes
        self.make = make
        self.ref = ref
        self.baselines = baselines
        self.tol_mul = tol_mul
        self.max_copies = max_copies
        self.note = note


WORKLOADS = []


def eager(name, fn, prio=0, **kw):
    return Baseline(name, prio, lambda ctx: fn, **kw)


def comp(name, fn, prio, mode="auto", **kw):
    """torch.compile of fn; 'auto' = max-autotune unless this family's took too long."""
    kw.setdefault("limit", 120)
    return Baseline(name, prio, lambda ctx: ctx.compile(fn, mode), **kw)


def rms(x, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


def rms32(x, eps=1e-6):
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def tn(*which):
    """prep: turn the listed weight arguments [K,N] into [N,K] storage."""

    def prep(ins):
        return tuple(t.t().contiguous() if i in which else t for i, t in enumerate(ins))

    return prep
