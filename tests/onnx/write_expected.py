"""Writes tests/onnx/models: small models, one text file of inputs and expected outputs beside each (needs onnx and onnxruntime).

    write_expected.py [NAME...]    all of them, or those that are named

A line of the text file: "in NAME TYPE EXTENTS... : ELEMENTS..." or "out NAME TYPE EXTENTS... : ELEMENTS...".
"""
import os
import sys

import numpy as np

import models

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
for make in models.SMALL:
    g = make()
    if sys.argv[1:] and g.name not in sys.argv[1:]:
        continue
    path, answers = models.save(g, folder)
    with open(path[:-5] + ".txt", "w") as f:
        for word, tensors in (("in", g.feeds), ("out", answers)):
            for name, x in tensors.items():
                values = " ".join(f"{v:.9g}" for v in np.asarray(x, np.float64).ravel()) if x.dtype.kind == "f" else " ".join(str(int(v)) for v in np.asarray(x).ravel())
                f.write(f"{word} {name} {x.dtype} {' '.join(map(str, x.shape))} : {values}\n")
for make in models.UNANSWERED:
    if not sys.argv[1:] or make.__name__ in sys.argv[1:]:
        models.save(make(), folder, answers=False)
