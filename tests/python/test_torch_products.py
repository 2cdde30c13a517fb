"""Products of one operand with several weights are one product, whose parts are the results; copies of the weights lie side by side."""
import pytest

from conftest_torch import ALL, compiled, torch

from mica.torch import explain, products

nn = torch.nn


@pytest.fixture(autouse=True)
def on_cpus(monkeypatch, tmp_path):
    torch.manual_seed(0)
    monkeypatch.setattr(products, "DEVICES", ("cpu",))
    monkeypatch.setenv("MICA_TORCH_CACHE", str(tmp_path))


class Heads(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32, bias=bias), nn.Linear(32, 16, bias=bias), nn.Linear(32, 16, bias=bias)

    def forward(self, x):
        def heads(y):
            return y.view(*y.shape[:-1], -1, 8).transpose(1, 2)
        q, k, v = heads(self.q(x)), heads(self.k(x)).repeat_interleave(2, 1), heads(self.v(x)).repeat_interleave(2, 1)
        return torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1) @ v


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(32, 64, bias=False), nn.Linear(32, 64, bias=False)

    def forward(self, x):
        return nn.functional.silu(self.gate(x)) * self.up(x)


def texts(model, x):
    e = explain(model, x, options=ALL)
    assert e.programs and all(p.taken for p in e.programs), e.details()
    return "".join(p.text for p in e.programs)


@pytest.mark.parametrize("bias", [False, True])
def test_heads_are_made_by_one_product(bias):
    model, x = Heads(bias).eval(), torch.randn(2, 8, 32)
    with torch.no_grad():
        text = texts(model, x)
        assert text.count("matmul(") == 3 and text.count("slice(") == 3 and "f32[32, 64]" in text, text  # heads, scores, values
        assert ("f32[64]" in text) == bias
        run = compiled(model)
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
        model.k.weight.mul_(2)  # copies are of the new weight
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_results_that_meet_stay_apart():
    model, x = Gated().eval(), torch.randn(8, 32)
    with torch.no_grad():
        text = texts(model, x)
        assert text.count("matmul(") == 2 and "slice(" not in text, text


def lines(*texts):
    """As the emitter has them: name = expression, names used, extents."""
    return [(n, t, tuple(a), s) for n, t, a, s in texts]


def test_a_bias_is_joined_if_all_have_one():
    weights = {"w": (4, 6), "u": (4, 2), "b": (6,), "c": (2,)}
    made = lines(("t0", "matmul(x, w)", "xw", (3, 6)), ("t1", "t0 + b", ("t0", "b"), (3, 6)), ("t2", "matmul(x, u)", "xu", (3, 2)),
                 ("t3", "t2 + c", ("t2", "c"), (3, 2)))
    after, joined = products.fold(made, weights, ["t1", "t3"])
    assert joined == [("t0_weights", ["w", "u"]), ("t0_all_bias", ["b", "c"])]
    assert [line[1] for line in after] == ["matmul(x, t0_weights)", "t0_all + t0_all_bias", "slice(t0_all_sum, dim=1, start=0, end=6)",
                                           "slice(t0_all_sum, dim=1, start=6, end=8)"]
    assert [line[0] for line in after[2:]] == ["t1", "t3"] and after[0][3] == (3, 8)
    after, joined = products.fold(made, weights, ["t0", "t1", "t3"])  # the first product is a result, too
    assert [line[0] for line in after] == ["t0_all", "t0", "t1", "t2", "t3"] and joined == [("t0_weights", ["w", "u"])]


@pytest.mark.parametrize("more, wanted", [((("t2", "t0 * t1", ("t0", "t1"), (3, 6)),), ["t2"]), ((), ["t0"])])
def test_products_that_are_not_joined(more, wanted):
    """Results meet before the next product; or the second operand is no weight."""
    made = lines(("t0", "matmul(x, w)", "xw", (3, 6)), ("t1", "matmul(x, u)", "xu", (3, 6)), *more)
    weights = {"w": (4, 6), "u": (4, 6)} if more else {"w": (4, 6)}
    assert products.fold(made, weights, wanted) == (made, [])
