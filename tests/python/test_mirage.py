"""Mirage's functions build the same programs as in Mirage."""
import pytest

import mica
import mica.mirage as mi
from conftest import QUICK


def by_hand(n=16, h=512, m=256):
    """RMS norm and a linear layer as one kernel: "Mirage", Figure 3."""
    graph = mi.new_kernel_graph()
    X, W = graph.new_input(dims=(n, h), dtype=mi.float32), graph.new_input(dims=(h, m), dtype=mi.float32)
    tb = mi.new_threadblock_graph(grid_dim=(4, 1, 1), block_dim=(128, 1, 1), forloop_range=8, reduction_dimx=64)
    x = tb.new_input(dtensor=X, input_map=(-1, -1, -1), forloop_dim=1)
    w = tb.new_input(dtensor=W, input_map=(1, -1, -1), forloop_dim=0)
    tb.new_output(stensor=tb.div(tb.forloop_accum(tb.matmul(x, w)), tb.forloop_accum(x, "rms")), output_map=(1, -1, -1))
    return graph, X, W, tb


def test_a_kernel_by_hand_is_the_program():
    graph, X, W, tb = by_hand()
    with pytest.raises(mica.UsageError, match="in the order"):
        graph.customized([W, X], tb)
    O, = graph.customized([X, W], tb)
    graph.mark_output(O)
    assert "block(x=4; i=8)" in graph.text and "accum_rms" in graph.text

    whole = mi.new_kernel_graph()
    X, W = whole.new_input(dims=(16, 512), dtype=mi.float32), whole.new_input(dims=(512, 256), dtype=mi.float32)
    whole.mark_output(whole.matmul(whole.rms_norm(X, normalized_shape=(512,)), W))
    assert mica.verify(graph, whole)["equal"]


def test_accumulators():
    for acc, shape in [(None, (16, 32)), ("sum", (16, 1)), ("mean", (16, 1)), ("rms", (16, 1)), ("sum_todimx", (16, 16))]:
        graph = mi.new_kernel_graph()
        tb = mi.new_threadblock_graph((1, 1, 1), (128, 1, 1), forloop_range=8, reduction_dimx=16)
        x = tb.new_input(graph.new_input(dims=(16, 256)), (-1, -1, -1), 1)
        assert tb.forloop_accum(x, acc).shape == shape and x.dtype == "f16"
    with pytest.raises(mica.UsageError, match="there is no `max_todimx`"):
        tb.forloop_accum(x, "max_todimx")


def test_a_loop_may_join_outputs():
    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(16, 256), dtype=mi.float32)
    tb = mi.new_threadblock_graph((2, 1, 1), (128, 1, 1), forloop_range=4)
    x = tb.new_input(X, (0, -1, -1), 1)
    tb.new_output(tb.exp(x), (0, -1, -1), forloop_dim=1)
    graph.mark_output(graph.customized([X], tb)[0])
    assert mica.verify(graph, "program p { X: f32[16, 256]\n return exp(X) }")["equal"]


def test_superoptimize_and_call():
    np = pytest.importorskip("numpy")
    graph = mi.new_kernel_graph()
    X, Y = graph.new_input(dims=(4, 8), dtype=mi.float32), graph.new_input(dims=(4, 8), dtype=mi.float32)
    graph.reduction(graph.mul(graph.clamp(X, 0, 1), Y), 1)  # no output is marked: unused results are outputs
    with pytest.warns(UserWarning, match="griddims mean nothing"):
        optimized = graph.superoptimize(griddims=[(1, 1, 1)], config="mlp", target="cpu", **QUICK)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 4, 8)).astype("f4")
    got, = optimized(inputs=[x, y])
    assert np.allclose(got, (x.clip(0, 1) * y).sum(1, keepdims=True), atol=1e-5) and optimized.valid_kernels()
    out = np.empty((4, 1), "f4")
    assert optimized(inputs=[x, y], outputs=[out])[0] is out and (out == got).all()


def test_strides_that_are_not_dense():
    graph = mi.new_kernel_graph()
    assert graph.new_input(dims=(2, 3), strides=(3, 1)).shape == (2, 3)
    with pytest.raises(mica.UsageError, match="dense row by row"):
        graph.new_input(dims=(2, 3), strides=(1, 2))
    with pytest.raises(mica.UsageError, match="last dimension"):
        graph.rms_norm(graph.new_input(dims=(2, 3)), normalized_shape=(2, 3))
