"""Softmax and norms of rows in TileLang: a row in registers, or long rows in pieces."""
from .library import Way
from .tile import compile_all, dtype_of, kernel, round_up

PARTS = "rows,piece,threads"
LONGEST = 16384  # of a row that stays in registers
THREADS = ((1, 128), (1, 256), (2, 128), (1, 512), (4, 128))


def tile_softmax(m, n, dtype, rows, piece, threads):
    """A program for the softmax of each row; with several pieces, a row is read twice."""
    import tilelang.language as T

    pieces = -(-n // piece)
    log2e = 1.4426950408889634

    @T.prim_func
    def program(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, piece), "float32")
            top = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.fill(top, -1e30)
            T.fill(total, 0)
            for p in T.serial(pieces):
                T.copy(X[block * rows:(block + 1) * rows, p * piece:(p + 1) * piece], x)
                for i, j in T.Parallel(rows, piece):
                    x[i, j] = T.if_then_else(p * piece + j < n, x[i, j], -1e30)
                T.copy(top, before)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, piece):
                    x[i, j] = T.exp2((x[i, j] - top[i]) * log2e)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp2((before[i] - top[i]) * log2e) + part[i]
            if pieces == 1:
                for i, j in T.Parallel(rows, piece):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[block * rows:(block + 1) * rows, 0:piece])
            else:
                for p in T.serial(pieces):
                    T.copy(X[block * rows:(block + 1) * rows, p * piece:(p + 1) * piece], x)
                    for i, j in T.Parallel(rows, piece):
                        x[i, j] = T.exp2((x[i, j] - top[i]) * log2e) / total[i]
                    T.copy(x, Y[block * rows:(block + 1) * rows, p * piece:(p + 1) * piece])

    return program


def tile_rms_norm(m, n, eps, dtype, rows, piece, threads):
    """A program for x / sqrt(mean(x x) + eps) * w."""
    import tilelang.language as T

    @T.prim_func
    def program(X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, piece), "float32")
            square = T.alloc_fragment((rows, piece), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[block * rows:(block + 1) * rows, 0:piece], x)
            for i, j in T.Parallel(rows, piece):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / n + eps)
            for i, j in T.Parallel(rows, piece):
                x[i, j] = x[i, j] * total[i] * T.cast(T.if_then_else(j < n, W[j], T.cast(0, dtype)), "float32")
            T.copy(x, Y[block * rows:(block + 1) * rows, 0:piece])

    return program


def tile_layer_norm(m, n, eps, dtype, rows, piece, threads):
    """A program for (x - mean) / sqrt(variance + eps) * g + e."""
    import tilelang.language as T

    @T.prim_func
    def program(X: T.Tensor((m, n), dtype), G: T.Tensor((n,), dtype), E: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, piece), "float32")
            square = T.alloc_fragment((rows, piece), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[block * rows:(block + 1) * rows, 0:piece], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(rows):
                mean[i] = mean[i] / n
            for i, j in T.Parallel(rows, piece):
                x[i, j] = T.if_then_else(j < n, x[i, j] - mean[i], 0.0)
            for i, j in T.Parallel(rows, piece):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / n + eps)
            for i, j in T.Parallel(rows, piece):
                x[i, j] = (x[i, j] * total[i] * T.cast(T.if_then_else(j < n, G[j], T.cast(0, dtype)), "float32")
                           + T.cast(T.if_then_else(j < n, E[j], T.cast(0, dtype)), "float32"))
            T.copy(x, Y[block * rows:(block + 1) * rows, 0:piece])

    return program


def configs(n, whole):
    """Rows of a block, the piece of a row, and threads; whole: a row must be one piece."""
    out = []
    for rows, threads in THREADS:
        unit = threads * (8 if n % 8 == 0 else 1) // rows
        piece = round_up(n, unit)
        if piece > LONGEST and not whole:
            piece = round_up(LONGEST // 2, unit)
        if rows * piece <= 128 * threads and piece < 2 * n + unit:
            out.append((rows, piece, threads))
    return out


def way(builder, eps=None):
    """Rows of x with weights: softmax without eps, or a norm."""
    def args(x):
        return tuple(x.shape) + ((dtype_of(x),) if eps is None else (eps, dtype_of(x)))

    def call(*ins):
        ins, config = ins[:-1], ins[-1]
        return kernel(builder, args(ins[0]), config)(*ins)

    def found(x, *weights):
        some = configs(x.shape[1], eps is not None)
        if not some:
            raise RuntimeError("rows of %d numbers do not fit in registers" % x.shape[1])
        return some

    return Way(call, found, PARTS, prepare=lambda ins, found: compile_all(builder, args(ins[0]), found))


def softmax():
    return way(tile_softmax)


def rms_norm(eps):
    return way(tile_rms_norm, eps)


def layer_norm(eps):
    return way(tile_layer_norm, eps)
