"""One line for each library and function: ok with its time, wrong by how much, or n/a with the reason.

The process that is started imports no library. It starts workers, each with a share of the cases, and gives each case its time; a worker
that crashes or takes too long is ended, and another goes on behind that case.
"""
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import traceback
from argparse import Namespace

PACKAGE = __package__
ROOT = os.path.dirname(os.path.abspath(__file__)).rsplit(os.sep, PACKAGE.count(".") + 1)[0]
# Family, kind, sizes of a small and of a middle case.
CASES = [
    ("rms_norm", None, {"m": 16, "n": 1536}, {"m": 4096, "n": 7168}),
    ("residual_norm", None, {"m": 8, "n": 768}, {"m": 4096, "n": 4096}),
    ("post_norm", None, {"m": 8, "n": 1152}, {"m": 1000, "n": 3584}),
    ("norm_product", None, {"m": 7, "k": 512, "n": 768}, {"m": 100, "k": 4096, "n": 6144}),
    ("layer_norm", None, {"m": 16, "n": 384}, {"m": 4096, "n": 5120}),
    ("group_norm", None, {"b": 2, "g": 8, "c": 4, "p": 256}, {"b": 8, "g": 32, "c": 10, "p": 1024}),
    ("softmax", "plain", {"m": 16, "n": 1000}, {"m": 256, "n": 50257}),
    ("gated_unit", "silu", {"m": 8, "n": 3072}, {"m": 1024, "n": 14336}),
    ("gated_unit", "gelu_tanh", {"m": 8, "n": 3072}, {"m": 1024, "n": 14336}),
    ("gated_silu", None, {"m": 7, "k": 256, "n": 512}, {"m": 512, "k": 4096, "n": 14336}),
    ("gated_block", None, {"m": 3, "k": 256, "n": 512}, {"m": 64, "k": 2048, "n": 8192}),
    ("product", None, {"m": 63, "n": 256, "k": 512}, {"m": 4096, "n": 4096, "k": 4096}),
    ("transposed", "right", {"m": 64, "n": 256, "k": 512}, {"m": 2048, "n": 4096, "k": 4096}),
    ("product_epilogue", "gelu_tanh", {"m": 16, "n": 512, "k": 512}, {"m": 2048, "n": 4096, "k": 2048}),
    ("product_epilogue", "mish", {"m": 16, "n": 512, "k": 512}, {"m": 1000, "n": 4104, "k": 1000}),
    ("product_residual", "sigmoid_scale_add", {"m": 16, "n": 768, "k": 768}, {"m": 1024, "n": 4096, "k": 4096}),
    ("vit_attention", None, {"b": 1, "h": 3, "d": 64, "t": 50}, {"b": 8, "h": 16, "d": 80, "t": 1025}),
    ("llama3_prefill", None, {"b": 1, "h": 2, "g": 3, "t": 65, "d": 64}, {"b": 1, "h": 8, "g": 4, "t": 1000, "d": 128}),
    ("llama3_decode", None, {"b": 1, "h": 2, "g": 4, "t": 1, "s": 501, "d": 64}, {"b": 8, "h": 8, "g": 4, "t": 1, "s": 4097, "d": 128}),
    ("gemma2_softcap", None, {"b": 1, "h": 4, "g": 2, "d": 64, "t": 16, "s": 256}, {"b": 1, "h": 8, "g": 2, "d": 256, "t": 128, "s": 4096}),
    ("window_without_operand", None, {"b": 1, "h": 2, "g": 2, "t": 128, "w": 32, "d": 64}, {"b": 1, "h": 4, "g": 4, "t": 2048, "w": 256, "d": 128}),
]
LIBRARIES = ("liger", "quack", "tilelang", "helion", "flash3", "flash4")
WORKERS = {"liger": 1, "quack": 5, "tilelang": 5, "helion": 3, "flash3": 1, "flash4": 1}  # odd, as small and middle cases take turns
LINE = "%-9s %-36s %-6s %s"


def cases(only=""):
    """(library, family, kind, size, Drawn, Baseline): what a library has of CASES."""
    from ..drawn import Drawn, ways
    from ..families import FAMILIES

    out = []
    for family, kind, *sizes in CASES:
        for size, extents in zip(("small", "middle"), sizes):
            d = Drawn("fam/%s/0" % family, FAMILIES[family], kind, extents)
            for b in ways(d):
                if b.name in LIBRARIES and re.search(only, "%s %s/%s" % (b.name, family, kind or "")):
                    out.append((b.name, family, kind, size, d, b))
    return out


# ------------------------------------------------------------------ a worker
def measured(ctx, b):
    """Relative error and times of a baseline, in words."""
    rec = ctx.child.measure(ctx, b)
    if not rec["ok"]:
        return "wrong by %.1e" % rec["rel_err"] if rec["rel_err"] > ctx.child.tol(ctx.w) else rec.get("error", "wrong")
    if "hot_us" not in rec:
        return "ok by %.1e, not timed" % rec["rel_err"]
    return "ok by %.1e, %.1f us%s, ready in %.1f s%s" % (
        rec["rel_err"], rec["cold_us"], "" if rec["timing"] == "graph" else " in no graph (%s)" % rec.get("capture_error", "")[:80], rec["setup_s"],
        ", " + " ".join(map(str, rec["config"].values())) if "config" in rec else "")


def work(args):
    """Goes through the cases of --worker LIBRARY,FIRST,STEP; prints a line of JSON before and after each."""
    from ..child import Child
    from ..context import Ctx
    from ..drawn import at, make_inputs
    from ..env import TMP, torch
    from ..timing import first_line, is_fatal
    from ..workload import Workload
    from . import library

    name, first, step = args.worker.split(",")
    gpu = torch.cuda.is_available()
    child = Child(Namespace(dtype=args.dtype if gpu else "fp32", dry_run=not gpu, budget_s=args.seconds, out=os.path.join(TMP, "none.json"),
                            tune_s=5.0, target_ms=0.3, reps=20, most_configs=2))
    if gpu:
        torch.cuda.set_stream(torch.cuda.Stream())
    mine = [c for c in cases(args.only) if c[0] == name]
    for i in range(int(first), len(mine), int(step)):
        _, family, kind, size, d, b = mine[i]
        if size == "middle" and not gpu:
            continue
        case = {"i": i, "left": len(range(i, len(mine), int(step))) - 1, "case": [name, family + ("/" + kind if kind else ""), size]}
        print(json.dumps(case), flush=True)
        fatal = False
        try:
            library.need(name)
            f = at(d)
            w = Workload(d.name, family, "", d.flops(), 2 * d.elements(), make_inputs(d), lambda *ins, f=f: f(*(x.float() for x in ins)), [b],
                         max_copies=4)
            with torch.no_grad():
                text = measured(Ctx(child, w), b)
        except Exception as e:
            traceback.print_exc()
            text, fatal = "n/a: " + first_line(e, 160).replace("RuntimeError: ", ""), is_fatal(e)
        print(json.dumps(dict(case, text=text)), flush=True)
        if fatal:
            os._exit(77)
    sys.stdout.flush()
    os._exit(0)


# ------------------------------------------------------------------ the process that is started
class Worker:
    def __init__(self, args, library, first, step):
        self.args, self.library, self.next, self.step, self.now, self.left = args, library, first, step, None, 0
        self.start()

    def start(self):
        self.since = time.time()
        words = [sys.executable, "-m", PACKAGE, "--worker", "%s,%d,%d" % (self.library, self.next, self.step), "--dtype", self.args.dtype,
                 "--only", self.args.only, "--seconds", str(self.args.seconds)]
        with open(self.args.log, "ab") as log:
            self.p = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, bufsize=0,
                                      env=dict(os.environ, PEERS_ROLE="child"), start_new_session=True)

    def line(self, results):
        """Reads a line; False at the end."""
        text = self.p.stdout.readline()
        if not text:
            return False
        try:
            told = json.loads(text)
        except ValueError:
            return True  # a library printed something
        if not isinstance(told, dict) or "case" not in told:
            return True
        self.since, self.now, self.next, self.left = time.time(), told["case"], told["i"], told["left"]
        if "text" in told:
            self.finish(results, told["text"])
        return True

    def finish(self, results, text):
        results.append(self.now + [text])
        print(LINE % tuple(results[-1]), flush=True)
        self.now, self.next = None, self.next + self.step

    def end(self):
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self.p.wait()


def check(args):
    """Runs all workers; prints a line a case as it ends, and the sum."""
    end, results, waiting = time.time() + args.seconds, [], selectors.DefaultSelector()

    def watch(worker):
        waiting.register(worker.p.stdout, selectors.EVENT_READ, worker)

    for library in LIBRARIES:
        for first in range(WORKERS[library]):
            watch(Worker(args, library, first, WORKERS[library]))
    try:
        while waiting.get_map():
            for key, _ in waiting.select(0.5):
                if not key.data.line(results):
                    over(waiting, key, results, "", watch, end)
            for key in list(waiting.get_map().values()):
                if time.time() > end or time.time() > key.data.since + args.case_s * (1 if key.data.now else 2):  # imports take long
                    over(waiting, key, results, "took over %.0f s" % (time.time() - key.data.since), watch, end)
    finally:
        for key in list(waiting.get_map().values()):
            key.data.end()
    print("messages of the libraries: %s" % args.log)
    good = sum(r[3].startswith("ok") for r in results)
    print("%d of %d ok, %d n/a, %d wrong" % (good, len(results), sum(r[3].startswith("n/a") for r in results), sum("wrong" in r[3] for r in results)))
    return 0


def over(waiting, key, results, why, watch, end):
    """A worker ended or is ended; another goes on where a case was under way."""
    worker = key.data
    waiting.unregister(key.fileobj)
    code = worker.end()
    if worker.now is None:
        if code or why:
            print(LINE % (worker.library, "-", "-", "worker ended: %s" % (why or "code %d" % code)))
        return
    worker.finish(results, "n/a: " + (why or "the process ended with code %d" % code))
    if time.time() < end:
        worker.start()
        watch(worker)
    elif worker.left:
        print(LINE % (worker.library, "-", "-", "no time for %d cases" % worker.left), flush=True)


# ------------------------------------------------------------------ TileLang to source
def lower(args):
    """Lowers the kernels of all configurations of TileLang's cases; 1 where one fails."""
    from ..drawn import make_inputs
    from ..env import torch
    from ..timing import Maker, first_line
    from . import library, tile

    library.need("tilelang")
    tile.COMPILE.append(tile.lower_one)
    bad = 0

    def tune(run, found, parts):
        return found

    for name, family, kind, size, d, b in cases(args.only):
        if name != "tilelang":
            continue
        tile.KERNELS.clear()
        ctx = Namespace(child=Namespace(args=Namespace()), tune=tune)
        ctx.prepped = make_inputs(d)(Maker("cpu", torch.float16, 1))
        try:
            b.build(ctx)
            failed = ["%s %s" % (key[2], first_line(x, 200)) for key, x in tile.KERNELS.items() if isinstance(x, Exception)]
            text = "%d kernels" % len(tile.KERNELS) + "".join(", failed: " + x for x in failed)
        except Exception as e:
            failed, text = [e], "failed: " + first_line(e)
        bad += len(failed)
        print(LINE % (name, family + ("/" + kind if kind else ""), size, text), flush=True)
    return 1 if bad else 0
