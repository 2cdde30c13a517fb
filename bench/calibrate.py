#!/usr/bin/env python3
"""Fits the cost model's rates (src/lower/rate.def) to measured kernels (bench/calibrate.csv.xz). Needs numpy.

    bench/calibrate.py [--data TABLE...] the shipped rates: rank correlation a program, and what measuring few of them costs
    bench/calibrate.py --fit             fits, prints the same, and writes rate.def
    bench/calibrate.py --merge A B... --data C   tables of build/calibrate as one, C: programs that are counted alike are one,
                                         with the mean of their times
    bench/calibrate.py --cross N         fits N times without the programs of each fold, and prints how those that were left out fare
    bench/calibrate.py --unpack DIR      writes the tables of bench/calibrate.csv.xz as DIR/NAME.csv
    bench/calibrate.py --pack A B...     makes bench/calibrate.csv.xz of tables, and tests/lower/calibrate_sample.csv, which the tests read

The packed file holds tables, each after a line "## NAME". Tables are of different days and machines, so programs are ranked table by
table. Nothing is fitted to the table `unseen`: a race that the shipped rates had ordered. Before a new fit, merge it into `lists` and
race for another.

The formula is src/lower/kernel_time.c, asked through build/calibrate --times.
The fit minimizes the logarithm of modelled over measured time with a robust loss (soft l1). The model's purpose is ranking. The fit
therefore subtracts the mean over a program, and gives the mean itself a small weight. All programs have the same weight. Within a
program, kernels near the fastest have the largest weights. A regularization term keeps a rate at its initial value if no
measurement depends on it.
"""
import argparse
import csv
import lzma
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "calibrate.csv.xz")
SAMPLE = os.path.join(HERE, "..", "tests", "lower", "calibrate_sample.csv")
SAMPLED, EACH = 20, 12  # programs of a table, and kernel programs of each, in the sample
RATES = os.path.join(HERE, "..", "src", "lower", "rate.def")
KINDS = 5
LEAST = 8  # fewest kernels of a program for which ranks are computed
FEW = (1, 3, 5, 12)
LINEAR = ("idle", "crowd", "deep")  # exponents that may be negative


def read_rates(path):
    """Rates in order: (name, whether it has a value for each kind, doc)."""
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


def tables(path):
    """(name, lines) of each table of a packed file, or of one table."""
    if not path.endswith(".xz"):
        with open(path) as f:
            return [(os.path.splitext(os.path.basename(path))[0], f.readlines())]
    out = []
    with lzma.open(path, "rt") as f:
        for line in f:
            if line.startswith("## "):
                out.append((line[3:].strip(), []))
            else:
                out[-1][1].append(line)
    return out


def sample(lines):
    """The head, and some kernel programs of some programs, drawn with a fixed seed."""
    draw, programs = random.Random(1), {}
    head, *rows = (x for x in lines if not x.startswith("#"))
    for r in rows:
        program, graph, number = next(csv.reader([r]))[:3]
        programs.setdefault(program, {}).setdefault((graph, number), []).append(r)
    many = [k for k in programs if len(programs[k]) >= EACH]
    out = [head]
    for k in sorted(draw.sample(many, min(SAMPLED, len(many)))):
        kept = set(draw.sample(list(programs[k]), EACH))
        out += [r for x, rows in programs[k].items() if x in kept for r in rows]
    return out


def pack(paths):
    with lzma.open(DATA, "wt", preset=9 | lzma.PRESET_EXTREME) as whole, open(SAMPLE, "w") as few:
        few.write("# Kernels drawn from each table of bench/calibrate.csv.xz by bench/calibrate.py --pack.\n")
        for name, lines in [t for path in paths for t in tables(path)]:
            whole.writelines(["## %s\n" % name] + lines)
            few.writelines(["## %s\n" % name] + sample(lines))


def unpack(folder):
    os.makedirs(folder, exist_ok=True)
    for name, lines in tables(DATA):
        with open(os.path.join(folder, name + ".csv"), "w") as f:
            f.writelines(lines)


class Data:
    """Measured launches. Equal launches are computed once: .of by launch; .us, .program by entrant; .table by program."""

    def __init__(self, tables, calibrate):
        rows = [dict(r, table=i) for i, (_, lines) in enumerate(tables) for r in csv.DictReader(x for x in lines if not x.startswith("#"))]
        names = [k for k in rows[0] if k not in ("program", "graph", "number", "launch", "us", "how", "table")]
        distinct = {}
        self.of = np.array([distinct.setdefault(tuple(r[k] for k in names), len(distinct)) for r in rows])
        self.launches = len(distinct)
        self.distinct = tempfile.NamedTemporaryFile("w", suffix=".csv")
        self.distinct.write("program,graph,number,launch,us,how," + ",".join(names) + "\n")
        self.distinct.writelines(",,,,,," + ",".join(c) + "\n" for c in distinct)
        self.distinct.flush()
        self.model = subprocess.Popen([calibrate, "--times", self.distinct.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        keys = [(r["table"], r["program"], r["graph"], r["number"]) for r in rows]
        number = {k: i for i, k in enumerate(dict.fromkeys(keys))}
        self.entrant = np.array([number[k] for k in keys])
        self.n = len(number)
        self.us = np.zeros(self.n)
        self.us[self.entrant] = [float(r["us"]) for r in rows]
        programs = sorted({k[:2] for k in number})
        at = {k: i for i, k in enumerate(programs)}
        self.table, self.programs = np.array([k[0] for k in programs]), [k[1] for k in programs]
        self.program = np.array([at[k[:2]] for k in number])

    def totals(self, rates):
        """Microseconds of each entrant."""
        self.model.stdin.write(np.concatenate([np.broadcast_to(x, KINDS) for _, x, _ in rates]).tobytes())
        self.model.stdin.flush()
        seconds = np.frombuffer(self.model.stdout.read(8 * self.launches))
        if len(seconds) < self.launches:
            sys.exit("build/calibrate has ended; are rate.def, count.def and the table those it was built with?")
        return 1e6 * np.bincount(self.entrant, seconds[self.of], self.n)


def merge(paths, out):
    """Merges programs with equal counts into one kernel program. Their times differ only by chance."""
    seen, head, notes = {}, None, []
    for at, path in enumerate(paths):
        notes += [x for x in open(path) if x.startswith("#")]
        rows = csv.reader(x for x in open(path) if not x.startswith("#"))
        head = next(rows)
        whole = {}
        for r in rows:
            whole.setdefault((at, r[0], r[1], r[2]), []).append(r)
        for rows in whole.values():
            seen.setdefault((rows[0][0],) + tuple(tuple(r[6:]) for r in rows), []).append(rows)
    with open(out, "w") as f:
        f.writelines(notes + [",".join(head) + "\n"])
        for number, alike in enumerate(sorted(seen.values(), key=lambda x: x[0][0][0])):
            us = np.exp(np.mean([np.log(float(rows[0][4])) for rows in alike]))
            for r in alike[0]:
                f.write('"%s","%s",%d,%s,%.3f,"%s",%s\n' % (r[0], r[1], number, r[3], us, r[5], ",".join(r[6:])))


# ---- rank correlation ----

def ranks(x):
    order = np.argsort(x, kind="stable")
    r = np.empty(len(x))
    r[order] = np.arange(len(x))
    for v in np.unique(x):  # equal values have the same rank
        r[x == v] = r[x == v].mean()
    return r


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    return 0.0 if a.std() == 0 or b.std() == 0 else float(np.corrcoef(a, b)[0, 1])


def judge(d, modelled, each, data):
    for i, (name, _) in enumerate(data):
        print(name)
        judge_table(d, modelled, each, np.where(d.table == i)[0])


def judge_table(d, modelled, each, programs):
    rho, loss, kernels = [], {n: [] for n in FEW}, 0
    for i in programs:
        name = d.programs[i]
        k = np.where(d.program == i)[0]
        kernels += len(k)
        if len(k) < LEAST:
            continue
        us, order = d.us[k], np.argsort(modelled[k], kind="stable")
        rho.append(spearman(modelled[k], us))
        for n in FEW:
            loss[n].append(us[order[:n]].min() / us.min() - 1)
        if each:
            print("%-46s %3d kernels  rank correlation %5.2f  first 1: %+5.1f%%  5: %+5.1f%%  best %.2f us, modelled over measured %.2f"
                  % (name, len(k), rho[-1], 100 * loss[1][-1], 100 * loss[5][-1], us.min(), np.median(modelled[k] / us)))
    print("%d programs, %d kernel programs: rank correlation, median %.3f, mean %.3f" % (len(rho), kernels, np.median(rho), np.mean(rho)))
    for n in FEW:
        print("  measuring the first %2d only: median %+.1f%%, mean %+.1f%%, at most %+.1f%%"
              % (n, 100 * np.median(loss[n]), 100 * np.mean(loss[n]), 100 * max(loss[n])))


# ---- fitting ----

class Fit:
    SPREAD = {"memory": 0.03, "near": 0.3, "cache": 0.3, "port": 0.4, "line": 0.4, "mma": 0.25, "wgmma": 0.2, "shared": 0.25, "overlap": 0.3,
              "show": 1.0}
    ABSOLUTE, WEIGHT, SOFT, NEAR = 0.1, 150.0, 2.0, 2

    def __init__(self, d, rates, used):
        self.d, self.rates, self.used = d, rates, used
        self.x0 = np.concatenate([x if k in LINEAR else np.log(x) for k, x, _ in rates])
        self.spread = np.concatenate([np.full(len(x), 0.2 if k in LINEAR else self.SPREAD.get(k, 0.6)) for k, x, _ in rates])
        n = len(d.programs)
        fast = np.full(n, np.inf)
        np.minimum.at(fast, d.program[used], d.us[used])
        self.weight = np.where(used, (fast[d.program] / d.us) ** self.NEAR, 0)
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
    """A residual whose square is the soft l1 loss of r."""
    return np.sign(r) * np.sqrt(2 * (np.sqrt(1 + r * r) - 1))


def cross(d, rates, fitted, folds, rounds):
    """Cross-validation by programs: a program is left out of all tables."""
    out, names = np.zeros(d.n), sorted(set(d.programs))
    fold = np.array([names.index(x) % folds for x in d.programs])[d.program]
    for i in range(folds):
        left = fold == i
        out[left] = d.totals(Fit(d, rates, fitted & ~left).run(rounds))[left]
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", default=[DATA], nargs="+", metavar="TABLE")
    p.add_argument("--rates", default=RATES)
    p.add_argument("--fit", action="store_true")
    p.add_argument("--merge", nargs="+", metavar="TABLE")
    p.add_argument("--pack", nargs="+", metavar="TABLE")
    p.add_argument("--unpack", metavar="DIR")
    p.add_argument("--cross", type=int, default=0, metavar="N")
    p.add_argument("--calibrate", default=os.path.join(HERE, "..", "build", "calibrate"))
    p.add_argument("--rounds", type=int, default=40)
    a = p.parse_args()
    if a.merge:
        if len(a.data) != 1:
            p.error("--merge needs --data TABLE, the one to write")
        merge(a.merge, a.data[0])
        return
    if a.pack or a.unpack:
        pack(a.pack) if a.pack else unpack(a.unpack)
        return
    data = [t for path in a.data for t in tables(path)]
    d = Data(data, a.calibrate)
    head, rates = read_rates(a.rates)
    fitted = np.array([name != "unseen" for name, _ in data])[d.table][d.program]
    if a.cross:
        judge(d, cross(d, rates, fitted, a.cross, a.rounds), False, data)
        return
    if a.fit:
        judge(d, d.totals(rates), False, data)
        rates = Fit(d, rates, fitted).run(a.rounds)
        write_rates(a.rates, head, rates)
    judge(d, d.totals(rates), True, data)


if __name__ == "__main__":
    main()
