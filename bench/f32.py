#!/usr/bin/env python3
"""Compares f32 products of Mica with those of PyTorch (cuBLAS, TF32 off): times, and errors against float64. Needs torch and a GPU.

    python3 bench/f32.py --programs DIR                 # writes the programs, FILE.mica each; needs neither
    mica optimize DIR/FILE.mica --target sm_90a --out DIR/FILE
    python3 bench/f32.py --csv FILE DIR                 # times the folders FILE or FILE-VARIANT of DIR
    python3 bench/f32.py --errors FILE DIR              # errors of the programs acc_K on several kinds of numbers

`--note TEXT` writes a comment line at the head of the table, for example the commit. A time is the median of several replays of a CUDA graph, in us.
The graph has many calls on the same inputs. Errors are relative norms of the difference, and the largest difference of an element over the root mean
square. With `--csv` the exit status is 1 if the relative norm of a program is more than 1e-5.

`--errors` records relative norms, and the largest and the mean difference over what is added up in absolute values, |X| |W|, which bounds any order
of sums. It does not judge them. For special inputs it counts elements whose infinity or NaN is not that of PyTorch, not that of float64, and neither
of them. The exit status is 1 if there are any of the last: a sum of 3e38, -4e38 and infinity is NaN in some orders.
"""
import argparse
import csv
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

ROUNDS, SPENT_US, WRONG = 7, 6000, 1e-5


def linear(m, k, n, end, more=""):
    return "X: f32[%d, %d]\n  W: f32[%d, %d]\n  b: f32[%d]%s" % (m, k, n, k, n, more), end


def plain(m, k, n, end="matmul(X, W)"):
    return "X: f32[%d, %d]\n  W: f32[%d, %d]" % (m, k, k, n), end


PRODUCT = "matmul(X, transpose(W)) + b"
PROGRAMS = {  # inputs, result
    "linear_1024_8192_8192": linear(1024, 8192, 8192, PRODUCT),
    "relu_1024_8192_8192": ("X: f32[1024, 8192]\n  W: f32[8192, 8192]\n  b: f32[8192]", "relu(matmul(X, W) + b)"),
    "gelu_1024_8192_8192": linear(1024, 8192, 8192, "gelu(%s)" % PRODUCT),
    "scale_res_1024_8192_8192": linear(1024, 8192, 8192, "(%s) * 0.5 + R" % PRODUCT, "\n  R: f32[1024, 8192]"),
    "lse_1024_8192_8192": linear(1024, 8192, 8192, "logsumexp(%s, 1)" % PRODUCT),
    "mm_2048_8192_4096": plain(2048, 8192, 4096),
    "mm_4096": plain(4096, 4096, 4096),
    "relu_4096": plain(4096, 4096, 4096, "relu(matmul(X, W))"),
    "relu_at_4096": plain(4096, 4096, 4096, "relu(matmul(transpose(X), W))"),
    "relu_128_8192_8192": plain(128, 8192, 8192, "relu(matmul(X, transpose(W)))"),
    "relu_4095_4095_4096": plain(4095, 4096, 4095, "relu(matmul(X, W))"),
    "relu_4096_4096_4093": plain(4096, 4093, 4096, "relu(matmul(X, W))"),
    "linear_batch_128_512_1024_2048": ("X: f32[128, 512, 1024]\n  W: f32[2048, 1024]\n  b: f32[2048]", "relu(%s)" % PRODUCT),
    "gelu_65536_1024_2048": linear(65536, 1024, 2048, "gelu(%s)" % PRODUCT),
}
LENGTHS = [64, 256, 1024, 4096, 16384]
PROGRAMS.update({"acc_%d" % k: plain(512, k, 512) for k in LENGTHS})


def text_of(name):
    inputs, result = PROGRAMS[name]
    return "program %s {\n  %s\n  return %s\n}\n" % (name, inputs, result)


def begin():
    import torch
    import peers.env
    import peers.mica
    peers.env.torch = peers.mica.torch = torch
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch, peers.mica


def by_torch(torch, name):
    """The result as torch computes it, in whatever dtype its inputs have."""
    words = {"matmul": torch.matmul, "transpose": lambda t: t.transpose(-1, -2), "relu": torch.relu, "gelu": torch.nn.functional.gelu,
             "logsumexp": lambda t, d: torch.logsumexp(t, d, keepdim=True)}
    code = compile(PROGRAMS[name][1].replace(PRODUCT, "linear(X, W, b)"), name, "eval")
    words["linear"] = torch.nn.functional.linear
    return lambda given: eval(code, dict(words, **given))


def folders(where, name):
    return sorted(d for d in os.listdir(where) if (d == name or d.startswith(name + "-")) and os.path.exists(os.path.join(where, d, "program.json")))


def inputs_of(torch, folder):
    with open(os.path.join(folder, "program.json")) as f:
        doc = json.load(f)
    torch.manual_seed(1)
    return {x["name"]: torch.randn(x["shape"], device="cuda") for x in doc["inputs"]}


def median_us(torch, call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(side):
        call()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        calls = max(1, int(SPENT_US / max(1.0, start.elapsed_time(stop) * 1e3)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(calls):
                call()
        times = []
        for _ in range(ROUNDS + 1):
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e3 / calls)
    torch.cuda.current_stream().wait_stream(side)
    return statistics.median(times[1:])


def by_launch(torch, mica, program, inputs):
    """Time of each launch alone, after one call of all launches."""
    program(*inputs)
    outs = [torch.empty(x["shape"], dtype=mica.DTYPES[x["dtype"]](), device="cuda") for x in program.doc["outputs"]]
    places = mica.Places(inputs, outs, program.work)
    return "+".join("%.0f" % median_us(torch, lambda x=x: x.run(places, torch.cuda.current_stream().cuda_stream)) for x in program.launches)


def error(torch, got, want):
    off = got.double() - want
    rms = want.square().mean().sqrt()
    return (off.norm() / want.norm()).item(), (off.abs().max() / rms).item()


def race(torch, mica, where, only, out):
    wrong = 0
    out.writerow(["program", "by", "us", "Tflops", "relative error", "largest", "launches us"])
    for name in PROGRAMS:
        saved = folders(where, name) if not name.startswith("acc_") and only in name else []
        if not saved:
            continue
        given = inputs_of(torch, os.path.join(where, saved[0]))
        function = by_torch(torch, name)
        want = function({k: t.double() for k, t in given.items()})
        work = 2e-6 * given["X"].numel() * given["W"].numel() / (given["X"].shape[0] if "transpose(X)" in PROGRAMS[name][1] else given["X"].shape[-1])
        ways, inputs = {"torch": lambda: function(given)}, list(given.values())
        programs = {d[len(name):].lstrip("-") or "mica": mica.Saved(os.path.join(where, d)) for d in saved}
        ways.update({by: lambda p=p: p(*inputs) for by, p in programs.items()})
        for by, call in ways.items():
            norm, largest = error(torch, call().reshape(want.shape), want)
            us = median_us(torch, call)
            wrong |= by != "torch" and not norm < WRONG
            launches = by_launch(torch, mica, programs[by], inputs) if by in programs else ""
            out.writerow([name, by, "%.1f" % us, "%.1f" % (work / us), "%.3g" % norm, "%.3g" % largest, launches])
        torch.cuda.empty_cache()
    return wrong


def kinds(torch, k):
    """Pairs of operands by name."""
    def normal(*s):
        return torch.randn(s, device="cuda")

    def wide(*s):
        return normal(*s) * torch.pow(10.0, torch.rand(s, device="cuda") * 30 - 15)
    torch.manual_seed(k)
    x, w = normal(512, k), normal(k, 512)
    yield "normal", x, w
    yield "positive", x.abs(), w.abs()
    yield "wide", wide(512, k), wide(k, 512)
    half = k // 2
    yield "cancelling", torch.cat([x[:, :half], x[:, :half] * (1 + 1e-6 * x[:, half:])], 1), torch.cat([w[:half], -w[:half]], 0)
    yield "small", x * 1e-32, w * 1e30
    yield "denormal", x * 1e-40, w * 1e20
    y, z = x.clone(), w.clone()
    y[3, 5], y[7, 1], y[9, 2], y[11, 3], z[4, 8], z[2, 17], z[1, 18] = (float(s) for s in "inf -inf nan 3.4e38 inf nan 0".split())
    yield "special", y, z


def infinities(torch, t):
    return torch.where(t.isinf(), t, torch.zeros_like(t))


def differs(torch, a, b):
    return (infinities(torch, a) != infinities(torch, b)) | (a.isnan() != b.isnan())


def errors(torch, mica, where, out):
    wrong = 0
    out.writerow(["k", "numbers", "by", "norm", "largest over |X| |W|", "mean over |X| |W|", "unlike torch", "unlike float64", "unlike both"])
    for k in LENGTHS:
        ways = {"torch": torch.matmul}
        for d in folders(where, "acc_%d" % k):
            ways[d[len("acc_%d" % k):].lstrip("-") or "mica"] = mica.Saved(os.path.join(where, d))
        for kind, x, w in kinds(torch, k):
            want = x.double() @ w.double()
            scale = x.double().abs() @ w.double().abs()
            for by, call in ways.items():
                got, plain = call(x, w).double(), (x @ w).double()
                if kind == "special":
                    unlike = [differs(torch, got, plain), differs(torch, got, want.float().double())]
                    unlike.append(unlike[0] & unlike[1])
                    wrong |= unlike[2].any().item()
                    for i, j in unlike[2].nonzero()[:4].tolist():
                        print("k %d, %s, row %d column %d: %r, torch %r, float64 %r" % (
                            k, by, i, j, got[i, j].item(), plain[i, j].item(), want[i, j].item()), x[i, :8].tolist(), w[:8, j].tolist())
                    finite = want.isfinite() & plain.isfinite()
                    norm = (got - want)[finite].norm() / want[finite].norm()
                    out.writerow([k, kind, by, "%.3g" % norm.item(), "", ""] + [x.sum().item() for x in unlike])
                    continue
                off = (got - want) / scale.clamp_min(1e-300)
                norm = (got - want).norm() / want.norm()
                out.writerow([k, kind, by, "%.3g" % norm.item(), "%.3g" % off.abs().max().item(), "%.3g" % (off * want.sign()).mean().item(), "", "",
                              ""])
    return wrong


def table(torch, path, notes, write):
    with open(path, "w", newline="") as f:
        f.writelines("# %s\n" % x for x in ["%s, torch %s" % (torch.cuda.get_device_name(0), torch.__version__)] + notes)
        return write(csv.writer(f, lineterminator="\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--csv")
    parser.add_argument("--errors")
    parser.add_argument("--only", default="")
    parser.add_argument("--note", action="append", default=[])
    parser.add_argument("where")
    a = parser.parse_args()
    if a.programs:
        os.makedirs(a.where, exist_ok=True)
        for name in PROGRAMS:
            with open(os.path.join(a.where, name + ".mica"), "w") as f:
                f.write(text_of(name))
        return 0
    torch, mica = begin()
    wrong = 0
    if a.csv:
        wrong |= table(torch, a.csv, a.note, lambda out: race(torch, mica, a.where, a.only, out))
    if a.errors:
        wrong |= table(torch, a.errors, a.note, lambda out: errors(torch, mica, a.where, out))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
