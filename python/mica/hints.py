"""Texts of errors in traced functions: the user's line, what is wrong, and a hint with the right code. Imported by errors alone."""
from __future__ import annotations

import difflib
import linecache
import os
import sys

from . import _mica, _ops

HINT = "\n  hint: "
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

# Names of numpy and torch -> what to write instead. Operators with the same name need no row.
INSTEAD = {
    **dict.fromkeys(("absolute", "fabs"), "mica.abs(x)"),
    **dict.fromkeys(("power", "float_power"), "x ** y"),
    **dict.fromkeys(("multiply", "mul"), "x * y"),
    **dict.fromkeys(("divide", "true_divide"), "x / y"),
    "subtract": "x - y", "negative": "-x", "reciprocal": "1 / x", "exp2": "mica.pow(2, x)", "expm1": "mica.exp(x) - 1", "log1p": "mica.log(x + 1)",
    "less": "x < y", "greater": "x > y", "greater_equal": "x >= y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y", "eq": "x == y",
    **dict.fromkeys(("not_equal", "ne"), "1 - (x == y)"),
    **dict.fromkeys(("logical_and", "bitwise_and"), "c * d of two conditions"),
    **dict.fromkeys(("logical_or", "bitwise_or"), "mica.maximum(c, d) of two conditions"),
    **dict.fromkeys(("logical_not", "bitwise_not", "invert"), "1 - c of a condition"),
    **dict.fromkeys(("dot", "mm", "bmm", "mv", "inner", "einsum", "tensordot"), "x @ y, with mica.transpose and mica.reshape around it"),
    "linear": "x @ w + b",
    **dict.fromkeys(("concatenate", "cat", "hstack", "vstack"), "mica.concat(x, y, dim=0)"),
    "stack": "mica.concat of tensors that mica.reshape gave a dimension of extent 1",
    **dict.fromkeys(("view", "view_as", "flatten", "ravel", "unsqueeze", "expand_dims", "squeeze", "unflatten"), "mica.reshape(x, [...])"),
    **dict.fromkeys(("permute", "swapaxes", "moveaxis", "movedim"), "mica.transpose(x, perm=[...])"), "t": "x.T", "mT": "x.T",
    "amax": "mica.max(x, dim)", "amin": "mica.min(x, dim)",
    **dict.fromkeys(("var", "std"), "mica.mean(mica.square(x - mica.mean(x, dim)), dim)"),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to", "tile", "repeat_interleave"),
                    "mica.repeat(x, dim, times); extents of 1 broadcast by themselves"),
    **dict.fromkeys(("masked_fill", "select"), "mica.where(c, x, y)"),
    **dict.fromkeys(("index_select", "take", "take_along_axis", "embedding"), "mica.gather(x, at, dim)"),
    **dict.fromkeys(("put", "scatter", "index_copy", "copyto"), "mica.update(x, at, y, dim)"),
    "narrow": "mica.slice(x, dim, start, end)", "unbind": "mica.split(x, dim, parts)", "arange": "x.graph.iota([n]) of any tensor x",
    **dict.fromkeys(("full", "full_like", "zeros", "zeros_like", "ones", "ones_like"), "the number itself, which broadcasts"),
    **dict.fromkeys(("size", "shape"), "x.shape"), "dim": "x.ndim", "rmsnorm": "mica.rms_norm(x, w, eps=1e-6)",
    "swish": "mica.silu(x)", "hardtanh": "mica.clamp(x, -1, 1)", "clip": "mica.clamp(x, lo, hi)", "relu6": "mica.clamp(x, 0, 6)",
}
# and of those without a counterpart -> what to do.
OTHERWISE = {
    **dict.fromkeys(("item", "tolist", "numpy", "cpu", "cuda", "data"),
                    "read values outside of the function: call the program that mica.optimize returns"),
    **dict.fromkeys(("to", "astype", "type", "half", "float", "bfloat16"),
                    "a tensor has the dtype of its operands: give inputs one by mica.Spec(shape, \"f16\")"),
    **dict.fromkeys(("clone", "copy", "contiguous", "detach"), "leave it out: no operator changes a tensor"),
}
OTHER_DTYPES = {**dict.fromkeys(("float64", "f64", "double", "float8", "complex64", "single"), "f32"),
                **dict.fromkeys(("int8", "int16", "uint8", "uint16", "uint32", "uint64", "int", "long", "short", "i8", "i16", "u8"), "i32")}


def nearest(name: str, names) -> str | None:
    """The name that somebody who wrote `name` may have meant."""
    low = {n.lower(): n for n in names}
    found = difflib.get_close_matches(name.lower(), low, 1, 0.7)
    return low[found[0]] if found else None


def usage(name: str) -> str:
    """An operator with the arguments that it needs: mica.sum(x, dim)."""
    import inspect
    named = [p for p in inspect.signature(getattr(_ops, name)).parameters.values() if p.default is p.empty]
    return f"mica.{name}({', '.join('x, y' if p.kind is p.VAR_POSITIONAL else p.name for p in named)})"


def instead(name: str) -> str:
    """The hint for a function or a method that Mica does not have."""
    plain = name.rstrip("_")
    if plain in INSTEAD:
        return f"write {INSTEAD[plain]}"
    if plain in OTHERWISE:
        return OTHERWISE[plain]
    if plain in _ops.__all__:
        return f"write {usage(plain)}"
    near = nearest(plain, _ops.__all__)
    return f"did you mean {usage(near)}?" if near else "`mica ops` lists the operators"


def no_values(what: str, write: str) -> _mica.ArgumentError:
    return _mica.ArgumentError(f"a tensor of Mica has no values while a program is built: {what}{HINT}{write}")


def no_attribute(of: str, name: str, hint: str) -> AttributeError:
    """With a name of its own, to which Python adds no second proposal."""
    return AttributeError(f"{of} has no attribute `{name}`{HINT}{hint}", name="")


def no_member(name: str, members) -> AttributeError:
    """The error of a name that the package does not have, such as mica.sofmax."""
    if os.path.exists(f"{PACKAGE}{name}.py") or os.path.exists(f"{PACKAGE}{name}{os.sep}__init__.py"):
        return no_attribute("the package mica", name, f"it is a module: write import mica.{name} first")
    near = None if name in INSTEAD or name in OTHERWISE else nearest(name, members)
    return no_attribute("the package mica", name, f"did you mean mica.{near}?" if near and near not in _ops.__all__ else instead(name))


def no_method(name: str, members) -> AttributeError:
    """The error of a name that tensors do not have, such as x.softmaxx."""
    near = None if name in INSTEAD or name in OTHERWISE else nearest(name, members)
    return no_attribute("a tensor of Mica", name, f"did you mean x.{near}?" if near else instead(name))


def is_array(x) -> bool:
    """Whether x has values of its own, as arrays of other libraries and lists have."""
    kind = type(x)
    return isinstance(x, (list, tuple)) or any(hasattr(kind, a) for a in ("__array_interface__", "__dlpack__", "__cuda_array_interface__"))


def an_array(x, said: str) -> _mica.ArgumentError:
    """An array among the operands. said: the operator."""
    kind = type(x)
    module = kind.__module__.split(".")[0]
    shape = getattr(x, "shape", None)
    text = f"a {kind.__name__}" if module == "builtins" else f"an array of {module}" + ("" if shape is None else f" with shape {list(shape)}")
    return _mica.ArgumentError(f"{said}: one operand is {text}, and a program reads arrays as its inputs alone"
                               f"{HINT}make it an argument of the function, and give the array to mica.optimize as an example input")


def foreign(library: str, name: str, args) -> _mica.ArgumentError:
    """A function of another library was called with tensors of Mica."""
    for x in args:
        if is_array(x) and getattr(x, "shape", True):
            found = next((y for y in x if is_array(y)), None) if isinstance(x, (list, tuple)) else x
            if found is not None:
                return an_array(found, f"{library}.{name}")
    return _mica.ArgumentError(f"{library}.{name} computes with values, and a tensor of Mica has none while a program is built{HINT}{instead(name)}")


def wrong_result(function, name: str, result) -> _mica.UsageError:
    """The function that was traced returned what is no tensor of Mica."""
    e = _mica.UsageError(f"the function {name} returned an object of type {type(result).__name__}{HINT}return a tensor of Mica, or a tuple of them")
    code = getattr(function, "__code__", None)
    if code:
        with_line(e, line_of(code.co_filename, code.co_firstlineno, code.co_name))
    return e


def dtype(name: str, names: dict) -> _mica.UsageError:
    dtypes = ", ".join(row["name"] for row in _mica.dtypes)
    meant = OTHER_DTYPES.get(name) or nearest(name, names)
    write = f"write \"{meant}\"" if meant in OTHER_DTYPES.values() else f"did you mean \"{meant}\"?" if meant else "write \"f32\""
    return _mica.UsageError(f"Mica has no dtype {name}; its dtypes are {dtypes}{HINT}{write}; an array is converted by x.astype('float32')")


# ---- the user's line ----
def with_line(e: BaseException, where: str) -> None:
    """Puts `where` behind the first line of the error's text, before its hint."""
    head, *rest = e.args[0].split("\n")
    e.args = ("\n".join([head, "  " + where, *rest]), *e.args[1:])


def line_of(path: str, number: int, name: str) -> str:
    text = linecache.getline(path, number).strip()
    return f"{path}:{number}, in {name}" + (f": {text}" if text else "")


def libraries() -> tuple[str, ...]:
    """Folders of Mica and of the libraries whose functions call it back."""
    found = [getattr(sys.modules.get(name), "__file__", None) for name in ("numpy", "torch")]
    return PACKAGE, *(os.path.dirname(f) + os.sep for f in found if f)


def locate(e: BaseException) -> None:
    """Adds the line of the user's function to an error that Mica raised below it. Errors of the user's own code have it as their last frame."""
    frames, tb, folders = [], e.__traceback__, libraries()
    while tb:
        frames.append((tb.tb_frame.f_code, tb.tb_lineno))
        tb = tb.tb_next
    theirs = [(code, n) for code, n in frames if not code.co_filename.startswith(folders)]
    if not theirs or not frames[-1][0].co_filename.startswith(PACKAGE) or not e.args or not isinstance(e.args[0], str):
        return
    code, number = theirs[-1]
    where = line_of(code.co_filename, number, code.co_name)
    if where not in e.args[0]:
        with_line(e, where)
