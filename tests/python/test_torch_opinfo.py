"""bench/suites/opinfo.py on operators of torch's own database, on the CPU: those with rows are right, one without is left."""
import csv
import math
import os
import subprocess
import sys

import pytest

from conftest_torch import torch

sys.path.insert(0, os.path.join("bench", "suites"))


def test_operators_are_right_or_left(tmp_path):
    pytest.importorskip("expecttest")
    script, only = os.path.join("bench", "suites", "opinfo.py"), "^(amax|sinh|argmax|sign|torch.ops.aten._safe_softmax.default)$"
    said = subprocess.run([sys.executable, script, "--device", "cpu", "--only", only, "--csv", tmp_path / "rows.csv"], capture_output=True, text=True)
    with open(tmp_path / "rows.csv", newline="") as f:
        fates = {r["operator"]: r["fate"] for r in csv.DictReader(f)}
    assert said.returncode == 0 and fates.pop("sinh") == "left", (said, fates)
    # of rows that are hidden whole, too; choices between whole numbers have the dtype of eager mode
    assert fates == {"amax": "right", "argmax": "right", "sign": "right", "torch.ops.aten._safe_softmax.default": "right"}


def test_how_far_a_result_is_off():
    import opinfo
    x = torch.tensor([1.0, math.nan, math.inf, 2.0])
    assert opinfo.off(x, x) == 0 and 0 < opinfo.off(x * (1 + 1e-6), x) < 1 < opinfo.off(x * 1.01, x)
    for other in (x.nan_to_num(), x.double(), x[:2], torch.where(x.isinf(), -x, x)):
        assert opinfo.off(other, x) == math.inf
    z = torch.view_as_complex(torch.ones(3, 2).half())  # torch compares none such
    assert opinfo.off(z, z) == 0 and opinfo.off(z, (z * 1j).conj()) > 1 and opinfo.off(z, x) == math.inf
    i = torch.arange(3)
    assert opinfo.off(i, i) == 0 and opinfo.off(i + 1, i) == math.inf


def test_indices_of_equal_elements_count_as_equal():
    import types
    import opinfo
    x, op = torch.tensor([3.0, 1.0, 3.0, 3.0]), types.SimpleNamespace(name="topk")

    def worst(at, want):
        got, want = (opinfo.comparable(op, x, (2,), {}, [x[i], i]) for i in map(torch.tensor, (at, want)))
        return max(opinfo.off(g, w) for g, w in zip(got, want, strict=True))
    assert worst([0, 2], [3, 0]) == 0 and worst([0, 0], [3, 0]) == math.inf and worst([0, 1], [3, 0]) > 1


def test_a_result_of_16_bits_may_be_as_near_to_float64():
    import types
    import opinfo
    op = types.SimpleNamespace(name="f", op=lambda x: x.exp().log())  # inf in f16
    x, best = torch.tensor([12.0]).half(), torch.tensor([12.0]).half()
    assert opinfo.off_of_sample(op, x, (), {}, [op.op(x)], [best]) == 0
    assert opinfo.off_of_sample(op, x, (), {}, [op.op(x)], [best * 1.1]) > 1
    assert opinfo.off_of_sample(op, x.float(), (), {}, [op.op(x.float())], [best.float() * 1.1]) > 1


ENDS = """
import os, sys
sys.path.insert(0, "bench/suites")
import opinfo

class Ends:
    name, variant_test_name = "ends", ""
    def sample_inputs(self, *_, **__):
        os.abort()

def prepare(a, every=opinfo.prepare):
    every(a)
    opinfo.OPS.insert(1, Ends())

opinfo.prepare = prepare
if __name__ == "__main__":
    sys.exit(opinfo.main())
"""


def test_an_operator_that_ends_its_process_is_counted_and_the_rest_is_run(tmp_path):
    pytest.importorskip("expecttest")
    (tmp_path / "ends.py").write_text(ENDS)
    asked = ["--device", "cpu", "--only", "^(abs|neg)$", "--samples", "1", "--csv", tmp_path / "rows.csv"]
    said = subprocess.run([sys.executable, tmp_path / "ends.py", *asked], capture_output=True, text=True)
    with open(tmp_path / "rows.csv", newline="") as f:
        fates = {r["operator"]: r["fate"] for r in csv.DictReader(f)}
    assert said.returncode == 1 and fates == {"neg": "right", "ends": "crashed", "abs": "right"}, (said, fates)


def test_a_loss_that_stops_at_other_numbers_is_tried_with_probabilities(tmp_path):
    from mica.torch import backend
    p, y = torch.rand(64, 16), torch.rand(64, 16)
    options = {"take": "all", "rest": "eager", "min_ops": 1, "min_work": 0, "time": 20, "summary": False, "faults": "raise", "cache": str(tmp_path)}
    with torch.no_grad():
        got = torch.compile(lambda p, y: torch.nn.functional.binary_cross_entropy(p, y), backend=backend, options=options)(p, y)
    assert torch.allclose(got, torch.nn.functional.binary_cross_entropy(p, y), rtol=1e-4)
