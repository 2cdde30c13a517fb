"""Calls of programs with run-time extents. Shapes of arrays may have the extents' values instead of their bounds, and results have the values."""
from __future__ import annotations

from . import _mica

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def has_extents(module: _mica.Module) -> bool:
    return any(fill is None for fill in module._extents[2])


def _shape(x) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else tuple(memoryview(x).shape)


def _numpy():
    import numpy
    return numpy


def _full(like, shape, value):
    """An array of this shape, filled with `value`, of the library and dtype of `like`."""
    if hasattr(like, "new_full"):  # torch
        return like.new_full(shape, value)
    library = type(like).__module__.split(".")[0]
    if library == "cupy":
        import cupy
        return cupy.full(shape, value, dtype=like.dtype)
    return _numpy().full(shape, value, dtype=_numpy().asarray(like).dtype)


def _dense(x):
    if hasattr(x, "contiguous"):
        return x.contiguous()
    if type(x).__module__.split(".")[0] == "cupy":
        import cupy
        return cupy.ascontiguousarray(x)
    return _numpy().ascontiguousarray(x)


def _scalar(value: int, like):
    """An i32 scalar of the library and on the device of `like`."""
    if hasattr(like, "new_full"):
        import torch
        return torch.tensor(value, dtype=torch.int32, device=like.device)
    if type(like).__module__.split(".")[0] == "cupy":
        import cupy
        return cupy.asarray(value, dtype="int32")
    return _numpy().asarray(value, dtype="int32")


def _whole(name: str, value) -> int:
    try:
        n = int(value)
        if n == value:
            return n
    except (TypeError, ValueError, OverflowError):
        pass
    raise _mica.ArgumentError(f"{name} is {value!r} in the call, and is a whole number")


class Call:
    """One call: its arguments, the values of the extents, and arrays padded to the bounds."""

    def __init__(self, module: _mica.Module, args: tuple, named: dict[str, Any]):
        self.module = module
        self.inputs, self.outputs, self.fills = module._extents
        self.holders = sorted({k for tensors in (self.inputs, self.outputs) for dims in tensors for k in dims if k >= 0} | self._unused())
        self.given = self._arrange(args, named)
        self.values: dict[int, tuple[int, str]] = {}
        self._take_values()

    def _unused(self) -> set[int]:
        """Extent inputs, including those that no shape names."""
        return {i for i, fill in enumerate(self.fills) if fill is None}

    def _name(self, i: int) -> str:
        return self.module._inputs[i][0]

    def _arrange(self, args: tuple, named: dict[str, Any]) -> dict[int, Any]:
        n = len(self.module._inputs)
        places = [i for i in range(n) if self._name(i) not in named]
        if len(args) < len(places):
            places = [i for i in places if i not in self.holders]
        if len(args) > len(places):
            raise _mica.ArgumentError(f"{len(args)} inputs are given, and the program takes {n}, of which {len(self.holders)} are extents")
        given = dict(zip(places, args))
        names = {self._name(i): i for i in range(n)}
        for name, value in named.items():
            if name not in names:
                raise _mica.ArgumentError(f"there is no input `{name}`; `out` and `stream` are the other names")
            if names[name] in given:
                raise _mica.ArgumentError(f"input {name} is given twice")
            given[names[name]] = value
        for i in range(n):
            if i not in given and i not in self.holders:
                raise _mica.ArgumentError(f"input {i} ({self._name(i)}) is missing: the program takes {n}")
        return given

    def _set(self, holder: int, value: int, source: str) -> None:
        least, most = self.module._ranges[holder]
        name = self._name(holder)
        if not least <= value <= most:
            raise _mica.ArgumentError(f"{name} is {value} in {source}, at {'most' if value > most else 'least'} {most if value > most else least}")
        known = self.values.setdefault(holder, (value, source))
        if known[0] != value:
            raise _mica.ArgumentError(f"{name} is {known[0]} in {known[1]} and {value} in {source}")

    def _take_values(self) -> None:
        for k in self.holders:
            if k in self.given:
                self._set(k, _whole(self._name(k), self.given[k]), "the call")
        said = dict(self.values)
        for i, dims in enumerate(self.inputs):
            if all(k < 0 for k in dims):
                continue
            shape, (name, _, bounds) = _shape(self.given[i]), self.module._inputs[i]
            if len(shape) != len(bounds) or any(k < 0 and a != b for k, a, b in zip(dims, shape, bounds)):
                wanted = ", ".join(self._name(k) if k >= 0 else str(b) for k, b in zip(dims, bounds))
                raise _mica.ArgumentError(f"input {i} ({name}): its shape is {list(shape)}, and the program's is [{wanted}]")
            if shape == tuple(bounds) and all(k in said for k in dims if k >= 0):
                continue  # the array has the shape of the bounds, and the call gives the values
            for k, extent in zip(dims, shape):
                if k >= 0:
                    self._set(k, int(extent), name or f"input {i}")
        for k in self.holders:
            if k not in self.values:
                raise _mica.ArgumentError(f"no array says what {self._name(k)} is: pass {self._name(k)}=")

    def shape(self, dims: tuple[int, ...], bounds: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.values[k][0] if k >= 0 else b for k, b in zip(dims, bounds))

    def arrays(self) -> list[Any]:
        like = next((x for i, x in sorted(self.given.items()) if i not in self.holders), None)
        made = []
        for i, dims in enumerate(self.inputs):
            x, bounds = self.given.get(i), tuple(self.module._inputs[i][2])
            if i in self.holders:
                x = _scalar(self.values[i][0], like)
            elif any(k >= 0 for k in dims) and _shape(x) != bounds:
                part = tuple(slice(0, n) for n in _shape(x))
                x, small = _full(x, bounds, self.fills[i]), x
                x[part] = small
            made.append(x)
        return made

    def results(self, made):
        many = isinstance(made, tuple)
        out = []
        for x, dims, (_, _, bounds) in zip(made if many else (made,), self.outputs, self.module._outputs):
            shape = self.shape(dims, bounds)
            out.append(x if shape == tuple(bounds) else _dense(x[tuple(slice(0, n) for n in shape)]))
        return tuple(out) if many else out[0]
