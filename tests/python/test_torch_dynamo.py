"""bench/suites/dynamo.py on one small model of transformers, on the CPU: it is right, its row is kept, and a model is ended at its deadline."""
import csv
import os
import subprocess
import sys

import pytest

from conftest_torch import torch  # noqa: F401

pytest.importorskip("transformers")
SCRIPT = os.path.join("bench", "suites", "dynamo.py")


def run(rows, *options):
    words = [sys.executable, SCRIPT, "--device", "cpu", "--suites", "transformers", "--only", "^DistilBertForMaskedLM$", "--csv", str(rows), *options]
    said = subprocess.run(words, capture_output=True, text=True)
    with open(rows, newline="") as f:
        return said.returncode, list(csv.DictReader(f)), said.stdout


def test_a_model_is_right_and_its_row_is_kept(tmp_path):
    options = "--take", "all", "--rest", "eager", "--trials", "0", "--time", "15"
    status, rows, said = run(tmp_path / "rows.csv", *options)
    assert status == 0 and [r["fate"] for r in rows] == ["right"] and int(rows[0]["nodes"]) > 50, (rows, said)
    assert " n_layers=2" in rows[0]["changed"] and said.endswith("\ntransformers: 1 models, 1 right\n")
    again = run(tmp_path / "rows.csv", *options)
    assert again == (0, rows, "transformers: 1 models, 1 right\n")


def test_a_model_is_ended_at_its_deadline(tmp_path):
    status, rows, _ = run(tmp_path / "rows.csv", "--deadline", "0.5")
    assert status == 0 and [(r["fate"], r["why"]) for r in rows] == [("late", "after 0.5 seconds")]
