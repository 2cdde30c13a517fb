"""Writes mica/_ops.py, the functions and methods for operators, from `mica ops --json`: the operator table (src/ir/op.def) is the
only list of them. The build runs it:  python generate.py ops.json _ops.py"""
import json
import sys

TYPES = {"dimension": "int", "integer": "int", "number": "float", "integers": "Sequence[int]",
         "grid map": "Map", "loop map": "Map"}
SKIP = {"input", "output", "iter", "save", "block", "thread"}  # what graphs and blocks do by methods of their own
FIRST = {1: ["x"], 2: ["x", "y"], 4: ["a", "b", "c", "d"]}
NAMED = {"where": ["c", "x", "y"], "gather": ["x", "at"], "update": ["x", "at", "y"]}
OPTIONAL = {"softmax": ["mask"]}  # of the others weight and shift: norms have them


def tensors(row):
    """Names of the needed arguments and of those that may be missing; None: any number of them."""
    if row["most"] is None:
        return None, []
    return NAMED.get(row["name"], FIRST.get(row["least"], [])), OPTIONAL.get(row["name"], ["w", "b"])[:row["most"] - row["least"]]


def attributes(row):
    needed = [f"{a['name']}: {TYPES[a['kind']]}" for a in row["attrs"] if a["needed"]]
    return needed + [f"{a['name']}: {TYPES[a['kind']]} | None = None" for a in row["attrs"] if not a["needed"]]


def signature(row, skip=0):
    need, may = tensors(row)
    if need is None:
        return ["*tensors: Tensor", *attributes(row)]
    names = [f"{n}: {'Tensor | float' if len(need) > 1 and row['attrs'] == [] else 'Tensor'}" for n in need]
    optional = [f"{n}: Tensor | None = None" for n in may]
    # optional tensors come behind the attributes that are needed, and before those that are not, which are then said by name
    needed = [a for a in attributes(row) if not a.endswith("None")]
    rest = [a for a in attributes(row) if a.endswith("None")]
    return (names + needed + optional + (["*"] if may and rest else []) + rest)[skip:]


def given(row):
    need, may = tensors(row)
    return "tensors" if need is None else "(" + "".join(n + ", " for n in need + may) + ")"


def doc(row):
    lines = [row["doc"]]
    lines += [f"    {a['name']}: {a['doc']}" for a in row["attrs"]]
    if "kernel" not in row["levels"]:
        lines.append("    In block graphs only.")
    return "\n    ".join(lines) if len(lines) == 1 else "\n\n    ".join([lines[0], "\n    ".join(l.strip() for l in lines[1:])])


def returns(row):
    return "tuple[Tensor, ...]" if row["name"] in ("split", "accum_max", "topk") else "Tensor"


def call(row, graph, tensor_text):
    named = "".join(f", {a['name']}={a['name']}" for a in row["attrs"])
    return f"_call({graph}, \"{row['name']}\", {tensor_text}{named})"


def function(row):
    return (f"def {row['name']}({', '.join(signature(row))}) -> {returns(row)}:\n"
            f"    \"\"\"{doc(row)}\"\"\"\n    return {call(row, 'None', given(row))}\n")


def method(row):
    need, may = tensors(row)
    text = "(self, " + "".join(n + ", " for n in need[1:] + may) + ")"
    return (f"    def {row['name']}({', '.join(['self', *signature(row, 1)])}) -> {returns(row)}:\n"
            f"        return {call(row, 'None', text)}\n")


def graph_method(row):
    return (f"    def {row['name']}({', '.join(['self', *signature(row)])}) -> {returns(row)}:\n"
            f"        return {call(row, 'self', given(row))}\n")


def module(rows):
    rows = [r for r in rows if r["name"] not in SKIP]
    functions = [r for r in rows if r["most"] != 0]
    methods = [r for r in functions if r["most"] is not None]
    return "\n".join([
        '"""The operators, as functions and as methods. Written by python/generate.py from the operator table."""',
        "from __future__ import annotations", "",
        "TYPE_CHECKING = False  # of typing, whose import costs more than this module",
        "if TYPE_CHECKING:", "    from collections.abc import Mapping, Sequence", "    from .graph import Tensor",
        "    Map = Mapping[str, int | None] | Sequence[int | None]", "",
        f"__all__ = {[r['name'] for r in functions]!r}",
        f"ATTRIBUTES = {dict((r['name'], tuple(a['name'] for a in r['attrs'])) for r in rows)!r}", "",
        "def _call(graph, op, tensors, **attributes):  # graph.py puts its own here",
        "    raise NotImplementedError", "",
        *[function(r) + "" for r in functions],
        "class TensorOps:", "    \"\"\"Operators as methods of the first argument.\"\"\"", "    __slots__ = ()", "", *[method(r) for r in methods],
        "class GraphOps:", "    \"\"\"Operators as methods of the graph that they are added to.\"\"\"", "    __slots__ = ()", "",
        *[graph_method(r) for r in rows]])


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = json.load(f)["operators"]
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(module(rows))
