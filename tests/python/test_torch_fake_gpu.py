"""Programs from graphs as torch makes them for a GPU: tensors without elements replace those on the GPU, so no GPU is needed."""
import re

import pytest

from conftest_torch import ALL, torch
import torch_models as models

import mica.torch
from mica.torch import explain
from torch._subclasses.fake_tensor import FakeTensorMode

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


@pytest.fixture
def programs(monkeypatch):
    """model, inputs -> the result of explain. All programs are taken without a measurement."""
    def take(region, bucket, real, taken):
        taken.text, taken.taken = region.build(bucket).text, True
    monkeypatch.setattr(mica.torch.region.Region, "compile", take)

    def run(model, inputs, dtype=torch.float16, **options):
        mica.torch.library._regions.clear()
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
            def there(x):
                return mode.from_tensor(x).to("cuda", dtype if x.is_floating_point() else x.dtype)
            for module in model.modules():
                for name, p in list(module._parameters.items()):
                    if p is not None:
                        module._parameters[name] = nn.Parameter(torch.empty(p.shape, dtype=dtype, device="cuda"), requires_grad=False)
            return explain(model.eval(), *map(there, inputs), options={**ALL, "target": "sm_90a", **options})
    return run


def flash(q, k, v, is_causal=False):
    return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, False, scale=q.shape[-1] ** -0.5)[0]


def efficient(q, k, v, is_causal=False):
    return aten._scaled_dot_product_efficient_attention(q, k, v, None, False, 0.0, is_causal)[0]


def cudnn(q, k, v, is_causal=False):
    return aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, is_causal)[0]


def llama():
    return models.LlamaLayer(128, 2, 1, 256), [torch.randn(1, 64, 128), *models.rotary(64, 64)]


@pytest.mark.parametrize("attention, dtype", [(flash, torch.float16), (flash, torch.bfloat16), (efficient, torch.float16), (cudnn, torch.float16)])
def test_attention_is_in_the_layers_program(programs, monkeypatch, attention, dtype):
    monkeypatch.setattr(F, "scaled_dot_product_attention", attention)
    e = programs(*llama(), dtype)
    assert len(e.programs) == 1 and e.programs[0].text.count("matmul") == 7, e  # queries, keys and values are one
    assert {n.why for n in e.left} <= {"made once, of weights alone", "a view at the end of a program"}, e


def test_attention_of_single_operators(programs):
    """The form that torch makes of it if there is no kernel: in 32 bits, and the mask from constants. It is cut where that is made narrow."""
    e = programs(*llama())
    assert len(e.programs) == 2 and "softmax" in e.programs[0].text and "m0: f32[64, 64]" in e.programs[0].text, e


@pytest.mark.parametrize("norm, text", [(nn.RMSNorm, "rms_norm"), (nn.LayerNorm, "layer_norm")])
def test_norms_are_one_operator(programs, norm, text):
    e = programs(nn.Sequential(nn.Linear(128, 128), norm(128), nn.SiLU()), [torch.randn(16, 128)])
    assert len(e.programs) == 1 and text in e.programs[0].text, e


class Partial(nn.Module):
    """A rotation of a part of each head, and a token ahead of others."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 64))

    def forward(self, x):
        x = torch.cat([-x[..., :16], x[..., 16:]], -1).relu()
        return torch.cat([self.first.expand(len(x), 1, 64), x], 1) * 2


def test_kernels_join_equal_parts(programs):
    e = programs(Partial(), [torch.randn(4, 196, 64)])
    assert all("concat" not in p.text or re.search(r"concat\(t\d+, t\d+, t\d+, t\d+, dim=2\)", p.text) for p in e.programs), e
    assert any("concat" in p.text for p in e.programs)
    why = [n.why for n in e.left if n.operator == "aten.cat.default"]
    assert why == ["a concatenation of extents [1, 196], which are more than 16 equal parts"], e


class Frequencies(nn.Module):
    """Angles in 32 bits of weights in 16, as models make them for their rotations; and a product with a narrow weight."""

    def __init__(self):
        super().__init__()
        self.inverse, self.w = nn.Parameter(torch.randn(1, 16, 1)), nn.Parameter(torch.randn(64, 64))

    def forward(self, positions, x):
        angles = (self.inverse.float() @ (positions.float() * 2)).transpose(1, 2) * 3
        return angles, (x.float() @ self.w.float()).type_as(x).relu()


def test_weights_are_wide_where_they_meet_what_is(programs):
    e = programs(Frequencies(), [torch.ones(1, 1, 8, dtype=torch.int64), torch.randn(8, 64)], torch.bfloat16)
    texts = sorted((p.text for p in e.programs), key=lambda t: "relu" in t)
    assert len(texts) == 2 and "bf16" not in texts[0] and "matmul" in texts[0], e
    assert "f32" not in texts[1].replace("bf16", "") and "matmul" in texts[1], e


class Hidden(nn.Module):
    """Layers of attention with one mask of booleans, as torch hands it to cuDNN: of 0 and a finite number, once a layer."""

    def __init__(self, low):
        super().__init__()
        self.low, self.layers = low, nn.ModuleList(nn.Linear(128, 128) for _ in range(3))

    def forward(self, x, shown):
        def number(n):
            return torch.scalar_tensor(n, dtype=x.dtype, device=x.device)
        for layer in self.layers:
            bias = torch.where(shown, number(0.), number(self.low)).expand(2, 2, 64, 64)
            q = layer(x).view(2, 64, 2, 64).transpose(1, 2)
            x = aten._scaled_dot_product_cudnn_attention(q, q, q, bias, False)[0].transpose(1, 2).reshape(2, 64, 128)
        return x


@pytest.mark.parametrize("low, dtype", [(-65504., "bf16"), (-float("inf"), "bool")])
def test_a_mask_of_finite_numbers_is_made_once_for_all_layers(programs, low, dtype):
    e = programs(Hidden(low), [torch.randn(2, 64, 128), torch.rand(2, 1, 64, 64) > 0.5], torch.bfloat16)
    assert e.programs and all(f": {dtype}[2, 1, 64, 64]" in p.text for p in e.programs), e
    chosen = [n.why for n in e.left if n.operator == "aten.where.self"]
    assert ("a mask that several layers share, made once" in chosen) == (dtype == "bf16"), e


@pytest.mark.parametrize("columns", [1001, 1008])
def test_a_transposed_weight_with_ragged_rows_is_no_copy(programs, columns):
    """GPUs load tiles of the weight itself, whose rows are aligned."""
    e = programs(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, columns)), [torch.randn(128, 64)])
    assert len(e.programs) == 1 and not {n.why for n in e.left} - {"made once, of weights alone"}, e
    text = e.programs[0].text
    assert (f"[{columns}, 64]" in text and "transpose(" in text) == (columns == 1001) == (f"[64, {columns}]" not in text.split("t0 =")[0]), text
