"""mica.torch.operator: an optimized program as an operator of torch, in eager mode, under torch.compile and in torch.export."""
import pytest

from conftest import PAIR, QUICK
from conftest_torch import holds_pair, pair_inputs, torch

import mica
import mica.torch


@pytest.fixture(scope="module")
def pair_op(pair, saved):
    return mica.torch.operator(saved)


def test_eager(pair_op):
    x, y = pair_inputs()
    holds_pair(pair_op(x, y), x, y)
    holds_pair(torch.ops.mica.pair(x.t().contiguous().t(), y), x, y)  # strides of its own
    with pytest.raises(ValueError, match=r"input Y is torch.float32 \[4, 5\], and the program's is torch.float32 \[4, 6\]"):
        pair_op(x, y[:, :5])
    with pytest.raises(ValueError, match="input X is torch.float64"):
        pair_op(x.double(), y)


def test_torch_checks_it(pair_op):
    torch.library.opcheck(pair_op.default, pair_inputs(), test_utils=("test_schema", "test_faketensor"))


def test_compiled_and_exported(pair_op):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            a, b = torch.ops.mica.pair(x, y)
            return a + 1, b
    x, y = pair_inputs()
    a, b = torch.compile(Model(), fullgraph=True, backend="eager")(x, y)
    holds_pair((a - 1, b), x, y)
    a, b = torch.export.export(Model(), (x, y)).module()(x, y)
    holds_pair((a - 1, b), x, y)


def test_gradients_are_refused(pair_op):
    x, y = pair_inputs()
    with pytest.raises(Exception, match="gradient"):
        pair_op(x.requires_grad_(), y)
    with torch.no_grad():
        holds_pair(pair_op(x, y), x, y)


def test_one_result_and_names(pair_op):
    f = mica.optimize("program twice { X: f32[8]\n return X * 2 }", **QUICK)
    op = mica.torch.operator(f, name="tests_of_mica::twice")
    x = torch.randn(8)
    assert torch.equal(op(x), 2 * x) and str(op.default._schema) == "tests_of_mica::twice(Tensor X) -> Tensor"
    with pytest.raises(ValueError, match="the operator tests_of_mica::twice is there already"):
        mica.torch.operator(f, name="tests_of_mica::twice")
    with pytest.raises(ValueError, match="is not a name of an operator"):
        mica.torch.operator(f, name="a b")
