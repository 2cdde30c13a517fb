"""Helion: which configurations of its kernels are tried."""
import os

import helion

from ..env import next_p2
from . import helion_kernels as kernels
from .library import Way, by_waves

COMPILED = {}  # (kernel, its arguments, configuration) -> launcher
PRODUCT = "bm,bn,bk,warps,stages,indexing"
TILES = [(128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (64, 256, 64, 4, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4),
         (64, 64, 64, 4, 5), (64, 32, 128, 4, 4), (16, 128, 128, 4, 4), (16, 64, 128, 4, 5), (32, 64, 128, 4, 4)]
PAIRS = [(128, 128, 64, 8, 3), (128, 64, 64, 8, 4), (64, 128, 64, 4, 3), (64, 64, 64, 4, 4), (16, 64, 128, 4, 4), (32, 64, 128, 4, 3),
         (16, 32, 256, 4, 4)]
ROWS = "rows,warps,piece"
ATTENTION = "bm,bn,warps,stages,indexing"
ATTENTION_TILES = [(128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 4, 3), (64, 128, 4, 2), (64, 32, 4, 3)]
FEW_ROWS = [(16, 128, 4, 3), (16, 64, 4, 4), (32, 64, 4, 3), (64, 64, 4, 3)]
MOST = 6


def launch(kernel, args, config):
    """Runs a kernel by one configuration, which is compiled once."""
    if os.environ.get("HELION_INTERPRET") == "1":
        return kernel(*args)
    key = (kernel, tuple((x.shape, x.stride(), x.dtype) if hasattr(x, "stride") else x for x in args), repr(sorted(config.items())))
    if key not in COMPILED:
        COMPILED[key] = kernel.bind(args).compile_config(helion.Config(**config))
    return COMPILED[key](*args)


def product_configs(m, n, tiles, operands):
    """The best tiles by descriptors where operands have aligned rows, and by pointers."""
    best = by_waves(m, n, tiles, 16, 32)
    aligned = all(x.stride(-1) == 1 and x.stride(0) % 8 == 0 for x in operands) and n % 8 == 0
    out = [c + ("tensor_descriptor",) for c in best[:MOST - 2]] if aligned else []
    return out + [c + ("pointer",) for c in best[:MOST - len(out)]]


def product_config(config):
    bm, bn, bk, warps, stages, indexing = config
    return dict(block_sizes=[bm, bn, bk], num_warps=warps, num_stages=stages, indexing=indexing, l2_groupings=[8])


def same(x):
    return x


def product(after=None, turned="", operands=2, f=None):
    """x W with a bias and a residual as further operands; f is the end, as a function of torch."""
    kernel = {2: kernels.product, 3: kernels.product_bias, 4: kernels.product_residual}[operands]

    def views(ins):
        x = ins[0].t() if "X" in turned else ins[0].reshape(-1, ins[0].shape[-1])
        return (x, ins[1].t() if "W" in turned else ins[1]) + tuple(ins[2:])

    def call(*ins):
        return launch(kernel, views(ins[:-1]) + (f or same,), product_config(ins[-1]))

    def configs(*ins):
        x, w = views(ins)[:2]
        return product_configs(x.shape[0], w.shape[1], TILES, (x, w))

    return Way(call, configs, PRODUCT)


def gated_product(after="silu", f=None):
    def call(x, a, b, config):
        return launch(kernels.gated, (x, a, b, f), product_config(config))

    return Way(call, lambda x, a, b: product_configs(x.shape[0], a.shape[1], PAIRS, (x, a)), PRODUCT)


def rows_way(kernel, *more):
    """A kernel over rows: how many a block takes, its warps, and the piece of a row (0: all of it)."""
    def call(*ins):
        rows, warps, piece = ins[-1]
        return launch(kernel, tuple(ins[:-1]) + more, dict(block_sizes=[rows], num_warps=warps, reduction_loops=[piece or None]))

    def configs(x, *weights):
        n = next_p2(x.shape[1])
        if n > 32768:
            return [(1, 8, 4096), (1, 16, 8192), (1, 32, 16384), (1, 16, 4096)]
        out = [(1, 4, 0), (1, 8, 0), (1, 16, 0)] if n >= 1024 else [(1, 4, 0), (2, 4, 0), (4, 4, 0), (8, 4, 0)]
        return out + ([(1, 8, 2048)] if n >= 4096 else [(2, 4, 0), (4, 4, 0)] if n >= 1024 else [])

    return Way(call, configs, ROWS)


def softmax():
    return rows_way(kernels.softmax)


def rms_norm(eps):
    return rows_way(kernels.rms_norm, eps)


def layer_norm(eps):
    return rows_way(kernels.layer_norm, eps)


def attention(name):
    def call(q, k, v, scale, cap, causal, window, config):
        (b, hq, t, d), (_, hkv, s, _), dv = q.shape, k.shape, v.shape[-1]
        folded = hq != hkv and not causal and not window
        q = q.reshape(b * hkv, hq // hkv * t, d) if folded else q.reshape(b * hq, t, d)
        k, v, group = k.reshape(b * hkv, s, d), v.reshape(b * hkv, s, dv), 1 if folded else hq // hkv
        bm, bn, warps, stages, indexing = config
        sizes = dict(block_sizes=[bm, bn], num_warps=warps, num_stages=stages, indexing=indexing)
        if not causal and not window:
            return launch(kernels.attention, (q, k, v, group, float(scale), float(cap or 0)), sizes).view(b, hq, t, dv)
        if cap:
            raise RuntimeError("no masked kernel with a soft cap is written for Helion")
        return launch(kernels.attention_masked, (q, k, v, group, float(scale), int(window or s + t)), sizes).view(b, hq, t, dv)

    def configs(q, k, v, causal, window):
        rows = q.shape[2] * (1 if causal or window else q.shape[1] // k.shape[1])
        tiles = FEW_ROWS if rows <= 32 else ATTENTION_TILES
        whole = all(n == next_p2(n) for n in (q.shape[-1], v.shape[-1]))  # descriptors want powers of 2
        best = [c + ("tensor_descriptor",) for c in tiles[:MOST // 2]] if whole else []
        return best + [c + ("pointer",) for c in tiles[:MOST - len(best)]]

    return Way(call, configs, ATTENTION)
