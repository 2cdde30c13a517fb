"""The residual step of nGPT, norm(X + alpha * (norm(H) + X)) with RMS norms: Mirage's benchmark with Mica's import."""
import numpy as np

import mica.mirage as mi
from mirage_common import check, doubles, options, random_inputs


def main():
    a, more = options()
    n, h = 8, 4096 // a.scale
    graph = mi.new_kernel_graph()
    H = graph.new_input(dims=(n, h), dtype=mi.float16)
    X = graph.new_input(dims=(n, h), dtype=mi.float16)
    alpha = graph.new_input(dims=(n, h), dtype=mi.float16)
    A = graph.add(graph.rms_norm(H, normalized_shape=(h,)), X)
    C = graph.add(X, graph.mul(alpha, A))
    graph.mark_output(graph.rms_norm(C, normalized_shape=(h,)))
    optimized = graph.superoptimize(**more)

    def norm(t):
        return t / np.sqrt((t * t).mean(axis=1, keepdims=True))

    inputs = random_inputs((n, h), (n, h), (n, h))
    h_, x, alpha_ = doubles(*inputs)
    check("norm transformer", optimized, inputs, norm(x + alpha_ * (norm(h_) + x)))


if __name__ == "__main__":
    main()
