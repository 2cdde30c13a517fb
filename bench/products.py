#!/usr/bin/env python3
"""bench/products.py - times large products and attention over one latent against cuBLASLt. Each workload is lowered at the settings listed here.

    bench/products.py --make DIR [--mica build/mica] [--tag new] [--without pair,wide]   # anywhere: CUDA C++
    bench/products.py --run DIR [--csv FILE] [--commit HASH] [--seconds S]               # on the GPU; needs nvcc and torch

Every result is compared with a float64 product by torch on the same inputs before it is timed. Launches rotate among copies of the
inputs that exceed twice the L2 cache, in a CUDA graph; rounds of all ways of a workload alternate, and medians of rounds are kept.
"""
import argparse
import ctypes
import math
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Work:
    """A program: its tensors, the block graph of a tile, the expression of the result, and what torch computes."""

    def __init__(self, name, m, n, k, tiles, result="y", more=(), left=False, right=False, reference=None, peer=None, scale=1.0):
        self.name, self.m, self.n, self.k, self.tiles, self.result, self.more = name, m, n, k, tiles, result, more
        self.left, self.right, self.reference, self.peer, self.scale = left, right, reference, peer, scale

    def flops(self):
        return 2.0 * self.m * self.n * self.k * (2 if "z" in self.result else 1)

    def out_shape(self):
        return [self.m, self.n]

    def ways(self):
        """(name of the tile and variant, graph, knobs), the likely best first."""
        for tile in self.tiles:
            for way in WAYS:
                if "blocks=132" in way and (self.m // tile[0]) * (self.n // tile[1]) <= 132:
                    continue
                groups, walks, pair = way[7], "walk" if "blocks=132" in way else "all", "-pair" if "pair=1" in way else ""
                yield "%dx%dx%d-g%s-%s%s" % (*tile, groups, walks, pair), self.graph(*tile), "wgmma chain=0 poly=0 last=0 rows=0 step=0 wide=0 " + way

    def shapes(self):
        weights = ["V"] if "z" in self.result else []
        x, w = ([self.k, self.m] if self.left else [self.m, self.k]), ([self.n, self.k] if self.right else [self.k, self.n])
        more = {"bias": [self.n], "R": [self.m, self.n]}
        return [("X", x), ("W", w)] + [(v, w) for v in weights] + [(t, more[t]) for t in self.more]

    def head(self, word):
        return "%s %s {\n" % (word, "w_" + self.name) + "".join("  %s: f16[%s]\n" % (t, ", ".join(map(str, s))) for t, s in self.shapes())

    def graph(self, bm, bn, bk):
        turn = ", perm=[1, 0])"
        x = "transpose(x" + turn if self.left else "x"
        text = self.head("graph") + "  t0 = block(x=%d, y=%d; i=%d) {\n" % (self.m // bm, self.n // bn, self.k // bk)
        text += "    x = iter(X, imap={x:%d}, fmap={i:%d})\n" % (self.left, not self.left)
        products = [("y", "w", "W")] + ([("z", "v", "V")] if "z" in self.result else [])
        for out, t, name in products:
            text += "    %s = iter(%s, imap={y:%d}, fmap={i:%d})\n" % (t, name, not self.right, self.right)
        for t, maps in (("bias", "{y:0}"), ("R", "{x:0, y:1}")):
            text += "    %s = iter(%s, imap=%s)\n" % (t.lower(), t, maps) if t in self.more else ""
        for out, t, name in products:
            text += "    %s = accum(matmul(%s, %s))\n" % (out, x, "transpose(%s%s" % (t, turn) if self.right else t)
        return text + "    save(%s, omap={x:0, y:1})\n  }\n  return t0\n}\n" % self.result.replace("R", "r")


def relu_bias(t, y, more):
    return t.relu(y + more[0])


def silu_bias(t, y, more):
    return t.nn.functional.silu(y + more[0])


def scale_add(t, y, more):
    return (y + more[0]) * 1.5 + more[1]


WAYS = ["groups=%d stages=%d blocks=%d store=%d pair=%d" % (g, s, b, store, pair)
        for g in (2, 4) for s in (4, 3, 6) for b in (132, 0) for store in (2, 1, 0) for pair in (1, 0)]


class Latent(Work):
    """Attention of h heads over one latent of 512 elements, and 64 more of the keys."""

    def __init__(self, name, b, h, s, parts):
        super().__init__(name, b, h, s, ())
        self.parts = parts

    def flops(self):
        return 2.0 * self.m * self.n * self.k * (576 + 512)

    def out_shape(self):
        return [self.m, self.n, 512]

    def shapes(self):
        return [("Q", [self.m, self.n, 512]), ("P", [self.m, self.n, 64]), ("L", [self.m, self.k, 512]), ("R", [self.m, self.k, 64])]

    def ways(self):
        text = self.head("graph") + """  t1, t2 = block(x=%d, y=%d; i=%d) {
    l = iter(L, imap={x:0, y:1}, fmap={i:1})
    r = iter(R, imap={x:0, y:1}, fmap={i:1})
    q = iter(Q, imap={x:0})
    p = iter(P, imap={x:0})
    s = matmul(p, transpose(r, perm=[0, 2, 1])) + matmul(q, transpose(l, perm=[0, 2, 1]))
    e = exp(s * 0.07216878364870323)
    save(reshape(sum(accum(e), dim=2), [1, 1, %d, 1]), omap={x:1, y:0})
    save(reshape(accum(matmul(e, l)), [1, 1, %d, 512]), omap={x:1, y:0})
  }
  t3 = block(x=%d, y=%d) {
    t2 = iter(t2, imap={x:1, y:2})
    t1 = iter(t1, imap={x:1, y:2})
    save(reshape(sum(t2, dim=0) / sum(t1, dim=0), [1, 1, 512]), omap={x:0, y:1})
  }
  return t3
}
""" % (self.m, self.parts, self.k // self.parts, self.n, self.n, self.m, self.n)
        for chain, stages, step in ((0, 2, 64), (0, 3, 32), (0, 4, 32), (1, 2, 64)):
            for pair in (1, 0):
                yield "one-chain%d-%d-%d%s" % (chain, stages, step, "-pair" if pair else ""), text, \
                    "wgmma groups=2 stages=%d blocks=0 chain=%d store=0 poly=0 rows=64 step=%d pair=%d wide=2" % (stages, chain, step, pair)


class Heads(Work):
    """Attention of b x h heads of [t, d] over as many keys, with a bias of the scores of each head or without one."""

    def __init__(self, name, b, h, t, d, bias):
        super().__init__(name, b, h, t, ())
        self.d, self.bias = d, bias

    def flops(self):
        return 4.0 * self.m * self.n * self.k * self.k * self.d

    def out_shape(self):
        return [self.m, self.n, self.k, self.d]

    def shapes(self):
        heads = [self.m, self.n, self.k, self.d]
        return [("Q", heads), ("K", heads), ("V", heads)] + ([("B", [self.n, self.k, self.k])] if self.bias else [])

    def ways(self):
        text = self.head("graph") + """  t0 = block(x=%d, y=%d, z=%d; i=%d) {
    v = iter(V, imap={x:0, y:1}, fmap={i:2})
    k = iter(K, imap={x:0, y:1}, fmap={i:2})
    q = iter(Q, imap={x:0, y:1, z:2})
%s    e = exp(matmul(q, transpose(k, perm=[0, 1, 3, 2])) * 0.125%s)
    save(accum(matmul(e, v)) / accum_sum(e, dim=3), omap={x:0, y:1, z:2})
  }
  return t0
}
""" % (self.m, self.n, self.k // 128, self.k // 128, "    b = iter(B, imap={y:0, z:1}, fmap={i:2})\n" if self.bias else "",
       " + b" if self.bias else "")
        for chain in (1, 2):
            for blocks in (132, 0):
                for pair in (1, 0):
                    for brought in (1, 0) if self.bias else (0,):
                        for stages in (3, 2):
                            name = "chain%d-%s%s%s" % (chain, "walk" if blocks else "all", "-pair" if pair else "", "-brought" if brought else "")
                            yield name, text, "wgmma groups=2 stages=%d blocks=%d chain=%d store=1 poly=0 rows=0 step=0 pair=%d wide=0 brought=%d" % (
                                stages, blocks, chain, pair, brought)


BIG = ((128, 256, 64), (256, 128, 64), (256, 256, 64))
WORKS = [
    Work("g_gemm", 5376, 5376, 2048, BIG, "relu(y + bias)", ("bias",), reference=relu_bias),
    Work("square_4096", 4096, 4096, 4096, BIG),
    Work("linear_4096", 4096, 4096, 4096, BIG, right=True),
    Work("turned_left", 2048, 4096, 8192, BIG, left=True),
    Work("silu", 2048, 1024, 4096, ((128, 128, 64), (128, 128, 128), (128, 256, 64), (64, 256, 64)), "silu(y + bias)", ("bias",),
         reference=silu_bias),
    Work("residual", 4096, 4096, 768, BIG + ((128, 128, 64),), "(y + bias) * 1.5 + R", ("bias", "R"), reference=scale_add),
    Work("gate", 512, 18944, 3584, ((128, 128, 64), (256, 128, 64), (128, 64, 64)), "silu(y) * z"),
    Latent("latent_128", 16, 128, 7626, 6),
    Heads("bias_512", 8, 32, 512, 64, True),
    Heads("heads_1024", 4, 32, 1024, 128, False),
    Work("square_8192", 8192, 8192, 8192, BIG),
    Work("residual_8192", 4096, 8192, 4096, BIG, "(y + bias) * 1.5 + R", ("bias", "R"), reference=scale_add),
]


def make(o):
    drop = [w for w in o.without.split(",") if w]
    os.makedirs(o.make, exist_ok=True)
    for work in WORKS:
        if o.only and not re.search(o.only, work.name):
            continue
        folder = os.path.join(o.make, work.name)
        os.makedirs(folder, exist_ok=True)
        kept = set()
        for way, text, how in work.ways():
            if way in kept or not re.search(o.ways, way) or any(w + "=" in how and w + "=0" not in how for w in drop):
                continue
            out = os.path.join(folder, "%s-%s" % (o.tag, way))
            how = " ".join(w for w in how.split() if w.split("=")[0] not in drop)
            graph = out + ".mica"
            with open(graph, "w") as f:
                f.write(text)
            subprocess.run([o.mica, "lower", graph, "--knobs", how, "--out", out, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.remove(graph)
            try:
                said = open(os.path.join(out, "README.md")).read().split("| launch |")[1].split("\n")[2]
            except OSError:
                continue
            fits = set(how.split()) <= set(said.split("|")[2].split())  # if the knobs do not fit, the best setting that fits is printed
            kept |= {way} if fits else set()
            for x in os.listdir(out):
                if not fits or x != "kernel.cu" and x != "kernel.h":
                    os.remove(os.path.join(out, x))
            if not fits:
                os.rmdir(out)
        print(work.name, len(kept), flush=True)


# ---- on the GPU ----


class Built:
    """kernel.cu as a shared library; called on torch's stream."""

    def __init__(self, torch, work, where):
        self.torch, self.lib = torch, ctypes.CDLL(os.path.abspath(os.path.join(where, "kernel.so")))
        name = "w_" + work.name
        self.run = getattr(self.lib, name + "_run")
        self.run.argtypes = [ctypes.c_void_p] * 4
        bytes_of = getattr(self.lib, name + "_workspace")
        bytes_of.restype = ctypes.c_size_t
        self.work = torch.zeros(max(256, bytes_of()), dtype=torch.uint8, device="cuda")
        self.shape = work.out_shape()
        prepare = getattr(self.lib, name + "_prepare")
        prepare.argtypes = [ctypes.c_void_p] * 2
        status = prepare(self.work.data_ptr(), None)
        torch.cuda.synchronize()
        if status:
            raise RuntimeError("prepare: %d" % status)

    def __call__(self, *ins):
        out = self.torch.empty(self.shape, dtype=self.torch.float16, device="cuda")
        addresses = (ctypes.c_void_p * len(ins))(*[t.data_ptr() for t in ins])
        status = self.run(addresses, (ctypes.c_void_p * 1)(out.data_ptr()), self.work.data_ptr(), self.torch.cuda.current_stream().cuda_stream)
        if status:
            raise RuntimeError("CUDA error %d" % status)
        return out


def build(folders):
    """Compiles all in parallel with nvcc."""
    flags = ["nvcc", "-O3", "-gencode", "arch=compute_90a,code=sm_90a", "-shared", "-Xcompiler", "-fPIC", "kernel.cu", "-o", "kernel.so"]
    jobs = [subprocess.Popen(flags, cwd=f, stderr=subprocess.DEVNULL) for f in folders if not os.path.exists(os.path.join(f, "kernel.so"))]
    for j in jobs:
        j.wait()


def compute(torch, work, ins, dtype):
    """The program's inputs in this dtype."""
    named = dict(zip([n for n, _ in work.shapes()], ins))
    if isinstance(work, Latent):
        q, p, l, r = [t.to(dtype) for t in ins]
        return torch.softmax((q @ l.transpose(1, 2) + p @ r.transpose(1, 2)) * 192 ** -0.5, 2) @ l
    if isinstance(work, Heads):
        q, k, v = [t.to(dtype) for t in ins[:3]]
        return torch.softmax(q @ k.transpose(2, 3) * 0.125 + (ins[3].to(dtype) if work.bias else 0), 3) @ v
    x, w = named["X"].to(dtype), named["W"].to(dtype)
    x, w = x.t() if work.left else x, w.t() if work.right else w
    y = x @ w
    if "z" in work.result:
        v = named["V"].to(dtype)
        return torch.nn.functional.silu(y) * (x @ (v.t() if work.right else v))
    return work.reference(torch, y, [named[t].to(dtype) for t in work.more]) if work.reference else y


def peers(torch, work, compiled):
    """The product alone, and torch's forms of the program."""
    def product(*ins):
        x, w = ins[0], ins[1]
        return torch.mm(x.t() if work.left else x, w.t() if work.right else w)

    if isinstance(work, Heads):
        attend = torch.nn.functional.scaled_dot_product_attention
        return {"sdpa": lambda q, k, v, *bias: attend(q, k, v, attn_mask=bias[0].expand(work.m, -1, -1, -1) if bias else None, scale=0.125)}
    if isinstance(work, Latent):
        return {"compiled": torch.compile(lambda *ins: compute(torch, work, ins, torch.float16), dynamic=False)} if compiled else {}
    out = {"cublas_product": product}
    if work.result == "relu(y + bias)":
        out["cublaslt_epilogue"] = lambda x, w, b: torch._addmm_activation(b, x, w)
    if compiled and work.result != "y" and work.m * work.n < 1 << 25:
        out["compiled"] = torch.compile(lambda *ins: compute(torch, work, ins, torch.float16), dynamic=False)
    return out


def sets_of(torch, work, out_bytes):
    gen = torch.Generator(device="cuda").manual_seed(1)
    one = sum(2 * math.prod(s) for _, s in work.shapes()) + out_bytes
    n = max(2, -(-(110 << 20) // one))
    return [[torch.randn(s, generator=gen, device="cuda", dtype=torch.float16) * (work.k ** -0.5 if t in "WV" else 1)
             for t, s in work.shapes()] for _ in range(n)]


def captured(torch, fn, sets, launches):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in sets:
            fn(*s)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        held = [fn(*sets[i % len(sets)]) for i in range(launches)]
    del held
    return graph


def replay(torch, graph, launches):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    graph.replay()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) * 1000 / launches


def run(o):
    import torch

    card, start, lines = torch.cuda.get_device_name(0), time.time(), []
    build([os.path.join(o.run, w.name, d) for w in WORKS
           if os.path.isdir(os.path.join(o.run, w.name)) and not (o.only and not re.search(o.only, w.name))
           for d in os.listdir(os.path.join(o.run, w.name)) if os.path.exists(os.path.join(o.run, w.name, d, "kernel.cu")) and re.search(o.ways, d)])
    for work in WORKS:
        folder = os.path.join(o.run, work.name)
        if not os.path.isdir(folder) or (o.only and not re.search(o.only, work.name)):
            continue
        ways = {d: None for d in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, d, "kernel.cu")) and re.search(o.ways, d)}
        sets = sets_of(torch, work, 2 * math.prod(work.out_shape()))
        want = compute(torch, work, sets[0], torch.float64)
        calls = {d: Built(torch, work, os.path.join(folder, d)) for d in ways if os.path.exists(os.path.join(folder, d, "kernel.so"))}
        calls.update({} if o.no_peers else peers(torch, work, not o.no_compile))
        graphs, errors, launches = {}, {}, max(len(sets), 4)
        for name, fn in calls.items():
            try:
                got = fn(*sets[0])
                if name != "cublas_product":
                    errors[name] = float(torch.linalg.vector_norm(got.double() - want) / torch.linalg.vector_norm(want))
                    if not errors[name] < (2e-3 if name in ways else 2e-2):
                        print("%s %s: WRONG, %g" % (work.name, name, errors[name]), flush=True)
                        continue
                graphs[name] = captured(torch, fn, sets, launches)
            except Exception as e:  # an unsupported peer or a failed kernel is printed and left out
                print("%s %s: %s" % (work.name, name, str(e).splitlines()[0][:150]), flush=True)
        times = {name: [] for name in graphs}
        for turn in range(o.rounds):
            for name, g in graphs.items():
                replay(torch, g, launches)
                times[name] += [replay(torch, g, launches) for _ in range(3)]
        flops = work.flops()
        for name, t in sorted(times.items(), key=lambda x: statistics.median(x[1])):
            us = statistics.median(t)
            lines.append("%s,%s,%.3f,%.3f,%.3f,%.1f,%.2e,%s,%s"
                         % (work.name, name, us, min(t), max(t), flops / us / 1e6, errors.get(name, 0), card, o.commit))
            print("%-14s %-28s %9.2f us  %6.1f TFLOP/s" % (work.name, name, us, flops / us / 1e6), flush=True)
        if o.csv:
            with open(o.csv, "w") as f:
                f.write("workload,way,us median,us least,us most,TFLOP/s,relative error,machine,commit\n" + "\n".join(lines) + "\n")
        del graphs, calls, sets, want
        torch.cuda.empty_cache()
        if time.time() - start > o.seconds:
            print("time is up", flush=True)
            return


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--make", metavar="DIR")
    ap.add_argument("--run", metavar="DIR")
    ap.add_argument("--only", metavar="PATTERN")
    ap.add_argument("--ways", default="", metavar="PATTERN", help="these ways only")
    ap.add_argument("--no-peers", action="store_true")
    ap.add_argument("--no-compile", action="store_true", help="without torch.compile")
    ap.add_argument("--mica", default="build/mica")
    ap.add_argument("--tag", default="mica")
    ap.add_argument("--without", default="", help="knobs that this mica has not")
    ap.add_argument("--csv")
    ap.add_argument("--commit", default="")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=120)
    o = ap.parse_args()
    if not o.make and not o.run:
        ap.error("--make or --run")
    (make if o.make else run)(o)


if __name__ == "__main__":
    main()
