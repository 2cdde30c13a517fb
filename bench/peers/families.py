"""Families of workloads: one row a family. Sizes are drawn by a seed from what models of the family have (drawn.py).

A row's program is Mica's language with statements separated by ';'. Its inputs are the arguments of the torch function, in their order, after
the sizes p. Names tell how inputs are made: W* is a weight of normalized columns, M a padding mask, C a causal mask; all others are normal.
%s in a program is an expression of `kinds`, whose torch function is p.f. p.at is attention: torch's own operators, or a form of SDPA.
"""
import functools
import math

from .env import F, torch


class Family:
    def __init__(self, count, sizes, program, out="", flops="0", torch=None, **more):
        self.count = count          # workloads of a seed
        self.sizes = sizes          # names of parameters -> values to draw from, tuples for several names
        self.program = program
        self.out = out              # shape of the result
        self.flops = flops          # of tensor cores
        self.torch = torch          # (p, *inputs) -> result
        self.kinds = more.get("kinds", {})    # name -> (expression, torch function[, shape of the result])
        self.peers = more.get("peers", {})    # name -> (kind that it computes, torch function)
        self.attends = "matmul(softmax" in (program or "")
        self.causal = more.get("causal", False)  # attention with a causal mask that is no input
        self.cat = more.get("cat")            # (names of weights, torch function of them concatenated)
        self.std = more.get("std", {})        # name of an input -> its scale, as an expression
        self.plain = more.get("plain", False)  # attention without a mask or norms: all peers of attention.py
        self.reason = more.get("reason", "")  # with program None: the missing part of the language


def missing(reason, **more):
    return Family(1, {}, None, reason=reason, **more)


GROUPED = "Q: f16[b, h*g, t, d]; K: f16[b, h, s, d]; V: f16[b, h, s, d]; "
HEADS = GROUPED.replace("*g", "")
REPEATED = "key = transpose(repeat(K, dim=1, times=g)); value = repeat(V, dim=1, times=g); "
SCORES = "score = matmul(Q, key) / sqrt(d); "
GELU_TANH = "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"
CLAMPED = "logsumexp(clamp(y * 2, lo=-10, hi=10), dim=1)"
MHA = HEADS + "return matmul(softmax(matmul(Q, transpose(K)) / sqrt(d), dim=3), V)"
GQA = GROUPED + REPEATED + SCORES + "return matmul(softmax(score, dim=3), value)"
CAUSAL = GROUPED + "C: f16[t, s]; " + REPEATED + SCORES + "return matmul(softmax(score, C, dim=3), value)"
SELF = MHA.replace("s, d", "t, d")
ODD = range(501, 16384, 2)
ROWS = [(8, 50257), (64, 32064), (256, 50257), (1024, 128256), (64, 151936), (128, 262144), (4096, 4095), (8192, 8192), (2048, 1023), (16384, 257)]
GATED = [(4096, 14336), (3584, 18944), (2048, 8192), (5120, 17408), (1536, 8960), (3072, 8192)]


def attend(p, q, k, v):
    return p.at(q, k, v)


@functools.lru_cache
def visible(rows, columns, window, device, dtype):
    """The mask of a condition on indices: the last query reads the last key, each query that key and window - 1 before it."""
    shown = torch.ones(rows, columns, device=device, dtype=torch.bool).tril(columns - rows).triu(columns - rows - window + 1)
    return torch.zeros(rows, columns, device=device, dtype=dtype).masked_fill_(~shown, float("-inf"))


def attend_visible(p, q, k, v):
    rows, columns = q.shape[2], k.shape[2]
    return p.at(q, k, v, visible(rows, columns, getattr(p, "w", columns), q.device, q.dtype))


def rms(x, w, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), w, eps)


def mean_all(x):
    return x.mean(-1, keepdim=True).mean(0, keepdim=True)


def whole(x):
    return "mean(mean(%s, dim=1), dim=0)" % x


def rotate(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def interleave(x, c, s):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def bias_relu(use_gelu):
    return lambda p, x, w, bias: torch._addmm_activation(bias, x, w, use_gelu=use_gelu)


def padded(p, q, k, v, c):
    """Values as wide as keys, for kernels that take one width."""
    return F.scaled_dot_product_attention(q, k, F.pad(v, (0, 64)), is_causal=True)[..., :128]


def packed(p, x):
    q, k, v = x.unflatten(-1, (3, p.h, p.d)).permute(2, 0, 3, 1, 4).unbind(0)
    return p.at(q, k, v).transpose(1, 2).flatten(2)


def linear_attention(p, q, k, v):
    q, k = F.elu(q) + 1, (F.elu(k) + 1) / p.s
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(2, keepdim=True).transpose(-1, -2))


def lstm(p, x, h, wx, wh, bias, cell):
    i, f, g, o = torch.addmm(torch.addmm(bias, x, wx), h, wh).chunk(4, -1)
    return torch.sigmoid(o) * torch.tanh(torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g))


def batch_norm(p, x, w, bias):
    return F.batch_norm(x, None, None, w[:, 0], bias[:, 0], True, 0.1, 1e-5)


def triplet(p, x, y, z):
    return mean_all(F.relu((x - y).norm(dim=-1, keepdim=True) - (x - z).norm(dim=-1, keepdim=True) + 1))


# Activations of a product or of a tensor: expression of x, torch function.
ACTIVATIONS = {
    "relu": ("relu(x)", lambda x: F.relu(x)),
    "gelu": ("gelu(x)", lambda x: F.gelu(x)),
    "gelu_tanh": (GELU_TANH, lambda x: F.gelu(x, approximate="tanh")),
    "silu": ("silu(x)", lambda x: F.silu(x)),
    "sigmoid": ("sigmoid(x)", lambda x: torch.sigmoid(x)),
    "tanh": ("tanh(x)", lambda x: torch.tanh(x)),
    "mish": ("x * tanh(softplus(x))", lambda x: F.mish(x)),
    "leaky": ("leaky_relu(x * 2, slope=0.1)", lambda x: F.leaky_relu(x * 2, 0.1)),
    "hardtanh_gelu": ("gelu(clamp(x * 0.5, lo=-2, hi=2))", lambda x: F.gelu(F.hardtanh(x * 0.5, -2, 2))),
    "swish_divide_clamp_tanh": ("tanh(clamp(silu(x) / 2, lo=-1, hi=1))", lambda x: torch.tanh(torch.clamp(F.silu(x) / 2, -1, 1))),
    "subtract_multiply_relu": ("relu((x - 2) * 1.5)", lambda x: F.relu((x - 2) * 1.5)),
    "softplus": ("softplus(x)", lambda x: F.softplus(x)),
}
ELEMENTWISE = {
    "elu": ("relu(x) + exp(minimum(x, 0)) - 1", lambda x: F.elu(x)),
    "selu": ("1.0507009873554805 * (relu(x) + 1.6732632423543772 * (exp(minimum(x, 0)) - 1))", lambda x: F.selu(x)),
    "hard_sigmoid": ("clamp(x / 6 + 0.5, lo=0, hi=1)", lambda x: F.hardsigmoid(x)),
    "hard_swish": ("x * clamp(x / 6 + 0.5, lo=0, hi=1)", lambda x: F.hardswish(x)),
    "softsign": ("x / (1 + abs(x))", lambda x: F.softsign(x)),
    "log_sigmoid": ("-softplus(-x)", lambda x: F.logsigmoid(x)),
    "gelu_tanh": ACTIVATIONS["gelu_tanh"],
    "mish": ACTIVATIONS["mish"],
}
# Products that end in a reduction of their rows: levels 2 of KernelBench.
OVER_ROWS = {
    "logsumexp": ("logsumexp(y, dim=1)", lambda y: torch.logsumexp(y, 1, keepdim=True)),
    "sigmoid_sum": ("sum(sigmoid(y), dim=1)", lambda y: torch.sigmoid(y).sum(1, keepdim=True)),
    "clamp_logsumexp_mish": ("%s * tanh(softplus(%s))" % (CLAMPED, CLAMPED),
                             lambda y: F.mish(torch.logsumexp(torch.clamp(y * 2, -10, 10), 1, keepdim=True))),
    "max_gelu": ("gelu(max(y, dim=1))", lambda y: F.gelu(y.amax(1, keepdim=True))),
    "mean_gelu": ("gelu(mean(y - 0.5, dim=1))", lambda y: F.gelu((y - 0.5).mean(1, keepdim=True))),
    "sigmoid_logsumexp": ("logsumexp(sigmoid(y), dim=1)", lambda y: torch.logsumexp(torch.sigmoid(y), 1, keepdim=True)),
}
KEPT_ROWS = {
    "softmax": ("softmax(y, dim=1)", lambda y: torch.softmax(y, 1)),
    "gelu_softmax": ("softmax(gelu(y), dim=1)", lambda y: torch.softmax(F.gelu(y), 1)),
    "layer_norm_silu": ("silu(layer_norm(y))", lambda y: F.silu(F.layer_norm(y, y.shape[-1:]))),
    "rms_norm": ("rms_norm(y, eps=1e-6)", lambda y: F.rms_norm(y, y.shape[-1:], None, 1e-6)),
}
REDUCTIONS = {
    "%s%d" % (name, dim): ("%s(X, dim=%d)" % (name, dim), lambda x, op=op, dim=dim: getattr(x, op)(dim, keepdim=True), out)
    for name, op in (("min", "amin"), ("max", "amax"), ("mean", "mean"), ("sum", "sum")) for dim, out in ((1, "b, 1, n"), (2, "b, m, 1"))}
LOSSES = {
    "mse": (whole("square(X - Y)"), lambda x, y: F.mse_loss(x, y)),
    "huber": (whole("minimum(abs(X - Y), 1) * (abs(X - Y) - 0.5 * minimum(abs(X - Y), 1))"), lambda x, y: F.smooth_l1_loss(x, y)),
    "hinge": (whole("relu(1 - X * Y)"), lambda x, y: mean_all(F.relu(1 - x * y))),
    "l1": (whole("abs(X - Y)"), lambda x, y: F.l1_loss(x, y)),
    "kl": ("sum(sum(softmax(Y, dim=1) * (Y - logsumexp(Y, dim=1) - X + logsumexp(X, dim=1)), dim=1), dim=0) / m",
           lambda x, y: F.kl_div(F.log_softmax(x, 1), F.log_softmax(y, 1), reduction="batchmean", log_target=True)),
}

FAMILIES = {
    # ---- attention
    "vit_attention": Family(5, {"b": [1, 4, 8, 32, 64], "h d": [(3, 64), (6, 64), (12, 64), (16, 64), (16, 72), (16, 80)],
        "t": [50, 197, 257, 577, 729, 785, 1025]}, SELF, "b, h, t, d", "4*b*h*t*t*d", attend, plain=True),
    "bert_attention": Family(3, {"b": [1, 8, 16, 32], "h d": [(12, 64), (16, 64), (12, 32)], "t": range(64, 513)}, HEADS.replace("s, d", "t, d")
        + "M: f16[b, 1, 1, t]; return matmul(softmax(matmul(Q, transpose(K)) / sqrt(d), M, dim=3), V)", "b, h, t, d", "4*b*h*t*t*d",
        lambda p, q, k, v, m: p.at(q, k, v, m)),
    "whisper_encoder": Family(2, {"b": [1, 2, 4, 8], "h": [6, 8, 12, 16, 20], "t": [1500], "d": [64]}, SELF, "b, h, t, d", "4*b*h*t*t*d", attend,
        plain=True),
    "whisper_cross": Family(3, {"b": [1, 2, 5, 8, 40], "h": [6, 8, 12, 16, 20], "t": [1, 2, 3, 4, 5, 16], "s": [1500], "d": [64]}, MHA, "b, h, t, d",
        "4*b*h*t*s*d", attend, plain=True),
    "diffusion_self": Family(5, {"b": [1, 2, 4, 8],
        "h d t": [(8, 40, 4096), (8, 80, 1024), (8, 160, 256), (10, 64, 4096), (20, 64, 1024), (16, 96, 1024), (24, 64, 4250), (24, 128, 4608)]},
        SELF, "b, h, t, d", "4*b*h*t*t*d", attend, plain=True),
    "diffusion_cross": Family(4, {"b": [1, 2, 4, 8, 16],
        "h d t": [(8, 40, 4096), (8, 80, 1024), (8, 160, 256), (10, 64, 4096), (20, 64, 1024), (16, 96, 1024)], "s": [77, 77, 154, 333]}, MHA,
        "b, h, t, d", "4*b*h*t*s*d", attend, plain=True),
    "llama3_prefill": Family(4, {"b": [1, 2, 4], "h": [1, 2, 4, 8], "g": [3, 4, 8], "t": range(65, 2048), "d": [64, 128]},
        CAUSAL.replace("s, d", "t, d").replace("t, s", "t, t"), "b, h*g, t, d", "2*b*h*g*t*t*d", lambda p, q, k, v, c: p.at(q, k, v, c)),
    "llama3_chunk": Family(2, {"b": [1, 2], "h": [2, 4, 8], "g": [4, 8], "t": [64, 128, 256, 512], "r": range(1024, 8193, 8), "d": [128]},
        CAUSAL.replace("s, d", "r+t, d").replace("t, s", "t, r+t"), "b, h*g, t, d", "4*b*h*g*t*(r+t)*d", lambda p, q, k, v, c: p.at(q, k, v, c)),
    "llama3_decode": Family(5, {"b": [1, 2, 3, 8, 16, 32, 64], "h": [1, 2, 4, 8], "g": [3, 4, 8], "t": [1], "s": ODD, "d": [64, 128]}, GQA,
        "b, h*g, t, d", "4*b*h*g*t*s*d", attend, plain=True),
    "qwen3_decode": Family(4, {"b": [1, 2, 4, 8, 24, 32], "h": [1, 2, 4, 8], "g": [2, 4, 5, 8, 16], "t": [1], "s": ODD, "d": [128]}, GROUPED
        + "w: f16[d]; " + REPEATED + "return matmul(softmax(matmul(rms_norm(Q, w, eps=1e-6), key) / sqrt(d), dim=3), value)", "b, h*g, t, d",
        "4*b*h*g*t*s*d", lambda p, q, k, v, w: p.at(rms(q, w), k, v)),
    "gemma2_softcap": Family(4, {"b": [1, 2, 8], "h g d": [(4, 2, 256), (8, 2, 256), (16, 2, 128)], "t": [1, 1, 16, 128, 256],
        "s": range(256, 8193, 8)}, GROUPED + REPEATED + SCORES + "return matmul(softmax(50 * tanh(score / 50), dim=3), value)", "b, h*g, t, d",
        "4*b*h*g*t*s*d", lambda p, q, k, v: p.at(q, k, v, cap=50)),
    "gemma3_window": Family(4, {"b": [1, 2, 8, 16], "h g d": [(1, 4, 256), (4, 2, 256), (8, 2, 256), (16, 2, 128)], "t": [1, 1, 4, 64],
        "s": [512, 1024]}, GROUPED
        + "q: f16[d]; k: f16[d]; key = repeat(rms_norm(K, k + 1, eps=1e-6), dim=1, times=g); value = repeat(V, dim=1, times=g); "
        "return matmul(softmax(matmul(rms_norm(Q, q + 1, eps=1e-6), transpose(key)) / sqrt(d), dim=3), value)", "b, h*g, t, d", "4*b*h*g*t*s*d",
        lambda p, q, k, v, wq, wk: p.at(rms(q, wq + 1), rms(k, wk + 1), v)),
    "phi_attention": Family(4, {"b": [1, 4, 8, 16], "h d": [(32, 80), (32, 96), (24, 128), (32, 64)], "t": [1, 1, 7, 33], "s": ODD}, MHA,
        "b, h, t, d", "4*b*h*t*s*d", attend, plain=True),
    "mla_decode": Family(4, {"b": [1, 2, 4, 16, 32], "h": [16, 32, 64, 128], "s": range(512, 8193)},
        "Q: f16[b, h, 512]; P: f16[b, h, 64]; L: f16[b, s, 512]; R: f16[b, s, 64]; "
        "return matmul(softmax((matmul(Q, transpose(L)) + matmul(P, transpose(R))) / sqrt(192), dim=2), L)", "b, h, 512", "2*b*h*s*1088",
        lambda p, q, r, c, k: p.at(torch.cat([q, r], -1).unsqueeze(1), torch.cat([c, k], -1).unsqueeze(1), c.unsqueeze(1), scale=192 ** -0.5)[:, 0]),
    "mla_cache": Family(3, {"b": [1, 2, 16, 64], "h": [16, 32, 128], "s": range(512, 8193, 64)},
        "Q: f16[b, h, 576]; K: f16[b, s, 576]; a, c, e, f, g, i, j, l, _ = split(K, dim=2, parts=9); "
        "return matmul(softmax(matmul(Q, transpose(K)) / sqrt(192), dim=2), concat(a, c, e, f, g, i, j, l, dim=2))", "b, h, 512", "2*b*h*s*1088",
        lambda p, q, k: p.at(q.unsqueeze(1), k.unsqueeze(1), k.unsqueeze(1)[..., :512], scale=192 ** -0.5)[:, 0]),
    "mla_prefill": Family(2, {"b": [1, 2], "h": [16, 32], "t": range(128, 2049, 32)},
        "Q: f16[b, h, t, 192]; K: f16[b, h, t, 192]; V: f16[b, h, t, 128]; C: f16[t, t]; "
        "return matmul(softmax(matmul(Q, transpose(K)) / sqrt(192), C, dim=3), V)", "b, h, t, 128", "b*h*t*t*320",
        lambda p, q, k, v, c: p.at(q, k, v, c), peers={"sdpa_padded": (None, padded)}),
    "t5_bias": Family(3, {"b": [1, 4, 8, 16], "h": [8, 12, 16, 32], "t": [128, 256, 384, 512, 1024], "d": [64]}, HEADS.replace("s, d", "t, d")
        + "B: f16[h, t, t]; return matmul(softmax(matmul(Q, transpose(K)) + B, dim=3), V)", "b, h, t, d", "4*b*h*t*t*d",
        lambda p, q, k, v, bias: p.at(q, k, v, bias, scale=1.0), std={"Q": "d**-0.5"}),
    "swin_window": Family(3, {"b": [64, 128, 512, 1024], "h": [3, 4, 6, 12, 24], "t": [49, 64, 144], "d": [32]}, HEADS.replace("s, d", "t, d")
        + "B: f16[h, t, t]; return matmul(softmax(matmul(Q, transpose(K)) / sqrt(d) + B, dim=3), V)", "b, h, t, d", "4*b*h*t*t*d",
        lambda p, q, k, v, bias: p.at(q, k, v, bias)),
    "packed_attention": Family(3, {"b": [1, 4, 8, 32], "h d": [(6, 64), (12, 64), (16, 64), (16, 80)], "t": [128, 197, 256, 384, 577]},
        "X: f16[b, t, 3*h*d]; q, k, v = split(transpose(reshape(X, [b, t, 3*h, d]), perm=[0, 2, 1, 3]), dim=1, parts=3); "
        "o = matmul(softmax(matmul(q, transpose(k)) / sqrt(d), dim=3), v); return reshape(transpose(o, perm=[0, 2, 1, 3]), [b, t, h*d])",
        "b, t, h*d", "4*b*h*t*t*d", packed),
    "linear_attention": Family(3, {"b": [1, 2, 4], "h": [8, 12, 16], "s": [1024, 2048, 4096, 4097], "d": [32, 64, 128]},
        "Q: f16[b, h, s, d]; K: f16[b, h, s, d]; V: f16[b, h, s, d]; q = exp(minimum(Q, 0)) + relu(Q); k = (exp(minimum(K, 0)) + relu(K)) / s; "
        "return matmul(q, matmul(transpose(k), V)) / matmul(q, transpose(sum(k, dim=2)))", "b, h, s, d", "4*b*h*s*d*d", linear_attention),
    # ---- layers of models
    "norm_product": Family(5, {"m": range(1, 260),
        "k n": [(4096, 6144), (5120, 7168), (2304, 4096), (3072, 9216), (7168, 2112), (2048, 3072), (8192, 10240)]},
        "X: f16[m, k]; w: f16[k]; W: f16[k, n]; return matmul(rms_norm(X, w, eps=1e-5), W)", "m, n", "2*m*n*k",
        lambda p, x, w, m: rms(x, w, 1e-5) @ m),
    "layer_norm_product": Family(4, {"m": [1, 50, 197, 384, 1500, 1576, 4096],
        "k n": [(384, 1152), (768, 2304), (1024, 3072), (1280, 3840), (1152, 4304)]},
        "X: f16[m, k]; g: f16[k]; e: f16[k]; W: f16[k, n]; bias: f16[n]; return matmul(layer_norm(X, g, e), W) + bias", "m, n", "2*m*n*k",
        lambda p, x, g, e, w, bias: torch.addmm(bias, F.layer_norm(x, x.shape[-1:], g, e), w)),
    "gated_silu": Family(5, {"m": [1, 2, 4, 7, 16, 33, 64, 100, 256, 512, 2048], "k n": GATED},
        "X: f16[m, k]; W1: f16[k, n]; W3: f16[k, n]; return silu(matmul(X, W1)) * matmul(X, W3)", "m, n", "4*m*n*k",
        lambda p, x, a, b: F.silu(x @ a) * (x @ b), cat=("W1 W3", lambda p, x, w: F.silu((h := x @ w)[:, :p.n]) * h[:, p.n:])),
    "gated_gelu": Family(4, {"m": [1, 5, 8, 32, 77, 128, 1024], "k n": [(2304, 9216), (3584, 14336), (2560, 10240), (1152, 6912), (4608, 36864)]},
        "X: f16[m, k]; W1: f16[k, n]; W3: f16[k, n]; x = matmul(X, W1); return " + GELU_TANH + " * matmul(X, W3)", "m, n", "4*m*n*k",
        lambda p, x, a, b: F.gelu(x @ a, approximate="tanh") * (x @ b),
        cat=("W1 W3", lambda p, x, w: F.gelu((h := x @ w)[:, :p.n], approximate="tanh") * h[:, p.n:])),
    "gated_block": Family(3, {"m": [1, 3, 8, 16, 64, 300], "k n": [(2048, 8192), (1024, 3072), (2560, 9728), (1536, 8960), (4096, 14336)]},
        "X: f16[m, k]; W1: f16[k, n]; W3: f16[k, n]; W2: f16[n, k]; return matmul(silu(matmul(X, W1)) * matmul(X, W3), W2)", "m, k", "6*m*n*k",
        lambda p, x, a, b, c: (F.silu(x @ a) * (x @ b)) @ c, cat=("W1 W3", lambda p, x, w, c: (F.silu((h := x @ w)[:, :p.n]) * h[:, p.n:]) @ c)),
    "mlp_block": Family(3, {"m": [1, 197, 384, 1500, 2048, 6304], "k n": [(384, 1536), (768, 3072), (1024, 4096), (1280, 5120), (1152, 4304)]},
        "X: f16[m, k]; W1: f16[k, n]; e: f16[n]; W2: f16[n, k]; f: f16[k]; return matmul(gelu(matmul(X, W1) + e), W2) + f", "m, k", "4*m*n*k",
        lambda p, x, a, e, b, f: torch.addmm(f, F.gelu(torch.addmm(e, x, a)), b)),
    "lora": Family(5, {"m": [1, 5, 16, 33, 257, 1024, 1537], "k": range(801, 4200, 2), "n": range(801, 4200, 2), "r": [4, 8, 16, 32, 64]},
        "X: f16[m, k]; W: f16[k, n]; WA: f16[k, r]; WB: f16[r, n]; return matmul(X, W) + matmul(matmul(X, WA), WB) * 2", "m, n", "2*m*(n*k+k*r+r*n)",
        lambda p, x, w, a, b: torch.addmm(x @ w, x @ a, b, alpha=2),
        cat=("W WA", lambda p, x, w, b: torch.addmm((h := x @ w)[:, :p.n], h[:, p.n:], b, alpha=2))),
    "router": Family(3, {"m": [1, 8, 17, 64, 512, 4096], "k n": [(4096, 8), (2048, 64), (7168, 256), (2048, 128), (5120, 160)]},
        "X: f16[m, k]; W: f16[k, n]; return softmax(matmul(X, W), dim=1)", "m, n", "2*m*n*k", lambda p, x, w: torch.softmax(x @ w, -1)),
    "lstm_cell": Family(3, {"m": [1, 16, 64, 257, 1024], "h": [128, 256, 512, 650, 1024, 1500], "k": [128, 256, 512, 1024]},
        "X: f16[m, k]; H: f16[m, h]; W: f16[k, 4*h]; WH: f16[h, 4*h]; bias: f16[4*h]; Z: f16[m, h]; "
        "i, f, g, o = split(matmul(X, W) + matmul(H, WH) + bias, dim=1, parts=4); return sigmoid(o) * tanh(sigmoid(f) * Z + sigmoid(i) * tanh(g))",
        "m, h", "8*m*h*(h+k)", lstm),
    "adaln_modulate": Family(3, {"b": [1, 2, 8, 16], "t": [77, 256, 1024, 4096, 4250], "n": [384, 1152, 1536, 3072]},
        "X: f16[b, t, n]; scale: f16[b, 1, n]; shift: f16[b, 1, n]; return layer_norm(X, eps=1e-6) * (1 + scale) + shift", "b, t, n", "0",
        lambda p, x, a, b: F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + a) + b),
    "post_norm": Family(3, {"m": [1, 8, 100, 1000, 4096, 8191], "n": [1152, 2304, 2560, 3584, 5376]},
        "X: f16[m, n]; H: f16[m, n]; w: f16[n]; return X + rms_norm(H, w + 1, eps=1e-6)", "m, n", "0", lambda p, x, h, w: x + rms(h, w + 1)),
    "residual_norm": Family(3, {"m": [1, 8, 100, 1000, 4096, 8191], "n": [768, 2048, 4096, 5120, 7168]},
        "X: f16[m, n]; H: f16[m, n]; w: f16[n]; return rms_norm(X + H, w, eps=1e-5)", "m, n", "0", lambda p, x, h, w: rms(x + h, w, 1e-5)),
    "rotary": Family(4, {"t": [1, 17, 512, 2048, 4097, 8192], "h": [8, 16, 32, 64], "d": [64, 80, 96, 128]},
        "X: f16[t, h, d]; c: f16[t, 1, d/2]; s: f16[t, 1, d/2]; a, e = %s", "t, h, d", "0", lambda p, x, c, s: p.f(x, c, s),
        kinds={"halves": ("split(X, dim=2, parts=2); return concat(a * c - e * s, a * s + e * c, dim=2)", rotate),
        "pairs": ("split(reshape(X, [t, h, d/2, 2]), dim=3, parts=2); f = reshape(a, [t, h, d/2]); g = reshape(e, [t, h, d/2]); "
            "return reshape(concat(reshape(f * c - g * s, [t, h, d/2, 1]), reshape(f * s + g * c, [t, h, d/2, 1]), dim=3), [t, h, d])",
            interleave)}),
    "norm_rotary": Family(3, {"t": [1, 33, 512, 2048, 4097], "h": [8, 16, 32, 64], "d": [128]},
        "X: f16[t, h, d]; w: f16[d]; c: f16[t, 1, d/2]; s: f16[t, 1, d/2]; "
        "a, e = split(rms_norm(X, w, eps=1e-6), dim=2, parts=2); return concat(a * c - e * s, a * s + e * c, dim=2)", "t, h, d", "0",
        lambda p, x, w, c, s: rotate(rms(x, w), c, s)),
    "slice_unequal": Family(3, {"t": [1, 33, 512, 2048, 4097], "h": [8, 16, 32], "d r": [(64, 16), (80, 32), (96, 24), (128, 32)]},
        "X: f16[t, h, d]; c: f16[t, 1, r/2]; s: f16[t, 1, r/2]; a = slice(X, dim=2, start=0, end=r/2); e = slice(X, dim=2, start=r/2, end=r); "
        "return concat(a * c - e * s, a * s + e * c, slice(X, dim=2, start=r, end=d), dim=2)", "t, h, d", "0",
        lambda p, x, c, s: torch.cat([rotate(x[..., :p.r], c, s), x[..., p.r:]], -1)),
    "gated_unit": Family(4, {"m": [1, 8, 100, 1024, 4096, 8191], "n": [3072, 8192, 8960, 10241, 14336]},
        "X: f16[m, 2*n]; x, y = split(X, dim=1, parts=2); return %s", "m, n", "0", lambda p, x: p.f(*x.chunk(2, -1)),
        kinds={"silu": ("silu(x) * y", lambda x, y: F.silu(x) * y), "gelu": ("x * gelu(y)", lambda x, y: x * F.gelu(y)),
        "sigmoid": ("x * sigmoid(y)", lambda x, y: x * torch.sigmoid(y)),
        "gelu_tanh": (GELU_TANH + " * y", lambda x, y: F.gelu(x, approximate="tanh") * y)}),
    # ---- products
    "product_epilogue": Family(12, {"m": [16, 128, 1000, 1024, 2048, 4096], "n": [512, 1024, 4096, 4104, 8192], "k": [512, 1000, 2048, 4096, 8192]},
        "X: f16[m, k]; W: f16[k, n]; bias: f16[n]; x = matmul(X, W) + bias; return %s", "m, n", "2*m*n*k",
        lambda p, x, w, bias: p.f(torch.addmm(bias, x, w)), kinds=ACTIVATIONS,
        peers={"cublaslt_relu": ("relu", bias_relu(False)), "cublaslt_gelu": ("gelu_tanh", bias_relu(True))}),
    "product_residual": Family(4, {"m": [16, 128, 197, 1024, 4096], "n": [768, 1024, 4096, 8192], "k": [768, 1024, 4096, 11008]},
        "X: f16[m, k]; W: f16[k, n]; bias: f16[n]; R: f16[m, n]; y = matmul(X, W) + bias; return %s", "m, n", "2*m*n*k",
        lambda p, x, w, bias, r: p.f(torch.addmm(bias, x, w), r), kinds={"add": ("y + R", lambda y, r: y + r),
        "sigmoid_scale_add": ("sigmoid(y) * 2 + y + R", lambda y, r: torch.sigmoid(y) * 2 + y + r),
        "gate": ("R * sigmoid(y)", lambda y, r: r * torch.sigmoid(y)), "scale_add": ("y * 0.5 + y + R", lambda y, r: y * 0.5 + y + r)}),
    "product_row_sums": Family(6, {"m": [128, 1000, 1024, 4096], "n": [512, 1024, 4096, 8192], "k": [512, 1000, 2048, 8192]},
        "X: f16[m, k]; W: f16[k, n]; bias: f16[n]; y = matmul(X, W) + bias; return %s", "m, 1", "2*m*n*k",
        lambda p, x, w, bias: p.f(torch.addmm(bias, x, w)), kinds=OVER_ROWS),
    "product_rows": Family(4, {"m": [128, 1000, 1024, 4096], "n": [512, 1024, 4096], "k": [512, 1000, 2048, 8192]},
        "X: f16[m, k]; W: f16[k, n]; bias: f16[n]; y = matmul(X, W) + bias; return %s", "m, n", "2*m*n*k",
        lambda p, x, w, bias: p.f(torch.addmm(bias, x, w)), kinds=KEPT_ROWS),
    "product": Family(7,
        {"m n k": [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 8192, 4096), (256, 256, 131072), (16384, 1024, 32), (16384, 16384, 64),
                   (8205, 2949, 5921), (16384, 16, 1024), (1, 128256, 4096), (8, 151936, 2560), (1000, 1000, 1000),
                   (4096, 12288, 3072), (63, 7168, 2304), (2049, 1536, 7168)]},
        "X: f16[m, k]; W: f16[k, n]; return matmul(X, W)", "m, n", "2*m*n*k", lambda p, x, w: x @ w),
    "transposed": Family(6, {"m": [256, 1024, 2048, 4097], "n": [1024, 4096, 5120], "k": [1024, 2048, 4096, 8192]}, "%s", "m, n", "2*m*n*k",
        lambda p, x, w: p.f(x, w), kinds={"left": ("X: f16[k, m]; Y: f16[k, n]; return matmul(transpose(X), Y)", lambda x, w: x.t() @ w),
        "right": ("X: f16[m, k]; Y: f16[n, k]; return matmul(X, transpose(Y))", lambda x, w: F.linear(x, w)),
        "both": ("X: f16[k, m]; Y: f16[n, k]; return matmul(transpose(X), transpose(Y))", lambda x, w: x.t() @ w.t())}, std={"Y": "k**-0.5"}),
    "batched_product": Family(4, {"b": [16, 100, 128, 512, 2048], "m": range(8, 257), "n": range(8, 257), "k": range(8, 257)},
        "X: f16[b, m, k]; Y: f16[b, k, n]; return matmul(X, Y)", "b, m, n", "2*b*m*n*k", lambda p, x, y: torch.bmm(x, y), std={"Y": "k**-0.5"}),
    "tensor_product": Family(2, {"b": [8, 16], "i": [64, 256, 512], "j": [32, 128, 512], "k": [128, 256, 511], "n": [256, 768, 1000]},
        "X: f16[b, i, j, k]; W: f16[k, n]; return matmul(X, W)", "b, i, j, n", "2*b*i*j*n*k", lambda p, x, w: x @ w),
    "matrix_vector": Family(2, {"m": [256, 2048, 4096, 14336], "k": [4096, 8191, 14336, 131072]}, "X: f16[m, k]; V: f16[k, 1]; return matmul(X, V)",
        "m, 1", "2*m*k", lambda p, x, v: x @ v, std={"V": "k**-0.5"}),
    # ---- norms, sums, losses
    "softmax": Family(5, {"m n": ROWS}, "X: f16[m, n]; return %s", "m, n", "0", lambda p, x: p.f(x),
        kinds={"plain": ("softmax(X, dim=1)", lambda x: torch.softmax(x, 1)), "log": ("X - logsumexp(X, dim=1)", lambda x: F.log_softmax(x, 1))}),
    "logsumexp": Family(3, {"m n": ROWS}, "X: f16[m, n]; return logsumexp(X, dim=1)", "m, 1", "0", lambda p, x: torch.logsumexp(x, 1, keepdim=True)),
    "layer_norm": Family(4, {"m": [16, 197, 4096, 8192, 12608], "n": [384, 768, 1000, 1280, 5120, 12288]},
        "X: f16[m, n]; g: f16[n]; e: f16[n]; return layer_norm(X, g, e)", "m, n", "0", lambda p, x, g, e: F.layer_norm(x, x.shape[-1:], g, e)),
    "layer_norm_long": Family(2, {"m": [1, 4, 16, 64], "c": [32, 64], "p": [4096, 16384, 65536]}, "X: f16[m, c*p]; return layer_norm(X)", "m, c*p",
        "0", lambda p, x: F.layer_norm(x, x.shape[-1:])),
    "rms_norm": Family(3, {"m": [1, 16, 333, 4096, 16384], "n": [128, 1536, 2304, 3584, 7168, 16384]},
        "X: f16[m, n]; w: f16[n]; return rms_norm(X, w, eps=1e-6)", "m, n", "0", lambda p, x, w: rms(x, w)),
    "rms_channels": Family(2, {"b": [4, 16, 64], "c": [32, 64, 96], "p": [3136, 4095, 16384]},
        "X: f16[b, c, p]; return X / sqrt(mean(square(X), dim=1) + 1e-5)", "b, c, p", "0",
        lambda p, x: x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5)),
    "group_norm": Family(4, {"b": [1, 2, 8, 16], "g": [8, 16, 32], "c": [4, 8, 10, 20], "p": [256, 784, 1024, 4096, 16384]},
        "X: f16[b, g*c, p]; w: f16[g*c, 1]; bias: f16[g*c, 1]; x = reshape(X, [b, g, c*p]); y = layer_norm(x); "
        "return reshape(y, [b, g*c, p]) * w + bias", "b, g*c, p", "0", lambda p, x, w, bias: F.group_norm(x, p.g, w[:, 0], bias[:, 0])),
    "batch_norm": Family(2, {"b": [8, 16, 64], "c": [64, 128, 256], "p": [49, 196, 784, 3136]},
        "X: f16[b, c, p]; w: f16[c, 1]; bias: f16[c, 1]; y = X - mean(mean(X, dim=2), dim=0); "
        "return y / sqrt(mean(mean(square(y), dim=2), dim=0) + 1e-5) * w + bias", "b, c, p", "0", batch_norm),
    "vector_norm": Family(4, {"m": [16, 128, 1024, 4096], "n": [4095, 8192, 16384, 32767, 65535]}, "X: f16[m, n]; return %s", "m, n", "0",
        lambda p, x: p.f(x), kinds={"l1": ("X / mean(abs(X), dim=1)", lambda x: x / x.abs().mean(1, keepdim=True)),
        "l2": ("X / sqrt(sum(square(X), dim=1))", lambda x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True))}, std={"X": "0.1"}),
    "reduction": Family(8, {"b": [1, 8, 16, 128], "m": [256, 1023, 4096], "n": [255, 1000, 4095, 4096]}, "X: f16[b, m, n]; return %s", "", "0",
        lambda p, x: p.f(x), kinds=REDUCTIONS),
    "loss": Family(5, {"m": [128, 1024, 4096, 8191], "n": [1000, 4096, 8191, 32768]}, "X: f16[m, n]; Y: f16[m, n]; return %s", "1, 1", "0",
        lambda p, x, y: p.f(x, y).reshape(1, 1), kinds=LOSSES),
    "cosine": Family(3, {"m": [128, 1024, 4096, 8191], "n": [384, 768, 1024, 4097]},
        "X: f16[m, n]; Y: f16[m, n]; return sum(X * Y, dim=1) / sqrt(sum(square(X), dim=1) * sum(square(Y), dim=1))", "m, 1", "0",
        lambda p, x, y: F.cosine_similarity(x, y, dim=1).unsqueeze(1), std={"X": "0.2", "Y": "0.2"}),
    "triplet": Family(2, {"m": [128, 1024, 4096, 8191], "n": [384, 768, 4096, 8192]}, "X: f16[m, n]; Y: f16[m, n]; Z: f16[m, n]; " + "return "
        + whole("relu(sqrt(sum(square(X - Y), dim=1)) - sqrt(sum(square(X - Z), dim=1)) + 1)"), "1, 1", "0", triplet,
        std={"X": "0.2", "Y": "0.2", "Z": "0.2"}),
    "elementwise": Family(5, {"m": [1, 16, 1024, 4096, 4099], "n": [4096, 16385, 65536]}, "x: f16[m, n]; return %s", "m, n", "0", lambda p, x: p.f(x),
        kinds=ELEMENTWISE),
    # ---- conditions on indices
    "causal_without_operand": Family(4, {"b": [1, 2, 4], "h": [1, 2, 4, 8], "g": [1, 4, 8], "t": range(64, 2049, 8), "d": [64, 128]},
        GROUPED.replace("s, d", "t, d") + REPEATED + SCORES + "return matmul(softmax_where(score, iota([t]) <= iota([t, 1]), dim=3), value)",
        "b, h*g, t, d", "2*b*h*g*t*t*d", attend_visible, causal=True),
    "window_without_operand": Family(3, {"b": [1, 2], "h": [2, 4, 8], "g": [2, 4], "t": [1024, 2048, 4096], "w": [128, 256, 512], "d": [64, 128]},
        GROUPED.replace("s, d", "t, d") + REPEATED + SCORES + "i = iota([t, 1]); j = iota([t]); "
        "return matmul(softmax_where(score, (j <= i) * (i - j < w), dim=3), value)", "b, h*g, t, d", "4*b*h*g*t*w*d", attend_visible),
    "triangular_product": Family(2, {"n": [512, 1000, 1024, 2048, 4096]},
        "X: f16[n, n]; Y: f16[n, n]; L = iota([n]) <= iota([n, 1]); return mask(matmul(mask(X, L), mask(Y, L)), L)", "n, n", "n*n*n/3",
        lambda p, x, y: (x.tril() @ y.tril()).tril(), std={"Y": "n**-0.5"}),
    "cumulative_sum": Family(2, {"m": [16, 128, 1024], "n": [255, 1000, 2048, 4096]}, "X: f16[m, n]; return cumsum(X, dim=1)", "m, n", "0",
        lambda p, x: torch.cumsum(x, 1), std={"X": "0.1"}),
    # ---- integers among inputs or results, which workloads do not have
    "cross_entropy": missing("labels are integers, and inputs are floats"),
    "embedding": missing("indices are integers, and inputs are floats"),
    "argmax": missing("workloads are of one dtype, and f16 has no large indices"),
    "top_k_experts": missing("indices are integers, and results are floats"),
}
