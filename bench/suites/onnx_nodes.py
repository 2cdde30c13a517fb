#!/usr/bin/env python3
"""The node tests of the package `onnx`, the definition of each operator by examples, by `mica run`.

    onnx_nodes.py MICA FOLDER [--engine cpu] [--only TEXT] [--refused] [--operators] [--csv FILE] [--jobs N]

A test passes, is refused (`mica run` says that it cannot, and why), or is wrong: it was run and gave something else. It crashed if a run ended
by a signal or in any other way. FOLDER holds models, inputs and results. --refused prints the tests of each reason, --operators the table
by operator. --csv writes a row a test; rows that FILE has of this build are not run again, so that a run that was ended goes on.
Exit status 0: no test is wrong or crashed; 1: some are. The tests come with the package: `pip install onnx numpy`.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import platform
import re
import subprocess
import sys
import time
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test import loader

HALF = {"bfloat16": 2 ** -6, "float16": 2 ** -9}  # two units in the last place; of bfloat16 the package's own runner allows them too
NOISE = 2 ** -22  # of the largest element: answers that are sums were made in float32
SMALL = {"float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
         "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1"}  # the types' names in numpy and in Mica
WIDER = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}  # what a file holds of types that numpy lacks; else float32
USER = 2  # the exit status of what is refused
COLUMNS = ["test", "operator", "fate", "programs", "nodes", "seconds", "why", "engine", "onnx", "mica", "commit", "machine"]


def array(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x, order="C")


def save(folder, model, inputs):
    """The model and its inputs as files; the words of the command that name them. Sequences and maps cannot be given, and are not read."""
    words = []
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    for value, x in zip(model.graph.input, inputs):
        file = os.path.join(folder, f"in_{len(words)}.npy")
        if not value.type.HasField("tensor_type"):
            continue
        x = array(x)
        np.save(file, x if x.dtype.isbuiltin == 1 else x.astype(WIDER.get(x.dtype.name, np.float32)))
        words.append(f"{value.name}={file}")
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                words += ["--set", f"{dim.dim_param or f'{value.name}.{k}'}={x.shape[k]}"]
    return words


def difference(case, wants, folder, said):
    """The fault of the outputs, or None."""
    for want, got in zip(wants, said["outputs"], strict=True):
        want = array(want)
        if got["type"] != SMALL.get(want.dtype.name, want.dtype.name):
            return f"{got['name']}: of type {got['type']}, not {want.dtype.name}"
        x = np.load(os.path.join(folder, got["file"]))
        if x.shape != want.shape:
            return f"{got['name']}: shape {x.shape}, not {want.shape}"
        rtol, atol = max(case.rtol, HALF.get(want.dtype.name, 0)), case.atol
        if want.dtype == np.float32:
            atol = max(atol, NOISE * float(np.max(np.abs(want), where=np.isfinite(want), initial=0)))
        want = want.astype(np.int64 if want.dtype.kind in "iub" or want.dtype.name in WIDER else np.float64)
        if not np.allclose(x, want, rtol=rtol, atol=atol, equal_nan=True):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return f"{got['name']}: off by {np.nanmax(np.abs(x - want)):.3g}, {np.isnan(x).sum()} NaN where {np.isnan(want).sum()} are due"
    return None


def attempt(mica, case, folder, engine, inputs, wants):
    """(fate, why, how many programs ran, how many nodes ran by simple functions)"""
    words, out = save(folder, case.model, inputs), os.path.join(folder, "out")
    model = os.path.join(folder, "model.onnx")
    done = subprocess.run([mica, "run", model, *words, "--engine", engine, "--out", out, "--json", out + ".json", "--quiet"],
                          capture_output=True, text=True)
    if done.returncode == USER:
        return "refused", done.stderr.strip(), 0, 0
    if done.returncode:
        return "crashed", f"exit status {done.returncode}: {done.stderr.strip()[-300:]}", 0, 0
    with open(out + ".json") as f:
        said = json.load(f)
    what = difference(case, wants, out, said)
    return "wrong" if what else "passed", what or "", said["programs"], said["nodes"]


def run(mica, case, folder, engine):
    os.makedirs(folder, exist_ok=True)
    fate = None
    for inputs, wants in case.data_sets:
        fate = attempt(mica, case, folder, engine, inputs, wants)
        if fate[0] != "passed":
            return fate
    return fate


def reason(text):
    """The message without the names that differ from test to test."""
    line = text.splitlines()[0] if text else ""
    line = re.sub(r"^.*?error: (?:node (?:number )?\S+ (\(\S+\)) cannot be run: )?", r"\1 ", line)
    return re.sub(r" \[[a-z-]+\]$", "", re.sub(r"`[^`]*`|\b\d+\b", "..", line)).strip()


def tests(only):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    return [c for c in loader.load_model_tests(kind="node") if only in c.name]


def operators(cases):
    """By test: its operator; of one that writes an operator out by others, that operator."""
    alone = {c.name: c.model.graph.node[0].op_type for c in cases if len(c.model.graph.node) == 1}
    return {c.name: alone.get(c.name) or alone.get(re.sub(r"_expanded.*", "", c.name)) or c.model.graph.node[-1].op_type for c in cases}


def facts(mica, engine):
    """Columns that are the same in all rows."""
    version = subprocess.run([mica, "version"], capture_output=True, text=True).stdout.split("\n")[0].removeprefix("mica ")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    machine = f"{cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} processors"
    return {"engine": engine, "onnx": onnx.__version__, "mica": version, "commit": commit, "machine": machine}


def rows_of(path, same):
    """Rows of an earlier run of the same build."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, newline="") as f:
        return {r["test"]: r for r in csv.DictReader(f) if all(r.get(k) == v for k, v in same.items())}


def table(rows):
    by = collections.defaultdict(collections.Counter)
    for r in rows:
        by[r["operator"]][r["fate"]] += 1
        by[r["operator"]]["kernels"] += r["fate"] == "passed" and int(r["programs"]) > 0
    print(f"{'operator':28} {'passed':>7} {'kernels':>8} {'refused':>8} {'wrong':>6} {'crashed':>8}")
    for name, c in sorted(by.items()):
        print(f"{name:28} {c['passed']:7} {c['kernels']:8} {c['refused']:8} {c['wrong']:6} {c['crashed']:8}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mica"), p.add_argument("folder")
    p.add_argument("--engine", default="f64"), p.add_argument("--only", default=""), p.add_argument("--csv")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--refused", action="store_true"), p.add_argument("--operators", action="store_true")
    a = p.parse_args()
    cases, same = tests(a.only), facts(a.mica, a.engine)
    names, done = operators(cases), rows_of(a.csv, same)

    def one(case):
        if case.name in done:
            return done[case.name]
        start = time.monotonic()
        fate, why, programs, nodes = run(a.mica, case, os.path.join(a.folder, case.name), a.engine)
        return {"test": case.name, "operator": names[case.name], "fate": fate, "programs": programs, "nodes": nodes,
                "seconds": round(time.monotonic() - start, 2), "why": reason(why) if fate == "refused" else why.replace("\n", " "), **same}

    rows = []
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool, open(a.csv or os.devnull, "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader()
        for row in pool.map(one, cases):
            rows.append(row), out.writerow(row), f.flush()
    why = collections.defaultdict(list)
    for r in rows:
        if r["fate"] in ("wrong", "crashed"):
            print(f"{r['fate'].upper()}  {r['test']}  {r['why']}")
        if r["fate"] == "refused":
            why[r["why"]].append(r["test"])
    for text, listed in sorted(why.items(), key=lambda x: -len(x[1])):
        print(f"refused  {len(listed):4}  {text}")
        for name in listed if a.refused else []:
            print(f"               {name}")
    if a.operators:
        table(rows)
    counts = collections.Counter(r["fate"] for r in rows)
    kernels = sum(r["fate"] == "passed" and int(r["programs"]) > 0 for r in rows)
    print(f"{len(rows)} node tests: {counts['passed']} passed ({kernels} of them with kernels), {counts['refused']} refused, "
          f"{counts['crashed']} crashed, "
          f"{counts['wrong']} silently wrong")
    return counts["wrong"] + counts["crashed"] > 0


if __name__ == "__main__":
    sys.exit(main())
