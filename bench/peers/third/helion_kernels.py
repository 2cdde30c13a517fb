"""Products, norms, softmax and attention in Helion. Imported only where Helion is."""
import helion
import helion.language as hl
import torch

LOG2E = 1.4426950408889634


@helion.kernel(static_shapes=True)
def product(x, w, end):
    m, k = x.size()
    n = w.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tm, tn in hl.tile([m, n]):
        acc = hl.zeros([tm, tn], dtype=torch.float32)
        for tk in hl.tile(k):
            acc = hl.dot(x[tm, tk], w[tk, tn], acc=acc)
        out[tm, tn] = end(acc).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def product_bias(x, w, bias, end):
    m, k = x.size()
    n = w.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tm, tn in hl.tile([m, n]):
        acc = hl.zeros([tm, tn], dtype=torch.float32)
        for tk in hl.tile(k):
            acc = hl.dot(x[tm, tk], w[tk, tn], acc=acc)
        out[tm, tn] = end(acc + bias[tn].to(torch.float32)[None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def product_residual(x, w, bias, r, end):
    m, k = x.size()
    n = w.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tm, tn in hl.tile([m, n]):
        acc = hl.zeros([tm, tn], dtype=torch.float32)
        for tk in hl.tile(k):
            acc = hl.dot(x[tm, tk], w[tk, tn], acc=acc)
        out[tm, tn] = end(acc + bias[tn].to(torch.float32)[None, :], r[tm, tn].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def gated(x, w1, w3, end):
    m, k = x.size()
    n = w1.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tm, tn in hl.tile([m, n]):
        a = hl.zeros([tm, tn], dtype=torch.float32)
        b = hl.zeros([tm, tn], dtype=torch.float32)
        for tk in hl.tile(k):
            a = hl.dot(x[tm, tk], w1[tk, tn], acc=a)
            b = hl.dot(x[tm, tk], w3[tk, tn], acc=b)
        out[tm, tn] = (end(a) * b).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax(x):
    m, n = x.size()
    out = torch.empty_like(x)
    for tm in hl.tile(m):
        row = x[tm, :].to(torch.float32)
        e = torch.exp(row - torch.amax(row, dim=1, keepdim=True))
        out[tm, :] = (e / torch.sum(e, dim=1, keepdim=True)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def rms_norm(x, w, eps: hl.constexpr):
    m, n = x.size()
    out = torch.empty_like(x)
    for tm in hl.tile(m):
        row = x[tm, :].to(torch.float32)
        scale = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        out[tm, :] = (row * scale[:, None] * w[:].to(torch.float32)[None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def layer_norm(x, g, e, eps: hl.constexpr):
    m, n = x.size()
    out = torch.empty_like(x)
    for tm in hl.tile(m):
        row = x[tm, :].to(torch.float32)
        mean = torch.mean(row, dim=1)
        centered = row - mean[:, None]
        scale = torch.rsqrt(torch.mean(centered * centered, dim=1) + eps)
        out[tm, :] = (centered * scale[:, None] * g[:].to(torch.float32)[None, :] + e[:].to(torch.float32)[None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def attention(q, k, v, group: hl.constexpr, scale: hl.constexpr, cap: hl.constexpr):
    """q [heads, rows, d]; k, v of heads / group; all keys are read."""
    heads, rows, d = q.size()
    keys = k.size(1)
    wide = hl.specialize(v.size(2))
    out = torch.empty([heads, rows, wide], dtype=q.dtype, device=q.device)
    for th, tm in hl.tile([heads, rows], block_size=[1, None]):
        top = hl.full([tm], -1.0e6, dtype=torch.float32)
        total = hl.zeros([tm], dtype=torch.float32)
        acc = hl.zeros([tm, wide], dtype=torch.float32)
        query = q[th.begin, tm, :]
        for tn in hl.tile(keys):
            score = hl.dot(query, k[th.begin // group, tn, :].T, out_dtype=torch.float32) * scale
            if cap > 0:
                score = cap * torch.tanh(score / cap)
            score = torch.where((tn.index < keys)[None, :], score * 1.4426950408889634, -1.0e6)
            new = torch.maximum(top, torch.amax(score, dim=1))
            shrink = torch.exp2(top - new)
            weight = torch.exp2(score - new[:, None])
            total = total * shrink + torch.sum(weight, dim=1)
            acc = hl.dot(weight.to(v.dtype), v[th.begin // group, tn, :], acc=acc * shrink[:, None])
            top = new
        out[th.begin, tm, :] = (acc / total[:, None]).to(q.dtype)
    return out


@helion.kernel(static_shapes=True)
def attention_masked(q, k, v, group: hl.constexpr, scale: hl.constexpr, window: hl.constexpr):
    """As attention; the last query reads the last key, each query that key and window - 1 before it."""
    heads, rows, d = q.size()
    keys = k.size(1)
    past = keys - rows
    wide = hl.specialize(v.size(2))
    out = torch.empty([heads, rows, wide], dtype=q.dtype, device=q.device)
    for th, tm in hl.tile([heads, rows], block_size=[1, None]):
        top = hl.full([tm], -1.0e6, dtype=torch.float32)
        total = hl.zeros([tm], dtype=torch.float32)
        acc = hl.zeros([tm, wide], dtype=torch.float32)
        query = q[th.begin, tm, :]
        for tn in hl.tile(keys - keys, tm.end + past):
            score = hl.dot(query, k[th.begin // group, tn, :].T, out_dtype=torch.float32) * (scale * 1.4426950408889634)
            ahead = (tm.index + past)[:, None] - tn.index[None, :]
            score = torch.where((ahead >= 0) & (ahead < window), score, -1.0e6)
            new = torch.maximum(top, torch.amax(score, dim=1))
            shrink = torch.exp2(top - new)
            weight = torch.exp2(score - new[:, None])
            total = total * shrink + torch.sum(weight, dim=1)
            acc = hl.dot(weight.to(v.dtype), v[th.begin // group, tn, :], acc=acc * shrink[:, None])
            top = new
        out[th.begin, tm, :] = (acc / total[:, None]).to(q.dtype)
    return out
