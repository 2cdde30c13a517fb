#!/usr/bin/env python3
"""Nodes of the models of dynamo.py that have no place in a program of Mica, with the reasons. Nothing is searched, and nothing is timed.

    dynamo_nodes.py [--suites transformers,timm] [--only REGEX]

Each line has the number of models, the number of nodes, the operator and the reason. Then come the operators alone, and the reasons. Views that cost
nothing, masks that are gone, and what is made of weights alone are not counted. The last lines have the nodes of all, and models that failed.
"""
import argparse
import collections
import re
import signal
import sys

import torch

import mica.torch
from dynamo import MAKE, SEED, SUITES
from kernelbench_nodes import FREE, only_reasons
from kernelbench_task import late
from mica.torch import compiler, masks

NOT_LEFT = (*FREE, masks.GONE, masks.SHARED)
SECONDS = 120  # of processor time, for a model
SIZES = argparse.Namespace(sizes="small", batch=2, tokens=64)
NUMBER = re.compile(r"-?\d[\d.e+-]*")


def nodes_of(suite, name):
    """Nodes of the graphs of a model, and (operator, why it is left) of each that is left."""
    torch._dynamo.reset()
    torch.manual_seed(SEED)
    model, inputs, _ = MAKE[suite](name, SIZES)
    graphs = []
    compiler._listeners.lists = [graphs]
    options = {"min_ops": 1, "min_work": 0, "target": "cpu", "rest": "eager", "faults": "raise", "summary": False}
    with torch.no_grad():
        torch.compile(model.eval(), backend=mica.torch.backend, options=options)(**inputs)
    nodes = [n for g in graphs for n in g.nodes]
    return len(nodes), [(n.operator, NUMBER.sub("N", n.why)) for n in nodes if n.why and not n.why.startswith(NOT_LEFT)]


def shown(title, counts, models):
    print(f"\n{title}")
    for key in sorted(counts, key=lambda k: (-counts[k], k)):
        print(f"{len(models[key]):4} models {counts[key]:5} nodes  {key}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--suites", type=lambda s: s.split(","), default=list(SUITES)), p.add_argument("--only", default="")
    a = p.parse_args()
    compiler.fuse.fuse = only_reasons
    signal.signal(signal.SIGPROF, late)
    tables = {title: (collections.Counter(), collections.defaultdict(set)) for title in ("operator: reason", "operator", "reason")}
    total, failed = 0, []
    for suite in a.suites:
        for name in SUITES[suite]:
            if not re.search(a.only, name):
                continue
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                nodes, left = nodes_of(suite, name)
            except Exception as error:
                nodes, left = 0, []
                failed.append(f"{name}: {type(error).__name__}: {error}"[:200])
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(f"{name}: {len(left)} of {nodes} nodes left", file=sys.stderr, flush=True)
            total += nodes
            for operator, why in left:
                for title, key in (("operator: reason", f"{operator}: {why}"), ("operator", operator), ("reason", why)):
                    tables[title][0][key] += 1
                    tables[title][1][key].add(name)
    for title, (counts, models) in tables.items():
        shown(title, counts, models)
    print(f"\n{total} nodes, {sum(tables['operator'][0].values())} of them left", *failed, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
