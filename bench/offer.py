#!/usr/bin/env python3
"""How good are the graphs that the search offers for a GPU, on programs that nobody tuned for? (bench/offer.c; no GPU is needed)

    python3 bench/offer.py [--seed N] [--drawn N] [--families N] [--only REGEX] [--jobs N] [--wide N] [--csv bench/offer.csv]

The programs are those of NAMED, and others drawn by the seed: --drawn of FAMILIES, with sizes that are primes, one off a power of two, odd,
or long, and --families of those of bench/peers, with sizes that models have, one of each family before the second of any. Each seed has a
line of the report.

A row of the table has the seed (0: NAMED), what build/offer prints, and `known`: the lowest price that any run has seen for the program,
`space` among them: of a list of --wide plans, with other sizes of each that is cheap. `commit` is that of the last run. Start a new table
when the model has changed. The aim is that the best of the first eight costs no more than that: `eight / known` is 1.0.
"""
import argparse
import concurrent.futures
import csv
import math
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from commit import commit  # noqa: E402
from peers.drawn import draw as draw_families  # noqa: E402

FIELDS = ["program", "parts", "first", "eight", "best", "rank", "offered", "refused", "kernels", "space", "search_s", "price_s"]
NAMED = [
    "bench/programs/attention.mica,b=32,h=12,t=197,s=197,d=64",
    "bench/programs/attention.mica,b=4,h=32,t=1,s=4096,d=96",
    "bench/programs/attention.mica,b=4,h=16,t=257,s=257,d=64",
    "bench/programs/attention.mica,b=4,h=16,t=577,s=577,d=64",
    "bench/programs/attention.mica,b=4,h=8,t=1500,s=1500,d=64",
    "bench/programs/attention.mica,b=2,h=24,t=4250,s=4250,d=64",
    "bench/programs/attention.mica,b=2,h=8,t=1,s=1500,d=64",
    "bench/programs/attention.mica,b=8,h=2,t=6,s=16213,d=64",
    "bench/programs/attention.mica,b=1,h=16,t=4099,s=4099,d=64",
    "examples/softmax.mica,m=512,n=50257",
    "bench/programs/min.mica",
    "bench/programs/max.mica",
    "bench/programs/logsumexp.mica",
    "bench/programs/l1_norm.mica",
    "bench/programs/group_norm.mica",
    "bench/programs/cosine.mica",
]
ROWS = {"m": (64, 4096), "n": (512, 65536)}
FAMILIES = [
    ("examples/softmax.mica", ROWS),
    ("examples/g_norm.mica", ROWS),
    ("bench/programs/logsumexp.mica", ROWS),
    ("bench/programs/l1_norm.mica", ROWS),
    ("bench/programs/group_norm.mica", ROWS),
    ("bench/programs/min.mica", {"b": (1, 16), "m": (64, 4096), "n": (256, 4096)}),
    ("bench/programs/max.mica", {"b": (1, 16), "m": (64, 4096), "n": (256, 4096)}),
    ("bench/programs/cosine.mica", {"m": (16, 1024), "n": (16, 1024), "k": (64, 2048)}),
    ("bench/programs/attention.mica", {"b": (1, 8), "h": (1, 32), "t": (1, 512), "s": (64, 4096), "d": [64, 96, 128]}),
    ("examples/m_rms.mica", {"m": (1, 512), "k": (256, 4096), "n": (256, 8192)}),
    ("examples/lora.mica", {"m": (1, 64)}),
    ("examples/m_gated.mica", {"m": (1, 64), "n": (512, 8192)}),
]


def prime(n):
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def draw(r, low, high):
    """A size between the two that is difficult for schemes. Its order of magnitude is uniform."""
    n = round(math.exp(r.uniform(math.log(low), math.log(high))))
    power = 1 << max(0, n.bit_length() - 1)
    kind = r.randrange(5)
    if kind == 0:
        return next((p for p in range(n, 2 * n + 2) if prime(p)), n)
    return [n | 1, power, power + 1, (n + 15) // 16 * 16][kind - 1]


def drawn(seed, n):
    r = random.Random(seed)
    for i in range(n):
        file, sizes = FAMILIES[i % len(FAMILIES)]
        yield file + "".join(",%s=%d" % (k, r.choice(v) if isinstance(v, list) else draw(r, *v)) for k, v in sizes.items())


def families(seed, n):
    """Name -> program text, of bench/peers. The name has family, kind and sizes."""
    known = sorted(draw_families(seed)[0].items(), key=lambda x: (int(x[0].split("/")[2]), x[0]))
    return {",".join([name.split("/")[1] + (":" + d.kind if d.kind else "")] + ["%s=%d" % x for x in d.sizes.items()]): d.text()
            for name, d in known[:n]}


def programs(args):
    """(name, file with settings, seed) of each."""
    for x in NAMED:
        yield x, x, 0
    for x in drawn(args.seed, args.drawn):
        yield x, x, args.seed
    os.makedirs(args.folder, exist_ok=True)
    for i, (name, text) in enumerate(families(args.seed, args.families).items()):
        path = os.path.join(args.folder, "%d_%d.mica" % (args.seed, i))
        with open(path, "w") as f:
            f.write(text)
        yield name, path, args.seed


def run(program, path, args):
    words = [args.offer, "--threads", "1", "--wide", str(args.wide), path]
    try:
        r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=args.limit, text=True)
    except subprocess.TimeoutExpired:
        return program, None, "more than %d s" % args.limit
    rows = list(csv.DictReader(r.stdout.splitlines()))
    return program, rows[0] if rows else None, r.stderr.strip()[-200:]


def load(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return {r["program"]: r for r in csv.DictReader(f)}


def merge(table, program, seed, row):
    old = table.get(program, {})
    prices = [float(x) for x in (old.get("known"), row["best"], row["space"]) if x and float(x) > 0]
    table[program] = dict(row, program=program, seed=old.get("seed", seed), known="%.2f" % min(prices) if prices else "-1",
                          commit=commit())


def save(path, table):
    with open(path, "w") as f:
        w = csv.DictWriter(f, ["seed"] + FIELDS + ["known", "commit"], lineterminator="\n")
        w.writeheader()
        w.writerows(table[k] for k in table)


def report(table):
    for seed in sorted({int(r["seed"]) for r in table.values()}):
        ratio = sorted(float(r["eight"]) / float(r["known"]) for r in table.values() if int(r["seed"]) == seed and float(r["eight"]) > 0)
        if not ratio:
            continue
        mean = math.exp(sum(map(math.log, ratio)) / len(ratio))
        print("seed %d, %d programs: eight / known %.3f in the mean, %.2f at most, 1.00 for %.0f%%"
              % (seed, len(ratio), mean, ratio[-1], 100 * sum(x < 1.005 for x in ratio) / len(ratio)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--drawn", type=int, default=60)
    p.add_argument("--families", type=int, default=60)
    p.add_argument("--folder", default="build/offer_programs", help="for programs that are written")
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--wide", type=int, default=512, help="plans of the list that stands for the whole space")
    p.add_argument("--limit", type=int, default=300, help="seconds a program")
    p.add_argument("--offer", default="build/offer")
    p.add_argument("--csv", default="bench/offer.csv")
    args = p.parse_args()
    table = load(args.csv)
    todo = [x for x in programs(args) if re.search(args.only, x[0])]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (_, _, seed), (program, row, why) in zip(todo, pool.map(lambda x: run(x[0], x[1], args), todo)):
            if row:
                merge(table, program, seed, row)
                save(args.csv, table)
            print("%-66s %s" % (program, "%9s %9s %9s  rank %s" % (row["first"], row["eight"], row["best"], row["rank"]) if row else why), flush=True)
    report(table)


if __name__ == "__main__":
    main()
