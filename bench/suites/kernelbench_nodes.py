#!/usr/bin/env python3
"""Nodes of KernelBench's tasks that have no place in a program of Mica, with the reasons. Nothing is searched, and tensors have no memory.

    kernelbench_nodes.py CHECKOUT [--levels 1,2,3] [--only REGEX]

Each line has the number of tasks, the number of nodes, the operator, the reason, and tasks. Views that cost nothing and what is made of weights alone
are not counted. The last lines name tasks that cannot run without memory, such as those that read values.
"""
import argparse
import collections
import glob
import os
import re
import signal
import sys

import torch

import mica.torch
from kernelbench_task import late, load
from mica.torch import compiler, fuse, partition

SECONDS = 60  # of a task
FREE = ("a view at the end", "made once")
SHOWN = 8  # tasks of a line


def only_reasons(gm, weights, kind, target, options, report, *_):
    """In place of fuse.fuse: no program is made."""
    static = {n for n in gm.graph.nodes if n.op == "placeholder" and n.name in weights.static}
    kinds = {n.meta["val"].device.type for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)}
    kind = "meta" if "meta" in kinds else kind
    parts, prepared = partition.partition(gm.graph, static, kind, options.min_ops, options.min_work, options.max_ops[0])
    fuse._say_reasons(parts, prepared, report)
    return []


def nodes_of(path):
    """(operator, why it is left) of each node that is left."""
    torch._dynamo.reset()
    task, graphs = load(path, 1), []
    with torch.device("meta"), torch.no_grad():
        model, inputs = task["Model"](*task["get_init_inputs"]()), task["get_inputs"]()
        compiler._listeners.lists = [graphs]
        options = {"min_ops": 1, "max_ops": 256, "target": "sm_90a", "faults": "raise", "summary": False}
        torch.compile(model, backend=mica.torch.backend, options=options)(*[x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs])
    return [(n.operator, n.why) for g in graphs for n in g.nodes if n.why and not n.why.startswith(FREE)]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("checkout"), p.add_argument("--levels", default="1,2,3"), p.add_argument("--only", default="")
    a = p.parse_args()
    compiler.fuse.fuse, compiler._as_it_is = only_reasons, lambda gm, *_: gm.forward
    signal.signal(signal.SIGALRM, late)
    nodes, tasks, failed = collections.Counter(), collections.defaultdict(list), []
    for level in a.levels.split(","):
        for path in sorted(glob.glob(os.path.join(a.checkout, "KernelBench", f"level{level}", "*.py"))):
            name = f"{level}/{os.path.basename(path)[:-3]}"
            if not re.search(a.only, name):
                continue
            signal.alarm(SECONDS)
            try:
                left = collections.Counter(nodes_of(path))
            except Exception as error:
                left = {}
                failed.append(f"{name}: {type(error).__name__}")
            signal.alarm(0)
            nodes.update(left)
            for key in left:
                tasks[key].append(name.split("_")[0])
    for key in sorted(nodes, key=lambda k: (-len(tasks[k]), k)):
        more = f" and {len(tasks[key]) - SHOWN} more" if len(tasks[key]) > SHOWN else ""
        print(f"{len(tasks[key]):4} tasks {nodes[key]:5} nodes  {key[0]}: {key[1]} ({', '.join(tasks[key][:SHOWN])}{more})")
    print("\n".join(["", *failed]))


if __name__ == "__main__":
    sys.exit(main())
