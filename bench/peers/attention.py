"""Attention, all of its workloads."""
import math

from . import third
from .env import F, MA, sz, torch, triton
from .timing import first_line, is_fatal, rel_err
from .triton_kernels import fd_candidates, fd_launch
from .workload import WORKLOADS, Baseline, Workload, comp, eager, rms, rms32


def add_attn(*args, **more):
    WORKLOADS.append(attn(*args, **more))


def attn(name, B, Hq, Hkv, T, N, D, scale=None, pre=None, note=""):
    T, N = sz(T), sz(N)
    G = Hq // Hkv
    scale_v = 1.0 / math.sqrt(D) if scale is None else scale
    q_std = 1.0 if scale is None else 1.0 / math.sqrt(D)  # keeps the logits O(1)

    def make(mk):
        return (mk.randn((B, Hq, T, D), q_std), mk.randn((B, Hkv, N, D)), mk.randn((B, Hkv, N, D)))

    def ref(q, k, v):
        outs = []
        for b in range(B):
            qb, kb, vb = q[b].float(), k[b].float(), v[b].float()
            if pre in ("qv", "qk"):
                qb = rms32(qb)
            if pre == "qv":
                vb = rms32(vb)
            if pre == "qk":
                kb = rms32(kb)
            s = torch.matmul(qb.reshape(Hkv, G * T, D), kb.transpose(-1, -2)) * scale_v
            outs.append(torch.matmul(torch.softmax(s, -1), vb).reshape(Hq, T, D))
            del s
        return torch.stack(outs)

    def norm(q, k, v):
        if pre == "qv":
            return rms(q), k, rms(v)
        if pre == "qk":
            return rms(q), rms(k), v
        return q, k, v

    def fold(q):
        return q.reshape(B, Hkv, G * T, D)

    # The folded result [B, Hkv, G*T, D] holds the same elements in the same logical order
    # as [B, Hq, T, D]; the check reshapes it, so no timed call pays for a copy.

    def f_eager(q, k, v):
        q, k, v = norm(q, k, v)
        s = torch.matmul(fold(q) * scale_v, k.transpose(-1, -2))
        return torch.matmul(torch.softmax(s, -1), v)

    def f_hf(q, k, v):  # what transformers' 'eager' attention does
        q, k, v = norm(q, k, v)
        if G > 1:
            k = k[:, :, None].expand(B, Hkv, G, N, D).reshape(B, Hq, N, D)
            v = v[:, :, None].expand(B, Hkv, G, N, D).reshape(B, Hq, N, D)
        s = torch.matmul(q, k.transpose(-1, -2)) * scale_v
        p = torch.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(p, v)

    def sdpa(backend, form):
        def call(q, k, v):
            q, k, v = norm(q, k, v)
            if form == "gqa":
                return F.scaled_dot_product_attention(q, k, v, scale=scale_v, enable_gqa=True)
            if form == "mha":
                return F.scaled_dot_product_attention(q, k, v, scale=scale_v)
            if form == "fold":
                return F.scaled_dot_product_attention(fold(q), k, v, scale=scale_v)
            # expand: every KV head becomes a batch entry, its heads a stride-0 view
            q2 = q.reshape(B * Hkv, G, T, D)
            k2 = k.reshape(B * Hkv, 1, N, D).expand(B * Hkv, G, N, D)
            v2 = v.reshape(B * Hkv, 1, N, D).expand(B * Hkv, G, N, D)
            return F.scaled_dot_product_attention(q2, k2, v2, scale=scale_v)

        if backend is None:
            return call

        def forced(q, k, v):
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel([getattr(SDPBackend, backend)]):
                return call(q, k, v)

        forced.sdpa_backend = backend
        return forced

    def build_triton(ctx):
        if triton is None:
            raise RuntimeError("triton is not importable")

        def run(q, k, v, cfg):
            q, k, v = norm(q, k, v)
            return fd_launch(
                q.reshape(B * Hkv, G * T, D), k.reshape(B * Hkv, N, D), v.reshape(B * Hkv, N, D),
                scale_v, *cfg,
            )

        return ctx.tune(run, fd_candidates(G * T, B * Hkv, N, D), "bm,bn,warps,stages,split_len")

    def build_flex(ctx, mode, folded):
        import importlib

        fa = importlib.import_module("torch.nn.attention.flex_attention")
        if mode == MA and ctx.child.autotune_s.get("flex", 0) > ctx.child.args.autotune_limit_s:
            raise RuntimeError("not run: autotuning the previous flex took %.0f s" % ctx.child.autotune_s["flex"])

        def with_options(bm, opts):
            def f(q, k, v):
                q, k, v = norm(q, k, v)
                if folded:
                    return fa.flex_attention(
                        fold(q), k, v, scale=scale_v, block_mask=bm, kernel_options=opts)
                return fa.flex_attention(
                    q, k, v, scale=scale_v, enable_gqa=G > 1, block_mask=bm, kernel_options=opts)

            return f

        q, k, _ = ctx.inputs
        tries = []
        try:  # the mask that a call without one would make, made once instead of per call
            tries.append((fa._create_empty_block_mask(fold(q) if folded else q, k), None))
        except Exception as e:
            ctx.note["flex_mask"] = first_line(e)
        tries += [(None, None), (None, {"FORCE_USE_FLEX_ATTENTION": True})]
        last = None
        for bm, opts in tries:
            try:
                g = ctx.compile(with_options(bm, opts), mode)
                e = rel_err(g(*ctx.inputs), ctx.ref)
                if e > ctx.child.tol(ctx.w):
                    raise RuntimeError("wrong result: relative error %.3g" % e)
                ctx.note["flex"] = ("no BlockMask" if bm is None else "empty BlockMask made beforehand") + (
                    "" if opts is None else ", " + str(opts))
                return g
            except Exception as e:
                last = e
                ctx.note.setdefault("flex_failed", []).append(first_line(e, 160))
                if is_fatal(e) or ctx.left() < 25:
                    raise
        raise last

    bl = [eager("eager", f_eager), eager("eager_hf", f_hf)]
    backends = [("flash", "FLASH_ATTENTION"), ("cudnn", "CUDNN_ATTENTION"),
                ("effic", "EFFICIENT_ATTENTION"), ("math", "MATH")]
    if G == 1:
        bl.append(eager("sdpa_auto", sdpa(None, "mha")))
        for n, be in backends:
            bl.append(eager("sdpa_" + n, sdpa(be, "mha")))
    else:
        for form in ("gqa", "fold"):
            bl.append(eager("sdpa_auto_" + form, sdpa(None, form)))
        for n, be in backends:
            for form in ("gqa",) if n == "math" else ("gqa", "fold", "expand"):
                bl.append(eager("sdpa_%s_%s" % (n, form), sdpa(be, form)))
    bl.append(Baseline("triton_splitkv", 1, build_triton, limit=90))
    bl.append(Baseline("flex", 2, lambda ctx: build_flex(ctx, "default", False), limit=120))
    if G & (G - 1):  # flex decoding wants a power-of-two group: give it the folded form too
        bl.append(Baseline("flex_fold", 2, lambda ctx: build_flex(ctx, "default", True), limit=120))
    bl.append(comp("compile_math", f_eager, 3, mode="default"))
    if pre:
        bl.append(comp("compile_sdpa", sdpa(None, "mha" if G == 1 else "fold"), 3, mode="default"))
    bl += third.attention.baselines(lambda at: lambda q, k, v: at(*norm(q, k, v), scale=scale_v))
    bl.append(Baseline("flex_autotune", 4,
                       lambda ctx: build_flex(ctx, MA, bool(G & (G - 1))), limit=120))
    return Workload(
        name, "attn", "q[%d,%d,%d,%d] k,v[%d,%d,%d,%d]" % (B, Hq, T, D, B, Hkv, N, D),
        4 * B * Hq * T * N * D, 2 * (2 * B * Hq * T * D + 2 * B * Hkv * N * D),
        make, ref, bl, note=note)
