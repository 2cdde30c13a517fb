#!/usr/bin/env python3
"""Kernels for older targets, raced on a newer GPU beside those for its own, in two steps that may be on two machines:

    python3 bench/older.py --search DIR                      # graphs of each workload for each target; no GPU
    python3 bench/older.py --race DIR --csv FILE             # build/gpu_race: all of a workload in one race

FILE (bench/older_h200.csv) has a row a workload and target: the fastest right program in us, cold, and how many were tried, were wrong
(against float64) and failed. Graphs that took more than twice as long as the fastest of all are not timed exactly: `rough` is 1. Graphs are
small texts, and --race needs this script, bench/peers/programs.py, examples and bench/programs beside DIR and the binary.
"""
import argparse
import csv
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from commit import commit  # noqa: E402
from peers.programs import folder, programs  # noqa: E402

TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90a"]
WORKLOADS = ["attn/gqa_b1_q1", "attn/gqa_b1_q512", "attn/mirage_gqa_b1", "attn/bert_fmha_b32", "lin/lora_m16", "lin/rmslin_m16_n4096",
             "lin/gmlp_m8_4096", "lin/adapter_m8", "lin/ngpt_norm1", "misc/layernorm_4096", "misc/softmax_4096", "misc/lstm_h256",
             "misc/mlp20_m4096", "misc/gemm_bias_relu"]


def search(names, args):
    bad = 0
    for name in names:
        for target in args.targets:
            where = os.path.join(args.search, target, folder(name))
            words = programs()[name].words() + ["--target", target, "--no-db", "--quiet", "--top", str(args.top), "--out", where]
            code = subprocess.run([args.mica, "search"] + words, stdout=subprocess.DEVNULL).returncode
            found = [os.path.basename(f) for f in glob.glob(where + "/*.mica")]
            parts = len({f.split("_")[0] for f in found})  # graphs of several parts do not compute the whole program
            print("%-24s %-7s %2d graphs%s" % (name, target, len(found), "" if parts == 1 else " of %d parts" % parts), flush=True)
            bad += code != 0 or parts != 1
    return 1 if bad else 0


def samples(path):
    """By candidate of the race: target, graph, how, us (or None), last round, verdict."""
    found = {}
    with open(path) as f:
        for row in csv.reader(f):
            _, graph, number, _, launch, how, _, _, us, rnd, verdict = row[:11]
            target = next((t for t in TARGETS if "/%s/" % t in graph), None)
            x = found.setdefault(int(number), [target, os.path.basename(graph), how, float(us) if us else None, int(rnd), verdict])
            if int(launch):
                x[2] += " | " + how
    return [x for x in found.values() if x[0]]


def race(names, args):
    bad = 0
    for name in names:
        p = programs()[name]
        words = [p.file + "".join(",%s=%d" % x for x in p.sizes.items())]
        for target in args.targets:
            words += ["--target", target] + sorted(glob.glob(os.path.join(args.race, target, folder(name), "*.mica")))[:args.graphs]
        raw = args.csv + ".samples"
        if os.path.exists(raw):
            os.remove(raw)
        own = ["--variants", str(args.variants), "--seconds", str(args.seconds), "--finalists", "64", "--samples", raw]
        r = subprocess.run([args.gpu_race] + own + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if r.returncode not in (0, 1):
            print("%s: status %d: %s" % (name, r.returncode, r.stderr[-300:]), flush=True)
            bad += 1
            continue
        for line in re.findall(r"^.*\n +(?:wrong|failed|not compiled): .*$", r.stdout, re.M):
            print("%s: %s" % (name, line), flush=True)
        machine = re.search(r"^(.*?), driver.*sets of inputs", r.stdout, re.M).group(1)
        bad += rows(name, samples(raw), machine, args)
        os.remove(raw)
    return 1 if bad else 0


def rows(name, all_of_it, machine, args):
    last, bad = max(x[4] for x in all_of_it), 0
    with open(args.csv, "a") as f:
        for target in args.targets:
            own = [x for x in all_of_it if x[0] == target]
            right = [x for x in own if x[5] == "fine" and x[3]]
            verdicts = [sum(x[5] == v for x in own) for v in ("wrong", "failed", "not compiled")]
            bad += sum(verdicts) + (not right)
            best = min(right, key=lambda x: (x[4] < last, x[3])) if right else [target, "", "", None, 0, ""]
            wrong, failed = verdicts[0], sum(verdicts[1:])
            csv.writer(f, lineterminator="\n").writerow([name, target, "%.3f" % best[3] if right else "", int(best[4] < last), len(own), wrong,
                                                         failed, best[1], best[2], machine, args.commit])
            print("%-24s %-7s %8s us  %3d tried, %d wrong, %d failed  %s"
                  % (name, target, "%.2f" % best[3] if right else "-", len(own), wrong, failed, best[2]), flush=True)
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--search", metavar="DIR")
    ap.add_argument("--race", metavar="DIR")
    ap.add_argument("--csv", metavar="FILE", help="with --race: rows are added")
    ap.add_argument("--only", default="", metavar="REGEX")
    ap.add_argument("--targets", nargs="+", default=TARGETS)
    ap.add_argument("--top", type=int, default=8, help="graphs of a workload and target that are kept (8)")
    ap.add_argument("--graphs", type=int, default=4, help="and raced (4)")
    ap.add_argument("--variants", type=int, default=3, help="ways to make each graph's kernels (3)")
    ap.add_argument("--seconds", type=float, default=0.8, help="of turns in the last round (0.8)")
    ap.add_argument("--commit", default="", help="for the table; that of commit.py unless given")
    ap.add_argument("--mica", default="build/mica")
    ap.add_argument("--gpu-race", default="build/gpu_race")
    args = ap.parse_args()
    if bool(args.search) == bool(args.race) or (args.race and not args.csv):
        ap.error("either --search DIR, or --race DIR and --csv FILE")
    if args.race and not args.commit:
        args.commit = commit()
    if args.race and not os.path.exists(args.csv):
        with open(args.csv, "w") as f:
            f.write("workload,target,us,rough,tried,wrong,failed,graph,how,machine,commit\n")
    names = [n for n in WORKLOADS if re.search(args.only, n)]
    return search(names, args) if args.search else race(names, args)


if __name__ == "__main__":
    sys.exit(main())
