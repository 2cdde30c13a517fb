"""Models as both of torch's exporters write them: an MLP, a gated MLP with its norm, BERT's attention, a layer of Llama, a linear layer
with LoRA, experts as in Mixtral, all of them computed for all tokens.

    torch_models.py FOLDER    writes FOLDER/NAME_EXPORTER.onnx without the exporter's notes, and says what is in them
"""
import dataclasses
import logging
import os
import sys
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, n=16, wide=32):
        super().__init__()
        self.up, self.down = nn.Linear(n, wide), nn.Linear(wide, n)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class RMSNorm(nn.Module):
    """As models of Llama's family write it: in 32 bits."""

    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(n) + 0.5)

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class GatedMLP(nn.Module):
    def __init__(self, n=16, wide=32):
        super().__init__()
        self.norm = RMSNorm(n)
        self.gate, self.up, self.down = nn.Linear(n, wide, bias=False), nn.Linear(n, wide, bias=False), nn.Linear(wide, n, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class BertAttention(nn.Module):
    def __init__(self, n=16, heads=2):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(n)
        self.query, self.key, self.value, self.out = (nn.Linear(n, n) for _ in range(4))

    def forward(self, x, mask):
        batch, tokens, n = x.shape
        q, k, v = (f(x).view(batch, tokens, self.heads, n // self.heads).transpose(1, 2) for f in (self.query, self.key, self.value))
        bias = (1 - mask[:, None, None, :].to(x.dtype)).expand(-1, -1, tokens, -1) * -10000.0  # onnxruntime wants every row
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(batch, tokens, n)
        return self.norm(self.out(y) + x)


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, n=16, heads=4, shared=2, wide=24):
        super().__init__()
        self.heads, self.shared, self.each = heads, shared, n // heads
        self.query, self.out = nn.Linear(n, n, bias=False), nn.Linear(n, n, bias=False)
        self.key, self.value = nn.Linear(n, shared * self.each, bias=False), nn.Linear(n, shared * self.each, bias=False)
        self.norm, self.mlp = RMSNorm(n), GatedMLP(n, wide)

    def forward(self, x, position_ids):
        batch, tokens, n = x.shape
        rates = 1 / (10000 ** (torch.arange(0, self.each, 2).float() / self.each))
        angles = position_ids[:, None, :, None].float() * torch.cat((rates, rates))
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        h = self.norm(x)
        q, k, v = (f(h).view(batch, tokens, -1, self.each).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        k, v = (t[:, :, None].expand(-1, -1, self.heads // self.shared, -1, -1).reshape(batch, self.heads, tokens, self.each) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mlp(x + self.out(y.transpose(1, 2).reshape(batch, tokens, n)))


class LoRA(nn.Module):
    def __init__(self, n=16, rank=4):
        super().__init__()
        self.linear, self.a, self.b = nn.Linear(n, n), nn.Linear(n, rank, bias=False), nn.Linear(rank, n, bias=False)

    def forward(self, x):
        return self.linear(x) + self.b(self.a(x)) * 2.0


class Experts(nn.Module):
    def __init__(self, n=8, wide=16, experts=4, chosen=2):
        super().__init__()
        self.chosen, self.router = chosen, nn.Linear(n, experts, bias=False)
        self.gate, self.up, self.down = (nn.Parameter(torch.randn(experts, *s) / 4) for s in ((n, wide), (n, wide), (wide, n)))

    def forward(self, x):
        p = F.softmax(self.router(x), -1)
        least = torch.topk(p, self.chosen, -1)[0][..., -1:]
        p = torch.where(p >= least, p, torch.zeros_like(p))
        p = p / p.sum(-1, keepdim=True)
        h = F.silu(torch.einsum("td,edf->etf", x, self.gate)) * torch.einsum("td,edf->etf", x, self.up)
        return torch.einsum("etf,efd,te->td", h, self.down, p)


@dataclasses.dataclass
class Case:
    name: str
    model: nn.Module
    inputs: dict
    batch: bool = False  # the first extent of the first input is a symbol


def cases():
    torch.manual_seed(0)
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    places = torch.arange(6)[None]
    return [Case("mlp", MLP(), {"x": torch.randn(4, 16)}), Case("gated", GatedMLP(), {"x": torch.randn(4, 16)}, batch=True),
            Case("bert", BertAttention(), {"x": torch.randn(2, 6, 16), "mask": mask}),
            Case("llama", LlamaLayer(), {"x": torch.randn(1, 6, 16), "position_ids": places}),
            Case("lora", LoRA(), {"x": torch.randn(4, 16)}), Case("experts", Experts(), {"x": torch.randn(6, 8)}),
            Case("llama_half", LlamaLayer().half(), {"x": torch.randn(1, 6, 16).half(), "position_ids": places})]


# Models that are in tests/onnx/models, for tests without torch.
KEPT = {"mlp_script", "gated_dynamo", "bert_dynamo23", "llama_script", "llama_dynamo", "lora_dynamo", "experts_dynamo", "llama_half_dynamo23"}
EXPORTERS = {"script": {"dynamo": False, "opset_version": 17}, "dynamo": {"dynamo": True, "opset_version": 20},
             "dynamo23": {"dynamo": True, "opset_version": 23}}


def bare(model):
    """Without notes: the exporter writes places in source files into every node."""
    for message in [model, model.graph, *model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output,
                    *model.graph.value_info]:
        message.ClearField("doc_string")
        if "metadata_props" in message.DESCRIPTOR.fields_by_name:
            message.ClearField("metadata_props")
    return model


def export(case, exporter, folder):
    """The path, the inputs as arrays."""
    how = dict(EXPORTERS[exporter])
    path = os.path.join(folder, f"{case.name}_{exporter}.onnx")
    first = next(iter(case.inputs))
    if case.batch and how["dynamo"]:
        how["dynamic_shapes"] = {first: {0: torch.export.Dim("batch")}}
    elif case.batch:
        how["dynamic_axes"] = {first: {0: "batch"}}
    if how["dynamo"]:
        how.update(external_data=False, verbose=False)
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(case.model.eval(), tuple(case.inputs.values()), path, input_names=list(case.inputs), output_names=["y"], **how)
    onnx.save(bare(onnx.load(path)), path)
    return path, {k: v.numpy() for k, v in case.inputs.items()}


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for case in cases():
        for exporter in EXPORTERS:
            path, _ = export(case, exporter, sys.argv[1])
            print(path, os.path.getsize(path), *sorted({n.op_type for n in onnx.load(path).graph.node}))
