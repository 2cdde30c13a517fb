"""Hand-written peers in Triton: attention with the keys split over blocks, and mixtures of experts."""
from .env import cdiv, next_p2, tl, torch, triton


_fd_split_kernel = _fd_combine_kernel = _moe_up_kernel = _moe_down_kernel = None
if triton is not None:

    @triton.jit(do_not_specialize=["ROWS", "NSPLIT"])
    def _fd_split_kernel(
        Q, K, V, OUT, PACC, PLSE, qk_scale, ROWS, N_KV, SPLIT_LEN, NSPLIT,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, PARTIAL: tl.constexpr,
    ):
        """One tile of query rows against one slice of the keys of one KV head.

        Q is [BH, ROWS, D]: the rows of one KV head are its G query heads times its T
        tokens, next to one another in memory.  K, V are [BH, N_KV, D].  N_KV and
        SPLIT_LEN are multiples of BLOCK_N, and no slice is empty.
        """
        pid_m = tl.program_id(0)
        pid_s = tl.program_id(1)
        bh = tl.program_id(2).to(tl.int64)
        offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tl.arange(0, BLOCK_N)
        offs_d = tl.arange(0, D)
        m_ok = offs_m < ROWS
        q_ptrs = Q + (bh * ROWS + offs_m)[:, None] * D + offs_d[None, :]
        q = tl.load(q_ptrs, mask=m_ok[:, None], other=0.0)
        lo = pid_s * SPLIT_LEN
        hi = tl.minimum(lo + SPLIT_LEN, N_KV)
        kv_off = (bh * N_KV + lo + offs_n)[:, None] * D + offs_d[None, :]
        k_ptrs = K + kv_off
        v_ptrs = V + kv_off
        m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l_i = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, D], tl.float32)
        for _n in range(lo, hi, BLOCK_N):
            k = tl.load(k_ptrs)
            s = tl.dot(q, tl.trans(k)) * qk_scale
            m_new = tl.maximum(m_i, tl.max(s, 1))
            alpha = tl.math.exp2(m_i - m_new)
            p = tl.math.exp2(s - m_new[:, None])
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None]
            v = tl.load(v_ptrs)
            acc = tl.dot(p.to(v.dtype), v, acc)
            m_i = m_new
            k_ptrs += BLOCK_N * D
            v_ptrs += BLOCK_N * D
        acc = acc / l_i[:, None]
        if PARTIAL:
            row = (bh * ROWS + offs_m) * NSPLIT + pid_s
            tl.store(PACC + row[:, None] * D + offs_d[None, :], acc, mask=m_ok[:, None])
            tl.store(PLSE + row, m_i + tl.math.log2(l_i), mask=m_ok)
        else:
            o_ptrs = OUT + (bh * ROWS + offs_m)[:, None] * D + offs_d[None, :]
            tl.store(o_ptrs, acc.to(OUT.dtype.element_ty), mask=m_ok[:, None])

    @triton.jit(do_not_specialize=["NSPLIT"])
    def _fd_combine_kernel(PACC, PLSE, OUT, NSPLIT, S_P2: tl.constexpr, D: tl.constexpr):
        """Merge the NSPLIT partial results of one query row."""
        r = tl.program_id(0).to(tl.int64)
        offs_s = tl.arange(0, S_P2)
        offs_d = tl.arange(0, D)
        ok = offs_s < NSPLIT
        lse = tl.load(PLSE + r * NSPLIT + offs_s, mask=ok, other=float("-inf"))
        w = tl.math.exp2(lse - tl.max(lse, 0))
        den = tl.sum(w, 0)
        acc = tl.load(
            PACC + (r * NSPLIT + offs_s)[:, None] * D + offs_d[None, :], mask=ok[:, None], other=0.0
        )
        o = tl.sum(acc * w[:, None], 0) / den
        tl.store(OUT + r * D + offs_d, o.to(OUT.dtype.element_ty))

    @triton.jit(do_not_specialize=["T"])
    def _moe_up_kernel(
        X, W1, W3, ROUTE, HID, T, H: tl.constexpr, I: tl.constexpr, TP: tl.constexpr,
        BLOCK_I: tl.constexpr, BLOCK_K: tl.constexpr,
    ):
        """HID[e, t, i] = silu(X W1[e]) * (X W3[e]); an expert nobody chose is skipped."""
        pid_i = tl.program_id(0)
        e = tl.program_id(1).to(tl.int64)
        offs_t = tl.arange(0, TP)
        offs_i = pid_i * BLOCK_I + tl.arange(0, BLOCK_I)
        offs_k = tl.arange(0, BLOCK_K)
        t_ok = offs_t < T
        r = tl.load(ROUTE + e * T + offs_t, mask=t_ok, other=0.0)
        if tl.max(r, 0) > 0.0:
            x_ptrs = X + offs_t[:, None] * H + offs_k[None, :]
            w_off = (e * H + offs_k)[:, None] * I + offs_i[None, :]
            w1_ptrs = W1 + w_off
            w3_ptrs = W3 + w_off
            a1 = tl.zeros([TP, BLOCK_I], tl.float32)
            a3 = tl.zeros([TP, BLOCK_I], tl.float32)
            for _k in range(0, H, BLOCK_K):
                x = tl.load(x_ptrs, mask=t_ok[:, None], other=0.0)
                w1 = tl.load(w1_ptrs)
                w3 = tl.load(w3_ptrs)
                a1 = tl.dot(x, w1, a1)
                a3 = tl.dot(x, w3, a3)
                x_ptrs += BLOCK_K
                w1_ptrs += BLOCK_K * I
                w3_ptrs += BLOCK_K * I
            h = a1 * tl.sigmoid(a1) * a3
            h_ptrs = HID + (e * TP + offs_t)[:, None] * I + offs_i[None, :]
            tl.store(h_ptrs, h.to(HID.dtype.element_ty))

    @triton.jit(do_not_specialize=["T"])
    def _moe_down_kernel(
        HID, W2, ROUTE, ACC, T, H: tl.constexpr, I: tl.constexpr, TP: tl.constexpr,
        I_SPLIT: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr,
    ):
        """ACC[t, n] += ROUTE[e, t] * (HID[e, t, slice] W2[e, slice, n]), fp32 atomics."""
        pid_h = tl.program_id(0)
        pid_s = tl.program_id(1)
        e = tl.program_id(2).to(tl.int64)
        offs_t = tl.arange(0, TP)
        offs_h = pid_h * BLOCK_H + tl.arange(0, BLOCK_H)
        offs_k = pid_s * I_SPLIT + tl.arange(0, BLOCK_K)
        t_ok = offs_t < T
        r = tl.load(ROUTE + e * T + offs_t, mask=t_ok, other=0.0)
        if tl.max(r, 0) > 0.0:
            h_ptrs = HID + (e * TP + offs_t)[:, None] * I + offs_k[None, :]
            w_ptrs = W2 + (e * I + offs_k)[:, None] * H + offs_h[None, :]
            a = tl.zeros([TP, BLOCK_H], tl.float32)
            for _k in range(0, I_SPLIT, BLOCK_K):
                h = tl.load(h_ptrs)
                w = tl.load(w_ptrs)
                a = tl.dot(h, w, a)
                h_ptrs += BLOCK_K
                w_ptrs += BLOCK_K * H
            a = a * r[:, None]
            o_ptrs = ACC + offs_t[:, None] * H + offs_h[None, :]
            use = (r > 0.0) & t_ok
            tl.atomic_add(o_ptrs, a, mask=use[:, None], sem="relaxed")


def fd_launch(q, k, v, scale, bm, bn, warps, stages, split_len):
    """Split-KV attention on folded q [BH, ROWS, D], k/v [BH, N, D]."""
    BH, ROWS, D = q.shape
    N = k.shape[1]
    nsplit = cdiv(N, split_len)
    out = torch.empty_like(q)
    qk_scale = scale * 1.4426950408889634
    grid = (cdiv(ROWS, bm), nsplit, BH)
    if nsplit == 1:
        _fd_split_kernel[grid](
            q, k, v, out, out, out, qk_scale, ROWS, N, split_len, nsplit,
            BLOCK_M=bm, BLOCK_N=bn, D=D, PARTIAL=False, num_warps=warps, num_stages=stages,
        )
        return out
    pacc = torch.empty((BH * ROWS, nsplit, D), dtype=torch.float32, device=q.device)
    plse = torch.empty((BH * ROWS, nsplit), dtype=torch.float32, device=q.device)
    _fd_split_kernel[grid](
        q, k, v, out, pacc, plse, qk_scale, ROWS, N, split_len, nsplit,
        BLOCK_M=bm, BLOCK_N=bn, D=D, PARTIAL=True, num_warps=warps, num_stages=stages,
    )
    _fd_combine_kernel[(BH * ROWS,)](
        pacc, plse, out, nsplit, S_P2=next_p2(nsplit), D=D, num_warps=4 if nsplit * D > 1024 else 2,
    )
    return out


# (BLOCK_M, head size) -> [(BLOCK_N, num_warps, num_stages)]
FD_CONFIGS = {
    (16, 128): [(64, 4, 3), (64, 4, 2), (128, 4, 2), (32, 4, 4)],
    (16, 64): [(64, 4, 4), (128, 4, 3), (128, 4, 2)],
    (32, 128): [(64, 4, 3), (64, 4, 2), (128, 4, 2)],
    (32, 64): [(64, 4, 3), (128, 4, 3), (128, 4, 2)],
    (64, 128): [(64, 4, 3), (64, 4, 2), (128, 4, 2)],
    (64, 64): [(64, 4, 3), (128, 4, 3)],
    (128, 128): [(64, 8, 3), (128, 8, 2)],
    (128, 64): [(64, 4, 3), (128, 8, 3), (128, 4, 2)],
}


def fd_candidates(rows, bh, n_kv, d, sms=132):
    """Configurations to try, as (bm, bn, warps, stages, split_len)."""
    if rows <= 16:
        bms = [16]
    elif rows <= 32:
        bms = [32, 16]
    elif rows <= 64:
        bms = [64, 32]
    elif rows <= 128:
        bms = [64, 32, 128, 16]
    else:
        bms = [64, 128]
    out = []
    for bm in bms:
        for bn, warps, stages in FD_CONFIGS[(bm, d)]:
            if n_kv % bn:
                continue
            tiles = cdiv(rows, bm) * bh
            seen = set()
            for target in (sms, 2 * sms, 4 * sms, sms // 2):
                ns = min(max(1, cdiv(target, tiles)), n_kv // bn, 64)
                split_len = cdiv(cdiv(n_kv, ns), bn) * bn
                if split_len not in seen:
                    seen.add(split_len)
                    out.append((bm, bn, warps, stages, split_len))
    return out
