"""Times of Mica's programs by the cost model, against the lower bounds of the workloads: `mica optimize` on a machine without a GPU."""
import csv
import json
import os
import subprocess
import tempfile
import time

HEAD = ["workload", "sizes", "bound us", "modelled us", "ratio", "kernels", "op by op us", "search s", "note"]
GRACE = 30  # seconds that a job may take after its deadline


def optimize(binary, program, limit):
    """(report, note)"""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "report.json")
        words = [binary, "optimize"] + program.words() + ["--target", "sm_90a", "--no-db", "--threads", "1", "--time", "%d" % limit]
        words += ["--quiet", "--json", path]
        try:
            r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=limit + GRACE)
        except subprocess.TimeoutExpired:
            return None, "no end in %d s" % (limit + GRACE)
        if not os.path.exists(path):
            return None, "exit status %d: %s" % (r.returncode, r.stdout.decode("utf-8", "replace").strip().replace("\n", " ")[-120:])
        with open(path) as f:
            return json.load(f), ""


def row(w, report, note):
    if report is None:
        return [w.name, w.shapes, "", "", "", "", "", "", note]
    best, base, m = report["best"], report["baseline"], report["machine"]
    bound = 1e6 * max(w.nbytes / m["bandwidth"], w.flops / m["flops"])
    notes = ["op by op"] if best.get("op_by_op") else []
    notes += ["stopped by the limit"] if report.get("left") else []
    us, of_base = best.get("model_us"), base.get("model_us")
    show = [("%.3f" % x) if x is not None else "" for x in (bound, us, us / bound if us else None)]
    return [w.name, w.shapes] + show + [best["kernels"], "%.3f" % of_base if of_base else "", "%.1f" % report["search"]["seconds"], "; ".join(notes)]


def model(workloads, known, binary, out, limit, budget):
    """Adds rows to the CSV file `out`; keeps those that it has. One workload of each family first, then the next of each."""
    done, end = set(), time.time() + budget
    if os.path.exists(out):
        with open(out, newline="") as f:
            done = {r[0] for r in csv.reader(f) if r}
    turn = {w.name: int(w.name.rsplit("/", 1)[-1]) if w.name.rsplit("/", 1)[-1].isdigit() else 0 for w in workloads}
    with open(out, "a", newline="") as f:
        table = csv.writer(f, lineterminator="\n")
        if not done:
            table.writerow(HEAD)
        for w in sorted(workloads, key=lambda w: turn[w.name]):
            if w.name in done or w.name not in known:
                continue
            if time.time() > end:
                return 1
            line = row(w, *optimize(binary, known[w.name], limit))
            table.writerow(line)
            f.flush()
            print("%-28s bound %10s modelled %10s kernels %2s search %6s  %s" % (line[0], line[2], line[3], line[5], line[7], line[8]), flush=True)
    return 0
