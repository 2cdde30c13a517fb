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
    """Copies of one chain of views, of any weights that come to it; or of several weights that are joined."""

    def __init__(self, make):
        self.make = make     # weights -> view or cast of them
        self.made = {}       # key -> (references to the storages, versions, copy)
        self.lock = threading.Lock()

    def __call__(self, *weights):
        if any(w.is_inference() for w in weights):
            return self.make(*weights).contiguous()
        storages, versions = [w.untyped_storage() for w in weights], [w._version for w in weights]
        key = tuple((s._cdata, w.storage_offset(), w.dtype, tuple(w.shape), w.stride()) for s, w in zip(storages, weights))
        entry = self.made.get(key)
        if entry is not None and entry[1] == versions and not _expired(entry):
            return entry[2]
        if capturing(weights[0]):
            return self.make(*weights).contiguous()
        with torch.no_grad():
            copy = self.make(*(w.detach() for w in weights)).contiguous()
            if entry is not None and not _expired(entry):
                copy = entry[2].copy_(copy)  # stays where it is: captured CUDA graphs read it there
        if copy.is_cuda:
            torch.cuda.current_stream(copy.device).synchronize()  # calls in other streams read it next
        with self.lock:
            for k in [k for k, e in self.made.items() if _expired(e)]:
                del self.made[k]
            self.made[key] = ([StorageWeakRef(s) for s in storages], versions, copy)
        return copy


def _expired(entry):
    return any(reference.expired() for reference in entry[0])
