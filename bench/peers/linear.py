"""Products of few rows with norms, low-rank additions, gates and adapters."""
import math

from .env import F, sz, torch
from .workload import WORKLOADS, Workload, comp, eager, rms, rms32, tn


def add_rmslin(name, M, K, N, post=None, note="", cprio=2):
    """RMSNorm then Linear; post 'rms': Linear then RMSNorm (nGPT)."""
    M, K, N = M, sz(K), sz(N)

    def make(mk):
        return (mk.randn((M, K)), mk.randn((K, N), 1 / math.sqrt(K)))

    if post == "rms":
        def ref(x, w):
            return rms32(x.float() @ w.float())

        def f(x, w):
            return rms(torch.mm(x, w))

        def f_tn(x, wt):
            return rms(F.linear(x, wt))
    else:
        def ref(x, w):
            return rms32(x) @ w.float()

        def f(x, w):
            return torch.mm(rms(x), w)

        def f_tn(x, wt):
            return F.linear(rms(x), wt)

    bl = [eager("eager", f), eager("eager_tn", f_tn, prep=tn(1)),
          eager("mm_only", lambda x, w: torch.mm(x, w), info=True),
          comp("compile", f, cprio), comp("compile_tn", f_tn, 4, prep=tn(1))]
    WORKLOADS.append(Workload(
        name, "rmslin%d" % (M == 1), "x[%d,%d] w[%d,%d]" % (M, K, K, N), 2 * M * K * N,
        2 * (M * K + K * N + M * N), make, ref, bl, note=note))


def add_gmlp(name, M, K, I, note=""):
    K, I = sz(K), sz(I)

    def make(mk):
        s = 1 / math.sqrt(K)
        return (mk.randn((M, K)), mk.randn((K, I), s), mk.randn((K, I), s))

    def ref(x, w1, w3):
        x = x.float()
        return F.silu(x @ w1.float()) * (x @ w3.float())

    def f(x, w1, w3):
        return F.silu(torch.mm(x, w1)) * torch.mm(x, w3)

    def cat(ins):
        return (ins[0], torch.cat([ins[1], ins[2]], 1).contiguous())

    def cat_tn(ins):
        return (ins[0], torch.cat([ins[1], ins[2]], 1).t().contiguous())

    def f_cat(x, w13):
        h = torch.mm(x, w13)
        return F.silu(h[:, :I]) * h[:, I:]

    def f_cat_tn(x, w13t):
        h = F.linear(x, w13t)
        return F.silu(h[:, :I]) * h[:, I:]

    bl = [eager("eager", f), eager("eager_cat", f_cat, prep=cat),
          eager("eager_cat_tn", f_cat_tn, prep=cat_tn),
          eager("mm_only", lambda x, w: torch.mm(x, w), prep=cat, info=True),
          comp("compile", f, 2), comp("compile_cat", f_cat, 3, prep=cat),
          comp("compile_cat_tn", f_cat_tn, 4, prep=cat_tn)]
    WORKLOADS.append(Workload(
        name, "gmlp%d" % (M == 1), "x[%d,%d] w1,w3[%d,%d]" % (M, K, K, I), 4 * M * K * I,
        2 * (M * K + 2 * K * I + M * I), make, ref, bl, note=note))


def add_lora(name, M, K, N, R=16, with_rms=False, note="", cprio=2):
    K, N = sz(K), sz(N)

    def make(mk):
        s = 1 / math.sqrt(K)
        return (mk.randn((M, K)), mk.randn((K, N), s), mk.randn((K, R), s), mk.randn((R, N), 1 / math.sqrt(R)))

    def n_(x):
        return rms(x) if with_rms else x

    def ref(x, w, a, b):
        x = rms32(x) if with_rms else x.float()
        return x @ w.float() + (x @ a.float()) @ b.float()

    def f(x, w, a, b):
        x = n_(x)
        return torch.mm(x, w) + torch.mm(torch.mm(x, a), b)

    def f_addmm(x, w, a, b):
        x = n_(x)
        return torch.addmm(torch.mm(x, w), torch.mm(x, a), b)

    def cat(ins):
        return (ins[0], torch.cat([ins[1], ins[2]], 1).contiguous(), ins[3])

    def f_cat(x, wa, b):
        y = torch.mm(n_(x), wa)
        return torch.addmm(y[:, :N], y[:, N:], b)

    def f_tn(x, wt, at, bt):
        x = n_(x)
        return F.linear(x, wt) + F.linear(F.linear(x, at), bt)

    bl = [eager("eager", f), eager("eager_addmm", f_addmm), eager("eager_cat", f_cat, prep=cat),
          eager("eager_tn", f_tn, prep=tn(1, 2, 3)),
          eager("mm_only", lambda x, w, a, b: torch.mm(x, w), info=True),
          comp("compile", f, cprio), comp("compile_cat", f_cat, 4, prep=cat),
          comp("compile_tn", f_tn, 4, prep=tn(1, 2, 3))]
    WORKLOADS.append(Workload(
        name, "lora%d%d" % (M == 1, with_rms), "x[%d,%d] w[%d,%d] a[%d,%d] b[%d,%d]" % (M, K, K, N, K, R, R, N),
        2 * M * (K * N + K * R + R * N), 2 * (M * K + K * N + K * R + R * N + M * N),
        make, ref, bl, note=note))


def add_adapter(name, M, H=4096, R=16):
    H = sz(H)

    def make(mk):
        return (mk.randn((M, H)), mk.randn((H, R), 1 / math.sqrt(H)), mk.randn((R, H), 1 / math.sqrt(R)))

    def ref(x, w1, w2):
        x = x.float()
        return x + torch.relu(x @ w1.float()) @ w2.float()

    def f(x, w1, w2):
        return torch.mm(torch.relu(torch.mm(x, w1)), w2) + x

    def f_addmm(x, w1, w2):
        return torch.addmm(x, torch.relu(torch.mm(x, w1)), w2)

    def f_tn(x, w1t, w2t):
        return F.linear(torch.relu(F.linear(x, w1t)), w2t) + x

    bl = [eager("eager", f), eager("eager_addmm", f_addmm), eager("eager_tn", f_tn, prep=tn(1, 2)),
          comp("compile", f, 2), comp("compile_addmm", f_addmm, 4), comp("compile_tn", f_tn, 4, prep=tn(1, 2))]
    WORKLOADS.append(Workload(
        name, "adapter", "x[%d,%d] w1[%d,%d] w2[%d,%d]" % (M, H, H, R, R, H), 4 * M * H * R,
        2 * (2 * M * H + 2 * H * R), make, ref, bl))


# ------------------------------------------------------------------ MoE
