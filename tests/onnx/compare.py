"""Runs models by `mica run` and by onnxruntime on the same inputs: compare.py MICA FOLDER [--large] [--torch] [--engine cpu] [--optimize SECONDS].

With --torch they are what torch's exporters write (torch_models.py). Exit status 0: all agree; 1: some do not. Figures are relative
norms of the difference.
"""
import argparse
import dataclasses
import json
import os
import subprocess
import sys

import numpy as np

import models


@dataclasses.dataclass
class Case:
    name: str
    path: str
    feeds: dict
    answers: dict
    settings: list

    @property
    def half(self):
        return any(x.dtype == np.float16 for x in self.feeds.values())


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def written(make, folder):
    g = make()
    path, answers = models.save(g, folder)
    return Case(g.name, path, g.feeds, answers, ["--set", "batch=8"] if g.name.startswith("gated") else [])


def exported(folder, only):
    import torch_models

    for case in torch_models.cases():
        for exporter in torch_models.EXPORTERS:
            if f"{case.name}_{exporter}".startswith(only):
                path, feeds = torch_models.export(case, exporter, folder)
                settings = ["--set", f"batch={len(next(iter(feeds.values())))}"] if case.batch else []
                yield Case(f"{case.name}_{exporter}", path, feeds, models.answers_of(path, feeds), settings)


def agree(mica, case, folder, engine, extra):
    allowed = 2e-3 if case.half else 1e-5 if engine != "cpu" else 1e-4
    what, settings, inputs = case.path, case.settings, []
    for name, value in case.feeds.items():
        file = os.path.join(folder, f"{case.name}_{name}.npy")
        np.save(file, value)
        inputs.append(f"{name}={file}")
    if extra:
        what = os.path.join(folder, case.name + "_optimized")
        code, said = run([mica, "import", case.path, *settings, "--optimize", "--time", str(extra), "--out", what, "--quiet", "--measure", "2"])
        if code:
            return False, said
        settings = []
    out = os.path.join(folder, case.name + "_out")
    code, said = run([mica, "run", what, *inputs, *settings, "--engine", engine, "--out", out, "--json", out + ".json", "--quiet"])
    if code:
        return False, said.strip()
    worst = 0
    for o in json.load(open(out + ".json"))["outputs"]:
        got, want = np.load(os.path.join(out, o["file"])), np.asarray(case.answers[o["name"]], np.float64)
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
    p.add_argument("--large", action="store_true"), p.add_argument("--torch", action="store_true")
    p.add_argument("--engine", default="f64"), p.add_argument("--optimize", type=int, default=0), p.add_argument("--only", default="")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    makes = models.LARGE if a.large else models.SMALL
    cases = exported(a.folder, a.only) if a.torch else (written(make, a.folder) for make in makes)
    bad = 0
    for case in cases:
        if not case.name.startswith(a.only):
            continue
        good, what = agree(a.mica, case, a.folder, a.engine, a.optimize)
        print(f"{'agrees' if good else 'DIFFERS'}  {case.name}  {what}", flush=True)
        bad += not good
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
