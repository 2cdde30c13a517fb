"""Group-query attention by exp, sum and division, which Mica keeps from overflowing: Mirage's demo with Mica's import."""
import numpy as np

import mica.mirage as mi
from mirage_common import check, doubles, options, random_inputs


def main():
    a, more = options()
    n, m, d = 2, 4096 // a.scale, 64
    graph = mi.new_kernel_graph()
    Q = graph.new_input(dims=(n, 256, d), dtype=mi.float16)
    K = graph.new_input(dims=(n, d, m), dtype=mi.float16)
    V = graph.new_input(dims=(n, m, d), dtype=mi.float16)
    E = graph.exp(graph.matmul(Q, K))
    D = graph.div(E, graph.reduction(E, 2))
    graph.mark_output(graph.matmul(D, V))
    optimized = graph.superoptimize(config="attention", **more)

    inputs = random_inputs((n, 256, d), (n, d, m), (n, m, d))
    q, k, v = doubles(*inputs)
    e = np.exp(q @ k)
    check("group query attention", optimized, inputs, e / e.sum(axis=2, keepdims=True) @ v)


if __name__ == "__main__":
    main()
