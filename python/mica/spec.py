"""Spec: shape and dtype of an array without its values, also from arrays of other libraries."""
from __future__ import annotations

from operator import index

from . import _mica

# names of dtypes in other libraries, without a prefix such as "torch."
NAMES = {"half": "f16", "float": "f32"}
for _row in _mica.dtypes:
    NAMES |= {_row[k]: _row["name"] for k in ("name", "array", "typestr", "format") if _row[k]}


def dtype_of(x) -> str:
    """Mica's name of a dtype, from a name, or from a dtype of numpy, torch, jax or cupy."""
    name = x if isinstance(x, str) else getattr(x, "name", None) or getattr(x, "__name__", None) or str(x)
    found = NAMES.get(name.rsplit(".", 1)[-1])
    if not found:
        from .hints import dtype
        raise dtype(name, NAMES)
    return found


class Spec:
    """Shape, dtype and name of a tensor: an input or output of a program, or an example input without values. shard: the dimension along which a
    world of several devices divides the tensor; None: all devices have the whole tensor."""
    __slots__ = ("shape", "dtype", "name", "shard")

    def __init__(self, shape, dtype="f32", name: str = "", shard: int | None = None):
        self.shape, self.dtype, self.name, self.shard = tuple(index(n) for n in shape), dtype_of(dtype), name, shard

    def __eq__(self, other) -> bool:
        return isinstance(other, Spec) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        shard = "" if self.shard is None else f" shard({self.shard})"
        return f"{self.name + ': ' if self.name else ''}{self.dtype}{list(self.shape)}{shard}"


def spec_of(x) -> Spec:
    """The Spec of an example input, which is an array or a Spec."""
    if isinstance(x, Spec):
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Spec(x.shape, x.dtype)
    try:
        view = memoryview(x)
    except TypeError:
        raise _mica.UsageError(f"an example input of type {type(x).__name__} is no array; mica.Spec(shape, dtype) stands for one") from None
    return Spec(view.shape, view.format)
