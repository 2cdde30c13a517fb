"""Import of optional libraries on demand, and how a baseline is built from their kernels."""
import functools
import importlib
import os
import sys

from ..env import TMP, cdiv, torch
from ..workload import Baseline

# Name in the tables -> modules that its kernels need.
MODULES = {
    "liger": ("triton", "liger_kernel.ops"),
    "quack": ("cutlass", "quack"),
    "tilelang": ("tilelang",),
    "helion": ("helion",),
    "flash3": ("flash_attn_interface",),
    "flash4": ("flash_attn.cute",),
}
SMS = 132  # multiprocessors of an H200
SETTINGS = {"TILELANG_CACHE_DIR": os.path.join(TMP, "peers_cache", "tilelang"), "HELION_AUTOTUNE_LOG_LEVEL": "0"}


@functools.lru_cache(maxsize=None)
def trouble(name):
    """Why a library cannot be imported, or ''."""
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    for inner in [os.path.join(p, "nvidia_cutlass_dsl", "python_packages") for p in sys.path]:  # a folder of packages has no .pth files
        if os.path.isdir(inner) and inner not in sys.path:
            sys.path.append(inner)
    for module in MODULES[name]:
        try:
            importlib.import_module(module)
        except Exception as e:  # a package that is there may fail in many ways
            lines = str(e).strip().splitlines() or [""]
            return "%s is not importable: %s: %s" % (module, type(e).__name__, lines[0][:120])
    return ""


def need(name):
    """Raises with the reason where a library is not importable."""
    if trouble(name):
        raise RuntimeError(trouble(name))


def need_gpu():
    if not torch.cuda.is_available():
        raise RuntimeError("needs a GPU")


class Way:
    """How a library computes a function: call(*inputs), or call(*inputs, configuration) with configurations to try.

    configs(*inputs) lists them, the likely best first; parts names their members. prepare(inputs, configurations) compiles
    them beforehand, side by side.
    """

    def __init__(self, call, configs=None, parts="", prepare=None):
        self.call, self.configs, self.parts, self.prepare = call, configs, parts, prepare


def by_waves(m, n, tiles, least_m, least_n):
    """The tiles (rows, columns, ...) that fit a result of m rows and n columns, in the order of the estimated time of their waves of blocks.

    least_m, least_n: extents that are not too small for any tile of up to twice that size.
    """
    def waves(c):
        bm, bn = c[:2]
        return cdiv(cdiv(m, bm) * cdiv(n, bn), SMS) * (bm * bn + 24 * (bm + bn))

    return sorted((c for c in tiles if c[0] < 2 * max(m, least_m) and c[1] < 2 * max(n, least_n)), key=waves)


class Missing:
    """A function that the library does not have in this form, with the reason."""

    def __init__(self, reason):
        self.reason = reason


def build(name, way, ctx):
    """fn(*inputs) of a workload; raises with the reason where there is none."""
    if isinstance(way, Missing):
        raise RuntimeError(way.reason)
    need(name)
    if way.configs is None:
        return way.call
    found = way.configs(*ctx.prepped)[:getattr(ctx.child.args, "most_configs", None)]
    if way.prepare:
        way.prepare(ctx.prepped, found)
    return ctx.tune(lambda *a: way.call(*a[:-1], a[-1]), found, way.parts)


def baseline(name, make, prep=None):
    """make() returns a Way or Missing; it is called where the library is there. prep: inputs -> inputs, outside the timed region."""
    def start(ctx):
        need(name)
        return build(name, make(), ctx)

    return Baseline(name, 2 if name in ("tilelang", "helion") else 1, start, prep=prep, limit=150)
