"""Mica's programs for the workloads: `mica optimize` one after the other, because each measures on the GPU."""
import json
import os
import signal
import subprocess
import sys
import time

from .programs import folder

GRACE = 60  # seconds between asking a run to stop, which then keeps its best, and ending it
LINE = "%-25s %8s %10s %10s %6s %8s  %s"


def command(binary, program, where, dtype):
    words = [binary, "optimize"] + program.words() + ["--target", "sm_90a", "--out", where]
    return words + (["--dtype", dtype] if dtype != "fp16" else [])


def optimize(words, log, limit):
    """Runs it; why it was ended, or ''."""
    with open(log, "wb") as out:
        p = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        why = ""
        for ask, seconds in ((signal.SIGINT, limit), (signal.SIGKILL, GRACE)):
            try:
                p.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                p.send_signal(ask)
                why = "over %.0f s, %s" % (limit, "stopped" if ask == signal.SIGINT else "ended")
            except BaseException:
                p.kill()
                raise
        code = p.wait()
    return why or ("" if code == 0 else "exit status %d" % code)


def last_line(log):
    with open(log, "rb") as f:
        lines = f.read().decode("utf-8", "replace").strip().splitlines()
    return next((x.strip() for x in lines if x.startswith("mica: error")), lines[-1].strip() if lines else "")


def outcome(where):
    """Reads report.json and program.json: times, how many launches, what is to be known."""
    with open(os.path.join(where, "report.json")) as f:
        report = json.load(f)
    with open(os.path.join(where, "program.json")) as f:
        doc = json.load(f)
    best, base = report["best"], report["baseline"]
    measured = best.get("us") is not None
    times = [x.get("us" if measured else "model_us") for x in (best, base)]
    notes = [] if measured else ["by the model"]
    if best.get("op_by_op"):
        notes.append("op by op")
    if doc.get("missing"):
        notes.append("no machine code: " + doc["missing"].splitlines()[0])
    products = sum("product" in x for x in doc["launches"])
    if products:
        notes.append("%d by cuBLASLt" % products)
    return times, len(doc["launches"]), ", ".join(notes)


def number(x):
    return "-" if x is None else "%.2f" % x


def make(names, known, binary, outdir, dtype, limit, budget):
    """Folders in outdir, one a workload; prints a line each. 1 where one has no program."""
    end, failed, left = time.time() + budget, 0, []
    os.makedirs(outdir, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the run under way, too
    print(LINE % ("workload", "seconds", "mica us", "op-by-op", "ratio", "launches", ""), flush=True)
    for name in names:
        if name not in known:
            continue
        where = os.path.join(outdir, folder(name))
        seconds = min(limit, end - time.time() - GRACE)
        if seconds < 1:
            left.append(name)
            continue
        for stale in ("program.json", "report.json"):
            if os.path.exists(os.path.join(where, stale)):
                os.remove(os.path.join(where, stale))
        start = time.time()
        why = optimize(command(binary, known[name], where, dtype), where + ".log", seconds)
        took = "%.1f" % (time.time() - start)
        try:
            (mica, base), launches, notes = outcome(where)
        except (OSError, ValueError, KeyError):
            failed += 1
            print(LINE % (name, took, "-", "-", "-", "-", ": ".join(x for x in (why, last_line(where + ".log")) if x)), flush=True)
            continue
        ratio = "%.2f" % (base / mica) if base and mica else "-"
        print(LINE % (name, took, number(mica), number(base), ratio, launches, ", ".join(x for x in (why, notes) if x)), flush=True)
    if left:
        print("no time for: " + " ".join(left))
    return 1 if failed or left else 0
