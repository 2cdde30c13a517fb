"""Seconds of `mica optimize` by stage, from traces: MICA_TRACE=FILE.json mica optimize ...

    python3 bench/race_share.py NAME=FILE.json ...

prints a CSV row for each trace: seconds of the job, of the search, of waiting for compilers, of references, of checks, of timing and of proofs,
and the part of the job in which the GPU ran a candidate or a reference (`busy`). A stage that another one contains counts once."""
import json
import sys

COLUMNS = [("search", ["search"]), ("compilers", ["compilers", "code"]), ("reference", ["reference", "reference on the GPU"]),
           ("check", ["check", "special inputs", "other inputs"]), ("time", ["rounds", "last round", "final"]),
           ("proof", ["verify", "interpret", "nvrtc"])]
BUSY = ["reference on the GPU", "check", "rounds", "last round", "final", "other inputs", "special inputs"]


def events(path):
    with open(path) as f:
        return [(e["name"], e.get("cat", ""), e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["tid"])
                for e in json.load(f)["traceEvents"] if e["ph"] == "X"]


def covered(spans):
    """Seconds of the union of the intervals."""
    total, end = 0.0, float("-inf")
    for a, b in sorted(spans):
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total


def row(name, path):
    all_events = events(path)
    job = max(e[3] for e in all_events) - min(e[2] for e in all_events)
    cells = [covered([e[2:4] for e in all_events if e[0] in names]) for _, names in COLUMNS]
    busy = covered([e[2:4] for e in all_events if e[1] == "stage" and e[0] in BUSY])
    return ",".join([name, "%.1f" % job] + ["%.2f" % c for c in cells] + ["%.2f" % (busy / job)])


def main():
    print(",".join(["program", "job"] + [c for c, _ in COLUMNS] + ["busy"]))
    for word in sys.argv[1:]:
        print(row(*word.split("=", 1)), flush=True)


if __name__ == "__main__":
    main()
