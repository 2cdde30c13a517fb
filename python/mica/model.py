"""mica.model: several programs of one text, which share weights and states. Each entry point is optimized to a Program; the Model holds the
tensors that they share."""
from __future__ import annotations

import os

from . import _mica
from .optimize import Program, _is_text, load, optimize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Entry:
    """An entry point of a Model: a call takes what the entry point declares itself; the model has the other tensors."""

    def __init__(self, model: Model, program: Program):
        self.program, self._model = program, model
        self._names = [spec.name for spec in program.inputs]

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        shared = {name: self._model[name] for name in self._names if name in self._model.shared and name not in named}
        return self.program(*inputs, out=out, stream=stream, **shared, **named)

    def __repr__(self) -> str:
        return f"<entry point {self.program.name} of {self._model.name}: {self.program!r}>"


class Model:
    """Entry points by name, as attributes; tensors that they share by m["W"] = array. States that were not set begin as zeros of the
    library of the tensors that were."""

    def __init__(self, name: str, shared: tuple[str, ...], programs: Mapping[str, Program]):
        self.name, self.shared = name, shared
        self.entries = {key: Entry(self, program) for key, program in programs.items()}
        self._specs = {spec.name: spec for p in programs.values() for spec in p.inputs if spec.name in shared}
        self._states = {p.inputs[k].name for p in programs.values() for k in p._states}
        self._tensors: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Entry:
        try:
            return self.__dict__["entries"][name]
        except KeyError:
            raise AttributeError(f"the model has no entry point {name}; it has {', '.join(self.__dict__.get('entries', {}))}") from None

    def __setitem__(self, name: str, array: Any) -> None:
        if name not in self._specs:
            raise _mica.ArgumentError(f"the model shares no tensor {name}; it shares {', '.join(self._specs)}")
        self._tensors[name] = array

    def __getitem__(self, name: str) -> Any:
        if name not in self._tensors and name in self._states:
            self._tensors[name] = self._zeros(name)
        if name not in self._tensors:
            raise _mica.ArgumentError(f"the model has no {name} yet: m[\"{name}\"] = array")
        return self._tensors[name]

    def _zeros(self, name: str) -> Any:
        spec, like = self._specs[name], next(iter(self._tensors.values()), None)
        row = next(row for row in _mica.dtypes if row["name"] == spec.dtype)
        if hasattr(like, "new_zeros"):
            import torch
            return like.new_zeros(spec.shape, dtype=getattr(torch, row["array"]))
        import numpy
        return numpy.zeros(spec.shape, row["array"])

    def reset(self) -> None:
        """States are zeros again."""
        for name in self._states & self._tensors.keys():
            self._tensors[name][...] = 0

    def save(self, path: str | os.PathLike) -> None:
        """A folder for each entry point, which mica.load reads too, and model.json. Tensors are not saved."""
        import json
        path = os.fspath(path)
        os.makedirs(path, exist_ok=True)
        for key, entry in self.entries.items():
            entry.program.save(os.path.join(path, key))
        with open(os.path.join(path, "model.json"), "w", encoding="utf-8") as f:
            json.dump({"name": self.name, "shared": list(self.shared), "entries": list(self.entries)}, f)

    def __repr__(self) -> str:
        return f"<mica.Model {self.name}: {', '.join(self.entries)}>"


def _names(x) -> bool:
    return isinstance(x, list) and all(isinstance(n, str) and n.isidentifier() for n in x)


def _saved(path: str) -> dict:
    """The file that Model.save wrote. The folders of entry points lie next to it."""
    import json
    try:
        with open(path, encoding="utf-8") as f:
            saved = json.load(f)
    except (ValueError, RecursionError):
        saved = None
    if not isinstance(saved, dict) or not isinstance(saved.get("name"), str) or not _names(saved.get("shared")) or not _names(saved.get("entries")):
        raise _mica.UsageError(f"{path}: it is not what Model.save writes: name, shared and entries")
    return saved


def model(what: str | os.PathLike, *, params: Mapping[str, int] | None = None, entries: tuple[str, ...] | None = None, **options) -> Model:
    """The model of a text or a path, each of its entry points (or of `entries` alone) optimized; options are those of mica.optimize. The folder
    that Model.save wrote is loaded."""
    what = os.fspath(what)
    if os.path.isdir(what):
        saved = _saved(os.path.join(what, "model.json"))
        return Model(saved["name"], tuple(saved["shared"]), {key: load(os.path.join(what, key)) for key in saved["entries"]})
    context = _mica.Context()
    name, found, shared = context.model_text(what, "model") if _is_text(what) else context.model(what)
    if not found:
        raise _mica.UsageError("the text has one program and no entry points: mica.optimize takes it")
    return Model(name, shared, {key: optimize(what, params=params, entry=key, **options) for key in (entries or found)})
