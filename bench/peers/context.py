"""One workload with its inputs on the device."""
import math
import time

from .env import MA, torch
from .timing import Maker, first_line, graph_time, is_fatal, rel_err


class Ctx:
    """One workload with its inputs on the device, during one pass over it."""

    def __init__(self, child, w):
        self.child = child
        self.w = w
        self.note = {}
        mk = Maker(child.device, child.dtype, 1234)
        first = w.make(mk)
        self.in_bytes = sum(t.numel() * t.element_size() for t in first)
        want = max(1, math.ceil(2.2 * child.l2 / self.in_bytes)) if child.cuda else 1
        if want == 1 and self.in_bytes < (6 << 30):
            want = 2  # larger than the L2 by itself; two copies all the same
        n = max(1, min(want, w.max_copies, 4096))
        self.copies = [first] + [w.make(mk) for _ in range(n - 1)]
        self.inputs = first
        self.prepped = first
        with torch.no_grad():
            self.ref = w.ref(*first).float()
        self.sync()
        self.prep_cache = {None: self.copies}

    def sync(self):
        if self.child.cuda:
            torch.cuda.synchronize()

    def left(self):
        return self.child.left()

    def ins_for(self, bl):
        if bl.prep is None:
            return self.copies
        if bl.prep not in self.prep_cache:
            for k in [k for k in self.prep_cache if k is not None]:
                del self.prep_cache[k]
            self.prep_cache[bl.prep] = [bl.prep(c) for c in self.copies]
            self.sync()
        return self.prep_cache[bl.prep]

    def compile(self, fn, mode):
        import torch._dynamo

        torch._dynamo.reset()
        fam = self.w.family
        if mode == "auto":
            took = self.child.autotune_s.get(fam)
            if took is not None and took > self.child.args.autotune_limit_s:
                mode = "default"
                self.note["mode_why"] = "autotuning the family's previous member took %.0f s" % took
            else:
                mode = MA
        self.note["mode"] = mode
        kw = {} if mode == "default" else {"mode": mode}
        return torch.compile(fn, fullgraph=True, dynamic=False, **kw)

    def tune(self, run, cands, names):
        """Pick the fastest correct configuration of a Triton baseline, on cold inputs."""
        best, bad, errs = None, [], {}
        t_end = time.time() + self.child.args.tune_s
        ins = self.copies
        tried = 0
        for cfg in cands:
            if best is not None and (time.time() > t_end or self.left() < 8):
                break

            def fn(*a, cfg=cfg):
                return run(*a, cfg)

            try:
                out = fn(*ins[0])
                e = rel_err(out, self.ref)
                tried += 1
                if e > self.child.tol(self.w):
                    bad.append((cfg, e))
                    continue
                if not self.child.cuda:
                    return fn
                t0 = time.time()
                fn(*ins[0])
                self.sync()
                est = max(2e-6, time.time() - t0)
                n = max(len(ins) if len(ins) <= 64 else 64, min(64, int(1e-3 / est)))
                t = graph_time(fn, ins, n, 8, 1)[0]
                if best is None or t < best[0]:
                    best = (t, cfg, fn)
            except Exception as e:  # one configuration out of resources is not the end
                if is_fatal(e):
                    raise
                errs.setdefault(first_line(e, 120), cfg)
        self.note["tuned"] = "%d of %d configurations tried" % (tried, len(cands))
        if bad:
            self.note["wrong_configs"] = [[list(c), e] for c, e in bad[:4]]
        if errs:
            self.note["failed_configs"] = {k: list(v) for k, v in list(errs.items())[:4]}
        if best is None:
            if bad:
                raise RuntimeError("every configuration is wrong; first: %s rel err %.3g" % (bad[0][0], bad[0][1]))
            raise RuntimeError("no configuration ran: " + (next(iter(errs)) if errs else "no candidates"))
        self.note["config"] = dict(zip(names.split(","), best[1]))
        return best[2]
