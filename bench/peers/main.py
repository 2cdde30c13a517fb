"""Command line."""
import argparse
import gc
import json
import os
import re
import sys

from .child import Child
from .env import ROLE, TMP, Sizes, torch
from .agree import agree
from .drawn import define
from .every import define_workloads
from .make import make
from .mica import add_mica
from .model import model
from .programs import programs
from .supervise import supervise
from .table import full_table, list_table, mica_table, summarize, table
from .workload import WORKLOADS


def keep_best(earlier, most):
    """For each workload: peers that were fastest in an earlier run, cold; all peers if the workload has no earlier run."""
    with open(earlier) as f:
        past = json.load(f)["workloads"]
    for w in WORKLOADS:
        seen = {n: r["cold_us"] for n, r in past.get(w.name, {}).get("baselines", {}).items() if n != "mica" and "cold_us" in r}
        best = sorted(seen, key=seen.get)[:most]
        if best:
            w.baselines = [b for b in w.baselines if b.name in best]


def main(about):
    ap = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--dtype", choices=["fp16", "bf16", "fp32"], default="fp16")
    ap.add_argument("--bf16", action="store_true", help="same as --dtype bf16")
    ap.add_argument("--only", default="", help="regex on workload names")
    ap.add_argument("--skip", default="", help="regex on workload names to leave out")
    ap.add_argument("--baselines", default="", help="regex on baseline names")
    ap.add_argument("--earlier", default="", metavar="JSON", help="an earlier run: only the --best fastest peers of it (and Mica) are measured again")
    ap.add_argument("--best", type=int, default=2, metavar="N", help="with --earlier (2)")
    ap.add_argument("--families", type=int, metavar="SEED", help="the workloads that this seed draws from families, instead of the fixed list")
    ap.add_argument("--agree", action="store_true",
                    help="with --families, on the CPU with tiny shapes: Mica's program and torch's function compute the same in float64")
    ap.add_argument("--max-prio", type=int, default=9,
                    help="0 eager+SDPA+cuBLAS, 1 Triton, 2 torch.compile and flex, 3 and 4 more compiled forms")
    ap.add_argument("--budget-s", type=float, default=515.0,
                    help="seconds from the start; the command ends at most about 13 s later")
    ap.add_argument("--autotune-limit-s", type=float, default=20.0,
                    help="past this, the family's next members are compiled in default mode")
    ap.add_argument("--tune-s", type=float, default=12.0, help="time to tune one Triton baseline")
    ap.add_argument("--reps", type=int, default=20, help="graph replays per number (at least 20)")
    ap.add_argument("--target-ms", type=float, default=1.5, help="length of one replay")
    ap.add_argument("--threads", type=int, default=16)
    ap.add_argument("--restarts", type=int, default=6)
    ap.add_argument("--tag", default="")
    ap.add_argument("--out", default="")
    ap.add_argument("--resume", action="store_true", help="keep what the JSON already holds")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--merge", nargs="+", metavar="JSON", help="print one table of several JSON files")
    ap.add_argument("--full", action="store_true", help="with --merge: every baseline")
    ap.add_argument("--mica", default="", metavar="DIR", help="folders that `mica optimize --out` saved, one a workload (bench/mica_peers.sh)")
    ap.add_argument("--make", default="", metavar="DIR", help="no timing here: `mica optimize` each workload into a folder of DIR; no torch")
    ap.add_argument("--model", default="", metavar="CSV",
                    help="no timing here: what the cost model says of Mica's programs, added to a table; no torch")
    ap.add_argument("--mica-binary", default="build/mica", help="for --make, --model and --agree")
    ap.add_argument("--limit-s", type=float, default=300.0, help="for --make and --model: seconds for one program")
    ap.add_argument("--dry-run", action="store_true", help="CPU, tiny shapes: every runnable baseline against the reference")
    args = ap.parse_args()
    if args.bf16:
        args.dtype = "bf16"
    if not args.out:
        base = os.environ.get("OUT", os.path.join(TMP, "peers_out"))
        nm = "peers" + ("" if args.dtype == "fp16" else "_" + args.dtype) + ("_" + args.tag if args.tag else "")
        args.out = os.path.join(base, nm + ".json")

    if args.merge:
        doc = {"meta": {}, "workloads": {}}
        for p in args.merge:
            with open(p) as f:
                d = json.load(f)
            doc["meta"] = {**d["meta"], **{k: v for k, v in doc["meta"].items() if k != "finished"}}
            for w, v in d["workloads"].items():
                if w not in doc["workloads"]:
                    doc["workloads"][w] = v
                else:
                    doc["workloads"][w]["baselines"].update(v["baselines"])
                    summarize(doc["workloads"][w])
        print(table(doc, 1 << 30))
        print(mica_table(doc))
        if args.full:
            print(full_table(doc))
        return 0
    if (args.dry_run or args.agree) and ROLE != "dry":
        os.environ["PEERS_ROLE"] = "dry"
        os.execv(sys.executable, [sys.executable, os.path.abspath(sys.argv[0])] + sys.argv[1:])
    Sizes.tiny = args.dry_run or args.agree
    without = {}
    if args.families is None:
        define_workloads()
    else:
        without = define(args.families)
    if args.earlier:
        keep_best(args.earlier, args.best)
    if args.mica:
        add_mica(WORKLOADS, args.mica, programs(args.families))
    todo = [w for w in WORKLOADS if re.search(args.only, w.name) and not (args.skip and re.search(args.skip, w.name))]
    if args.list:
        WORKLOADS[:] = todo
        print(list_table(without))
        return 0
    if args.agree:
        return agree(args.families, [w.name for w in todo], args.mica_binary)
    if args.model:
        return model(todo, programs(args.families), args.mica_binary, args.model, args.limit_s, args.budget_s)
    if args.make:
        return make([w.name for w in todo], programs(args.families), args.mica_binary, args.make, args.dtype, args.limit_s, args.budget_s)
    if ROLE == "":
        argv = [a for a in sys.argv[1:] if a != "--resume"]
        return supervise(args, argv)
    if ROLE == "dry":
        os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
        if os.path.exists(args.out):
            os.remove(args.out)
    child = Child(args)
    if child.cuda:
        torch.set_grad_enabled(False)
        torch.cuda.set_stream(torch.cuda.Stream())
        gc.disable()
        child.beat("", "start", 90)
    elif ROLE == "child":
        print("no CUDA device", flush=True)
        return 3
    child.calibrate()
    child.run(todo)
    if ROLE == "dry":
        print(full_table(child.doc))
        return 0
    sys.stdout.flush()
    os._exit(0)
