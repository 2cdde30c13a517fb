#!/usr/bin/env python3
"""The tables of a survey and of the peers beside it, from what bench/survey.py and bench/peers.py left:

    python3 bench/tables.py --survey OUT/survey.csv --earlier PEERS.json --commit REV PEERS.json...

    python3 bench/tables.py --families SEED --commit REV PEERS.json...  # writes bench/families_SEED_h200.csv alone
    python3 bench/tables.py --score bench/peers_h200.csv...             # the last column of tables that are there, and its means
    python3 bench/tables.py --by-peer bench/peers_h200.csv              # a table of docs/others.md: by what is the best peer

writes bench/gpu_h200.csv (each workload's kernels, and the best peer of an earlier run) and bench/peers_h200.csv (each workload beside
its best peer in one process), and prints what a group of workloads came to. A later file's measurements replace an earlier one's.

The last column is the score of SOL-ExecBench, 1 / (1 + (t - bound) / (baseline - bound)): 1 at the bound, 0.5 as fast as the baseline. The bound is
`floor us`: the bytes of inputs and results at the rate of memory, or the operations at that of the tensor cores, whichever takes longer. The baseline
is the best peer. There is no score if the peer is no slower than the bound.
"""
import argparse
import csv
import itertools
import json
import math
import os
import re

from peers.programs import programs
from survey import sizes

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = (("attention of 512 queries, BERT", r"attn/.*(q512|bert)"), ("attention", "attn/"), ("lora", "lin/.*lora"),
          ("norm and product", "lin/(.*rmslin|ngpt)"), ("gated mlp, experts", "lin/gmlp|moe/"), ("adapter", "lin/adapter"),
          ("ntrans", "lin/.*ntrans")) + tuple((x, "misc/" + x) for x in (
              "gemm", "lstm", "layernorm", "softmax", "mlp20"))
SURVEY = "workload,us cold,low,high,us hot,relative error,how,climb,peer,peer us (another run),ratio,machine,commit".split(",")
PEERS = "workload,floor us,peer,peer us,mica us,ratio,mica us hot,mica least,mica p90,peer error,mica error,machine,commit,sol score".split(",")


def fastest(baselines):
    """Name and row of the fastest correct peer."""
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


def score(us, bound, baseline):
    """The score as text, or "" if there is none. A time below the bound counts as the bound."""
    us, bound, baseline = float(us), float(bound), float(baseline)
    return "%.3f" % (1 / (1 + max(us - bound, 0) / (baseline - bound))) if baseline > bound else ""


def read_table(path):
    """The comments at the head of a table, and its rows by column."""
    with open(path, newline="") as f:
        lines = list(f)
    comments = list(itertools.takewhile(lambda x: x.startswith("#"), lines))
    return comments, list(csv.DictReader(lines[len(comments):]))


def rescore(path):
    """Recomputes the column of an existing table."""
    comments, rows = read_table(path)
    for r in rows:
        r["sol score"] = score(r["mica us"], r["floor us"], r["peer us"])
    write(path, PEERS, ([r[k] for k in PEERS] for r in rows), comments)
    say_scores(path, [float(r["sol score"]) for r in rows if r["sol score"]], len(rows))


KINDS = (("torch.compile", "compile"), ("Triton kernels", "triton"), ("PyTorch, eager", "eager"),
         ("PyTorch's attention (cuDNN, Flash)", "sdpa|cudnn"), ("cuBLASLt", "cublas"), ("FlexAttention", "flex"))


def by_peer(path):
    """Lines of a table: workloads by the kind of their best peer, and the speedup of Mica over it."""
    rows = read_table(path)[1]
    groups = {name: [(float(r["ratio"]), r["workload"]) for r in rows if re.match(words, r["peer"])] for name, words in KINDS}
    assert sum(map(len, groups.values())) == len(rows), "a peer of no kind"
    for name, all in groups.items():
        low, where = min(all)
        yield "| %s | %d | %.2f | %.2f (`%s`) | %d |" % (name, len(all), geometric([r for r, _ in all]), low, where, sum(r < 1 for r, _ in all))


def say_scores(name, scores, n):
    print("%s: score %.3f in the mean of %d workloads with one of %d, least %.3f, %d below 0.5" % (
        name, sum(scores) / len(scores), len(scores), n, min(scores), sum(x < 0.5 for x in scores)))


def peer_rows(known, measured, machine, commit):
    for name in (n for n in known if n in measured):
        w, mica = measured[name], measured[name]["baselines"].get("mica")
        peer, row = fastest(w["baselines"])
        if mica and peer:
            times = ["%.2f" % x for x in (
                row["cold_us"], mica["cold_us"], row["cold_us"] / mica["cold_us"], mica["hot_us"], mica["cold_min_us"], mica["cold_p90_us"])]
            floor = "%.2f" % w["floor_us"]
            yield [name, floor, peer, *times, "%.1e" % row["rel_err"], "%.1e" % mica["rel_err"], machine, commit, score(times[1], floor, times[0])]


def write(path, head, rows, comments=()):
    with open(path + ".tmp", "w", newline="") as f:
        f.writelines(comments)
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
        print("%-32s %2d  mean %.2f  least %.2f (%s)  error over the peer's at most %.2f"
              % (g, len(all), mean, *min(all)[:2], max(x[2] for x in all)))


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def say_all(rows):
    """Summary of all workloads: the best peer over Mica, those that are slower, Mica over the bound where that is over 10 us."""
    slow = [r[0] for r in rows if float(r[5]) < 0.97]
    far = [float(r[4]) / float(r[1]) for r in rows if float(r[1]) > 10]
    print("%d workloads: best peer over Mica %.2f; %d slower than 0.97; %d with a bound over 10 us: %.2f times the bound" % (
        len(rows), geometric([float(r[5]) for r in rows]), len(slow), len(far), geometric(far)))
    print("slower: " + (" ".join(slow) or "none"))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("peers", nargs="*", metavar="PEERS.json")
    ap.add_argument("--by-peer", metavar="TABLE.csv")
    ap.add_argument("--score", nargs="+", metavar="TABLE.csv")
    ap.add_argument("--survey")
    ap.add_argument("--earlier", metavar="PEERS.json")
    ap.add_argument("--machine", default="NVIDIA H200")
    ap.add_argument("--commit")
    ap.add_argument("--families", type=int, metavar="SEED", help="the measured workloads are those of this seed")
    a = ap.parse_args()
    if a.by_peer:
        print("\n".join(by_peer(a.by_peer)))
        return
    if a.score:
        for path in a.score:
            rescore(path)
        return
    if not (a.peers and a.commit):
        ap.error("--commit and PEERS.json, or --score")
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
