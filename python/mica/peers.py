"""python -m mica.peers FOLDER: times a saved program against the installed ones of torch (eager and compiled), jax and onnxruntime.

All run in one process, by turns. `mica optimize --out` or Program.save writes FOLDER. Its program is written as a function of each library, with the
library's own operators for softmax, norms and activations. Results are compared with those of torch's eager mode, or of the first peer that runs.
A peer whose results differ is named and not timed. `mica optimize --peers` runs this and shows its lines.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import mica

SAMPLE, LEAST, MOST = 2e-3, 5, 200  # seconds of the calls in one sample; least and most samples of each peer
TOLERANCE = {row["name"]: row["tolerance"] for row in mica._mica.dtypes}


class Missing(Exception):
    """A library is not installed, or lacks an operator of this program. The text names it."""


# ---- a program as a function ----


def _torch_operators():
    import torch
    F = torch.nn.functional

    def group(f):
        def of(x, n):
            if not n.get("group"):
                return f(x, n["dim"])
            shape = list(x.shape)
            shape[n["dim"]:n["dim"] + 1] = [shape[n["dim"]] // n["group"], n["group"]]
            return f(x.reshape(shape), n["dim"] + 1).squeeze(n["dim"] + 1)
        return of

    rows = {name: (lambda f: lambda x, n: f(x))(getattr(torch, name)) for name in (
        "exp", "log", "sqrt", "rsqrt", "square", "neg", "abs", "sigmoid", "relu", "tanh", "sin", "cos", "erf")}
    rows |= {name: (lambda f: lambda x, y, n: f(x, y))(getattr(torch, name)) for name in (
        "add", "sub", "mul", "div", "pow", "minimum", "maximum", "matmul")}
    rows |= {name: (lambda f: lambda x, n: f(x))(getattr(F, name)) for name in ("silu", "gelu", "softplus")}
    rows |= {
        "leaky_relu": lambda x, n: F.leaky_relu(x, n["slope"]), "clamp": lambda x, n: x.clamp(n.get("lo"), n.get("hi")),
        "mul_scalar": lambda x, n: x * n["scalar"], "add_scalar": lambda x, n: x + n["scalar"],
        "sum": group(lambda x, d: x.sum(d, keepdim=True)), "mean": group(lambda x, d: x.mean(d, keepdim=True)),
        "max": group(lambda x, d: x.amax(d, keepdim=True)), "min": group(lambda x, d: x.amin(d, keepdim=True)),
        "prod": lambda x, n: x.prod(n["dim"], keepdim=True), "cumsum": lambda x, n: x.cumsum(n["dim"]),
        "logsumexp": lambda x, n: x.logsumexp(n["dim"], keepdim=True),
        "softmax": lambda x, *m: F.softmax(x + m[0] if len(m) > 1 else x, m[-1]["dim"]),
        "rms_norm": lambda x, *w: F.rms_norm(x, x.shape[-1:], w[0] if len(w) > 1 else None, w[-1].get("eps", 0)),
        "layer_norm": lambda x, *w: F.layer_norm(x, x.shape[-1:], w[0] if len(w) > 1 else None, w[1] if len(w) > 2 else None, w[-1].get("eps", 1e-5)),
        "reshape": lambda x, n: x.reshape(n["shape"]), "transpose": lambda x, n: x.permute(n["perm"]) if n.get("perm") else x.transpose(-1, -2),
        "repeat": lambda x, n: x.repeat_interleave(n["times"], n["dim"]), "slice": lambda x, n: x.narrow(n["dim"], n["start"], n["end"] - n["start"]),
        "concat": lambda *x: torch.cat(x[:-1], x[-1]["dim"]), "split": lambda x, n: x.chunk(n["parts"], n["dim"]),
        "chunk": lambda x, n: x.chunk(n["parts"], n["dim"])[n["index"]],
        "const": lambda n: n["scalar"]}
    return rows


def _jax_operators():
    import jax
    import jax.numpy as jnp
    rows = {name: (lambda f: lambda x, n: f(x))(f) for name, f in (
        ("exp", jnp.exp), ("log", jnp.log), ("sqrt", jnp.sqrt), ("rsqrt", jax.lax.rsqrt), ("square", jnp.square), ("neg", jnp.negative),
        ("abs", jnp.abs),
        ("sigmoid", jax.nn.sigmoid), ("relu", jax.nn.relu), ("tanh", jnp.tanh), ("sin", jnp.sin), ("cos", jnp.cos), ("erf", jax.lax.erf),
        ("silu", jax.nn.silu), ("softplus", jax.nn.softplus), ("gelu", lambda x: jax.nn.gelu(x, approximate=False)))}
    rows |= {name: (lambda f: lambda x, y, n: f(x, y))(f) for name, f in (
        ("add", jnp.add), ("sub", jnp.subtract), ("mul", jnp.multiply), ("div", jnp.divide), ("pow", jnp.power), ("minimum", jnp.minimum),
        ("maximum", jnp.maximum), ("matmul", jnp.matmul))}
    rows |= {
        "mul_scalar": lambda x, n: x * n["scalar"], "add_scalar": lambda x, n: x + n["scalar"],
        "sum": lambda x, n: x.sum(n["dim"], keepdims=True), "mean": lambda x, n: x.mean(n["dim"], keepdims=True),
        "max": lambda x, n: x.max(n["dim"], keepdims=True), "min": lambda x, n: x.min(n["dim"], keepdims=True),
        "logsumexp": lambda x, n: jax.nn.logsumexp(x, n["dim"], keepdims=True),
        "softmax": lambda x, *m: jax.nn.softmax(x + m[0] if len(m) > 1 else x, m[-1]["dim"]),
        "rms_norm": lambda x, *w: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + w[-1].get("eps", 0)) * (w[0] if len(w) > 1 else 1),
        "reshape": lambda x, n: x.reshape(n["shape"]), "transpose": lambda x, n: x.transpose(n["perm"]) if n.get("perm") else jnp.swapaxes(x, -1, -2),
        "concat": lambda *x: jnp.concatenate(x[:-1], x[-1]["dim"]), "const": lambda n: n["scalar"]}
    return rows


def function_of(graph, rows):
    """The program of a report as a function of arrays, by a table of operators."""
    nodes = graph["nodes"]
    for n in nodes:
        if n["op"] not in rows and n["op"] not in ("input", "output"):
            raise Missing(f"there is no row for {n['op']}")

    def f(*inputs):
        values, given, out = {}, iter(inputs), []
        for n in nodes:
            if n["op"] == "input":
                values[n["out"][0]] = next(given)
            elif n["op"] == "output":
                out.append(values[n["in"][0]])
            else:
                made = rows[n["op"]](*(values[i] for i in n.get("in", ())), n)
                values |= zip(n["out"], made if isinstance(made, (tuple, list)) else (made,))
        return tuple(out)
    return f


# ---- peers: name -> a function without arguments that returns arrays ----

def _torch_peers(graph, inputs, gpu):
    import torch
    f = function_of(graph, _torch_operators())
    compiled = torch.compile(f, dynamic=False)
    return {"torch": lambda: f(*inputs), "torch.compile": lambda: compiled(*inputs)}


def _jax_peers(graph, inputs, gpu):
    if gpu:
        raise Missing("jax is compared on the CPU only")
    import jax
    jitted = jax.jit(function_of(graph, _jax_operators()))
    arrays = [jax.numpy.asarray(x.float().numpy()).astype(str(x.dtype).split(".")[1]) for x in inputs]
    return {"jax.jit": lambda: jax.block_until_ready(jitted(*arrays))}


def _onnxruntime_peers(graph, inputs, gpu):
    if gpu:
        raise Missing("onnxruntime is compared on the CPU only")
    import io
    import onnxruntime
    import torch

    class Model(torch.nn.Module):
        def forward(self, *x):
            return function_of(graph, _torch_operators())(*x)
    file = io.BytesIO()
    torch.onnx.export(Model(), tuple(inputs), file, dynamo=False)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
    return {"onnxruntime": lambda: session.run(None, feed)}


LIBRARIES = (("torch", _torch_peers), ("jax", _jax_peers), ("onnxruntime", _onnxruntime_peers))


# ---- errors and times ----

def _error(got, want):
    import torch
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        g = g if isinstance(g, torch.Tensor) else torch.from_numpy(__import__("numpy").array(g, dtype="f4"))
        w = w.double().cpu()
        g = g.double().cpu().reshape(w.shape)
        worst = max(worst, ((g - w).norm() / w.norm().clamp(min=1e-30)).item())
    return worst


def _sample(call, gpu):
    import torch
    if gpu:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _timed(calls, gpu, seconds):
    """Median seconds of each call, measured by turns."""
    many, times = {}, {k: [] for k in calls}
    for k, call in calls.items():
        call()
        many[k] = max(1, min(1000, int(SAMPLE / max(_sample(call, gpu), 1e-7))))

    def again(call, n):
        for _ in range(n):
            call()
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < LEAST or (time.perf_counter() < end and len(next(iter(times.values()))) < MOST):
        for k, call in calls.items():
            times[k].append(_sample(lambda: again(call, many[k]), gpu) / many[k])
    return {k: statistics.median(v) for k, v in times.items()}


def compare(folder, seconds=2.0):
    """{"program", "times_us": {name: us}, "left": {name: reason}, "best", "ratio"}. ratio: the best peer's time divided by Mica's, or None."""
    try:
        import torch
    except ImportError:
        raise Missing("torch is not installed: it makes the inputs, and is the first peer (pip install torch)") from None
    program = mica.load(folder)
    gpu = program.target != "cpu"
    device = "cuda" if gpu else "cpu"
    torch.set_num_threads(program.report.get("threads") or torch.get_num_threads())
    torch.manual_seed(0)
    inputs = [(torch.randn(s.shape) * 0.5).to(device, getattr(torch, next(r["array"] for r in mica._mica.dtypes if r["name"] == s.dtype)))
              for s in program.inputs]
    calls, left = {"mica": program.bind(*inputs)}, {}
    for library, peers in LIBRARIES:
        try:
            calls |= peers(program.report["source"], inputs, gpu)
        except ImportError:
            left[library] = "not installed"
        except Missing as why:
            left[library] = str(why)
    with torch.no_grad():
        tolerance, want = max(TOLERANCE[s.dtype] for s in program.outputs), None
        for name in [n for n in calls if n != "mica"] + ["mica"]:
            try:
                got = calls[name]()
                got = got if isinstance(got, (tuple, list)) else (got,)
                want = got if want is None else want
                error = _error(got, want)
            except Exception as why:  # a failing peer does not end the comparison
                error, left[name] = None, f"it failed: {str(why).splitlines()[0][:120]}"
            if error is not None and not error <= tolerance:
                left[name] = f"its numbers differ by {error:.1e} from those of {next(n for n in calls if n != 'mica')}"
        times = _timed({k: c for k, c in calls.items() if k not in left}, gpu, seconds)
    us = {k: 1e6 * v for k, v in times.items()}
    best = min((k for k in us if k != "mica"), key=us.get, default=None)
    return {"program": program.name, "times_us": us, "left": left, "best": best, "ratio": us[best] / us["mica"] if best and "mica" in us else None}


def lines(found):
    us, best = found["times_us"], found["best"]
    ratio = f"{found['ratio']:.2f} times as fast as the best peer, {best}" if found["ratio"] else "no peer to compare with"
    head = f"{found['program']}: {ratio}"
    rows = [f"  {k:15}{v:12,.2f} us" for k, v in sorted(us.items(), key=lambda kv: kv[1])]
    return [head, *rows, *(f"  {k:15}not compared: {why}" for k, why in found["left"].items())]


def main():
    p = argparse.ArgumentParser(prog="python -m mica.peers", description=__doc__.split("\n")[0])
    p.add_argument("folder"), p.add_argument("--seconds", type=float, default=2.0), p.add_argument("--json", metavar="FILE")
    a = p.parse_args()
    try:
        found = compare(a.folder, a.seconds)
    except (Missing, mica.Error, OSError) as why:
        print(f"mica: peers: {why}", file=sys.stderr)
        return 3 if isinstance(why, Missing) else 2
    print("\n".join(lines(found)))
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(found, f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
