#!/usr/bin/env python3
"""Fits the cost model's rates (src/lower/rate.def) to measured kernels (bench/calibrate.csv). Needs numpy.

    bench/calibrate.py                   the shipped rates: rank correlation a program, and what measuring few of them costs
    bench/calibrate.py --fit             fits, prints the same, and writes rate.def
    bench/calibrate.py --cross N         fits N times without the programs of each fold, and prints how those that were left out fare

The formula is that of src/lower/kernel_time.c, for all kernels at once. tests/lower/test_calibrate.c holds the two together.
What is made small is the logarithm of modelled over measured time, robustly (soft l1), about its mean over a program first,
since ranking is what the model is for, and itself a little; every program weighs the same, fast kernels more than
slow ones. Rates are pulled towards those they start from, by so much that what no measurement speaks of stays.
"""
import argparse
import csv
import os
import re
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DATA, RATES = os.path.join(HERE, "calibrate.csv"), os.path.join(HERE, "..", "src", "lower", "rate.def")
KINDS = 5
LEAST = 8  # kernels of a program, to speak of ranks
FEW = (1, 3, 5, 10)
# Of the target (src/target/gpu.def), as of which the measurements are.
PROCESSORS, BANDWIDTH, L2_BANDWIDTH, FLOPS, LAUNCH = 132, 4280e9, 8000e9, 780e12, 0.65e-6
LANES, SPECIAL, CLOCK, SHARED, SMOOTH, STAGE = 128, 16, 1.7e9, 128, 6, 65536
LINEAR = ("idle", "crowd", "deep")  # exponents that may be negative


def read_rates(path):
    """In order: (name, one for each kind or one for all, doc)."""
    rates, head = [], []
    for line in open(path):
        m = re.match(r'RATE(_OF_ALL)?\((\w+), ([^"]*), "(.*)"\)$', line.strip())
        if m:
            rates.append((m[2], np.array([float(x) for x in m[3].split(",")]), m[4]))
        else:
            head.append(line)
    return "".join(head), rates


def write_rates(path, head, rates):
    with open(path, "w") as f:
        f.write(head)
        for name, x, doc in rates:
            f.write('RATE%s(%s, %s, "%s")\n' % ("" if len(x) > 1 else "_OF_ALL", name, ", ".join("%.3g" % v for v in x), doc))


def whole(n, few):
    return np.where(n < few, np.ceil(n - 1e-9), n)


class Data:
    """Launches that are alike are computed once: .c by distinct launch, .of by launch; .us, .program by entrant."""

    def __init__(self, path):
        lines = [x for x in open(path) if not x.startswith("#")]
        rows = list(csv.DictReader(lines))
        names = [k for k in rows[0] if k not in ("program", "graph", "number", "launch", "us", "how")]
        counts, self.of = np.unique([[float(r[k]) for k in names] for r in rows], axis=0, return_inverse=True)
        self.of = self.of.ravel()
        self.c = {k: counts[:, i] for i, k in enumerate(names)}
        self.kind = self.c["kind"].astype(int)
        keys = [(r["program"], r["graph"], r["number"]) for r in rows]
        number = {k: i for i, k in enumerate(dict.fromkeys(keys))}
        self.entrant = np.array([number[k] for k in keys])
        self.n = len(number)
        self.us = np.zeros(self.n)
        self.us[self.entrant] = [float(r["us"]) for r in rows]
        self.programs = sorted({k[0] for k in number})
        self.program = np.array([self.programs.index(k[0]) for k in number])
        self.where = self.places()

    def places(self):
        """struct placed of kernel_time.c."""
        c = self.c
        n = c["cluster"]
        reached = PROCESSORS * np.where(n <= 2, 1, np.where(n <= 4, 120 / 132, np.where(n <= 8, 112 / 132, 96 / 132)))
        at_once = np.minimum(np.minimum(c["items"], c["blocks"]), reached * c["room"])
        here = np.ceil(at_once / PROCESSORS)
        return {
            "turns": whole(c["items"] / at_once, SMOOTH), "here": here, "busy": np.minimum(at_once, PROCESSORS),
            "most": whole(c["items"] / PROCESSORS, SMOOTH * c["room"]), "warps": here * c["threads"] / 32,
            "walks": c["items"] > c["blocks"] + 0.5,
        }

    def totals(self, rates):
        """Microseconds of each entrant."""
        r = {k: (x[self.kind] if len(x) > 1 else x[0]) for k, x, _ in rates}
        return 1e6 * np.bincount(self.entrant, kernel_time(self.c, self.where, r)[self.of], self.n)


def norm(a, b, p):
    high, low = np.maximum(a, b) + 1e-12, np.minimum(a, b) + 1e-12
    return high * (1 + (low / high) ** p) ** (1 / p)


def kernel_time(c, s, r):
    few = np.minimum(1, s["warps"] / r["lane_warps"])
    memory = c["memory"] / (BANDWIDTH * r["memory"]) + c["near"] / (L2_BANDWIDTH * r["near"])
    cache = np.maximum(c["cache"] / (L2_BANDWIDTH * r["cache"]), s["most"] * c["cache"] / c["items"] / r["port"])
    moved = np.maximum(np.maximum(memory, cache), c["lines"] / s["busy"] * r["line"])
    flops = FLOPS / PROCESSORS
    tensor = c["mma"] / (flops * r["mma"] * np.minimum(1, s["warps"] / r["mma_warps"])) + c["wgmma"] / (flops * r["wgmma"])
    shared = c["shared"] / (SHARED * CLOCK * r["shared"])
    lanes = c["lanes"] / (LANES * CLOCK * r["lane"] * few) + c["exps"] / (SPECIAL * CLOCK * r["exp"] * few)
    work = norm(s["most"] * tensor, norm(s["most"] * shared, s["most"] * lanes, r["beside"]), np.where(c["overlap"] > 0, r["overlap"], r["beside"]))
    refills = np.where(c["flight"] > 0, np.maximum(1, c["loaded"] / np.maximum(c["flight"], 1)), 1)
    ring = s["turns"] * (r["latency"] * (refills - 1) + r["step"] * c["steps"])
    once = np.where(s["walks"], r["walk"], r["turn"]) + r["latency"] * c["waits"] + r["fold"] * c["folds"] + r["barrier"] * c["barriers"]
    once = once + r["chain"] * c["chain"] + r["cluster"] * np.log2(np.maximum(1, c["cluster"]))
    wait = once * (1 + (s["turns"] - 1) / s["here"] ** r["hide_waits"])
    hidden = refills ** r["hide_refills"] * s["here"] ** r["hide_here"] * s["turns"] ** r["hide_turns"]
    show = r["show"] + (1 - r["show"]) / hidden
    longest = np.maximum(moved, np.maximum(work, ring))
    t = r["start"] + longest + show * (moved + work + ring - longest) + wait + r["block"] * s["most"] + r["thread"] * c["threads"]
    stage = np.where(c["flight"] > 0, np.clip(c["flight"] * s["here"] / STAGE, 1 / 16, 4), 1)
    return LAUNCH + t * (s["busy"] / PROCESSORS) ** r["idle"] * s["here"] ** r["crowd"] * stage ** r["deep"] + c["tail"]


# ---- how good ----

def ranks(x):
    order = np.argsort(x, kind="stable")
    r = np.empty(len(x))
    r[order] = np.arange(len(x))
    for v in np.unique(x):  # the same for those that are equal
        r[x == v] = r[x == v].mean()
    return r


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    return 0.0 if a.std() == 0 or b.std() == 0 else float(np.corrcoef(a, b)[0, 1])


def judge(d, modelled, each):
    rho, loss = [], {n: [] for n in FEW}
    for i, name in enumerate(d.programs):
        k = np.where(d.program == i)[0]
        if len(k) < LEAST:
            continue
        us, order = d.us[k], np.argsort(modelled[k], kind="stable")
        rho.append(spearman(modelled[k], us))
        for n in FEW:
            loss[n].append(us[order[:n]].min() / us.min() - 1)
        if each:
            print("%-46s %3d kernels  rank correlation %5.2f  first 1: %+5.1f%%  5: %+5.1f%%  best %.2f us, modelled over measured %.2f"
                  % (name, len(k), rho[-1], 100 * loss[1][-1], 100 * loss[5][-1], us.min(), np.median(modelled[k] / us)))
    print("%d programs, %d kernel programs: rank correlation, median %.3f, mean %.3f" % (len(rho), d.n, np.median(rho), np.mean(rho)))
    for n in FEW:
        print("  measuring the first %2d only: median %+.1f%%, mean %+.1f%%, at most %+.1f%%" % (n, 100 * np.median(loss[n]), 100 * np.mean(loss[n]), 100 * max(loss[n])))
    return np.median(rho)


# ---- fitting ----

class Fit:
    SPREAD = {"memory": 0.03, "near": 0.3, "cache": 0.3, "port": 0.4, "line": 0.4, "mma": 0.25, "wgmma": 0.2, "shared": 0.25, "overlap": 0.3, "show": 1.0}
    ABSOLUTE, WEIGHT, SOFT = 0.1, 150.0, 2.0

    def __init__(self, d, rates, used):
        self.d, self.rates, self.used = d, rates, used
        self.x0 = np.concatenate([x if k in LINEAR else np.log(x) for k, x, _ in rates])
        self.spread = np.concatenate([np.full(len(x), 0.2 if k in LINEAR else self.SPREAD.get(k, 0.6)) for k, x, _ in rates])
        n = len(d.programs)
        fast = np.full(n, np.inf)
        np.minimum.at(fast, d.program[used], d.us[used])
        self.weight = np.where(used, np.sqrt(fast[d.program] / d.us), 0)
        self.all = np.maximum(np.bincount(d.program, self.weight, n), 1e-9)
        self.count = np.maximum(np.bincount(d.program[used], minlength=n), 1)

    def at(self, x):
        out, i = [], 0
        for k, was, doc in self.rates:
            v = x[i:i + len(was)]
            out.append((k, v if k in LINEAR else np.exp(v), doc))
            i += len(was)
        return out

    def residuals(self, x):
        d = self.d
        off = np.log(self.d.totals(self.at(x)) / d.us)
        mean = np.bincount(d.program, off * self.weight, len(d.programs)) / self.all
        scale = self.WEIGHT * np.sqrt(self.weight / self.count[d.program])
        data = np.concatenate([(off - mean[d.program]) * scale, self.ABSOLUTE * off * scale]) / self.SOFT
        return np.concatenate([self.SOFT * soft(data), (x - self.x0) / self.spread])

    def run(self, rounds):
        """Levenberg and Marquardt."""
        x, damp = self.x0.copy(), 1e-2
        f = self.residuals(x)
        for _ in range(rounds):
            jacobian = np.stack([(self.residuals(x + 1e-5 * e) - f) / 1e-5 for e in np.eye(len(x))], 1)
            a, b, before = jacobian.T @ jacobian, jacobian.T @ f, f @ f
            while damp < 1e8:
                step = np.linalg.solve(a + damp * np.diag(np.diag(a)), -b)
                g = self.residuals(x + np.clip(step, -1, 1))
                if g @ g < before:
                    break
                damp *= 4
            if damp >= 1e8:
                break
            x, f, damp = x + np.clip(step, -1, 1), g, damp / 5
            if f @ f > before * (1 - 1e-4):
                break
        print("  cost %.1f" % (f @ f), file=sys.stderr)
        return self.at(x)


def soft(r):
    """Its square is the soft l1 of r."""
    return np.sign(r) * np.sqrt(2 * (np.sqrt(1 + r * r) - 1))


def cross(d, rates, folds, rounds):
    out = np.zeros(d.n)
    for i in range(folds):
        left = d.program % folds == i
        out[left] = d.totals(Fit(d, rates, ~left).run(rounds))[left]
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", default=DATA)
    p.add_argument("--rates", default=RATES)
    p.add_argument("--fit", action="store_true")
    p.add_argument("--cross", type=int, default=0, metavar="N")
    p.add_argument("--rounds", type=int, default=40)
    a = p.parse_args()
    d = Data(a.data)
    head, rates = read_rates(a.rates)
    if a.cross:
        judge(d, cross(d, rates, a.cross, a.rounds), False)
        return
    if a.fit:
        judge(d, d.totals(rates), False)
        rates = Fit(d, rates, np.ones(d.n, bool)).run(a.rounds)
        write_rates(a.rates, head, rates)
    judge(d, d.totals(rates), True)


if __name__ == "__main__":
    main()
