"""Saved folders as modules of tvm-ffi: kernel.so of the CPU is called, kernel.cu is compiled where nvcc is, and refuses what is not on a GPU."""
import os
import shutil
import subprocess
import threading

import pytest

import mica
from conftest import QUICK

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed (python/venv.sh build/venv)")
np = pytest.importorskip("numpy")


def of(*arrays):
    return [tvm_ffi.from_dlpack(a) if hasattr(a, "shape") else a for a in arrays]


@pytest.fixture(scope="module")
def call(saved):
    return tvm_ffi.load_module(os.path.join(saved, "kernel.so"))["pair"]


def test_numbers(call, arrays):
    x, y, total, sums = arrays
    a, b = np.empty_like(total), np.empty_like(sums)
    for _ in range(3):
        a[:], b[:] = 0, 0
        assert call(*of(x, y, a, b)) is None
        assert np.allclose(a, total) and np.allclose(b, sums)


def test_a_part_of_a_larger_array(call, arrays):
    x, y, total, sums = arrays
    rows = np.concatenate([np.zeros((1, 6), "f4"), x])
    a, b = np.empty_like(total), np.empty_like(sums)
    call(*of(rows[1:], y, a, b))
    assert np.allclose(a, total) and np.allclose(b, sums)


def test_refused(call, arrays):
    x, y, total, sums = arrays
    a, b = np.zeros_like(total), np.zeros_like(sums)
    for wrong, error, text in [((x, y, a), TypeError, "takes 2 inputs and then 2 outputs, and was given 3 arguments"),
                               ((x, 3, a, b), TypeError, r"argument 1 is no tensor; it has to be the input Y: f32 \[4, 6\]"),
                               ((x.astype("f8"), y, a, b), ValueError, "argument 0 has another dtype"),
                               ((x, y[:3], a, b), ValueError, "argument 1 has another shape"),
                               ((x, y[0], a, b), ValueError, "argument 1 has another number of dimensions"),
                               ((x, np.asfortranarray(y), a, b), ValueError, "argument 1 is not dense row by row"),
                               ((x, y, x, b), ValueError, "argument 2 shares memory with another argument"),
                               ((x, y, b, a), ValueError, r"argument 2 has another shape; it has to be the output f32 \[4, 6\]")]:
        with pytest.raises(error, match=text):
            call(*of(*wrong))
    assert not a.any() and not b.any()  # nothing ran


def test_threads(call):
    rng = np.random.default_rng(2)
    wrong = []

    def work(seed):
        x, y = (rng.standard_normal((4, 6)).astype("f4") + seed for _ in range(2))
        a, b = np.empty((4, 6), "f4"), np.empty((4, 1), "f4")
        for _ in range(200):
            call(*of(x, y, a, b))
            if not np.allclose(a, x + 2 * y):
                wrong.append(seed)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


@pytest.fixture(scope="module")
def nvcc():
    return shutil.which("nvcc") or pytest.skip("nvcc is not installed")


def test_cuda_compiles_and_refuses(nvcc, tmp_path):
    (tmp_path / "pair.mica").write_text("program pair { X: f16[4, 8]\n return sum(X * 2, dim=1) }")
    f = subprocess.run([os.environ["MICA"], "optimize", tmp_path / "pair.mica", "--target", "sm_90a", "--quiet", "--no-db", "--max-block-ops", "3",
                        "--out",
                        tmp_path / "pair"], text=True, capture_output=True)
    assert f.returncode == 0, f.stderr
    subprocess.run([nvcc, "-O0", "-shared", "-Xcompiler", "-fPIC", "-gencode", "arch=compute_90a,code=sm_90a", "kernel.cu", "-o", "kernel.so"],
                   check=True, cwd=tmp_path / "pair", env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})  # nvcc takes no sanitizers
    call = tvm_ffi.load_module(os.fspath(tmp_path / "pair" / "kernel.so"))["pair"]
    with pytest.raises(ValueError, match=r"argument 0 is on another kind of device; it has to be the input X: f16 \[4, 8\], "
                                         "dense row by row, on one GPU"):
        call(*of(np.zeros((4, 8), "f2"), np.zeros((4, 1), "f2")))
