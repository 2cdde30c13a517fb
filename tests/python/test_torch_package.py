"""mica.torch.operator_library: kernels of a saved folder as an operator by the stable ABI, and a package of AOTInductor with it in a process
that has no Mica."""
import os
import subprocess
import sys

import pytest

from conftest_torch import holds_pair, pair_inputs, torch

import mica.torch
from mica.torch import package


@pytest.fixture(scope="module")
def library(pair, saved, tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "libpair.so"
    return mica.torch.operator_library(saved, path, name="tuned::pair"), path


def test_eager_and_checks(library):
    op, _ = library
    x, y = pair_inputs()
    holds_pair(op(x, y), x, y)
    holds_pair(op(x.t().contiguous().t(), y), x, y)  # strides of its own
    holds_pair(op(torch.cat([torch.zeros(1), x.flatten()])[1:].reshape(4, 6), y), x, y)  # an address that is not aligned
    with pytest.raises(RuntimeError, match="input Y has another dtype or shape"):
        op(x, y[:, :5])
    with pytest.raises(RuntimeError, match="input X has another dtype or shape"):
        op(x.double(), y)
    torch.library.opcheck(op.default, (x, y), test_utils=("test_schema", "test_faketensor"))


def test_a_package_needs_no_mica(library, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            a, b = torch.ops.tuned.pair(x, y * 1)
            return a + 1, b
    x, y = pair_inputs()
    torch._inductor.aoti_compile_and_package(torch.export.export(Model(), (x, y)), package_path=str(tmp_path / "model.pt2"))
    torch.save((x, y), tmp_path / "in.pt")
    there = """
import sys, torch
torch.ops.load_library(sys.argv[1])
model = torch._inductor.aoti_load_package("model.pt2")
torch.save(model(*torch.load("in.pt")), "out.pt")
assert not any(m.split(".")[0] == "mica" for m in sys.modules)
"""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", there, str(library[1])], cwd=tmp_path, env=env, check=True)
    a, b = torch.load(tmp_path / "out.pt")
    holds_pair((a - 1, b), x, y)


def test_what_is_no_operator(saved, tmp_path):
    with pytest.raises(ValueError, match="tuned::p-air.*is not a name of an operator"):
        mica.torch.operator_library(saved, tmp_path / "x.so", name="tuned::p-air")
    (tmp_path / "program.json").write_text('{"program": "p", "arch": "cpu", "inputs": [{"name": "K", "dtype": "f32", "shape": [4]}],'
                                           ' "outputs": [{"name": null, "dtype": "f32", "shape": [4], "state": 1}]}')
    with pytest.raises(ValueError, match="programs with states"):
        mica.torch.operator_library(tmp_path, tmp_path / "x.so", name="tuned::p")
    (tmp_path / "program.json").write_text('{"program": "p", "arch": "cpu", "inputs": [{"name": "n", "dtype": "f32", "shape": ["n"]}],'
                                           ' "outputs": []}')
    with pytest.raises(ValueError, match="run-time extents"):
        mica.torch.operator_library(tmp_path, tmp_path / "x.so", name="tuned::p")
    about = '{"program": "p", "arch": "cpu", "inputs": [{"name": "n", "dtype": "%s", "shape": [4]}], "outputs": []}'
    (tmp_path / "program.json").write_text(about % "f8")
    with pytest.raises(ValueError, match="has no dtype f8"):
        mica.torch.operator_library(tmp_path, tmp_path / "x.so", name="tuned::p")
    (tmp_path / "program.json").write_text(about % "f32")
    with pytest.raises(ValueError, match="save the program again"):
        mica.torch.operator_library(tmp_path, tmp_path / "x.so", name="tuned::p")


def test_compilers_are_commands_and_may_be_missing(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(os.path.dirname(saved))  # a folder and a path that are relative
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(RuntimeError, match="the compiler no-such-compiler cannot be run"):
        mica.torch.operator_library(os.path.basename(saved), tmp_path / "x.so", name="tuned::missing")
    monkeypatch.setenv("CC", "cc -DSEEN")
    monkeypatch.setenv("CXX", "c++ -fno-such-flag")
    (tmp_path / "x.so").write_text("as it was")
    with pytest.raises(RuntimeError, match="no-such-flag"):
        mica.torch.operator_library(os.path.basename(saved), tmp_path / "x.so", name="tuned::missing")
    assert (tmp_path / "x.so").read_text() == "as it was" and os.listdir(tmp_path) == ["x.so"]


def test_the_source_for_a_gpu(tmp_path):
    (tmp_path / "program.json").write_text('{"program": "p", "arch": "sm_90a", "inputs": [{"name": "X", "dtype": "f16", "shape": [4, 8]}],'
                                           ' "outputs": [{"name": null, "dtype": "f16", "shape": [4, 8]}],'
                                           ' "build": {"flags": "-gencode arch=compute_90a,code=sm_90a", "libraries": "-lcudart"}}')
    text = package._source(package._Saved(tmp_path), "tuned::p", "p(Tensor X) -> Tensor")
    for words in ("STABLE_TORCH_LIBRARY_IMPL(tuned, CUDA, m)", "aoti_torch_get_current_cuda_stream", "p_prepare(at", "p_run(in, out, at",
                  "ScalarType::Half, {4, 8}, 16,", "DeviceGuard guard(first", "enum { ALIGNED = 256 }", "t.is_cuda() == true"):
        assert words in text, words
    assert "@" not in text
