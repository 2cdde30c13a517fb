"""A linear layer with a low-rank adapter, X W + X A B: Mirage's demo with Mica's import."""
import mica.mirage as mi
from mirage_common import check, doubles, options, random_inputs


def main():
    a, more = options()
    n, k, m, r = 16, 256, 4096 // a.scale, 16
    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(n, k), dtype=mi.float16)
    W = graph.new_input(dims=(k, m), dtype=mi.float16)
    A = graph.new_input(dims=(k, r), dtype=mi.float16)
    B = graph.new_input(dims=(r, m), dtype=mi.float16)
    low = graph.matmul(graph.matmul(X, A), B)
    graph.mark_output(graph.add(graph.matmul(X, W), low))
    optimized = graph.superoptimize(config="lora", **more)

    inputs = random_inputs((n, k), (k, m), (k, r), (r, m))
    x, w, p, q = doubles(*inputs)
    check("lora", optimized, inputs, x @ w + x @ p @ q)


if __name__ == "__main__":
    main()
