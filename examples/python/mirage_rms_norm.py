"""RMS norm and a linear layer: as a kernel graph that is superoptimized, and with the kernel of Mirage's paper (Figure 3) written as a
threadblock graph. Mirage's demo with Mica's import."""
import numpy as np

import mica.mirage as mi
from mirage_common import check, doubles, options, random_inputs


def superoptimized(n, h, more):
    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(n, h), dtype=mi.float16)
    W = graph.new_input(dims=(h, h), dtype=mi.float16)
    D = graph.rms_norm(X, normalized_shape=(h,))
    graph.mark_output(graph.matmul(D, W))
    return graph.superoptimize(config="mlp", **more)


def by_hand(n, h, more):
    blocks, steps = max(h // 64, 1), max(h // 64, 1)
    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(n, h), dtype=mi.float16)
    W = graph.new_input(dims=(h, h), dtype=mi.float16)
    tb = mi.new_threadblock_graph(grid_dim=(blocks, 1, 1), block_dim=(128, 1, 1), forloop_range=steps, reduction_dimx=64)
    x = tb.new_input(dtensor=X, input_map=(-1, -1, -1), forloop_dim=1)
    w = tb.new_input(dtensor=W, input_map=(1, -1, -1), forloop_dim=0)
    product = tb.forloop_accum(tb.matmul(x, w))
    norm = tb.forloop_accum(x, "rms")
    tb.new_output(stensor=tb.div(product, norm), output_map=(1, -1, -1))
    O, = graph.customized([X, W], tb)
    graph.mark_output(O)
    return graph.superoptimize(**more)


def main():
    a, more = options()
    n, h = 16, 4096 // a.scale
    inputs = random_inputs((n, h), (h, h))
    x, w = doubles(*inputs)
    want = x / np.sqrt((x * x).mean(axis=1, keepdims=True)) @ w
    check("rms norm + linear", superoptimized(n, h, more), inputs, want)
    check("rms norm + linear, kernel by hand", by_hand(n, h, more), inputs, want)


if __name__ == "__main__":
    main()
