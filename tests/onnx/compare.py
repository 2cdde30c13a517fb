"""Runs models by `mica run` and by onnxruntime on the same inputs: compare.py MICA FOLDER [--large] [--engine cpu] [--optimize SECONDS].

Exit status 0: all agree; 1: some do not. Figures are relative norms of the difference.
"""
import argparse
import json
import os
import subprocess
import sys

import numpy as np

import models


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def agree(mica, g, folder, engine, extra, allowed):
    path, answers = models.save(g, folder)
    inputs = []
    for name, value in g.feeds.items():
        file = os.path.join(folder, f"{g.name}_{name}.npy")
        np.save(file, value)
        inputs.append(f"{name}={file}")
    settings = ["--set", "batch=8"] if g.name.startswith("gated") else []
    what = path
    if extra:
        what = os.path.join(folder, g.name + "_optimized")
        code, said = run([mica, "import", path, *settings, "--optimize", "--time", str(extra), "--out", what, "--quiet", "--measure", "2"])
        if code:
            return False, said
        settings = []
    out = os.path.join(folder, g.name + "_out")
    code, said = run([mica, "run", what, *inputs, *settings, "--engine", engine, "--out", out, "--json", out + ".json", "--quiet"])
    if code:
        return False, said.strip()
    worst = 0
    for o in json.load(open(out + ".json"))["outputs"]:
        got, want = np.load(os.path.join(out, o["file"])), np.asarray(answers[o["name"]], np.float64)
        if got.shape != want.shape:
            return False, f"{o['name']}: shape {got.shape}, not {want.shape}"
        far = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)
        worst = max(worst, far)
        if not far <= allowed:
            return False, f"{o['name']}: relative norm of the difference {far:.2g}"
    return True, f"{worst:.1e}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mica"), p.add_argument("folder")
    p.add_argument("--large", action="store_true"), p.add_argument("--engine", default="f64")
    p.add_argument("--optimize", type=int, default=0), p.add_argument("--only", default="")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    bad = 0
    for make in models.LARGE if a.large else models.SMALL:
        g = make()
        if not g.name.startswith(a.only):
            continue
        allowed = 2e-3 if g.half else 1e-5 if a.engine != "cpu" else 1e-4
        good, what = agree(a.mica, g, a.folder, a.engine, a.optimize, allowed)
        print(f"{'agrees' if good else 'DIFFERS'}  {g.name}  {what}")
        bad += not good
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
