"""Masks that are known when a graph is compiled, masks of booleans, and layers that are cut alike."""
import math

import pytest

from conftest_torch import ALL, close, compiled, torch

from mica.torch import explain
from mica.torch.cut import layers
from mica.torch.masks import GONE

nn, F = torch.nn, torch.nn.functional


def qkv(rows=8):
    torch.manual_seed(0)
    return [torch.randn(2, 3, rows, 16) for _ in range(3)]


def shown(x):
    """A mask of all positions, as models make it if nothing is hidden."""
    at = torch.arange(x.shape[-2])
    return (at[:, None] >= 0).expand(x.shape[0], 1, -1, x.shape[-2])


def up_to_row(x):
    at = torch.arange(x.shape[-2])
    return at[None, None, None, :] <= at[None, None, :, None]


def window(x):
    at = torch.arange(x.shape[-2])
    return (at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - 3)


@pytest.mark.parametrize("mask, has, floats", [(shown, "= softmax(", False), (up_to_row, "iota([1, 8]) <= iota([8, 1])", False),
                                               (up_to_row, "iota([1, 8]) <= iota([8, 1])", True)])
def test_a_mask_of_positions_is_none_or_causal(mask, has, floats):
    def f(q, k, v):
        m = mask(q)
        m = torch.zeros(m.shape).masked_fill(~m, -torch.inf) if floats else m
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=m) * 2
    with torch.no_grad():
        e = explain(f, *qkv(), options=ALL)
        assert len(e.programs) == 1 and has in e.programs[0].text and "bool" not in e.programs[0].text, e
        assert any(n.why == GONE for n in e.left) and "mask" not in str(e), e.details()
        close(compiled(f)(*qkv()), f(*qkv()))


def test_another_constant_mask_is_computed_from_indices():
    def f(q, k, v):
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=window(q)) * 2
    with torch.no_grad():
        e = explain(f, *qkv(), options=ALL)
        text = e.programs[0].text
        assert "softmax_where" in text and "iota" in text and ": bool[" not in text, e
        close(compiled(f)(*qkv()), f(*qkv()))


def test_scores_that_a_constant_mask_adds_nothing_to():
    """As torch makes attention without a kernel: in parts, and with a root of the factor on both sides."""
    def f(q, k, v):
        by = 1 / math.sqrt(4)
        scores = (q * by) @ (k.transpose(-1, -2) * by) + torch.zeros(8, 8)
        return torch.softmax(scores, -1) @ v
    with torch.no_grad():
        e = explain(f, *qkv(), options=ALL)
        text = e.programs[0].text
        assert text.count(" + ") == 0 and text.count("* (0.25)") == 1 and "* (0.5)" not in text, e
        close(compiled(f)(*qkv()), f(*qkv()))


def test_a_row_of_a_mask_is_no_causal_mask():
    def f(q, k, v):
        first = torch.arange(q.shape[-2])[None, :] < 1
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=first) * 2
    with torch.no_grad():
        close(compiled(f)(*qkv()), f(*qkv()))


def test_constants_that_are_no_masks_stay():
    """Booleans are added as numbers 0 and 1. A result is not an alias of an input."""
    def f(x):
        return x + torch.ones(16, dtype=torch.bool), x + torch.zeros(16), (x * 2).relu()
    x = torch.randn(4, 16)
    with torch.no_grad():
        got = compiled(f)(x)
        close(got[0], f(x)[0])
        got[1].zero_()
        assert x.abs().sum() > 0


class Layers(nn.Module):
    """Equal layers that each add to their input. All read one mask."""

    def __init__(self, n=4, d=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)]) for _ in range(n))

    def forward(self, x, mask):
        x = x * 2
        for norm, qkv, out in self.layers:
            q, k, v = (t.view(2, 8, 2, 8).transpose(1, 2) for t in qkv(norm(x)).chunk(3, -1))
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.view(2, 1, 1, 8))
            x = x + out(a.transpose(1, 2).reshape(2, 8, 16))
        return x.relu()


def test_equal_layers_are_one_program():
    torch.manual_seed(0)
    model, x, mask = Layers().eval(), torch.randn(2, 8, 16), torch.arange(8)[None] < torch.tensor([[5], [7]])
    with torch.no_grad():
        e = explain(model, x, mask, options=ALL)
        texts = [p.text for p in e.programs if "softmax_where" in p.text]
        assert len(texts) == 4 and len(set(texts)) == 1 and sum(bool(p.same_as) for p in e.programs) == 3, e.details()
        close(compiled(model)(x, mask), model(x, mask))


@pytest.mark.parametrize("kinds, found", [
    ("x" + "abcde" * 4 + "yz", (1, 5, 20)), ("abcd" * 2, (0, 0, 0)), ("abcdabcdabcdab", (0, 4, 14)), ("aaaaaaaaaaaa", (0, 4, 12)), ("", (0, 0, 0)),
    ("abcdefgabcdefgabcdefg" + "pqrs" * 3, (0, 7, 21))])
def test_layers_are_found(kinds, found):
    assert layers(list(kinds)) == found


def test_a_weight_that_is_repeated_is_not_copied():
    """As torch makes it of a product with a batch that does not lie dense."""
    w = nn.Parameter(torch.randn(16, 64))

    def f(x):
        return torch.bmm(x.relu(), w.expand(4, 16, 64)).relu()
    x = torch.randn(4, 2, 16)
    with torch.no_grad():
        e = explain(f, x, options=ALL)
        assert "[16, 64]" in e.programs[0].text and "[4, 16, 64]" not in e.programs[0].text, e.programs[0].text
        close(compiled(f)(x), f(x))
