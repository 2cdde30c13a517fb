#!/usr/bin/env python3
"""Races saved programs of one workload against each other, on the same inputs, in one process on one GPU. Needs torch.

    mica lower GRAPH --target sm_90a --knobs "..." --compile --out DIR/old
    mica lower GRAPH --target sm_90a --knobs "..." --compile --out DIR/new
    python3 bench/race_saved.py --csv FILE DIR...

DIR has one folder for each program, as `mica lower --compile --out` or `mica optimize --out` writes it. The name of the folder is the name of the
program. All programs of a DIR take the same inputs. A round runs each program once; every other round runs them in reverse order. A run is a CUDA graph of
20 calls. Cold runs write 128 MB before each call, and the time of these writes is subtracted. Hot runs do not. FILE gets a row for each program,
with median, least and most in us. A program is wrong if its outputs differ from those of the first program by 2e-2 of their norm. A wrong program is
not timed. The exit status is 1 if a program was wrong or failed.
"""
import argparse
import csv
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

CALLS, WRONG, SCRUB = 20, 2e-2, 128 << 20
COLUMNS = ["workload", "program", "cold us", "least", "most", "hot us", "relative difference", "machine"]


def begin():
    import torch
    import peers.env
    import peers.mica
    peers.env.torch = peers.mica.torch = torch
    return torch, peers.mica


def captured(torch, call):
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph


def timed(torch, graph):
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    graph.replay()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e3 / CALLS


def inputs_of(torch, mica, folder):
    torch.manual_seed(1)
    with open(os.path.join(folder, "program.json")) as f:
        doc = json.load(f)
    made = []
    for x in doc["inputs"]:
        t = torch.rand(x["shape"], device="cuda") * 2 - 1
        made.append((t * (1.0 if len(x["shape"]) < 2 else 0.5)).to(mica.DTYPES[x["dtype"]]()))
    return made


def opened(torch, mica, folder, inputs):
    """(call, outputs). The call keeps its memory alive."""
    saved = mica.Saved(folder)
    saved.check(inputs)
    outputs = [torch.zeros(x["shape"], dtype=mica.DTYPES[x["dtype"]](), device="cuda") for x in saved.doc["outputs"]]
    places = mica.Places(inputs, outputs, saved.work)

    def call():
        stream = torch.cuda.current_stream().cuda_stream
        for launch in saved.launches:
            launch.run(places, stream)

    return call, outputs


def race(torch, mica, folder, rounds, rows):
    names = sorted(n for n in os.listdir(folder) if os.path.exists(os.path.join(folder, n, "program.json")))
    if not names:
        sys.exit("%s: no folder in it has a program.json" % folder)
    workload, fine, first, live = os.path.basename(os.path.normpath(folder)), True, None, []
    inputs = inputs_of(torch, mica, os.path.join(folder, names[0]))
    scrub = torch.empty(SCRUB, dtype=torch.uint8, device="cuda")
    for name in names:
        try:
            call, outputs = opened(torch, mica, os.path.join(folder, name), inputs)
            call()
            torch.cuda.synchronize()
            flat = torch.cat([o.float().flatten() for o in outputs])
            first = flat.clone() if first is None else first
            off = ((flat - first).norm() / first.norm()).item()
            if not off < WRONG:
                print("%s/%s: WRONG, differs by %.3g" % (workload, name, off))
                fine = False
                continue
            live.append((name, off, captured(torch, lambda c=call: (scrub.fill_(1), c())), captured(torch, call), call))  # with its memory
        except (RuntimeError, OSError, ValueError, KeyError) as e:
            print("%s/%s: failed: %s" % (workload, name, str(e)[:200]))
            fine = False
    idle = captured(torch, lambda: scrub.fill_(1))
    cold, hot = ([[] for _ in live] for _ in range(2))
    for n in range(rounds):
        for i in (range(len(live)) if n % 2 == 0 else reversed(range(len(live)))):
            base = timed(torch, idle)
            cold[i].append(timed(torch, live[i][2]) - base)
            hot[i].append(timed(torch, live[i][3]))
    for (name, off, *_), c, h in zip(live, cold, hot):
        c, h = sorted(c[1:]), h[1:]  # the first round warms up
        rows.append([workload, name, "%.3f" % statistics.median(c), "%.3f" % c[0], "%.3f" % c[-1], "%.3f" % statistics.median(h), "%.1e" % off,
                     torch.cuda.get_device_name()])
        print("%-28s %-12s cold %9s us, hot %9s us" % (workload, name, rows[-1][2], rows[-1][5]), flush=True)
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--csv", required=True, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="of which the first warms up (9)")
    args = parser.parse_args()
    torch, mica = begin()
    fine, rows = True, []
    for folder in args.folders:
        fine &= race(torch, mica, folder, args.rounds, rows)
        with open(args.csv, "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([COLUMNS] + rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
