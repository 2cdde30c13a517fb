#!/usr/bin/env python3
"""Seconds of the first run of programs that have a plan (docs/plans.md), each with an empty database:

    python3 bench/first_runs.py [--plans plans] [--families SEED]... --csv FILE

The plans are those of PLANS/sm_90a.jsonl whose program is one of examples/ or of a seed's families with its own sizes. FILE gets a row a program:
seconds from start to exit, the time that the plan was published with, and the measured one in us; `plan` is empty where the job searched.
Needs a GPU and neither torch nor triton. Exit status 1: a job failed or searched."""
import argparse
import csv
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def published(path):
    """Program -> us of its last plan."""
    with open(path) as f:
        rows = [json.loads(line) for line in f][1:]
    return {r["program"]: r.get("us") for r in rows}


def files(seeds):
    """Program -> file."""
    from peers.programs import programs

    found = {}
    for path in glob.glob("examples/*.mica") + [p.file for seed in seeds for p in programs(seed).values()]:
        with open(path) as f:
            head = re.search(r"^program (\w+)", f.read(), re.M)
        if head:
            found.setdefault(head.group(1), path)
    return found


def first_run(args, name, path, us):
    with tempfile.TemporaryDirectory() as where:
        report, start = os.path.join(where, "report.json"), time.time()
        env = dict(os.environ, MICA_PLANS=os.path.abspath(args.plans))
        words = [args.mica, "optimize", path, "--target", "sm_90a", "--db", os.path.join(where, "mica.db"), "--json", report, "--quiet"]
        r = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        seconds = time.time() - start
        if r.returncode:
            print("%s: status %d: %s" % (name, r.returncode, r.stdout[-200:]), flush=True)
            return [name, "%.2f" % seconds, us, "", ""]
        with open(report) as f:
            doc = json.load(f)
    plans = [os.path.basename(p["plan"]) for p in doc["parts"] if p.get("plan")]
    best = doc["best"]["us"]
    return [name, "%.2f" % seconds, us, "" if best is None else "%.2f" % best, " ".join(plans) if len(plans) == len(doc["parts"]) else ""]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--plans", default="plans", metavar="DIR")
    ap.add_argument("--families", type=int, action="append", default=[], metavar="SEED")
    ap.add_argument("--only", default="", metavar="REGEX")
    ap.add_argument("--csv", required=True, metavar="FILE")
    ap.add_argument("--mica", default="build/mica")
    args = ap.parse_args()
    known, rows = files(args.families), []
    for name, us in published(os.path.join(args.plans, "sm_90a.jsonl")).items():
        if name not in known or not re.search(args.only, name):
            continue
        rows.append(first_run(args, name, known[name], us))
        print("%-28s %6s s, %s us published, %s us" % tuple(rows[-1][:4]), flush=True)
        with open(args.csv, "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([["program", "seconds", "published us", "us", "plan"]] + rows)
    return 0 if all(r[4] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
