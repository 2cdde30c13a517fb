#!/usr/bin/env python3
"""The tables of a survey and of the peers beside it, from what bench/survey.py and bench/peers.py left:

    python3 bench/tables.py --survey OUT/survey.csv --earlier PEERS.json --commit REV PEERS.json...

    python3 bench/tables.py --families SEED --commit REV PEERS.json...  # writes bench/families_SEED_h200.csv alone

writes bench/gpu_h200.csv (each workload's kernels, and the best peer of an earlier run) and bench/peers_h200.csv (each workload beside
its best peer in one process), and prints what a group of workloads came to. A later file's measurements replace an earlier one's.
"""
import argparse
import csv
import json
import math
import os
import re

from peers.programs import programs
from survey import sizes

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = (("attention of 512 queries, BERT", r"attn/.*(q512|bert)"), ("attention", "attn/"), ("lora", "lin/.*lora"), ("norm and product", "lin/(.*rmslin|ngpt)"),
          ("gated mlp, experts", "lin/gmlp|moe/"), ("adapter", "lin/adapter"), ("ntrans", "lin/.*ntrans")) + tuple((x, "misc/" + x) for x in (
              "gemm", "lstm", "layernorm", "softmax", "mlp20"))
SURVEY = "workload,us cold,low,high,us hot,relative error,how,climb,peer,peer us (another run),ratio,machine,commit".split(",")
PEERS = "workload,floor us,peer,peer us,mica us,ratio,mica us hot,mica least,mica p90,peer error,mica error,machine,commit".split(",")


def fastest(baselines):
    """Of the peers that were right: its name and row."""
    right = {k: v for k, v in baselines.items() if k != "mica" and v.get("cold_us") and v.get("ok", True)}
    return min(right.items(), key=lambda kv: kv[1]["cold_us"], default=(None, None))


def read_peers(paths):
    out = {}
    for path in paths:
        with open(path) as f:
            for name, w in json.load(f)["workloads"].items():
                out.setdefault(name, dict(w, baselines={}))["baselines"].update({k: v for k, v in w["baselines"].items() if v.get("cold_us")})
    return out


def survey_rows(path, earlier, machine, commit):
    of = {p.file + sizes(p): name for name, p in programs().items()}
    with open(path) as f:
        raced = {of[r[0]]: r for r in csv.reader(f)}  # the last race of each
    for name in (n for n in programs() if n in raced):
        _, _, _, us, low, high, hot, error, _, how, climb = raced[name]
        peer, row = fastest(earlier[name]["baselines"])
        yield [name, us, low, high, hot, error, how, climb, peer, "%.2f" % row["cold_us"], "%.2f" % (row["cold_us"] / float(us)), machine, commit]


def peer_rows(known, measured, machine, commit):
    for name in (n for n in known if n in measured):
        w, mica = measured[name], measured[name]["baselines"].get("mica")
        peer, row = fastest(w["baselines"])
        if mica and peer:
            yield [name, "%.2f" % w["floor_us"], peer] + ["%.2f" % x for x in (
                row["cold_us"], mica["cold_us"], row["cold_us"] / mica["cold_us"], mica["hot_us"], mica["cold_min_us"], mica["cold_p90_us"])] + [
                    "%.1e" % row["rel_err"], "%.1e" % mica["rel_err"], machine, commit]


def write(path, head, rows):
    with open(path + ".tmp", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(head)
        w.writerows(rows)
    os.replace(path + ".tmp", path)


def say(rows):
    groups = {}
    for r in rows:
        group = r[0].split("/")[1] if r[0].startswith("fam/") else next(g for g, words in GROUPS if re.match(words, r[0]))
        groups.setdefault(group, []).append((float(r[5]), r[0], float(r[10]) / max(float(r[9]), 1e-9)))  # a maximum is exact
    for g, all in groups.items():
        mean = math.exp(sum(math.log(x[0]) for x in all) / len(all))
        print("%-32s %2d  mean %.2f  least %.2f (%s)  error over the peer's at most %.2f" % (g, len(all), mean, *min(all)[:2], max(x[2] for x in all)))


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def say_all(rows):
    """Of all workloads: the best peer over Mica, those that are slower, Mica over the bound where that is over 10 us."""
    slow = [r[0] for r in rows if float(r[5]) < 0.97]
    far = [float(r[4]) / float(r[1]) for r in rows if float(r[1]) > 10]
    print("%d workloads: best peer over Mica %.2f; %d slower than 0.97; %d with a bound over 10 us: %.2f times the bound" % (
        len(rows), geometric([float(r[5]) for r in rows]), len(slow), len(far), geometric(far)))
    print("slower: " + (" ".join(slow) or "none"))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("peers", nargs="+", metavar="PEERS.json")
    ap.add_argument("--survey")
    ap.add_argument("--earlier", metavar="PEERS.json")
    ap.add_argument("--machine", default="NVIDIA H200")
    ap.add_argument("--commit", required=True)
    ap.add_argument("--families", type=int, metavar="SEED", help="the measured workloads are those of this seed")
    a = ap.parse_args()
    if a.families is None and not (a.survey and a.earlier):
        ap.error("--survey and --earlier, or --families")
    if a.families is not None:
        rows = list(peer_rows(programs(a.families), read_peers(a.peers), a.machine, a.commit))
        write(os.path.join(HERE, "families_%d_h200.csv" % a.families), PEERS, rows)
        say(rows)
        say_all(rows)
        return
    write(os.path.join(HERE, "gpu_h200.csv"), SURVEY, survey_rows(a.survey, read_peers([a.earlier]), a.machine, a.commit))
    rows = list(peer_rows(programs(), read_peers(a.peers), a.machine, a.commit))
    write(os.path.join(HERE, "peers_h200.csv"), PEERS, rows)
    say(rows)


if __name__ == "__main__":
    main()
