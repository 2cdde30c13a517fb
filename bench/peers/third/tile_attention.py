"""Attention in TileLang: online softmax over tiles of keys; few rows of queries split the keys over blocks."""
from ..env import cdiv
from .library import SMS, Way
from .tile import compile_all, dtype_of, kernel, round_up

PARTS = "bm,bn,stages,threads,splits"
LOW = -1e6  # a hidden score, far below all others: finite, so that rows which a whole tile hides stay numbers
LOG2E = 1.4426950408889634
SHARED = 220 * 1024
TILES = [(128, 128, 2, 256), (128, 64, 2, 256), (64, 128, 2, 128), (64, 64, 2, 128), (128, 96, 2, 256), (64, 64, 3, 128)]
FEW_ROWS = [(64, 128, 2, 128), (64, 64, 3, 128)]
MOST = 6
MERGE_THREADS = 128


def tile_attention(b, hq, hkv, t, s, d, dv, causal, window, cap, scale, dtype, bm, bn, stages, threads, splits):
    """A program from Q [b, hq, t, d], K, V to the result; with splits > 1 to partial results and the logarithms of their sums.

    causal: the last query reads the last key. window: each query reads that many keys at most. A result of a split is of float32,
    [b, hq, splits, t, dv], and its logarithm is of base 2.
    """
    import tilelang.language as T

    group, wide, wide_v, past = hq // hkv, round_up(d, 16), round_up(dv, 16), s - t
    tiles = cdiv(s, bn)
    share = cdiv(tiles, splits)
    slope = LOG2E if cap else scale * LOG2E

    def shown(x, query, key):
        """A score with its soft cap, or LOW where the query does not read the key."""
        x = cap * T.tanh(x * (scale / cap)) if cap else x
        for used, seen in ((s % bn, key < s), (causal, key <= query + past), (window, key > query + past - window)):
            x = T.if_then_else(seen, x, LOW) if used else x
        return x

    def bounds(row, part):
        """The first tile of keys that a block reads, and the one after its last."""
        low = T.max(0, T.floordiv(row * bm + past - window + 1, bn)) if window else 0
        high = T.min(tiles, T.ceildiv((row + 1) * bm + past, bn)) if causal else tiles
        return (low, high) if splits == 1 else (part * share, T.min(high, (part + 1) * share))

    @T.macro
    def attend(Q, K, V, acc, total, top, row, part, head, batch):
        q_s = T.alloc_shared((bm, wide), dtype)
        k_s = T.alloc_shared((bn, wide), dtype)
        v_s = T.alloc_shared((bn, wide_v), dtype)
        scores = T.alloc_fragment((bm, bn), "float32")
        weights = T.alloc_fragment((bm, bn), dtype)
        before = T.alloc_fragment((bm,), "float32")
        shrink = T.alloc_fragment((bm,), "float32")
        part_sum = T.alloc_fragment((bm,), "float32")
        T.copy(Q[batch, head, row * bm:(row + 1) * bm, 0:wide], q_s)
        T.fill(acc, 0)
        T.fill(total, 0)
        T.fill(top, LOW)
        low, high = bounds(row, part)
        for step in T.Pipelined(high - low, num_stages=stages):
            T.copy(K[batch, head // group, (low + step) * bn:(low + step + 1) * bn, 0:wide], k_s)
            T.clear(scores)
            T.gemm(q_s, k_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, bn):
                scores[i, j] = shown(scores[i, j], row * bm + i, (low + step) * bn + j)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(bm):
                shrink[i] = T.exp2((before[i] - top[i]) * slope)
            for i, j in T.Parallel(bm, bn):
                scores[i, j] = T.exp2(scores[i, j] * slope - top[i] * slope)
            T.reduce_sum(scores, part_sum, dim=1)
            for i in T.Parallel(bm):
                total[i] = total[i] * shrink[i] + part_sum[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(bm, wide_v):
                acc[i, j] = acc[i, j] * shrink[i]
            T.copy(V[batch, head // group, (low + step) * bn:(low + step + 1) * bn, 0:wide_v], v_s)
            T.gemm(weights, v_s, acc, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(bm, wide_v):
            acc[i, j] = acc[i, j] / total[i]

    q_type, k_type, v_type = T.Tensor((b, hq, t, d), dtype), T.Tensor((b, hkv, s, d), dtype), T.Tensor((b, hkv, s, dv), dtype)
    if splits == 1:
        @T.prim_func
        def program(Q: q_type, K: k_type, V: v_type, O: T.Tensor((b, hq, t, dv), dtype)):
            with T.Kernel(T.ceildiv(t, bm), hq, b, threads=threads) as (row, head, batch):
                acc = T.alloc_fragment((bm, wide_v), "float32")
                total = T.alloc_fragment((bm,), "float32")
                top = T.alloc_fragment((bm,), "float32")
                attend(Q, K, V, acc, total, top, row, 0, head, batch)
                T.copy(acc, O[batch, head, row * bm:(row + 1) * bm, 0:wide_v])
    else:
        @T.prim_func
        def program(Q: q_type, K: k_type, V: v_type, P: T.Tensor((b, hq, splits, t, dv), "float32"), L: T.Tensor((b, hq, splits, t), "float32")):
            with T.Kernel(T.ceildiv(t, bm) * splits, hq, b, threads=threads) as (x, head, batch):
                acc = T.alloc_fragment((bm, wide_v), "float32")
                total = T.alloc_fragment((bm,), "float32")
                top = T.alloc_fragment((bm,), "float32")
                attend(Q, K, V, acc, total, top, x // splits, x % splits, head, batch)
                T.copy(acc, P[batch, head, x % splits, (x // splits) * bm:(x // splits + 1) * bm, 0:wide_v])
                for i in T.Parallel(bm):
                    total[i] = T.log2(total[i]) + top[i] * slope
                T.copy(total, L[batch, head, x % splits, (x // splits) * bm:(x // splits + 1) * bm])
    return program


def tile_merge(rows, splits, t, dv, dtype, threads):
    """A program that adds the partial results [rows / t, splits, t, dv] by their logarithms."""
    import tilelang.language as T

    @T.prim_func
    def program(P: T.Tensor((rows // t, splits, t, dv), "float32"), L: T.Tensor((rows // t, splits, t), "float32"),
                O: T.Tensor((rows // t, t, dv), dtype)):
        with T.Kernel(t, rows // t, threads=threads) as (row, head):
            acc = T.alloc_fragment((dv,), "float32")
            top = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            T.clear(acc)
            top[0] = -T.infinity("float32")
            total[0] = 0
            for p in T.serial(splits):
                top[0] = T.max(top[0], L[head, p, row])
            for p in T.serial(splits):
                total[0] += T.exp2(L[head, p, row] - top[0])
                for j in T.Parallel(dv):
                    acc[j] += T.exp2(L[head, p, row] - top[0]) * P[head, p, row, j]
            for j in T.Parallel(dv):
                O[head, row, j] = acc[j] / total[0]

    return program


def arguments(q, k, v, scale, cap, causal, window):
    """Arguments of tile_attention without the configuration."""
    (b, hq, t, d), (_, hkv, s, _), dv = q.shape, k.shape, v.shape[-1]
    return b, hq, hkv, t, s, d, dv, bool(causal), int(window), float(cap or 0), float(scale), dtype_of(q)


def fold(q, k, causal, window):
    """Query heads of one head of keys as rows of one head, where no row has a position."""
    (b, hq, t, d), hkv = q.shape, k.shape[1]
    return q.reshape(b, hkv, hq // hkv * t, d) if hq != hkv and not causal and not window else q


def configs(q, k, v, causal, window):
    """Tiles to try; where they give few blocks, with the keys split, too."""
    q = fold(q, k, causal, window)
    (b, h, t, d), s, dv = q.shape, k.shape[2], v.shape[-1]
    out = []
    for bm, bn, stages, threads in (FEW_ROWS if t <= 64 else TILES):
        size = 2 * (bm * round_up(d, 16) + stages * bn * (round_up(d, 16) + round_up(dv, 16)))
        if size > SHARED:
            continue
        blocks, tiles = cdiv(t, bm) * b * h, cdiv(s, bn)
        for times in (1, 2) if 2 * blocks <= SMS and not causal and not window else ():
            splits = min(max(1, times * SMS // blocks), tiles)
            splits = cdiv(tiles, cdiv(tiles, splits))  # no block without keys
            if splits > 1:
                out.append((bm, bn, stages, threads, splits))
        out.append((bm, bn, stages, threads, 1))
    if not out:
        raise RuntimeError("no tile of rows of %d and %d numbers fits in shared memory" % (q.shape[-1], dv))
    return list(dict.fromkeys(out))[:MOST]


def prepare(ins, found):
    """Compiles all configurations side by side; ins as for arguments()."""
    q, k, _, _, _, causal, window = ins
    args = arguments(fold(q, k, causal, window), *ins[1:])
    for outputs in (1, 2):
        compile_all(tile_attention, args, [c for c in found if (c[-1] > 1) == (outputs == 2)], outputs)
    for splits in sorted({c[-1] for c in found} - {1}):
        compile_all(tile_merge, merge_arguments(args, splits), [(MERGE_THREADS,)])


def merge_arguments(args, splits):
    b, h, _, t, _, _, dv = args[:7]
    return b * h * t, splits, t, dv, args[-1]


def attend(q, k, v, scale, cap, causal, window, config):
    """The result [b, hq, t, dv]."""
    shape = q.shape[:-1] + v.shape[-1:]
    q, k, v = fold(q, k, causal, window).contiguous(), k.contiguous(), v.contiguous()
    args = arguments(q, k, v, scale, cap, causal, window)
    if config[-1] == 1:
        return kernel(tile_attention, args, config)(q, k, v).view(shape)
    parts, logs = kernel(tile_attention, args, config, 2)(q, k, v)
    (b, h, t, _), splits, dv = q.shape, config[-1], v.shape[-1]
    merge = kernel(tile_merge, merge_arguments(args, splits), (MERGE_THREADS,))
    return merge(parts.view(b * h, splits, t, dv), logs.view(b * h, splits, t)).view(shape)


def attention(name):
    return Way(attend, configs, PARTS, prepare=prepare)
