"""Runs the node tests of the package `onnx` by `mica run`: node_tests.py MICA FOLDER [--engine cpu] [--only TEXT] [--refused].

A test passes, is refused (`mica run` says that it cannot, and why), or is wrong: it was run and gave something else, or a run broke.
The table counts them by operator; with --refused the reasons follow, each with its tests. Exit status 0: none is wrong; 1: some are.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test import loader

HALF = {"bfloat16": 2 ** -6, "float16": 2 ** -9}  # two units in the last place; of bfloat16 the package's own runner allows them too
TYPES = {"float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
         "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1"}  # names of ml_dtypes
NUMPY = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}
USER = 2                      # the exit status of what is refused


def array(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x, order="C")


def save(folder, model, inputs):
    """The model and its inputs as files; the words of the command that name them. Sequences and maps cannot be given, and are not read."""
    words = []
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    for value, x in inputs:
        file = os.path.join(folder, f"in_{len(words)}.npy")
        if value.type.HasField("tensor_type"):
            x = array(x)
            np.save(file, x.astype(NUMPY.get(x.dtype.name, np.float32)) if x.dtype.isbuiltin != 1 else x)
            words.append(f"{value.name}={file}")
    return words


def constant_whole(case, inputs):
    """The model with its inputs of integers as constants: axes, shapes and lengths are known then."""
    model = ModelProto()
    model.CopyFrom(case.model)
    del model.graph.input[:]
    rest = []
    for value, x in inputs:
        if value.type.HasField("tensor_type") and array(x).dtype.kind in "iub":
            model.graph.initializer.append(numpy_helper.from_array(array(x), value.name))
        else:
            model.graph.input.append(value), rest.append((value, x))
    return model, rest


def difference(case, wants, folder, said):
    """What is wrong with the outputs, or None."""
    for want, got in zip(wants, said["outputs"], strict=True):
        want = array(want)
        if got["type"] != TYPES.get(want.dtype.name, want.dtype.name):
            return f"{got['name']}: of type {got['type']}, not {want.dtype.name}"
        x = np.load(os.path.join(folder, got["file"]))
        if x.shape != want.shape:
            return f"{got['name']}: shape {x.shape}, not {want.shape}"
        rtol, atol = max(case.rtol, HALF.get(want.dtype.name, 0)), case.atol
        if want.dtype == np.float32 and want.size:  # answers hold noise of sums of float32
            atol = max(atol, 2 ** -22 * float(np.max(np.abs(want), where=np.isfinite(want), initial=0)))
        want = want.astype(np.int64 if want.dtype.kind in "iub" or want.dtype.name in NUMPY else np.float64)
        if not np.allclose(x, want, rtol=rtol, atol=atol, equal_nan=True):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return f"{got['name']}: off by {np.nanmax(np.abs(x - want)):.3g}, {np.isnan(x).sum()} NaN where {np.isnan(want).sum()} are due"
    return None


def attempt(mica, case, folder, engine, model, inputs, wants):
    words, out = save(folder, model, inputs), os.path.join(folder, "out")
    done = subprocess.run([mica, "run", os.path.join(folder, "model.onnx"), *words, "--engine", engine, "--out", out, "--json", out + ".json", "--quiet"],
                          capture_output=True, text=True)
    if done.returncode == USER:
        return "refused", done.stderr.strip()
    if done.returncode:
        return "wrong", f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"
    with open(out + ".json") as f:
        what = difference(case, wants, out, json.load(f))
    return ("wrong", what) if what else ("passed", "")


def run(mica, case, folder, engine):
    """('passed', ''), ('refused', why) or ('wrong', what). Inputs that must be known are constants in a second attempt."""
    os.makedirs(folder, exist_ok=True)
    fate = None
    for inputs, wants in case.data_sets:
        inputs = list(zip(case.model.graph.input, inputs))
        fate = attempt(mica, case, folder, engine, case.model, inputs, wants)
        if fate[0] == "refused":
            fate = attempt(mica, case, folder, engine, *constant_whole(case, inputs), wants)
        if fate[0] != "passed":
            return fate
    return fate


def reason(text):
    """The message without the names that differ from test to test."""
    line = text.splitlines()[0] if text else ""
    line = re.sub(r"^.*?error: (?:node \S+ \(\S+\) cannot be run: )?", "", line)
    return re.sub(r"`[^`]*`|\d+", "..", line)


def tests(only):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    return [c for c in loader.load_model_tests(kind="node") if only in c.name]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mica"), p.add_argument("folder")
    p.add_argument("--engine", default="f64"), p.add_argument("--only", default=""), p.add_argument("--refused", action="store_true")
    a = p.parse_args()
    cases = tests(a.only)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda c: run(a.mica, c, os.path.join(a.folder, c.name), a.engine), cases))
    counts, why = collections.Counter(fate for fate, _ in results), collections.defaultdict(list)
    for case, (fate, said) in zip(cases, results):
        if fate == "wrong":
            print(f"WRONG  {case.name}  {said}")
        if fate == "refused":
            why[reason(said)].append(case.name)
    for text, names in sorted(why.items(), key=lambda x: -len(x[1])):
        print(f"refused  {len(names):4}  {text}")
        for name in names if a.refused else []:
            print(f"               {name}")
    print(f"{len(cases)} node tests: {counts['passed']} passed, {counts['refused']} refused, {counts['wrong']} silently wrong")
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
