"""Custom operators of torch, which torch.compile and torch.export keep in their graphs.

mica::run runs a region, given by its key. The backend puts it into graphs that Inductor compiles.
mica::call is for users. Its arguments are the text of a program and its inputs, so a saved exported program runs in another process. That process
optimizes the text at its first call, or loads it from the cache. The text is a JSON string on one line, because Inductor writes arguments of
operators into comments of GPU code.
"""
from __future__ import annotations

import json
import threading

import torch

from . import engine
from .options import options_of

_regions = {}   # key -> Region, to the end of the process, because compiled code contains keys


def register(new):
    key = new.key()
    return key, _regions.setdefault(key, new)


def is_decided(key):
    """Whether a region of this key exists and its program is decided."""
    found = _regions.get(key)
    return found is not None and found.taken is not None


def region(key):
    return _regions[key]


def _run(tensors, sizes, key):
    """Runs a region of a compiled graph. tensors, sizes: its tensor arguments and its integer arguments, each in order."""
    found = _regions[key]
    return owned(found(*found.joined(tensors, sizes)), tensors)


def _like_run(tensors, sizes, key):
    found = _regions[key]
    out = found.module(*found.joined(tensors, sizes))
    return [torch.empty(o.shape, dtype=o.dtype, device=o.device) for o in out]


# A model calls it many times, and torch.library.custom_op has four times the overhead.
_operators = torch.library.Library("mica", "FRAGMENT")
_operators.define("run(Tensor[] tensors, SymInt[] sizes, str key) -> Tensor[]")
_operators.impl("run", _run, "CompositeExplicitAutograd")
torch.library.register_fake("mica::run", _like_run, lib=_operators)


def owned(outputs, inputs):
    """The outputs, with copies of those that share storage with inputs or earlier outputs. An operator must not return an argument, but nodes that
    run in place of a program may."""
    taken = {t.untyped_storage()._cdata for t in inputs}
    out = []
    for o in outputs:
        o = o.contiguous()
        if o.untyped_storage()._cdata in taken:
            o = o.clone()
        taken.add(o.untyped_storage()._cdata)
        out.append(o)
    return out


_programs, _lock = {}, threading.Lock()


@torch.library.custom_op("mica::call", mutates_args=())
def call(tensors: list[torch.Tensor], program: str, options: str) -> list[torch.Tensor]:
    """Runs a program in Mica's language. tensors: its inputs in order. program: its text as a JSON string. options: those of the backend as a JSON
    object."""
    target = engine.target_of(tensors[0].device) if tensors else "cpu"
    key = (program, options, target)
    with _lock:
        compiled = _programs.get(key)
        if compiled is None:
            given = options_of(json.loads(options))
            compiled = _programs[key] = engine.compile(json.loads(program), given.target or target, given)
    if len(tensors) != len(compiled.inputs):
        raise ValueError(f"the program has {len(compiled.inputs)} inputs, not {len(tensors)}")
    for k, (t, (dtype, shape)) in enumerate(zip(tensors, compiled.inputs)):
        if t.dtype is not dtype or tuple(t.shape) != shape:
            raise ValueError(f"input {k} of the program is {dtype} {list(shape)}, not {t.dtype} {list(t.shape)}")
    return compiled([t.contiguous() for t in tensors])


@call.register_fake
def _(tensors, program, options):
    device = tensors[0].device if tensors else torch.device("cpu")
    return [torch.empty(shape, dtype=dtype, device=device) for dtype, shape in engine.signature(json.loads(program))[1]]
