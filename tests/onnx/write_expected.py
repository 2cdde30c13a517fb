"""Writes tests/onnx/models: small models, one text file of inputs and expected outputs beside each (needs onnx, onnxruntime and torch).

    write_expected.py [NAME...]    all of them, or those that are named

A line of the text file: "in NAME TYPE EXTENTS... : ELEMENTS..." or "out NAME TYPE EXTENTS... : ELEMENTS...".
"""
import os
import sys

import numpy as np

import models
import torch_models

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def wanted(name):
    return not sys.argv[1:] or name in sys.argv[1:]


def write(path, feeds, answers):
    with open(path[:-5] + ".txt", "w") as f:
        for word, tensors in (("in", feeds), ("out", answers)):
            for name, x in tensors.items():
                real = x.dtype.kind == "f"
                values = " ".join(f"{float(v):.9g}" if real else str(int(v)) for v in np.asarray(x, np.float64 if real else None).ravel())
                f.write(f"{word} {name} {x.dtype} {' '.join(map(str, x.shape))} : {values}\n")


for makes, answers_of in ((models.SMALL, models.answers_of), (models.DEFINED, models.defined_answers)):
    for g in (make() for make in makes):
        if wanted(g.name):
            path, answers = models.save(g, folder, answers_of)
            write(path, g.feeds, answers)
for make in models.UNANSWERED:
    if wanted(make.__name__):
        models.save(make(), folder, answers=None)
for case in torch_models.cases():
    for exporter in torch_models.EXPORTERS:
        if f"{case.name}_{exporter}" in torch_models.KEPT and wanted(f"{case.name}_{exporter}"):
            path, feeds = torch_models.export(case, exporter, folder)
            write(path, feeds, models.answers_of(path, feeds))
