"""Rows on numbers that random inputs seldom have: programs as they run on the CPU, against eager mode, element by element."""
import math

import pytest

from conftest_torch import ALL, close, compiled, graph_of, torch
from mica.torch import explain
from test_torch_rows import program_of

F = torch.nn.functional
LARGEST = torch.finfo(torch.float32).max
X = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, LARGEST, -LARGEST, 0.5, 1.5, -1.5, 30.0, -30.0, 0.25, 3.0])
Y = X.roll(7)
CASES = {
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),  # 1.5 * LARGEST * 0.5
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    "lerp": lambda x, y: torch.lerp(x, y, y),
    "lerp of an infinity": lambda x, y: torch.lerp(x, y, x),
    "softplus": lambda x, y: F.softplus(x, 2.0, 25.0),
    "softplus with a low threshold": lambda x, y: F.softplus(x, threshold=0.3),
    "softmax of one number": lambda x, y: torch.stack([x[2].softmax(0), x[4].softmax(-1), x[6].softmax(0)]),
    "attention under a computed mask that hides rows": lambda x, y: F.scaled_dot_product_attention(
        x[-6:].reshape(1, 3, 2), x[-6:].reshape(1, 3, 2), x[:6].reshape(1, 3, 2)[:, :, :1], attn_mask=x[-6:].reshape(3, 2)[:, :1] > 0),
}


@pytest.mark.parametrize("case", CASES)
def test_each_element_is_as_in_eager_mode(case):
    from mica.torch.compiler import _listeners
    graphs = []
    _listeners.lists = [graphs]
    try:
        with torch.no_grad():
            got, want = compiled(CASES[case], min_ops=1)(X, Y), CASES[case](X, Y)
    finally:
        _listeners.lists = []
    assert graphs[0].taken, graphs[0]
    assert torch.equal(got.isnan(), want.isnan()) and torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True), (got, want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_numbers_are_compared_in_the_dtype_of_the_tensor(dtype):
    x = torch.tensor([0.1, 0.3, 1.0, 0.0, 3.0], dtype=dtype)

    def f(x):
        return torch.stack([torch.where(c, x * 2, 7.0) for c in (x <= 0.1, x <= 0.3, x > 0.3, x == 0.1, x >= 1.0001, x == 1e-9, x != 0.3)]
                           + [F.hardshrink(x, 0.3), F.hardshrink(x, 0.1)])
    with torch.no_grad():
        assert torch.equal(compiled(f, min_ops=1)(x), f(x))


def test_indices_and_counts_have_32_bits_beside_a_tensor_of_16():
    def f(x):
        return torch.arange(8.0) * x, (x > 0).float().sum(0), torch.full((8,), 70000.0) * x
    x = torch.cat([torch.rand(2051, 8, generator=torch.Generator().manual_seed(0)), -torch.rand(2, 8)]).half()
    with torch.no_grad():
        for got, want in zip(compiled(f, min_ops=1)(x), f(x), strict=True):
            assert got.dtype is torch.float32 and torch.equal(got, want)


def test_zeros_of_16_bits_that_a_choice_reads_as_a_number():
    def f(x):
        return torch.where(x * 2 > 1, x, torch.zeros_like(x))
    x = torch.randn(4, 6).half()
    with torch.no_grad():
        e = explain(f, x, options={**ALL, "min_ops": 1})
        assert [p.taken for p in e.programs] == [True] and torch.equal(compiled(f, min_ops=1)(x), f(x)), e


def test_losses_of_few_rows_are_taken():
    x, y = torch.randn(1, 6), torch.tensor([4])
    with torch.no_grad():
        e = explain(F.cross_entropy, x, y, options={**ALL, "min_ops": 1})
        assert [p.taken for p in e.programs] == [True], e
        run = compiled(F.cross_entropy, min_ops=1)
        close(run(x, y), F.cross_entropy(x, y))
        assert run(x, torch.tensor([-100])).isnan()  # as in eager mode: the mean of none


HALVES = {
    "rms_norm of several dimensions": lambda x: F.rms_norm(x * 4, (4, 6), None, 0.5),  # the mean of squares is above 65504
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),  # products before their factor, too
    "attention in parts": lambda x: ((x * 0.5) @ (x.mT * 0.5)).softmax(-1) @ x,
}


@pytest.mark.parametrize("case", HALVES)
def test_what_16_bits_hold_stays_in_them(case):
    x = (torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0)) * 80).half()
    with torch.no_grad():
        got, want = compiled(HALVES[case], min_ops=1)(x), HALVES[case](x)
    assert got.isfinite().all() and want.isfinite().all()
    close(got, want, 5e-3)


@pytest.mark.parametrize("f", [lambda x: x * math.inf, lambda x: x + math.nan, lambda x: x / 0.0, lambda x: torch.where(x > 1, x, -math.inf),
                               lambda x: x.masked_fill(x > 1, math.inf), lambda x: F.threshold(x, 0.1, math.inf)])
def test_numbers_that_the_language_does_not_have_are_refused(f):
    from mica.torch.emit import Cannot
    gm = graph_of(lambda x: [f(x)], (torch.randn(8, 8),))
    with pytest.raises(Cannot, match="the number (inf|-inf|nan|0)"):
        program_of(gm)
