#!/usr/bin/env python3
"""Compares the kernels that two builds of Mica generate. Kernels with identical text need no race.

    python3 bench/survey.py --search DIR                                  # graphs of all workloads
    python3 bench/identical.py --emit OLD.json --graphs DIR --mica OLD/mica
    python3 bench/identical.py --emit NEW.json --graphs DIR --mica build/mica
    python3 bench/identical.py --compare OLD.json NEW.json --csv FILE [--commit REV]

--emit lowers each graph and keeps a hash of the text of each kernel: at all settings that the schemes list, and at those that bench/gpu_h200.csv
records (--how), where these fit. The hash is of the tile program without comments; with --cuda it is of CUDA C++, and of the best choice and the
recorded settings alone. --compare prints a line a workload, and the kernels that differ. Exit status 1: some do.
"""
import argparse
import csv
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers.programs import folder, programs  # noqa: E402


GONE = " ring=0"  # a former knob of skinny kernels


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(args, words):
    return subprocess.run([args.mica, "lower"] + words + ["--target", args.target], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          universal_newlines=True)


def texts(out):
    """Reads the output of `mica lower`: the text of each kernel, by kernel and settings."""
    for part in re.split(r"^// (?=\S+: )", out, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        yield re.sub(r", \d+\.\d+ us modelled.*", "", head), body


def sources(args, words):
    """CUDA C++ by kernel."""
    with tempfile.TemporaryDirectory() as where:
        if run(args, words + ["--out", where, "--quiet"]).returncode == 0:
            for f in sorted(glob.glob(where + "/*.cu")):
                if os.path.basename(f) != "kernel.cu":
                    with open(f) as text:
                        yield os.path.basename(f)[:-3], text.read()


def recorded(path):
    with open(path) as f:
        return {r["workload"]: r["how"].replace(GONE, "").split(" | ") for r in csv.DictReader(f)}


def emit_graph(graph, how, args):
    best = list(texts(run(args, [graph]).stdout))
    found = {} if args.cuda or args.recorded else {k: digest(v) for k, v in texts(run(args, [graph, "--all"]).stdout)}
    if args.cuda:
        found.update(("%s: best" % k, digest(v)) for k, v in sources(args, [graph]))
    names = [k.split(": ")[0] for k, _ in best]
    for i, knobs in enumerate(how): # the record does not name the kernel: take each that has these settings
        for name in [] if knobs.startswith("cublaslt") else names:
            words = [graph, "--kernel", name, "--knobs", knobs]
            made = sources(args, words) if args.cuda else texts(run(args, words).stdout)
            found.update(("%s: recorded %d" % (name, i), digest(v)) for _, v in made)
    return found


def emit(args):
    how, out = recorded(args.how), {}
    for name in programs():
        for graph in sorted(glob.glob(os.path.join(args.graphs, folder(name), "*.mica")))[:args.top]:
            for k, v in emit_graph(graph, how.get(name, []), args).items():
                out["%s\t%s\t%s" % (name, os.path.basename(graph), k)] = v
        print("%-26s %d kernels" % (name, sum(k.startswith(name + "\t") for k in out)), flush=True)
    with open(args.emit, "w") as f:
        json.dump(out, f, indent=0, sort_keys=True)
    return 0


def part(k):
    """Meaning of a key of --emit: the graph, and whether it is at recorded settings."""
    return k.split("\t")[1], ": recorded" in k


def compare(args):
    both = []
    for path in args.compare:
        with open(path) as f:
            both.append({k.replace(GONE, ""): v for k, v in json.load(f).items()})
    old, new = both
    rows, bad = [], 0
    for name in programs():
        seen = {part(k) for k in new if k.startswith(name + "\t")}
        own = sorted(k for k in set(old) | set(new) if k.startswith(name + "\t") and part(k) in seen)
        graphs = {g for g, _ in seen}
        differ = [k for k in own if old.get(k) != new.get(k)]
        noted = sum(": recorded" in k for k in own)
        rows.append([name, len(graphs), len(own), noted, len(differ), args.commit])
        bad += len(differ) > 0 or not own
        print("%-26s %2d graphs %5d kernels, %2d as recorded: %s"
              % (name, len(graphs), len(own), noted, "%d DIFFER" % len(differ) if differ else "alike"))
        for k in differ[:args.show]:
            print("    " + " ".join(k.split("\t")[1:]))
    if args.csv:
        with open(args.csv, "w") as f:
            csv.writer(f, lineterminator="\n").writerows([["workload", "graphs", "kernels", "as recorded", "differ", "commits"]] + rows)
    print("%d of %d workloads have kernels that differ" % (bad, len(rows)))
    return 1 if bad else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--emit", metavar="FILE")
    ap.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"))
    ap.add_argument("--graphs", metavar="DIR")
    ap.add_argument("--how", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_h200.csv"))
    ap.add_argument("--recorded", action="store_true", help="with --emit: at recorded settings alone")
    ap.add_argument("--top", type=int, default=99, help="with --emit: graphs of a workload, the cheapest first; --compare holds those that NEW has")
    ap.add_argument("--cuda", action="store_true")
    ap.add_argument("--target", default="sm_90a")
    ap.add_argument("--mica", default="build/mica")
    ap.add_argument("--csv", metavar="FILE", help="with --compare: a row a workload")
    ap.add_argument("--commit", default="", help="of both builds, for the table")
    ap.add_argument("--show", type=int, default=3, help="kernels of a workload that differ and are named (3)")
    args = ap.parse_args()
    if bool(args.emit) == bool(args.compare) or (args.emit and not args.graphs):
        ap.error("either --emit FILE and --graphs DIR, or --compare OLD NEW")
    return emit(args) if args.emit else compare(args)


if __name__ == "__main__":
    sys.exit(main())
