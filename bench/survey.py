#!/usr/bin/env python3
"""All workloads of bench/peers.py through the search and a race on a GPU, in two steps that may be on two machines:

    python3 bench/survey.py --search DIR [--only REGEX]                 # graphs of each workload; no GPU
    python3 bench/survey.py --race DIR --out OUT [--tune S] [--only REGEX]   # build/gpu_race: the fastest of them

A program of several parts (graphs part1_*, part2_*, ...) is raced by `mica optimize`, which puts the parts together. With --optimize all are, with
their own searches: DIR is not needed. --jobs of them run at a time; they take turns on the GPU.

    python3 bench/survey.py --prepare FILE [--ways N]                    # their first candidates' machine code, into a database; no GPU
    python3 bench/survey.py --optimize --out OUT [--db FILE] [--jobs N] [--time S]

OUT then holds a folder a workload, as `mica optimize --out` leaves it, for `bench/peers.py --mica OUT`; OUT/survey.csv has a row a
race, OUT/samples.csv one a program that was timed, OUT/log.txt what the races print. If a race ends the process, the
others go on; races that OUT already has are not repeated. Needs neither torch nor triton.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers.programs import folder, programs  # noqa: E402


WRITING = threading.Lock()


def sizes(p):
    return "".join(",%s=%d" % x for x in p.sizes.items())


def search(names, args):
    known = programs(args.families)

    def one(name):
        where, start = os.path.join(args.search, folder(name)), time.time()
        r = subprocess.run([args.mica, "search"] + known[name].words() + ["--target", "sm_90a", "--no-db", "--top", str(args.top), "--out", where],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return name, r.returncode, time.time() - start, len(glob.glob(where + "/*.mica")), r.stdout

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, code, seconds, graphs, text in pool.map(one, names):
            print("%-26s %5.1f s  %2d graphs%s" % (name, seconds, graphs, "" if code == 0 else "  status %d: %s" % (code, text[-200:])), flush=True)
            bad += code != 0 or graphs == 0
    return 1 if bad else 0


def words(name, args):
    p = programs(args.families)[name]
    graphs = sorted(glob.glob(os.path.join(args.race, folder(name), "*.mica")))
    return ["--out", os.path.join(args.out, folder(name)), p.file + sizes(p)] + graphs


def parts(name, args):
    return len({os.path.basename(f).split("_")[0] for f in glob.glob(os.path.join(args.race, folder(name), "*.mica"))})


def optimize(name, args, end):
    """A row of the table, from the report."""
    where, start = os.path.join(args.out, folder(name)), time.time()
    env = dict(os.environ, MICA_TRACE=where + ".trace.json")
    env.setdefault("MICA_GPU_LOCK", os.path.join(args.out, "gpu.lock"))
    with open(where + ".log", "wb") as log:
        try:
            words = ["--target", "sm_90a", "--db", args.db or os.path.join(args.out, "mica.db"), "--out", where]
            words += ["--tune", str(max(1, round(args.tune)))] + (["--time", str(args.time)] if args.time else [])
            code = subprocess.run([args.mica, "optimize"] + programs(args.families)[name].words() + words, stdout=log, stderr=subprocess.STDOUT,
                                  timeout=max(1, end - time.time()), env=env).returncode
        except subprocess.TimeoutExpired:
            code = None
    print("%s: mica optimize took %.1f s" % (name, time.time() - start), flush=True)
    if code != 0:
        print("%s: mica optimize %s" % (name, "was out of time" if code is None else "ended with status %d" % code), flush=True)
        return
    with open(os.path.join(where, "report.json")) as f:
        best = json.load(f)["best"]
    if best["us"] is None:
        print("%s: mica optimize measured nothing" % name, flush=True)
        return
    with open(os.path.join(where, "program.json")) as f:
        how = [x.get("how", "") for x in json.load(f)["launches"]]
    with WRITING, open(os.path.join(args.out, "survey.csv"), "a") as f:
        p = programs(args.families)[name]
        f.write('"%s","%s",%d,%.3f,,,,%s,,"%s",mica optimize\n'
                % (p.file + sizes(p), "all parts", len(how), best["us"], best.get("relative", ""), " | ".join(how)))


def prepare(names, args):
    known = programs(args.families)

    def one(name):
        start, words = time.time(), ["--target", "sm_90a", "--db", args.prepare, "--prepare", str(args.ways), "--quiet"]
        words += ["--time", str(args.time)] if args.time else []
        code = subprocess.run([args.mica, "optimize"] + known[name].words() + words, stdout=subprocess.DEVNULL).returncode
        return name, code, time.time() - start

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, code, seconds in pool.map(one, names):
            print("%-26s %5.1f s%s" % (name, seconds, "" if code == 0 else "  status %d" % code), flush=True)
            bad += code != 0
    return 1 if bad else 0


def race(names, args):
    os.makedirs(args.out, exist_ok=True)
    end = time.time() + args.budget_s
    names = [n for n in names if not os.path.exists(os.path.join(args.out, folder(n), "program.json"))]
    if args.optimize:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(lambda name: time.time() < end and optimize(name, args, end), names))
        left = [n for n in names if not os.path.exists(os.path.join(args.out, folder(n), "program.json"))]
        if left:
            print("no result for: " + " ".join(left))
        return 1 if left else 0
    for name in [n for n in names if parts(n, args) > 1]:
        optimize(name, args, end)
    left = [n for n in names if parts(n, args) == 1]
    log = os.path.join(args.out, "log.txt")
    while left and time.time() < end:
        command = [args.gpu_race, "--variants", str(args.variants), "--seconds", str(args.seconds), "--tune", str(args.tune),
                   "--csv", os.path.join(args.out, "survey.csv"), "--samples", os.path.join(args.out, "samples.csv")]
        for i, name in enumerate(left):
            command += (["--"] if i else []) + words(name, args)
        seen = os.path.getsize(log) if os.path.exists(log) else 0
        with open(log, "ab") as f:
            try:
                code = subprocess.run(command, stdout=f, stderr=subprocess.STDOUT, timeout=end - time.time()).returncode
            except subprocess.TimeoutExpired:
                code = None
        with open(log, "rb") as f:
            f.seek(seen)
            begun = len(re.findall(rb"^\S+: \d+ (?:programs|graphs)$", f.read(), re.M))
        if code in (0, 1):
            left = []
        elif code is None:
            left = left[max(0, begun - 1):]
        else:
            print("%s: the race ended with status %d" % (left[max(0, begun - 1)], code), flush=True)
            left = left[max(1, begun):]
    if left:
        print("no time for: " + " ".join(left))
    return 1 if left else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--search", metavar="DIR")
    ap.add_argument("--race", metavar="DIR")
    ap.add_argument("--prepare", metavar="FILE", help="a database for `mica optimize --prepare`")
    ap.add_argument("--ways", type=int, default=10, help="with --prepare: candidates of each subprogram (10)")
    ap.add_argument("--optimize", action="store_true", help="all workloads by mica optimize")
    ap.add_argument("--db", metavar="FILE", help="of mica optimize; OUT/mica.db unless given")
    ap.add_argument("--time", type=int, default=0, metavar="S", help="seconds of one mica optimize; its own limit unless given")
    ap.add_argument("--out", metavar="OUT", help="with --race and --optimize")
    ap.add_argument("--families", type=int, metavar="SEED", help="the workloads that this seed draws from families, instead of the fixed list")
    ap.add_argument("--list", action="store_true", help="names of the workloads and their programs")
    ap.add_argument("--only", default="", metavar="REGEX")
    ap.add_argument("--top", type=int, default=12, help="graphs of a workload (12)")
    ap.add_argument("--jobs", type=int, default=1, help="searches or programs at a time (1)")
    ap.add_argument("--variants", type=int, default=6, help="ways to make each graph's kernels before the climb (6)")
    ap.add_argument("--seconds", type=float, default=0.3, help="for the first race of a workload (0.3)")
    ap.add_argument("--tune", type=float, default=4, help="seconds to climb from the fastest (4)")
    ap.add_argument("--budget-s", type=float, default=3600, help="for all races (3600)")
    ap.add_argument("--mica", default="build/mica")
    ap.add_argument("--gpu-race", default="build/gpu_race")
    args = ap.parse_args()
    if args.list:
        known = programs(args.families)
        print("\n".join("%-26s %s" % (n, " ".join(known[n].words())) for n in known if re.search(args.only, n)))
        return 0
    asked = [bool(x) for x in (args.search, args.prepare, args.race, args.optimize)]
    if sum(asked) != 1 or ((args.race or args.optimize) and not args.out):
        ap.error("one of --search DIR, --prepare FILE, --race DIR with --out OUT, or --optimize with --out OUT")
    names = [n for n in programs(args.families) if re.search(args.only, n)]
    return search(names, args) if args.search else prepare(names, args) if args.prepare else race(names, args)


if __name__ == "__main__":
    sys.exit(main())
