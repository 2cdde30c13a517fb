"""mica.torch.operator registers an optimized program as an operator of torch, torch.ops.mica.NAME. torch.compile, torch.export and CUDA graphs
treat it as opaque. Its kernels are those of the program or of its saved folder, so there is no search."""
from __future__ import annotations

import os
import re

import torch

import mica

_DTYPES = {row["name"]: getattr(torch, row["array"]) for row in mica._mica.dtypes}
_libraries = {}   # namespace::name -> its library; the operator is unregistered when that is freed


def _full_name(name, program):
    full = name or program.name
    full = full if "::" in full else f"mica::{full}"
    if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", full):
        raise ValueError(f"{full!r} is not a name of an operator: give name=\"namespace::name\"")
    if full in _libraries or hasattr(getattr(torch.ops, full.split("::")[0]), full.split("::")[1]):
        raise ValueError(f"the operator {full} is there already: give another name")
    return full


def _arguments(program):
    """Names of the inputs, changed to valid names of a schema."""
    names = []
    for k, spec in enumerate(program.inputs):
        name = re.sub(r"\W", "_", spec.name or "")
        names.append(name if re.fullmatch(r"[A-Za-z]\w*", name) and name not in names else f"input{k}")
    return names


def _tensor(spec):
    return _DTYPES[spec.dtype], tuple(spec.shape)


def _check(tensors, wants, names):
    for t, (dtype, shape), name in zip(tensors, wants, names):
        if t.dtype is not dtype or tuple(t.shape) != shape:
            raise ValueError(f"input {name} is {t.dtype} {list(t.shape)}, and the program's is {dtype} {list(shape)}")


def _schema(short, names, makes):
    results = "Tensor" if len(makes) == 1 else f"({', '.join(['Tensor'] * len(makes))})"
    return f"{short}({', '.join(f'Tensor {n}' for n in names)}) -> {results}"


def _fake(wants, makes, names):
    """The fake implementation, which computes shapes only."""
    def fake(*tensors):
        _check(tensors, wants, names)
        made = [torch.empty(shape, dtype=dtype, device=tensors[0].device) for dtype, shape in makes]
        return made[0] if len(made) == 1 else tuple(made)
    return fake


def operator(what, name=None):
    """Registers an operator and returns it. what: a mica.Program, or the path of a saved folder. name: "name" or "namespace::name"; None: the
    program's. The operator takes the program's inputs and returns a tensor, or a tuple of several results."""
    program = what if isinstance(what, mica.Program) else mica.load(os.fspath(what))
    full, names = _full_name(name, program), _arguments(program)
    wants, makes = [_tensor(s) for s in program.inputs], [_tensor(s) for s in program.outputs]
    namespace, short = full.split("::")

    def run(*tensors):
        _check(tensors, wants, names)
        return program(*(t.contiguous() for t in tensors))

    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(_schema(short, names, makes), tags=(torch.Tag.needs_fixed_stride_order,))
    library.impl(short, run, "CPU" if program.target == "cpu" else "CUDA")
    torch.library.register_fake(full, _fake(wants, makes, names), lib=library)
    _libraries[full] = library
    return getattr(getattr(torch.ops, namespace), short)
