"""Products in TileLang: TMA, wgmma and pipelined tiles, with an elementwise end."""
from .library import Missing, Way, by_waves
from .tile import compile_all, dtype_of, kernel

PARTS = "bm,bn,bk,stages,threads"
TILES = [(128, 256, 64, 3, 256), (256, 128, 64, 3, 256), (128, 128, 64, 4, 256), (128, 64, 64, 4, 256), (64, 256, 64, 4, 128),
         (64, 128, 64, 4, 128), (64, 64, 64, 6, 128), (64, 32, 128, 4, 128), (64, 16, 128, 6, 128)]
PAIRS = [(128, 128, 64, 3, 256), (128, 64, 64, 4, 256), (64, 128, 64, 4, 128), (64, 64, 64, 4, 128), (64, 32, 64, 6, 128), (64, 32, 128, 3, 128)]
MOST = 6


def sigmoid(T, x):
    return 1.0 / (1.0 + T.exp(-x))


def tanh(T, x):
    return T.tanh(x)


def softplus(T, x):
    return T.max(x, 0.0) + T.log(1.0 + T.exp(-T.abs(x)))


def clamp(T, x, low, high):
    return T.min(T.max(x, low), high)


def gelu(T, x):
    return 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476))


def gelu_tanh(T, x):
    return 0.5 * x * (1.0 + tanh(T, 0.7978845608028654 * (x + 0.044715 * x * x * x)))


# Kind of a family -> its end as an expression of the accumulator (and of the residual).
AFTER = {
    None: lambda T, x: x,
    "relu": lambda T, x: T.max(x, 0.0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda T, x: x * sigmoid(T, x),
    "sigmoid": sigmoid,
    "tanh": tanh,
    "mish": lambda T, x: x * tanh(T, softplus(T, x)),
    "leaky": lambda T, x: T.max(x * 2.0, x * 0.2),
    "hardtanh_gelu": lambda T, x: gelu(T, clamp(T, x * 0.5, -2.0, 2.0)),
    "swish_divide_clamp_tanh": lambda T, x: tanh(T, clamp(T, x * sigmoid(T, x) * 0.5, -1.0, 1.0)),
    "subtract_multiply_relu": lambda T, x: T.max((x - 2.0) * 1.5, 0.0),
    "softplus": softplus,
    "add": lambda T, x, r: x + r,
    "sigmoid_scale_add": lambda T, x, r: sigmoid(T, x) * 2.0 + x + r,
    "gate": lambda T, x, r: r * sigmoid(T, x),
    "scale_add": lambda T, x, r: x * 1.5 + r,
}


def tile_product(m, n, k, turned, operands, after, dtype, bm, bn, bk, stages, threads):
    """A program for X W; turned: which of X, W are stored transposed; operands: 2, 3 with a bias, 4 with a residual, too."""
    import tilelang.language as T

    left, right = "X" in turned, "W" in turned
    x_shape, w_shape = (k, m) if left else (m, k), (n, k) if right else (k, n)
    x_tile, w_tile = (bk, bm) if left else (bm, bk), (bn, bk) if right else (bk, bn)
    end = AFTER[after]

    @T.macro
    def accumulate(X, W, acc, row, col):
        x_s = T.alloc_shared(x_tile, dtype)
        w_s = T.alloc_shared(w_tile, dtype)
        T.clear(acc)
        for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
            if left:
                T.copy(X[step * bk, row * bm], x_s)
            else:
                T.copy(X[row * bm, step * bk], x_s)
            if right:
                T.copy(W[col * bn, step * bk], w_s)
            else:
                T.copy(W[step * bk, col * bn], w_s)
            T.gemm(x_s, w_s, acc, transpose_A=left, transpose_B=right, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def write(acc, Y, row, col):
        y_s = T.alloc_shared((bm, bn), dtype)
        T.copy(acc, y_s)
        T.copy(y_s, Y[row * bm, col * bn])

    if operands == 2:
        @T.prim_func
        def program(X: T.Tensor(x_shape, dtype), W: T.Tensor(w_shape, dtype), Y: T.Tensor((m, n), dtype)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (col, row):
                acc = T.alloc_fragment((bm, bn), "float32")
                T.use_swizzle(8)
                accumulate(X, W, acc, row, col)
                for i, j in T.Parallel(bm, bn):
                    acc[i, j] = end(T, acc[i, j])
                write(acc, Y, row, col)
    elif operands == 3:
        @T.prim_func
        def program(X: T.Tensor(x_shape, dtype), W: T.Tensor(w_shape, dtype), B: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (col, row):
                acc = T.alloc_fragment((bm, bn), "float32")
                T.use_swizzle(8)
                accumulate(X, W, acc, row, col)
                for i, j in T.Parallel(bm, bn):
                    acc[i, j] = end(T, acc[i, j] + T.cast(B[col * bn + j], "float32"))
                write(acc, Y, row, col)
    else:
        @T.prim_func
        def program(X: T.Tensor(x_shape, dtype), W: T.Tensor(w_shape, dtype), B: T.Tensor((n,), dtype), R: T.Tensor((m, n), dtype),
                    Y: T.Tensor((m, n), dtype)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (col, row):
                acc = T.alloc_fragment((bm, bn), "float32")
                T.use_swizzle(8)
                accumulate(X, W, acc, row, col)
                for i, j in T.Parallel(bm, bn):
                    acc[i, j] = end(T, acc[i, j] + T.cast(B[col * bn + j], "float32"), T.cast(R[row * bm + i, col * bn + j], "float32"))
                write(acc, Y, row, col)
    return program


def tile_gated(m, n, k, after, dtype, bm, bn, bk, stages, threads):
    """A program for end(X W1) * (X W3)."""
    import tilelang.language as T

    end = AFTER[after]

    @T.prim_func
    def gated(X: T.Tensor((m, k), dtype), W1: T.Tensor((k, n), dtype), W3: T.Tensor((k, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (col, row):
            x_s = T.alloc_shared((bm, bk), dtype)
            a_s = T.alloc_shared((bk, bn), dtype)
            b_s = T.alloc_shared((bk, bn), dtype)
            a = T.alloc_fragment((bm, bn), "float32")
            b = T.alloc_fragment((bm, bn), "float32")
            T.use_swizzle(8)
            T.clear(a)
            T.clear(b)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(X[row * bm, step * bk], x_s)
                T.copy(W1[step * bk, col * bn], a_s)
                T.copy(W3[step * bk, col * bn], b_s)
                T.gemm(x_s, a_s, a, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(x_s, b_s, b, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, bn):
                a[i, j] = end(T, a[i, j]) * b[i, j]
            y_s = T.alloc_shared((bm, bn), dtype)
            T.copy(a, y_s)
            T.copy(y_s, Y[row * bm, col * bn])

    return gated


def order(m, n, tiles):
    """Tiles to try, by how long their waves of blocks would take."""
    return by_waves(m, n, tiles, 64, 16)[:MOST]


def product(after=None, turned="", operands=2, f=None):
    """x W, with a bias and a residual as further operands."""
    if after not in AFTER:
        return Missing("no such end is written for TileLang: %s" % after)

    def args(x, w):
        (m, k) = x.shape[::-1] if "X" in turned else x.shape
        return m, w.shape[0] if "W" in turned else w.shape[1], k, turned, operands, after, dtype_of(x)

    def flat(ins):
        return (ins[0].reshape(-1, ins[0].shape[-1]),) + tuple(ins[1:])

    def call(*ins):
        ins, config = flat(ins[:-1]), ins[-1]
        return kernel(tile_product, args(*ins[:2]), config)(*ins)

    def configs(*ins):
        return order(*args(*flat(ins)[:2])[:2], TILES)

    return Way(call, configs, PARTS, prepare=lambda ins, found: compile_all(tile_product, args(*flat(ins)[:2]), found))


def gated_product(after="silu", f=None):
    def args(x, w):
        return x.shape[0], w.shape[1], x.shape[1], after, dtype_of(x)

    def call(x, a, b, config):
        return kernel(tile_gated, args(x, a), config)(x, a, b)

    return Way(call, lambda x, a, b: order(x.shape[0], a.shape[1], PAIRS), PARTS,
               prepare=lambda ins, found: compile_all(tile_gated, args(*ins[:2]), found))
