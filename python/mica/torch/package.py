"""mica.torch.operator_library: makes a shared library that registers the kernels of a saved folder as an operator of PyTorch. It uses the stable ABI
of libtorch (2.9 and later), and needs neither Mica nor Python. A package of AOTInductor that was compiled with the operator runs in any process that
has loaded the library, in C++ by dlopen."""
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile

import torch

from .custom import _arguments, _DTYPES, _fake, _full_name, _schema, _tensor

_SCALARS = {"float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "int32": "Int", "int64": "Long", "int8": "Char",
            "uint8": "Byte", "bool": "Bool", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2"}
_ALIGNED = {False: (None, 64), True: (16, 256)}  # key: for a GPU; value: alignment in bytes of tensors (None: of their elements) and of the workspace
_SOURCE = """// @FULL@: made by Mica of a saved folder; the stable ABI of libtorch.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <tuple>
#include <vector>

#include "kernel.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

enum { ALIGNED = @ALIGNED@ }; // alignment of the workspace in bytes

// Returns t if it is contiguous and aligned to `aligned` bytes, else a copy that is.
static Tensor fit(const Tensor &t, const Tensor &first, ScalarType dtype, const std::vector<int64_t> &shape, size_t aligned, const char *name)
{
  STD_TORCH_CHECK(t.is_cuda() == @GPU@ && t.get_device_index() == first.get_device_index(), "@FULL@: input ", name,
                  " is on another device than the kernels or the first input");
  bool same = t.scalar_type() == dtype && t.dim() == (int64_t)shape.size();
  for (size_t i = 0; same && i < shape.size(); i++) same = t.size((int64_t)i) == shape[i];
  STD_TORCH_CHECK(same, "@FULL@: input ", name, " has another dtype or shape than the program's");
  const Tensor dense = torch::stable::contiguous(t);
  return (uintptr_t)dense.data_ptr() % aligned ? torch::stable::clone(dense) : dense; // a part of another tensor, for one
}

static Tensor room(const Tensor &like, ScalarType dtype, const std::vector<int64_t> &shape)
{
  return torch::stable::new_empty(like, torch::headeronly::IntHeaderOnlyArrayRef(shape.data(), shape.size()), dtype);
}

static @RESULT@ run(@PARAMETERS@)
{
@FITS@
@GUARD@
@ROOMS@
  const void *in[] = {@IN@};
  void *out[] = {@OUT@};
  Tensor work = room(first, ScalarType::Byte, {(int64_t)@WORKSPACE@ + ALIGNED});
  void *at = (void *)(((uintptr_t)work.data_ptr() + ALIGNED - 1) / ALIGNED * ALIGNED);
@CALL@
  return @RETURN@;
}

STABLE_TORCH_LIBRARY_FRAGMENT(@NAMESPACE@, m) { m.def("@SCHEMA@"); }
STABLE_TORCH_LIBRARY_IMPL(@NAMESPACE@, @KEY@, m) { m.impl("@SHORT@", TORCH_BOX(&run)); }
"""
_GUARD = "  const torch::stable::accelerator::DeviceGuard guard(first.get_device_index()); // kernels are launched there\n"
_ON_A_CPU = """  STD_TORCH_CHECK(!mica_@ID@((void *const *)in, out, at), "@FULL@: no memory");"""
_ON_A_GPU = """  void *stream;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(first.get_device_index(), &stream));
  STD_TORCH_CHECK(!@ID@_prepare(at, (cudaStream_t)stream) && !@ID@_run(in, out, at, (cudaStream_t)stream), "@FULL@: the kernels failed");"""


class _Saved:
    """Contents of program.json, with the attributes of a program that custom.py reads."""

    class Tensor:
        def __init__(self, about):
            self.name, self.dtype, self.shape = about.get("name"), about["dtype"], about["shape"]

    def __init__(self, folder):
        with open(os.path.join(folder, "program.json")) as f:
            about = json.load(f)
        self.name, self.gpu = about["program"], about["arch"] != "cpu"
        self.inputs, self.outputs = ([self.Tensor(x) for x in about[k]] for k in ("inputs", "outputs"))
        self.build = {key: shlex.split(text) for key, text in about.get("build", {}).items()}
        if any("state" in x for x in about["outputs"]) or about.get("world", 1) != 1:
            raise ValueError(f"{folder}: programs with states or of several devices are no operators")
        if not all(isinstance(n, int) for x in self.inputs + self.outputs for n in x.shape):
            raise ValueError(f"{folder}: programs with run-time extents are no operators")
        if not self.inputs:
            raise ValueError(f"{folder}: a program without inputs is no operator")
        for x in self.inputs + self.outputs:
            if x.dtype not in _DTYPES or _name_of(x) not in _SCALARS:
                raise ValueError(f"{folder}: the stable ABI of libtorch has no dtype {x.dtype}")
        if not {"flags", "libraries"} <= self.build.keys():
            raise ValueError(f"{folder}: program.json does not say how the kernels are compiled: save the program again")


def _shape(spec):
    return "{%s}" % ", ".join(map(str, spec.shape))


def _name_of(spec):
    return str(_DTYPES[spec.dtype]).removeprefix("torch.")


def _scalar(spec):
    return "ScalarType::" + _SCALARS[_name_of(spec)]


def _source(saved, full, schema):
    namespace, short = full.split("::")
    names = _arguments(saved)
    ident = re.sub(r"\W", "_", saved.name)
    outs = [f"y{k}" for k in range(len(saved.outputs))]
    aligned, workspace = _ALIGNED[saved.gpu]
    fits = [f'  Tensor x{k} = fit(a{k}, a0, {_scalar(s)}, {_shape(s)}, {aligned or _DTYPES[s.dtype].itemsize}, "{n}");'
            for k, (s, n) in enumerate(zip(saved.inputs, names))]
    fits.append("  const Tensor &first = x0;")
    words = {
        "ALIGNED": str(workspace), "GPU": "true" if saved.gpu else "false", "GUARD": _GUARD if saved.gpu else "",
        "RESULT": "Tensor" if len(outs) == 1 else "std::tuple<%s>" % ", ".join(["Tensor"] * len(outs)),
        "PARAMETERS": ", ".join(f"Tensor a{k}" for k in range(len(names))),
        "FITS": "\n".join(fits),
        "ROOMS": "\n".join(f"  Tensor {y} = room(first, {_scalar(s)}, {_shape(s)});" for y, s in zip(outs, saved.outputs)),
        "IN": ", ".join(f"x{k}.data_ptr()" for k in range(len(names))),
        "OUT": ", ".join(f"{y}.data_ptr()" for y in outs),
        "WORKSPACE": f"{ident}_workspace()" if saved.gpu else f"mica_{ident}_workspace()",
        "CALL": _ON_A_GPU if saved.gpu else _ON_A_CPU,
        "RETURN": outs[0] if len(outs) == 1 else "std::make_tuple(%s)" % ", ".join(outs),
        "KEY": "CUDA" if saved.gpu else "CPU", "NAMESPACE": namespace, "SHORT": short, "SCHEMA": schema,
    }
    text = _SOURCE
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.replace("@ID@", ident).replace("@FULL@", full)


def _build(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"the compiler {command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}:\n{done.stderr[-2000:]}")


def _compiler(variable, default):
    return shlex.split(os.environ.get(variable) or default)


def _compile(folder, saved, source, path):
    from torch.utils.cpp_extension import include_paths, library_paths

    flags, libraries = saved.build["flags"], saved.build["libraries"]
    with tempfile.TemporaryDirectory() as work:
        kernel, main = os.path.join(work, "kernel.o"), os.path.join(work, "operator.cpp")
        with open(main, "w") as f:
            f.write(source)
        if saved.gpu:
            _build(["nvcc", "-O3", "-std=c++17", *flags, "-Xcompiler", "-fPIC", "-c", os.path.join(folder, "kernel.cu"), "-o", kernel])
            cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
            libraries = [f"-I{cuda}/include", "-DUSE_CUDA", f"-L{cuda}/lib64", *libraries]
        else:
            _build([*_compiler("CC", "cc"), *flags, "-fPIC", "-c", os.path.join(folder, "kernel.c"), "-o", kernel])
        includes = [x for where in include_paths() for x in ("-isystem", where)]
        links = [f"-L{where}" for where in library_paths()] + ["-ltorch_cpu"] + ["-ltorch_cuda"] * saved.gpu
        _build([*_compiler("CXX", "c++"), "-std=c++20", "-O2", "-shared", "-fPIC", *includes, f"-I{folder}", main, kernel, *libraries, *links,
                "-o", path + ".part"])
    os.replace(path + ".part", path)


def operator_library(folder, path, name=None):
    """Makes the shared library `path` of a saved folder, loads it, and returns its operator, which torch.compile and torch.export treat as opaque.

    name: "name" or "namespace::name"; None: mica::NAME of the program. Another process only needs torch.ops.load_library(path) (in C++: dlopen)
    before it loads a package of AOTInductor with the operator. This function needs a C++ compiler ($CC, $CXX), for a GPU nvcc too. The code in the
    folder will run in this process. ValueError if the program cannot be an operator; RuntimeError if there is no compiler or it fails."""
    folder, path = os.path.abspath(os.fspath(folder)), os.path.abspath(os.fspath(path))
    saved = _Saved(folder)
    full, names = _full_name(name, saved), _arguments(saved)
    namespace, short = full.split("::")
    wants, makes = [_tensor(s) for s in saved.inputs], [_tensor(s) for s in saved.outputs]
    _compile(folder, saved, _source(saved, full, _schema(short, names, makes)), path)
    torch.ops.load_library(path)
    torch.library.register_fake(full, _fake(wants, makes, names))
    return getattr(getattr(torch.ops, namespace), short)
