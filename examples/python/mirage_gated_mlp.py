"""A gated MLP, silu(X W1) * (X W2): Mirage's demo with Mica's import."""
import numpy as np

import mica.mirage as mi
from mirage_common import check, doubles, options, random_inputs


def main():
    a, more = options()
    n, h = 8, 4096 // a.scale
    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(n, h), dtype=mi.float16)
    W1 = graph.new_input(dims=(h, h), dtype=mi.float16)
    W2 = graph.new_input(dims=(h, h), dtype=mi.float16)
    gate = graph.silu(graph.matmul(X, W1))
    graph.mark_output(graph.mul(gate, graph.matmul(X, W2)))
    optimized = graph.superoptimize(config="mlp", **more)

    inputs = random_inputs((n, h), (h, h), (h, h))
    x, w1, w2 = doubles(*inputs)
    g = x @ w1
    check("gated mlp", optimized, inputs, g / (1 + np.exp(-g)) * (x @ w2))


if __name__ == "__main__":
    main()
