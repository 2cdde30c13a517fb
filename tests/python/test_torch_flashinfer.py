"""bench/suites/flashinfer.py: definitions in FlashInfer-Bench's format become solutions in its format, correct by the reference. nvcc compiles them
if it is installed, and tvm-ffi loads them. The package's own reader takes the solution if it is installed."""
import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest_torch import torch

SCRIPT = os.path.join("bench", "suites", "flashinfer.py")
AXES = {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 64}}


def tensor(*shape, dtype="float16"):
    return {"shape": list(shape), "dtype": dtype}


NORM = ("\n    x = {x}\n    out = (x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + EPS) * weight.float()).to(hidden_states.dtype)\n"
        "    return {out}\n")
DEFINITIONS = {
    "rmsnorm_h64": {"op_type": "rmsnorm", "axes": AXES, "inputs": {"hidden_states": tensor("batch_size", "hidden_size"),
                                                                   "weight": tensor("hidden_size")},
                    "outputs": {"output": tensor("batch_size", "hidden_size")},
                    "reference": "import torch\ndef run(hidden_states, weight):\n    EPS = 1e-5" + NORM.format(x="hidden_states.float()", out="out")},
    "fused_add_rmsnorm_h64": {"op_type": "rmsnorm", "axes": AXES, "inputs": {
        "hidden_states": tensor("batch_size", "hidden_size", dtype="bfloat16"), "residual": tensor("batch_size", "hidden_size", dtype="bfloat16"),
        "weight": tensor("hidden_size", dtype="bfloat16")},
        "outputs": {"output": tensor("batch_size", "hidden_size", dtype="bfloat16"), "sum": tensor("batch_size", "hidden_size", dtype="bfloat16")},
        "reference": "import torch\ndef run(hidden_states, residual, weight):\n    EPS = 1e-6" + NORM.format(
            x="hidden_states.float() + residual.float()", out="out, x.to(hidden_states.dtype)")},
    "gemm_n32_k64": {"op_type": "gemm", "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 32}, "K": {"type": "const", "value": 64}},
                     "inputs": {"A": tensor("M", "K"), "B": tensor("N", "K")}, "outputs": {"C": tensor("M", "N")},
                     "reference": "import torch\ndef run(A, B):\n    return torch.matmul(A, B.T)\n"},
}


def run(folder, name, *words, **changes):
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, **DEFINITIONS[name], **changes}))
    return subprocess.run([sys.executable, SCRIPT, path, "--mica", os.environ["MICA"], "--out", folder / "solution.json", *words],
                          capture_output=True, text=True)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_solutions(name, tmp_path):
    axis = next(a for a, v in DEFINITIONS[name]["axes"].items() if v["type"] == "var")
    rows = [{"definition": name, "workload": {"uuid": str(k), "axes": {axis: n}, "inputs": {}}} for k, n in enumerate((4, 16, 4))]
    (tmp_path / "workloads.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = run(tmp_path, name, "--check", "--workloads", tmp_path / "workloads.jsonl", "--", "--max-block-ops", "3", "--no-db")
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("differs from the reference by") == 2
    solution = json.loads((tmp_path / "solution.json").read_text())
    assert solution["definition"] == name and solution["spec"]["entry_point"] == "solution.cu::run" and solution["spec"]["binding"] == "tvm-ffi"
    assert [s["path"] for s in solution["sources"]] == ["solution.cu", f"{name}_{axis}4.cu", f"{name}_{axis}16.cu"]
    compiled(solution, name, tmp_path)
    try:
        from flashinfer_bench.data import Solution
    except ImportError:
        return
    assert Solution.model_validate(solution).get_entry_symbol() == "run"


def compiled(solution, name, folder):
    nvcc, tvm_ffi = shutil.which("nvcc"), None
    if not nvcc:
        return
    for s in solution["sources"]:
        (folder / s["path"]).write_text(s["content"])
    subprocess.run([nvcc, "-O0", "-shared", "-Xcompiler", "-fPIC", "-gencode", "arch=compute_90a,code=sm_90a",
                    *(s["path"] for s in solution["sources"]),
                    "-o", "solution.so", "-lcublasLt"], check=True, cwd=folder)
    tvm_ffi = pytest.importorskip("tvm_ffi")
    call = tvm_ffi.load_module(os.fspath(folder / "solution.so"))["run"]
    n = 2 if name.startswith("gemm") else len(DEFINITIONS[name]["inputs"])
    dtype = getattr(torch, next(iter(DEFINITIONS[name]["inputs"].values()))["dtype"])
    for rows, why in ((4, "is on another kind of device"), (16, "is on another kind of device"), (5, "has another shape")):
        with pytest.raises(ValueError, match=f"argument 0 {why}"):
            call(*(torch.zeros(rows, 64, dtype=dtype) for _ in range(n + len(DEFINITIONS[name]["outputs"]))))


def test_refusals(tmp_path):
    for words, changes, why in (((), {}, "name sizes by --workloads or --axes: batch_size"),
                                (("--axes", "M=4"), {}, "its varying axes are batch_size, not M"),
                                (("--axes", "batch_size=4"), {"op_type": "gqa_paged"}, "there is no program for gqa_paged of 2 inputs"),
                                (("--axes", "batch_size=4"), {"reference": "def run(): pass"}, "the reference does not say its epsilon")):
        said = run(tmp_path, "rmsnorm_h64", *words, **changes)
        assert said.returncode == 2 and why in said.stderr, said
    assert "rmsnorm, 3 inputs" in subprocess.run([sys.executable, SCRIPT, "--list"], capture_output=True, text=True, check=True).stdout


def test_a_wrong_program_is_told(tmp_path):
    said = run(tmp_path, "rmsnorm_h64", "--check", "--axes", "batch_size=4", "--", "--max-block-ops", "3", "--no-db",
               reference=DEFINITIONS["rmsnorm_h64"]["reference"].replace("+ EPS", "+ 1 + EPS"))
    assert said.returncode == 1, said


def timed(folder, name, *words, **changes):
    """Rows of bench/suites/flashinfer_time.py for one definition, on the CPU."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, **DEFINITIONS[name], **changes}))
    script, table = os.path.join("bench", "suites", "flashinfer_time.py"), folder / "rows.csv"
    said = subprocess.run([sys.executable, script, path, "--device", "cpu", "--time", "20", "--csv", table, *words], capture_output=True, text=True)
    with open(table, newline="") as f:
        return said, list(csv.DictReader(f))


def test_workloads_are_timed_beside_torch(tmp_path):
    said, rows = timed(tmp_path, "rmsnorm_h64", "--axes", "batch_size=4")
    assert said.returncode == 0 and "1 right, 0 wrong, 0 failed" in said.stdout, said
    us = {k: float(rows[0][f"{k}_us"]) for k in ("mica", "reference", "torch", "compiled", "best")}
    assert rows[0]["fate"] == "right" and us["best"] == min(us["reference"], us["torch"], us["compiled"]) and min(us.values()) > 0
    assert abs(float(rows[0]["over_best"]) - us["best"] / us["mica"]) < 0.01 * float(rows[0]["over_best"]) + 0.001


def test_a_result_far_from_the_reference_is_wrong(tmp_path):
    off = DEFINITIONS["rmsnorm_h64"]["reference"].replace("+ EPS", "+ 1 + EPS")
    said, rows = timed(tmp_path, "rmsnorm_h64", "--axes", "batch_size=4", reference=off)
    assert said.returncode == 1 and rows[0]["fate"] == "wrong" and float(rows[0]["largest"]) > 1, said
