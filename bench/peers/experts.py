"""Mixtures of experts, dense and top-2."""
import math

from .env import F, sz, torch, triton
from .timing import is_fatal
from .triton_kernels import _moe_down_kernel, _moe_up_kernel
from .workload import WORKLOADS, Baseline, Workload, comp, eager


def add_moe(name, T, topk, n_active, H=4096, I=14336, E=8):
    H, I = sz(H), sz(I)

    def make(mk):
        wg = mk.randn((H, E), 1.5 / math.sqrt(H))
        best = None
        for _ in range(400):
            x = mk.randn((T, H))
            if topk is None:
                best = x
                break
            lg, idx = torch.sort(x.float() @ wg.float(), dim=-1, descending=True)
            hit = len(set(idx[:, :topk].reshape(-1).tolist()))
            gap = float((lg[:, topk - 1] - lg[:, topk]).min())
            if hit == n_active and (best is None or gap > best[0]):
                best = (gap, x)
                if gap > 0.03:
                    break
        if best is None:
            raise RuntimeError("no routing with %d experts found" % n_active)
        x = best if topk is None else best[1]
        return (x, wg, mk.randn((E, H, I), 1 / math.sqrt(H)), mk.randn((E, H, I), 1 / math.sqrt(H)),
                mk.randn((E, I, H), 1 / math.sqrt(I)))

    def top(x, wg):
        p = torch.softmax(torch.mm(x, wg).float(), -1)
        val, idx = torch.topk(p, topk, dim=-1)
        return val / val.sum(-1, keepdim=True), idx

    def route(x, wg):  # [T, E] fp32, zero where an expert is not chosen
        if topk is None:
            return torch.softmax(torch.mm(x, wg).float(), -1)
        val, idx = top(x, wg)
        return torch.zeros((T, E), dtype=torch.float32, device=x.device).scatter(1, idx, val)

    def ref(x, wg, w1, w3, w2):
        r = route(x.float(), wg.float())
        out = torch.zeros((T, H), dtype=torch.float32, device=x.device)
        xf = x.float()
        for e in range(E):
            h = F.silu(xf @ w1[e].float()) * (xf @ w3[e].float())
            out += r[:, e:e + 1] * (h @ w2[e].float())
        return out

    def f_bmm(x, wg, w1, w3, w2):  # every expert on every token, weighted
        r = route(x, wg)
        xe = x.unsqueeze(0).expand(E, T, H)
        h = F.silu(torch.bmm(xe, w1)) * torch.bmm(xe, w3)
        y = torch.bmm(h, w2)
        return (y * r.t().unsqueeze(-1)).sum(0).to(x.dtype)

    def f_loop_all(x, wg, w1, w3, w2):
        r = route(x, wg)
        out = torch.zeros((T, H), dtype=torch.float32, device=x.device)
        for e in range(E):
            h = F.silu(torch.mm(x, w1[e])) * torch.mm(x, w3[e])
            out = torch.addcmul(out, r[:, e:e + 1], torch.mm(h, w2[e]).float())
        return out.to(x.dtype)

    def hf_layout(ins):
        x, wg, w1, w3, w2 = ins
        return (x, wg, torch.cat([w1, w3], 2).transpose(1, 2).contiguous(), w2.transpose(1, 2).contiguous())

    def f_hf_loop(x, wg, gu, dn):  # transformers' eager experts: host syncs
        val, idx = top(x, wg)
        val = val.to(x.dtype)
        out = torch.zeros_like(x)
        mask = F.one_hot(idx, num_classes=E).permute(2, 1, 0)
        for e in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            e = e[0]
            pos, tok = torch.where(mask[e])
            g, u = F.linear(x[tok], gu[e]).chunk(2, dim=-1)
            y = F.linear(F.silu(g) * u, dn[e]) * val[tok, pos, None]
            out.index_add_(0, tok, y.to(out.dtype))
        return out

    def f_hf_batched(x, wg, gu, dn):  # transformers' batched_mm experts: gathers the weights
        val, idx = top(x, wg)
        ids = idx.reshape(-1)
        xs = x.unsqueeze(1).expand(T, topk, H).reshape(T * topk, H)
        g, u = torch.bmm(gu[ids], xs.unsqueeze(-1)).squeeze(-1).chunk(2, dim=-1)
        y = torch.bmm(dn[ids], (F.silu(g) * u).unsqueeze(-1)).squeeze(-1)
        return (y * val.reshape(-1, 1)).view(T, topk, H).sum(1).to(x.dtype)

    def f_grouped(x, wg, gu, dn):  # transformers' grouped_mm experts
        val, idx = top(x, wg)
        ids = idx.reshape(-1)
        perm = torch.argsort(ids, stable=True)
        tok = perm // topk
        offs = torch.cumsum(torch.histc(ids.float(), bins=E, min=0, max=E - 1), 0).to(torch.int32)
        gmm = getattr(F, "grouped_mm", None) or torch._grouped_mm
        g, u = gmm(x[tok], gu.transpose(-2, -1), offs=offs).chunk(2, dim=-1)
        y = gmm(F.silu(g) * u, dn.transpose(-2, -1), offs=offs)
        y = y.float() * val.reshape(-1)[perm].unsqueeze(-1)
        return torch.zeros((T, H), dtype=torch.float32, device=x.device).index_add(0, tok, y).to(x.dtype)

    def build_hf_block(ctx):
        from transformers import MixtralConfig
        from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

        last = None
        for impl in ("grouped_mm", "eager"):
            try:
                cfg = MixtralConfig(hidden_size=H, intermediate_size=I, num_local_experts=E, num_experts_per_tok=topk)
                cfg._experts_implementation = impl
                with torch.device("meta"):
                    blk = MixtralSparseMoeBlock(cfg)
                x, wg, gu, dn = ctx.prepped
                for nm, prm in list(blk.named_parameters()):
                    src = {"gate.weight": wg.t().contiguous(), "experts.gate_up_proj": gu, "experts.down_proj": dn}.get(nm)
                    if src is None or tuple(src.shape) != tuple(prm.shape):
                        raise RuntimeError("transformers' block has an unexpected parameter %s %s" % (nm, tuple(prm.shape)))
                    mod = blk
                    for part in nm.split(".")[:-1]:
                        mod = getattr(mod, part)
                    setattr(mod, nm.split(".")[-1], torch.nn.Parameter(src, requires_grad=False))
                blk.eval()

                def f(x, wg, gu, dn):
                    o = blk(x.unsqueeze(0))
                    o = o[0] if isinstance(o, tuple) else o
                    return o.reshape(T, H)

                f(*ctx.prepped)
                ctx.note["hf"] = "experts implementation " + impl
                return f
            except Exception as e:
                last = e
                if is_fatal(e):
                    raise
        raise last

    def build_triton(ctx):
        if triton is None:
            raise RuntimeError("triton is not importable")
        TP = 16
        assert T <= TP

        def run(x, wg, w1, w3, w2, cfg):
            bi, bk, warps, stages, ksplit = cfg
            rt = route(x, wg).t().contiguous()
            hid = torch.empty((E, TP, I), dtype=x.dtype, device=x.device)
            _moe_up_kernel[(I // bi, E)](x, w1, w3, rt, hid, T, H=H, I=I, TP=TP, BLOCK_I=bi, BLOCK_K=bk,
                                         num_warps=warps, num_stages=stages)
            acc = torch.zeros((T, H), dtype=torch.float32, device=x.device)
            _moe_down_kernel[(H // bi, ksplit, E)](hid, w2, rt, acc, T, H=H, I=I, TP=TP, I_SPLIT=I // ksplit,
                                                   BLOCK_H=bi, BLOCK_K=bk, num_warps=warps, num_stages=stages)
            return acc.to(x.dtype)

        cfgs = [(64, 64, 4, 4, 4), (64, 128, 4, 3, 4), (128, 64, 4, 3, 4), (64, 64, 4, 4, 8), (32, 128, 4, 4, 2)]
        cfgs = [c for c in cfgs if I % c[0] == 0 and H % c[0] == 0 and H % c[1] == 0 and I % (c[4] * c[1]) == 0]
        return ctx.tune(run, cfgs, "block_n,block_k,warps,stages,ksplit")

    act = n_active if topk else E
    bl = [eager("eager_bmm_all", f_bmm), eager("eager_loop_all", f_loop_all)]
    if topk:
        bl += [eager("hf_loop", f_hf_loop, prep=hf_layout, graph=False),
               eager("hf_grouped_mm", f_grouped, prep=hf_layout, graph=False)]
        if T <= 8:
            bl.append(eager("hf_batched_mm", f_hf_batched, prep=hf_layout))
    bl.append(Baseline("triton_moe", 1, build_triton, limit=90))
    bl.append(comp("compile_bmm", f_bmm, 2))
    if topk:
        bl.append(Baseline("hf_block", 4, build_hf_block, prep=hf_layout, limit=90, graph=False))
    WORKLOADS.append(Workload(
        name, "moe", "x[%d,%d] wg[%d,%d] w1,w3[%d,%d,%d] w2[%d,%d,%d] %s" % (
            T, H, H, E, E, H, I, E, I, H, "top-%d, %d experts hit" % (topk, act) if topk else "all experts, softmax-weighted"),
        2 * T * (topk or E) * 3 * H * I + 2 * T * H * E,
        2 * (act * 3 * H * I + H * E + 2 * T * H), make, ref, bl, max_copies=1))


def add_mirage_moe(name, E=8, T=8, H=4096):
    H = sz(H)

    def make(mk):
        s = 1 / math.sqrt(H)
        return (mk.randn((E, T, H)), mk.randn((E, H, H), s), mk.randn((E, H, H), s))

    def ref(x, a, b):
        return torch.stack([torch.exp(x[e].float() @ a[e].float()) @ b[e].float() for e in range(E)])

    def f(x, a, b):
        return torch.bmm(torch.exp(torch.bmm(x, a)), b)

    WORKLOADS.append(Workload(
        name, "mmoe", "x[%d,%d,%d] a,b[%d,%d,%d] bmm(exp(bmm(x,a)),b)" % (E, T, H, E, H, H), 4 * E * T * H * H,
        2 * (2 * E * T * H + 2 * E * H * H), make, ref, [eager("eager", f), comp("compile", f, 2)], tol_mul=2.0))
