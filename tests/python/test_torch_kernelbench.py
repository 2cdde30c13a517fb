"""bench/suites/kernelbench.py on a stand-in of the suite with four small tasks: right, wrong, failed, late; rows of an earlier run are kept."""
import csv
import os
import subprocess
import sys

import pytest

from conftest_torch import torch

sys.path.insert(0, os.path.join("bench", "suites"))

RUNNER = os.path.join("bench", "suites", "kernelbench.py")
TASK = """
import torch
rows = 4096
class Model(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.rand(rows, 16)]
def get_init_inputs():
    return [3]
"""
SUITE = """
import types, torch, a_package_that_is_not_there
from a_package_that_is_not_there import Thing
class Result(Thing):
    pass
def get_tolerance_for_precision(dtype):
    return 1e-4
def set_seed(seed):
    torch.manual_seed(seed)
def _process_input_tensor(x, device):
    return x.to(device)
def run_and_check_correctness(model, new, get_inputs, metadata, trials, seed, device):
    x = get_inputs()
    assert x[0].shape == (64, 16)
    passed = torch.allclose(model(*x), new(*x), atol=1e-4, rtol=1e-4) and bool((x[0] >= 0).all()) and model.k == 3
    passed = passed and (model(*x).ndim == 2 or new is model)
    return Result(correctness=passed, metadata={"correctness_trials": f"({trials * passed} / {trials})", "max_difference": ["0.5"]})
"""
BODIES = {"1_Scale": "return x * self.k + x", "2_Sums": "return (x * x).sum(1)", "3_Breaks": "return x @ x",
          "5_Draws": "return torch.nn.functional.dropout(x, training=True)", "6_Ill": "return (x * 1e8).cos().sum(1)",
          "4_Hangs": "import time; time.sleep(600 * (x.device.type != 'meta')); return x"}


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "KernelBench" / "level1").mkdir(parents=True)
    (tmp_path / "src" / "kernelbench").mkdir(parents=True)
    for name, text in (("__init__", ""), ("eval", SUITE), ("timing", "")):
        (tmp_path / "src" / "kernelbench" / f"{name}.py").write_text(text)
    for name, body in BODIES.items():
        (tmp_path / "KernelBench" / "level1" / f"{name}.py").write_text(TASK.format(body=body))
    return tmp_path


def run(checkout, *words):
    said = subprocess.run([sys.executable, RUNNER, checkout, "--device", "cpu", "--levels", "1", "--scale", "64", "--time", "20", "--trials", "3",
                           "--csv", checkout / "rows.csv", *words], capture_output=True, text=True)
    with open(checkout / "rows.csv", newline="") as f:
        return said, {r["name"]: r for r in csv.DictReader(f)}


def test_fates_and_resumption(checkout):
    said, rows = run(checkout, "--only", "Scale|Sums|Breaks|Draws|Ill")
    assert said.returncode == 1, said.stderr
    assert {n: r["fate"] for n, r in rows.items()} == {"Scale": "right", "Sums": "wrong", "Breaks": "unfit", "Draws": "unfit", "Ill": "unfit"}, rows
    assert float(rows["Scale"]["over_eager"]) > 0 and rows["Scale"]["trials"] == "5/5" and rows["Scale"]["conv_or_pool"] == "0"
    assert "largest difference 0.5" in rows["Sums"]["why"] and "eager mode fails" in rows["Breaks"]["why"]
    assert all(name in rows["Scale"]["spent"] for name in ("start", "eager mode", "Inductor", "Mica", "check", "timing", "turns"))
    assert rows["Scale"]["same_code"] == str(int(rows["Scale"]["programs"] == "0")) and rows["Draws"]["same_code"] == ""
    assert "against itself" in rows["Draws"]["why"] and "against float64" in rows["Ill"]["why"] and float(rows["Ill"]["eager_error"]) > 0.1
    rows["Scale"]["said"] = "kept"
    with open(checkout / "rows.csv", "w", newline="") as f:
        out = csv.DictWriter(f, rows["Scale"].keys())
        out.writeheader(), out.writerow(rows["Scale"])
    said, rows = run(checkout, "--only", "Scale|Hangs", "--deadline", "30")
    assert said.returncode == 0 and rows["Scale"]["said"] == "kept" and rows["Hangs"]["fate"] == "late"


def test_what_is_no_checkout(tmp_path):
    said = subprocess.run([sys.executable, RUNNER, tmp_path], capture_output=True, text=True)
    assert said.returncode and "is no checkout of KernelBench" in said.stderr


def test_who_is_excused_is_no_worse_than_eager_mode():
    import kernelbench_task as k
    assert k.is_near({"eager": 0.5, "mica": 0.9})
    assert not k.is_near({"eager": 0.5, "mica": 1.1})  # worse than a rounding error
    assert not k.is_near({"eager": 0.5}) and not k.is_near({"mica": 0.5}) and not k.is_near({})


def test_a_task_is_ill_where_eager_mode_fails_against_float64():
    import kernelbench_task as k

    class Cosine(torch.nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            return (x * self.scale).cos()
    x = torch.rand(64)
    assert k.is_ill(Cosine(1e8), [x], 1e-4) and not k.is_ill(Cosine(1), [x], 1e-4)


def test_each_round_begins_with_another_way(monkeypatch):
    import kernelbench_task as k
    order = []

    def samples(timing, f, inputs, trials, device, warm_up):
        order.append(f)
        return [1000.0] * trials
    monkeypatch.setattr(k, "samples", samples)
    took = k.timed(None, {"eager": "e", "inductor": "i", "mica": "m"}, (), 8, torch.device("cpu"))
    assert "".join(order[3:]) == "eimimemeieim" and all(len(t) == 8 for t in took.values())


def test_native_frames_of_a_crash_are_told():
    import kernelbench
    if not kernelbench.native_frames():
        pytest.skip("no C compiler")
    crash = "import ctypes; ctypes.string_at(8)"
    p = subprocess.run([sys.executable, "-c", crash], env=kernelbench.environment(), capture_output=True, text=True)
    said = kernelbench.where_ended(p.stderr.strip().split("\n"))
    assert p.returncode < 0 and "string_at" in said and "libc.so.6(" in said.split("native: ")[1], p.stderr


def test_a_process_that_cannot_fork_is_told(tmp_path, monkeypatch):
    import argparse
    import kernelbench
    (tmp_path / "child.py").write_text("raise SystemExit(5)")
    monkeypatch.setattr(kernelbench, "CHILD", str(tmp_path / "child.py"))
    asked = kernelbench.Tasks(argparse.Namespace(checkout=str(tmp_path), device="cpu", scale=1))
    for _ in range(2):
        assert asked.ask("facts", 5) == (None, "the process that forks has ended (exit status 5)")


def test_the_order_of_tasks_is_the_same_in_each_run(tmp_path):
    import kernelbench
    tasks = []
    for level in (1, 2):
        for i in range(12):
            path = tmp_path / f"{level}_{i}.py"
            path.write_text("nn.Conv2d" if i % 3 == 0 else "nn.Linear")
            tasks.append((level, i, "t", str(path)))
    order = kernelbench.by_turns(tasks, [])
    assert order == kernelbench.by_turns(tasks[::-1], []) and sorted(order) == tasks
    convs = [kernelbench.is_conv(t[3]) for t in order]
    assert convs == sorted(convs) and [t[1] for t in order if t[0] == 1] != sorted(t[1] for t in order if t[0] == 1)
    assert [t[0] for t in order[:16]].count(1) == 8  # levels alternate
    assert {t[0] for t in order[:4]} == {1, 2}
    first = kernelbench.by_turns(tasks, ["^2/3_", "^1/1_"])
    assert [t[:2] for t in first[:2]] == [(2, 3), (1, 1)] and first[2:] == [t for t in order if t[:2] not in ((2, 3), (1, 1))]


@pytest.mark.parametrize("who, said", [("Current thread", "Fatal Python error: Segmentation fault; File \"b.py\", line 2 in g"),
                                       ("Thread", "Fatal Python error: Segmentation fault; in a thread without Python; the main thread; "
                                                  "File \"b.py\", line 2 in g")])
def test_where_a_process_ended_is_where_the_signal_came(who, said):
    import kernelbench
    lines = ["a warning", "Fatal Python error: Segmentation fault", "", "Thread 0x7f (most recent call first):", '  File "a.py", line 1 in f', "",
             who + " 0x80 (most recent call first):", '  File "b.py", line 2 in g']
    assert kernelbench.where_ended(lines) == said
