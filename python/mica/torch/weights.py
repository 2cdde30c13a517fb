"""Views and casts of weights, and masks made of them, contiguous, made once a version of the weight.

A copy is valid while the weight's storage lives and its version counter stands: torch counts every change in place, so an
optimizer's step or load_state_dict updates the copy. (What is written through `.data` is not counted; docs/torch.md says
so.) Copies are found by storage, place and strides, and go when the storage has gone: a new weight at the same address is
another storage. Tensors made in inference mode have no counter: they are copied in every call. So is what a CUDA graph captures and
finds no valid copy of: what it makes is there when it is replayed, not before.
"""
from __future__ import annotations

import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def capturing(t):
    """A CUDA graph captures what is done with t."""
    return t.is_cuda and torch.cuda.is_current_stream_capturing()


class Prepared:
    """Copies of one chain of views, of any weights that come to it."""

    def __init__(self, make):
        self.make = make     # weight -> view or cast of it
        self.made = {}       # key -> (reference to the storage, version, copy)
        self.lock = threading.Lock()

    def __call__(self, weight):
        if weight.is_inference():
            return self.make(weight).contiguous()
        storage = weight.untyped_storage()
        key = (storage._cdata, weight.storage_offset(), weight.dtype, tuple(weight.shape), weight.stride())
        entry = self.made.get(key)
        if entry is not None and entry[1] == weight._version and not entry[0].expired():
            return entry[2]
        if capturing(weight):
            return self.make(weight).contiguous()
        version = weight._version
        with torch.no_grad():
            copy = self.make(weight.detach()).contiguous()
            if entry is not None and not entry[0].expired():
                copy = entry[2].copy_(copy)  # stays where it is: captured CUDA graphs read it there
        if copy.is_cuda:
            torch.cuda.current_stream(copy.device).synchronize()  # calls in other streams read it next
        with self.lock:
            for k in [k for k, e in self.made.items() if e[0].expired()]:
                del self.made[k]
            self.made[key] = (StorageWeakRef(storage), version, copy)
        return copy
