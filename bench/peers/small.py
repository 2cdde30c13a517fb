"""Norms, softmax, a large product, an MLP and an LSTM cell."""
import math

from .env import F, sz, torch
from .workload import WORKLOADS, Workload, comp, eager, rms, rms32, tn


def add_ntrans(name, M, H=4096):
    """mirage benchmark/norm_transformer.py: rms(x + alpha * (rms(h) + x))."""
    H = sz(H)

    def make(mk):
        return (mk.randn((M, H)), mk.randn((M, H)), mk.randn((M, H)))

    def ref(h, x, al):
        return rms32(x.float() + al.float() * (rms32(h) + x.float()))

    def f(h, x, al):
        return rms(torch.add(x, torch.mul(al, torch.add(rms(h), x))))

    WORKLOADS.append(Workload(
        name, "ntrans", "h,x,alpha[%d,%d]" % (M, H), 12 * M * H, 2 * 4 * M * H, make, ref,
        [eager("eager", f), comp("compile", f, 2)]))


def add_ngpt2(name, M, K=4096, N=8192):
    """mirage benchmark/end-to-end/ngpt.py get_norm2: rms(rms(x w) * alpha)."""
    K, N = sz(K), sz(N)

    def make(mk):
        return (mk.randn((M, K)), mk.randn((K, N), 1 / math.sqrt(K)), mk.randn((M, N)))

    def ref(x, w, al):
        return rms32(rms32(x.float() @ w.float()) * al.float())

    def f(x, w, al):
        return rms(torch.mul(rms(torch.mm(x, w)), al))

    WORKLOADS.append(Workload(
        name, "ngpt2", "x[%d,%d] w[%d,%d] alpha[%d,%d]" % (M, K, K, N, M, N), 2 * M * K * N,
        2 * (M * K + K * N + 2 * M * N), make, ref,
        [eager("eager", f), eager("mm_only", lambda x, w, al: torch.mm(x, w), info=True), comp("compile", f, 3)]))


def add_layernorm(name, R, C):
    R, C = sz(R), sz(C)

    def make(mk):
        return (mk.randn((R, C)), mk.randn((C,)), mk.randn((C,)))

    def ref(x, g, b):
        return F.layer_norm(x.float(), (C,), g.float(), b.float(), 1e-5)

    def f(x, g, b):
        return F.layer_norm(x, (C,), g, b, 1e-5)

    WORKLOADS.append(Workload(
        name, "ln", "x[%d,%d] g,b[%d]" % (R, C, C), 8 * R * C, 2 * (2 * R * C + 2 * C), make, ref,
        [eager("eager", f), eager("copy_only", lambda x, g, b: x.clone(), info=True), comp("compile", f, 2)]))


def add_softmax(name, R, C):
    R, C = sz(R), sz(C)

    def make(mk):
        return (mk.randn((R, C)),)

    def ref(x):
        return torch.softmax(x.float(), -1)

    def f(x):
        return torch.softmax(x, -1)

    WORKLOADS.append(Workload(
        name, "sm", "x[%d,%d]" % (R, C), 5 * R * C, 2 * 2 * R * C, make, ref,
        [eager("eager", f), eager("copy_only", lambda x: x.clone(), info=True), comp("compile", f, 2)]))


def add_gemm_bias_relu(name, M, N, K):
    M, N, K = sz(M), sz(N), sz(K)

    def make(mk):
        return (mk.randn((M, K)), mk.randn((K, N), 1 / math.sqrt(K)), mk.randn((N,)))

    def ref(x, w, b):
        return torch.relu(x.float() @ w.float() + b.float())

    def f(x, w, b):
        return torch.relu(torch.addmm(b, x, w))

    def f_lt(x, w, b):  # cuBLASLt's own bias+relu epilogue
        return torch._addmm_activation(b, x, w, use_gelu=False)

    def f_lt_tn(x, wt, b):
        return torch._addmm_activation(b, x, wt.t(), use_gelu=False)

    bl = [eager("eager", f), eager("cublaslt_epilogue", f_lt), eager("cublaslt_epilogue_tn", f_lt_tn, prep=tn(1)),
          eager("mm_only", lambda x, w, b: torch.mm(x, w), info=True), comp("compile", f, 2)]
    WORKLOADS.append(Workload(
        name, "gemm", "x[%d,%d] w[%d,%d] b[%d]" % (M, K, K, N, N), 2 * M * N * K,
        2 * (M * K + K * N + N + M * N), make, ref, bl))


def add_mlp20(name, M, W=128, L=20):
    M = sz(M)

    def make(mk):
        return (mk.randn((M, W)), mk.randn((L, W, W), math.sqrt(2.0 / W)), mk.randn((L, W), 0.1))

    def ref(x, w, b):
        x = x.float()
        for i in range(L):
            x = torch.relu(x @ w[i].float() + b[i].float())
        return x

    def f(x, w, b):
        for i in range(L):
            x = torch.relu(torch.addmm(b[i], x, w[i]))
        return x

    def f_lt(x, w, b):
        for i in range(L):
            x = torch._addmm_activation(b[i], x, w[i], use_gelu=False)
        return x

    bl = [eager("eager", f), eager("cublaslt_epilogue", f_lt), comp("compile_default", f, 2, mode="default"),
          comp("compile", f, 4)]
    WORKLOADS.append(Workload(
        name, "mlp20", "x[%d,%d] w[%d,%d,%d] b[%d,%d]" % (M, W, L, W, W, L, W), 2 * L * M * W * W,
        2 * (2 * M * W + L * (W * W + W)), make, ref, bl, tol_mul=3.0))


def add_lstm(name, M, H):
    M, H = sz(M), sz(H)

    def make(mk):
        s = 1 / math.sqrt(2 * H)
        return (mk.randn((M, H)), mk.randn((M, H)), mk.randn((H, H), s), mk.randn((H, H), s), mk.randn((H,)))

    def ref(x, h, wx, wh, b):
        return torch.relu(x.float() @ wx.float() + h.float() @ wh.float() + b.float())

    def f(x, h, wx, wh, b):
        return torch.relu(torch.addmm(torch.addmm(b, x, wx), h, wh))

    def f_two(x, h, wx, wh, b):
        return torch.relu(torch.mm(x, wx) + torch.mm(h, wh) + b)

    def cat_w(ins):
        x, h, wx, wh, b = ins
        return (x, h, torch.cat([wx, wh], 0).contiguous(), b)

    def f_cat(x, h, w, b):
        return torch._addmm_activation(b, torch.cat([x, h], 1), w, use_gelu=False)

    bl = [eager("eager_addmm", f), eager("eager", f_two), eager("cublaslt_cat", f_cat, prep=cat_w), comp("compile", f_two, 2)]
    WORKLOADS.append(Workload(
        name, "lstm", "x,h[%d,%d] wx,wh[%d,%d] b[%d]" % (M, H, H, H, H), 4 * M * H * H,
        2 * (3 * M * H + 2 * H * H + H), make, ref, bl))
