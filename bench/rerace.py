#!/usr/bin/env python3
"""Races graphs with two builds of gpu_race on one GPU. The builds alternate, each in its own process, on
the same graphs or on those that each build's search found:

    python3 bench/survey.py --search DIR                                                # graphs of the workloads; no GPU
    python3 bench/rerace.py --old OLD/gpu_race --new build/gpu_race --graphs DIR [--old-graphs DIR] --csv FILE [--only REGEX]

A build makes each graph's kernels in the ways that its model likes best, checks them against float64, and times the fastest. FILE gets a row a
workload: medians over rounds of cold times in us, their ratio, and how the kernels were made. Workloads of several parts are left out: their
graphs are none of the whole program. Needs neither torch nor triton. Exit status 1: a build had no right result, or the time was over.
"""
import argparse
import csv
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers.programs import folder, programs  # noqa: E402


def one_part(graphs):
    return len({os.path.basename(g).split("_")[0] for g in graphs}) == 1


def race(binary, name, graphs, args, left):
    """(us, how, machine) of the fastest correct program, or None."""
    p = programs()[name]
    with tempfile.TemporaryDirectory() as where:
        row = os.path.join(where, "race.csv")
        words = [binary, "--variants", str(args.variants), "--seconds", str(args.seconds), "--finalists", "4", "--csv", row,
                 p.file + "".join(",%s=%d" % x for x in p.sizes.items())] + graphs
        try:
            r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=left, universal_newlines=True)
        except subprocess.TimeoutExpired:
            return None
        for line in re.findall(r"^ +(?:wrong|failed|not compiled): .*$", r.stdout, re.M):
            print("%s: %s" % (name, line.strip()), flush=True)
        if not os.path.exists(row):
            print("%s: status %d: %s" % (name, r.returncode, r.stdout[-300:]), flush=True)
            return None
        with open(row) as f:
            x = next(csv.reader(f))
        return float(x[3]), x[9], x[10]


def graphs_of(name, where):
    return sorted(glob.glob(os.path.join(where, folder(name), "*.mica")))


def workload(name, graphs, args, end):
    found = {"old": [], "new": []}
    for turn in range(args.rounds):
        for which in ("old", "new") if turn % 2 == 0 else ("new", "old"):
            got = race(getattr(args, which), name, graphs[which], args, max(1, end - time.time()))
            if not got:
                return None
            found[which].append(got)
    us = {k: statistics.median(x[0] for x in v) for k, v in found.items()}
    return [name, "%.3f" % us["old"], "%.3f" % us["new"], "%.3f" % (us["old"] / us["new"]), found["old"][-1][1], found["new"][-1][1],
            found["new"][-1][2]]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--old", required=True, metavar="BINARY")
    ap.add_argument("--new", required=True, metavar="BINARY")
    ap.add_argument("--graphs", required=True, metavar="DIR")
    ap.add_argument("--old-graphs", metavar="DIR", help="what the old build's search found; that of --graphs unless given")
    ap.add_argument("--csv", required=True, metavar="FILE")
    ap.add_argument("--only", default="", metavar="REGEX")
    ap.add_argument("--top", type=int, default=2, help="graphs of a workload (2)")
    ap.add_argument("--variants", type=int, default=2, help="ways to make each graph's kernels (2)")
    ap.add_argument("--rounds", type=int, default=2, help="turns of both builds (2)")
    ap.add_argument("--seconds", type=float, default=0.2, help="of the last rounds of a race (0.2)")
    ap.add_argument("--budget-s", type=float, default=3600, help="for all of it (3600)")
    args = ap.parse_args()
    end, bad, ratios = time.time() + args.budget_s, [], []
    with open(args.csv, "w") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["workload", "old us", "new us", "old over new", "old how", "new how", "machine"])
        for name in [n for n in programs() if re.search(args.only, n)]:
            graphs = {"old": graphs_of(name, args.old_graphs or args.graphs), "new": graphs_of(name, args.graphs)}
            if not all(graphs.values()) or not one_part(graphs["old"] + graphs["new"]):
                print("%-26s left out: %d graphs" % (name, len(graphs["new"])), flush=True)
                continue
            row = workload(name, {k: v[:args.top] for k, v in graphs.items()}, args, end) if time.time() < end else None
            if not row:
                bad.append(name)
                continue
            out.writerow(row)
            f.flush()
            ratios.append(float(row[3]))
            print("%-26s %10s us  %10s us  %s" % tuple(row[:4]), flush=True)
    if ratios:
        print("geometric mean of old over new: %.3f over %d workloads; least %.3f" % (statistics.geometric_mean(ratios), len(ratios), min(ratios)))
    if bad:
        print("no result for: " + " ".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
