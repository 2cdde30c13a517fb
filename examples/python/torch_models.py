"""Models in plain torch, small by default. The tests and bench/torch_models.py use them.

A Llama decoder layer, layers that decode with a static cache, BERT's attention, a LoRA linear layer, and Mixtral's experts.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(d) + 0.5), eps

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class LlamaLayer(nn.Module):
    """RMSNorm, rotary embedding, grouped-query attention, SwiGLU."""

    def __init__(self, d=64, heads=4, groups=2, ffn=96):
        super().__init__()
        self.d, self.heads, self.groups, self.c = d, heads, groups, d // heads
        self.q, self.o = (nn.Linear(d, d, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(d, groups * self.c, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(d, ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(ffn, d, bias=False)
        self.norm1, self.norm2 = RMSNorm(d), RMSNorm(d)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.norm1(x)
        q, k, v = (p(h).view(b, t, -1, self.c).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = (y * cos + rotate_half(y) * sin for y in (q, k))
        k, v = (y[:, :, None].expand(b, self.groups, self.heads // self.groups, t, self.c).reshape(
            b, self.heads, t, self.c) for y in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, self.d))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CachedLayer(LlamaLayer):
    """A Llama layer that decodes: it writes the key and the value of a token into a cache, in place, and reads the cache whole."""

    def __init__(self, d=64, heads=4, groups=2, ffn=96, batch=2, most=32):
        super().__init__(d, heads, groups, ffn)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, groups, most, self.c))

    def forward(self, x, cos, sin, position, bias):
        b, t, _ = x.shape
        h = self.norm1(x)
        q, k, v = (p(h).view(b, t, -1, self.c).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = (y * cos + rotate_half(y) * sin for y in (q, k))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=bias, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, self.d))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CachedLlama(nn.Module):
    """Layers with static caches; `window` hides what is further back."""

    def __init__(self, layers=2, window=None, **sizes):
        super().__init__()
        self.layers = nn.ModuleList(CachedLayer(**sizes) for _ in range(layers))
        cos, sin = rotary(self.layers[0].keys.shape[2], self.layers[0].c)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.window = window

    def forward(self, x, position):
        columns = torch.arange(self.cos.shape[0], device=x.device)
        hidden = columns > position[:, None]
        if self.window is not None:
            hidden = hidden | (columns <= position[:, None] - self.window)
        bias = torch.zeros(hidden.shape, dtype=x.dtype, device=x.device).masked_fill(hidden, -math.inf)
        for layer in self.layers:
            x = layer(x, self.cos[position], self.sin[position], position, bias)
        return x


def rotary(t, c):
    angles = torch.arange(t)[:, None] / 10000 ** (torch.arange(0, c, 2) / c)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


class BertAttention(nn.Module):
    """Self-attention with a mask of booleans, written out, with its residual and norm."""

    def __init__(self, d=64, heads=4):
        super().__init__()
        self.heads, self.c = heads, d // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.norm = nn.LayerNorm(d)

    def forward(self, x, hidden):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.heads, self.c).permute(0, 2, 1, 3) for p in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / math.sqrt(self.c)
        s = s.masked_fill(hidden[:, None, None, :], -math.inf)
        a = (s.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(b, t, d)
        return self.norm(self.o(a) + x)


class LoraLinear(nn.Module):
    def __init__(self, k=64, n=48, rank=4):
        super().__init__()
        self.base = nn.Linear(k, n)
        self.a, self.b = nn.Linear(k, rank, bias=False), nn.Linear(rank, n, bias=False)

    def forward(self, x):
        return self.base(x) + 2.0 * self.b(self.a(x))


class MixtralExperts(nn.Module):
    """All experts for every token, weighted by a router of which the two largest count."""

    def __init__(self, d=32, ffn=48, experts=4):
        super().__init__()
        self.router = nn.Linear(d, experts, bias=False)
        self.w1, self.w3 = (nn.Parameter(torch.randn(experts, d, ffn) / 6) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(experts, ffn, d) / 7)

    def forward(self, x):
        p = self.router(x).softmax(-1)
        top, which = p.topk(2, dim=-1)
        weights = torch.zeros_like(p).scatter(-1, which, top / top.sum(-1, keepdim=True))
        h = F.silu(x @ self.w1) * (x @ self.w3)      # [experts, tokens, ffn]
        return ((h @ self.w2) * weights.t()[:, :, None]).sum(0)
