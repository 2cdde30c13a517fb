"""Contiguous copies of views, casts and masks of weights, and programs with frozen weights, computed once for each version of the weights.

A copy is valid as long as the weight's storage lives and its version counter does not change. torch counts every in-place change, so an optimizer's
step or load_state_dict updates the copy. (Writes through `.data` are not counted; see docs/torch.md.) Copies are found by storage, offset and
strides, and are freed after the storage. A new weight at the same address has another storage. Tensors made in inference mode have no counter, so
every call copies them. A call that a CUDA graph captures copies too if there is no valid copy, because its results do not exist before the replay.
"""
from __future__ import annotations

import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def capturing(t):
    """Whether a CUDA graph captures operations on t."""
    return t.is_cuda and torch.cuda.is_current_stream_capturing()


class Prepared:
    """Copies made by one chain of views for any weight, or of several weights that are joined."""

    def __init__(self, make):
        self.make = make     # function of the weights that makes their view or cast
        self.made = {}       # key -> (references to the storages, versions, copy)
        self.lock = threading.Lock()

    def __call__(self, *weights):
        if any(w.is_inference() for w in weights):
            return self.make(*weights).contiguous()
        storages, versions = [w.untyped_storage() for w in weights], [w._version for w in weights]
        key = _key(weights)
        entry = self.made.get(key)
        if entry is not None and entry[1] == versions and not _expired(entry):
            return entry[2]
        if capturing(weights[0]):
            return self.make(*weights).contiguous()
        with torch.no_grad():
            copy = self.make(*(w.detach() for w in weights)).contiguous()
            if entry is not None and not _expired(entry):
                copy = entry[2].copy_(copy)  # in place, because captured CUDA graphs read this address
        if copy.is_cuda:
            torch.cuda.current_stream(copy.device).synchronize()  # other streams may read it next
        with self.lock:
            for k in [k for k, e in self.made.items() if _expired(e)]:
                del self.made[k]
            self.made[key] = ([StorageWeakRef(s) for s in storages], versions, copy)
        return copy


class Frozen:
    """Calls of a program with frozen inputs: what follows from weights alone is computed once for each version of them (`Program.freeze`)."""

    def __init__(self, compiled):
        self.compiled = compiled
        self.which = [k for k, frozen in enumerate(compiled.frozen) if frozen]
        self.made = {}       # key -> (references to the storages, versions, program)
        self.lock = threading.Lock()

    def __call__(self, sources, inputs):
        """inputs: tensors of the program, made of `sources`, by which versions of weights are told apart."""
        weights = [sources[k] for k in self.which]
        if any(w.is_inference() for w in weights):
            return self.compiled(inputs)
        key, versions = _key(weights), [w._version for w in weights]
        entry = self.made.get(key)
        if entry is None or entry[1] != versions or _expired(entry):
            with self.lock:
                entry = [StorageWeakRef(w.untyped_storage()) for w in weights], versions, self.compiled.freeze([inputs[k] for k in self.which])
                for k in [k for k, e in self.made.items() if _expired(e)]:
                    del self.made[k]
                self.made[key] = entry
        return entry[2](inputs)


def _key(weights):
    return tuple((w.untyped_storage()._cdata, w.storage_offset(), w.dtype, tuple(w.shape), w.stride()) for w in weights)


def _expired(entry):
    return any(reference.expired() for reference in entry[0])
