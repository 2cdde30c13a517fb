"""The process that measures: pair by pair, the JSON written after each."""
import gc
import json
import math
import os
import re
import statistics
import sys
import time
import traceback
import warnings

from .context import Ctx
from .env import MA, torch, triton
from .table import summarize
from .timing import CaptureError, Fatal, first_line, graph_time, is_fatal, loop_time, rel_err


class Child:
    def __init__(self, args):
        self.args = args
        self.cuda = torch.cuda.is_available() and not args.dry_run
        self.device = "cuda" if self.cuda else "cpu"
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[args.dtype]
        self.deadline = float(os.environ.get("PEERS_DEADLINE", time.time() + args.budget_s))
        self.autotune_s = {}
        self.l2 = 60 << 20
        if os.path.exists(args.out):
            with open(args.out) as f:
                self.doc = json.load(f)
        else:
            self.doc = {"meta": {}, "workloads": {}}
        self.autotune_s.update(self.doc["meta"].get("autotune_s", {}))

    def left(self):
        return self.deadline - time.time()

    def tol(self, w):
        return {"fp16": 1e-2, "bf16": 4e-2, "fp32": 1e-3}[self.args.dtype] * w.tol_mul

    def save(self):
        tmp = self.args.out + ".tmp"
        self.doc["meta"]["autotune_s"] = self.autotune_s
        with open(tmp, "w") as f:
            json.dump(self.doc, f, indent=1)
        os.replace(tmp, self.args.out)

    def beat(self, w="", b="", limit=0.0):
        path = os.environ.get("PEERS_BEAT")
        if not path:
            return
        with open(path + ".tmp", "w") as f:
            json.dump({"w": w, "b": b, "t": time.time(), "limit": limit}, f)
        os.replace(path + ".tmp", path)

    # ------------------------------------------------------------------ calibration
    def calibrate(self):
        m = self.doc["meta"]
        m.update({"argv": sys.argv[1:], "dtype": self.args.dtype, "torch": torch.__version__,
                  "triton": getattr(triton, "__version__", None), "python": sys.version.split()[0]})
        if not self.cuda:
            m.update({"copy_tbs": 4.3, "mm_tflops": 790.0, "node_us": 1.5})
            return
        p = torch.cuda.get_device_properties(0)
        m.update({"gpu": p.name, "sms": p.multi_processor_count, "l2_bytes": getattr(p, "L2_cache_size", None),
                  "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()})
        self.l2 = max(60 << 20, m["l2_bytes"] or 0)
        if "copy_tbs" in m:
            return

        def med(fn, n=10, warm=20):
            for _ in range(warm):
                fn()
            torch.cuda.synchronize()
            ts = []
            for _ in range(n):
                a = torch.cuda.Event(enable_timing=True)
                b = torch.cuda.Event(enable_timing=True)
                a.record()
                fn()
                b.record()
                ts.append((a, b))
            torch.cuda.synchronize()
            return statistics.median(a.elapsed_time(b) for a, b in ts) * 1e-3

        g = torch.Generator(device="cuda")
        g.manual_seed(7)
        n = 1 << 31
        src = torch.randn(n, generator=g, device="cuda", dtype=torch.bfloat16)
        dst = torch.empty_like(src)
        m["copy_tbs"] = 2 * 2 * n / med(lambda: dst.copy_(src)) / 1e12
        try:
            m["read_tbs_amax"] = 2 * n / med(lambda: torch.amax(src)) / 1e12
        except Exception as e:
            m["read_tbs_amax"] = first_line(e)
        del src, dst
        for nm, dt in (("mm_tflops", torch.bfloat16), ("mm_tflops_fp16", torch.float16)):
            a = torch.randn((8192, 8192), generator=g, device="cuda", dtype=dt)
            b = torch.randn((8192, 8192), generator=g, device="cuda", dtype=dt)
            c = torch.empty_like(a)
            m[nm] = 2 * 8192 ** 3 / med(lambda: torch.mm(a, b, out=c)) / 1e12
        del a, b, c
        x = torch.zeros(32, device="cuda")
        try:
            m["node_us"] = graph_time(lambda y: y.add_(1), [(x,)], 500, 20, 1)[0]
        except Exception as e:
            m["node_us"] = None
            m["node_err"] = first_line(e)
        torch.cuda.empty_cache()
        self.save()

    # ------------------------------------------------------------------ one pair
    def measure(self, ctx, b):
        w = ctx.w
        ctx.note = {}
        rec = {"prio": b.prio}
        if b.info:
            rec["info_only"] = True
        ins = ctx.ins_for(b)
        ctx.prepped = ins[0]
        if self.cuda:  # make a kernel that leaves its output unwritten visible
            poison = torch.full(ctx.ref.shape, float("nan"), dtype=self.dtype, device=self.device)
            del poison
        t0 = time.time()
        with warnings.catch_warnings(record=True) as wl:
            warnings.simplefilter("always")
            try:
                fn = b.build(ctx)
                out = fn(*ins[0])
                ctx.sync()
            except Exception as e:
                why = sdpa_reason(getattr(locals().get("fn", None), "sdpa_backend", None), wl)
                if why:
                    raise RuntimeError("%s [%s]" % (first_line(e, 80), why)) from e
                raise
        rec["setup_s"] = round(time.time() - t0, 2)
        if ctx.note.get("mode") == MA:
            self.autotune_s["flex" if b.name.startswith("flex") else w.family] = rec["setup_s"]
        if b.info:
            rec["ok"] = True
        else:
            rec["rel_err"] = rel_err(out, ctx.ref)
            rec["ok"] = rec["rel_err"] <= self.tol(w)
        del out
        rec.update(ctx.note)
        if not self.cuda:
            rec["mode_t"] = "dry"
            return rec
        if not rec["ok"]:
            rec["error"] = "wrong result: relative error %.3g" % rec["rel_err"]
            return rec
        for i in range(2):
            fn(*ins[i % len(ins)])
        ctx.sync()
        t0 = time.time()
        for i in range(3):
            fn(*ins[i % len(ins)])
        ctx.sync()
        est = max(1e-6, (time.time() - t0) / 3)  # host time included: an upper bound
        tgt = self.args.target_ms * 1e-3
        reps = max(20, self.args.reps)
        use_graph = b.graph
        if use_graph:
            try:
                n = max(2, min(20, int(tgt / est) + 1))
                hot = graph_time(fn, ins[:1], n, 5, 1)
                n = max(n, min(400, math.ceil(tgt * 1e6 / max(0.5, hot[0]))))
                n = max(2, min(n, math.ceil(2 * tgt * 1e6 / max(0.5, hot[0]))))
                del hot
                hot = graph_time(fn, ins[:1], n, reps, 1)
                rec["hot_us"], rec["hot_min_us"], rec["hot_p90_us"] = hot[0], hot[1], hot[2]
                rec["n_hot"] = n
                if not b.info:
                    rec["rel_err_graph"] = rel_err(hot[3], ctx.ref)
                    if rec["rel_err_graph"] > self.tol(w):
                        rec["ok"] = False
                        rec["error"] = "wrong result after graph replay: %.3g" % rec["rel_err_graph"]
                del hot
                c = len(ins)
                if c == 1:
                    rec["cold_us"], rec["cold_min_us"], rec["cold_p90_us"] = rec["hot_us"], rec["hot_min_us"], rec["hot_p90_us"]
                else:
                    n = c * max(1, math.ceil(tgt * 1e6 / max(0.5, rec["hot_us"]) / c))
                    n = max(2, min(n, math.ceil(max(8e3, 2 * tgt * 1e6) / rec["hot_us"])))
                    cold = graph_time(fn, ins, n, reps, min(c, 256))
                    rec["cold_us"], rec["cold_min_us"], rec["cold_p90_us"] = cold[0], cold[1], cold[2]
                    rec["n_cold"] = n
                    del cold
                rec["n_copies"] = c
                rec["timing"] = "graph"
            except CaptureError as e:
                ctx.sync()
                use_graph = False
                rec["capture_error"] = str(e)
        if not use_graph:
            n = max(1, min(200, int(tgt / est) + 1))
            h = loop_time(fn, ins[:1], n, reps)
            c = loop_time(fn, ins, max(n, min(len(ins), 200)), reps)
            rec["hot_us"], rec["hot_min_us"], rec["hot_p90_us"] = h
            rec["cold_us"], rec["cold_min_us"], rec["cold_p90_us"] = c
            rec["n_copies"] = len(ins)
            rec["timing"] = "nograph"
        return rec

    def floor(self, w):
        m = self.doc["meta"]
        tb = w.nbytes / (m["copy_tbs"] * 1e12) * 1e6
        tf = w.flops / (m["mm_tflops"] * 1e12) * 1e6
        return max(tb, tf), "mem" if tb >= tf else "flop"

    def run(self, todo):
        need = {0: 3, 1: 8, 2: 20, 3: 20, 4: 30}
        for w in todo:
            d = self.doc["workloads"].setdefault(w.name, {"baselines": {}})
            us, kind = self.floor(w)
            d.pop("skipped", None)
            d.update({"shapes": w.shapes, "flops": w.flops, "bytes": w.nbytes, "floor_us": us, "floor_kind": kind, "note": w.note})
        self.save()
        stop = False
        for prio in sorted({b.prio for w in todo for b in w.baselines}):
            for w in todo:
                recs = self.doc["workloads"][w.name]["baselines"]
                mine = [b for b in w.baselines if b.prio == prio and b.name not in recs and b.prio <= self.args.max_prio]
                if self.args.baselines:
                    mine = [b for b in mine if re.search(self.args.baselines, b.name)]
                if not mine:
                    continue
                if self.left() < need.get(prio, 20):
                    stop = True
                    break
                self.beat(w.name, mine[0].name, 60)
                ctx = None
                try:
                    ctx = Ctx(self, w)
                    self.doc["workloads"][w.name]["in_bytes_per_copy"] = ctx.in_bytes
                except Exception as e:
                    traceback.print_exc()
                    for b in mine:
                        recs[b.name] = {"ok": False, "prio": b.prio, "error": "inputs: " + first_line(e)}
                    self.save()
                    self.check_alive(e)
                    continue
                mine.sort(key=lambda b: (b.prep is not None, id(b.prep)))
                for b in mine:
                    if self.left() < need.get(prio, 20):
                        stop = True
                        break
                    self.beat(w.name, b.name, min(b.limit, self.left() + 15))
                    t0 = time.time()
                    try:
                        with torch.no_grad():
                            recs[b.name] = self.measure(ctx, b)
                    except Exception as e:
                        traceback.print_exc()
                        recs[b.name] = {"ok": False, "prio": b.prio, "error": first_line(e), **ctx.note}
                        self.save()
                        self.check_alive(e)
                    recs[b.name]["wall_s"] = round(time.time() - t0, 2)
                    summarize(self.doc["workloads"][w.name])
                    self.save()
                    r = recs[b.name]
                    print("[%6.1f left] %-24s %-22s %s" % (
                        self.left(), w.name, b.name,
                        "cold %.2f us hot %.2f us err %.2e %s (%.1f s)" % (
                            r["cold_us"], r["hot_us"], r.get("rel_err", 0), r.get("timing", ""), r["wall_s"])
                        if "cold_us" in r else r.get("error", "ok err %.2e" % r.get("rel_err", float("nan")))), flush=True)
                ctx = None
                if prio >= 2:
                    if "torch._dynamo" in sys.modules:
                        torch._dynamo.reset()
                    gc.collect()
                if self.cuda:
                    if torch.cuda.memory_allocated() > 16 << 30:
                        gc.collect()
                    torch.cuda.empty_cache()
                if stop:
                    break
            if stop:
                break
        for w in todo:
            recs = self.doc["workloads"][w.name]["baselines"]
            for b in w.baselines:
                if b.name not in recs and b.prio <= self.args.max_prio and (
                        not self.args.baselines or re.search(self.args.baselines, b.name)):
                    self.doc["workloads"][w.name].setdefault("skipped", {})[b.name] = "no budget left"
        self.doc["meta"]["finished"] = not stop
        self.save()

    def check_alive(self, e):
        if not self.cuda:
            return
        try:
            if is_fatal(e):
                raise Fatal(first_line(e))
            torch.cuda.synchronize()
            float(torch.randn(4, device=self.device).sum())
            if "out of memory" in str(e).lower():
                gc.collect()
                torch.cuda.empty_cache()
        except Exception:
            self.save()
            print("CUDA context lost; leaving", flush=True)
            sys.stdout.flush()
            os._exit(77)


def sdpa_reason(backend, wl):
    """Why a forced SDPA backend refused, out of the warnings that it raised."""
    if backend is None:
        return ""
    head = {"FLASH_ATTENTION": "Flash attention kernel not used", "CUDNN_ATTENTION": "cuDNN attention kernel not used",
            "EFFICIENT_ATTENTION": "Memory efficient kernel not used"}.get(backend)
    if not head:
        return ""
    got, on = [], False
    for x in wl:
        s = re.sub(r"\s*\((Triggered|function).*", "", str(x.message), flags=re.S).strip()
        if "not used because" in s:
            on = s.startswith(head)
        elif on and "runtime disabled" not in s:
            got.append(s)
    return "; ".join(dict.fromkeys(got))[:140]
