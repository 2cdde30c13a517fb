"""Operators that torch knows: what torch.compile and torch.export put into their graphs.

mica::run is what the backend puts into a graph that Inductor compiles: a region by its key.
mica::call is for users: a program's text with its inputs. The text is all there is to it, so an exported program that is saved
runs in another process, which optimizes the text at its first call or takes it from the cache. It is a JSON string, which is one line:
Inductor writes arguments of operators into comments of what it generates for a GPU.
"""
from __future__ import annotations

import json
import threading

import torch

from . import engine
from .options import options_of

_regions = {}   # key -> Region, for as long as the process lives: compiled code names them


def register(new):
    key = new.key()
    return key, _regions.setdefault(key, new)


def is_decided(key):
    """A region of this key is there, and what became of its program is known."""
    found = _regions.get(key)
    return found is not None and found.taken is not None


def region(key):
    return _regions[key]


def _run(tensors, sizes, key):
    """A region of a compiled graph. tensors and sizes: its arguments, in order, apart."""
    found = _regions[key]
    return owned(found(*found.joined(tensors, sizes)), tensors)


def _like_run(tensors, sizes, key):
    found = _regions[key]
    out = found.module(*found.joined(tensors, sizes))
    return [torch.empty(o.shape, dtype=o.dtype, device=o.device) for o in out]


# A model calls it many times, and torch.library.custom_op has four times as much work around a call.
_operators = torch.library.Library("mica", "FRAGMENT")
_operators.define("run(Tensor[] tensors, SymInt[] sizes, str key) -> Tensor[]")
_operators.impl("run", _run, "CompositeExplicitAutograd")
torch.library.register_fake("mica::run", _like_run, lib=_operators)


def owned(outputs, inputs):
    """An operator gives no argument back: nodes that run instead of a program may."""
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
    """The results of a program of Mica's language on tensors, in the order of its inputs. program: its text, a JSON string. options: as of
    the backend, a JSON object."""
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
