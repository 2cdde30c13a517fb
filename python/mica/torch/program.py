"""Makes the text of a program from a set of nodes, and records how its inputs and outputs correspond to tensors of torch.

Kinds of inputs of the program:
  raw       a tensor of torch, made contiguous
  prepared  a view, cast or mask of a weight, such as its transpose; computed once for each version of the weight (`weights.py`)
  mask      a boolean tensor as an addend of scores
  floor     an addend of scores, limited to finite numbers
  causal    the constant mask of causal attention
  joined    weights concatenated along their last dimension (`products.py`), once for each version of them
Shapes are numbers. For a graph with a symbol they are those for one value of the symbol (`Shapes`).
"""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import fx

from . import activations, attention, choice, conditions, convolutions, losses, moves, norms, products, reductions  # noqa: F401  their rows
from .emit import CONDITIONS, MOST_DIMS, SYMBOLS, WHOLE, WIDTH, Cannot, Emitter, Value
from .ops import ARITHMETIC, CASTS, DTYPES, EXTENTS, HIDES, ROWS, is_light, name_of, operators, widens


class Shapes:
    """Extents as numbers. env: symbol -> value; without it every symbol has a large prime as its value."""

    def __init__(self, env=None):
        self.env = env
        self.primes = {}

    def value(self, s):
        if not isinstance(s, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return s
        expr = s.node.expr
        for symbol in expr.free_symbols:
            if self.env is not None and symbol in self.env:
                expr = expr.subs(symbol, self.env[symbol])
            elif str(symbol).startswith("u"):
                raise Cannot("an extent that depends on data")
            else:
                if symbol not in self.primes:
                    if len(self.primes) == len(SYMBOLS):
                        raise Cannot("more than two dynamic extents")
                    self.primes[symbol] = SYMBOLS[len(self.primes)]
                expr = expr.subs(symbol, self.primes[symbol])
        return float(expr) if isinstance(s, torch.SymFloat) else int(expr)

    def shape(self, t):
        return tuple(self.value(s) for s in t.shape)

    def strides(self, t):
        return tuple(self.value(s) for s in t.stride())


def _is_symbolic(arg):
    """Whether an argument is a number that depends on a dynamic extent, so that the text cannot contain it."""
    return isinstance(arg, fx.Node) and isinstance(arg.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def symbols_of(t):
    return {f for s in t.shape if isinstance(s, torch.SymInt) for f in s.node.expr.free_symbols}


def batch_of(t):
    """(dimension, factor, symbol) of the dynamic extent of a tensor; None if there is none."""
    at = [d for d, s in enumerate(t.shape) if isinstance(s, torch.SymInt) and s.node.expr.free_symbols]
    if not at:
        return None
    symbols = symbols_of(t)
    if len(at) > 1 or len(symbols) > 1:
        raise Cannot("two dynamic extents in one tensor")
    symbol = symbols.pop()
    factor = (t.shape[at[0]].node.expr / symbol).simplify()
    if not factor.is_Integer:
        raise Cannot(f"the extent {t.shape[at[0]]}, which is not a multiple of {symbol}")
    return at[0], int(factor), symbol


@dataclass
class Input:
    kind: str
    node: fx.Node | None  # node of the argument from which it is made
    value: Value
    chain: tuple = ()     # prepared: the nodes from the weight to the input
    extra: tuple = ()     # data of mask and causal; joined: the concatenated inputs


@dataclass
class Output:
    node: fx.Node
    value: Value
    dtype: torch.dtype


@dataclass
class Program:
    text: str
    inputs: list
    outputs: list
    work: float
    operators: int
    limits: dict = field(default_factory=dict)  # node of an input of indices -> the least and the largest that examples of it hold


@dataclass
class Builder:
    """Emits nodes one after the other. A node that is used but not emitted becomes an input."""
    prepared: dict                       # node -> the weight from which it is computed (`partition.prepared_of`)
    shapes: Shapes = field(default_factory=Shapes)
    static: set = frozenset()            # nodes of weights that may be copied
    emitter: Emitter = field(default_factory=Emitter)
    values: dict = field(default_factory=dict)   # node -> Value or list
    emitted: list = field(default_factory=list)  # nodes
    inputs: list = field(default_factory=list)
    narrow: dict = field(default_factory=dict)   # node -> dtype in Mica, if the user of the node is tried alone
    ranges: dict = field(default_factory=dict)   # node -> range of its whole numbers, if the user of the node is tried alone
    narrowed: set = field(default_factory=set)   # weights cast to 32 bits in torch, but not in the program
    widened: dict = field(default_factory=dict)  # node of `narrowed` -> its Value in 32 bits, if that is needed too

    def input_of(self, node, wide=False):
        """A new input. wide: a weight that torch casts to 32 bits has 32 bits in the program too. Otherwise the cast, which changes no value, is left
        out."""
        t = node.meta.get("val")
        if not isinstance(t, torch.Tensor):
            raise Cannot("an argument that is not a tensor")
        chain, at, stored = [], node, t.dtype
        while at in self.prepared:
            source = at.all_input_nodes[0]
            if wide or not widens(at):
                chain.append(at)
            elif stored is torch.float32:
                stored = source.meta["val"].dtype
                self.narrowed.add(node)
            at = source
        dtype = {torch.bool: "bool", torch.int32: "i32", torch.int64: "i64"}.get(stored, DTYPES.get(str(stored)))
        if dtype is None:
            raise Cannot(f"dtype {str(t.dtype).removeprefix('torch.')}")
        batch = batch_of(t)
        value = Value(f"x{len(self.inputs)}", self.shapes.shape(t), self.narrow.get(node, dtype), None,
                      batch and batch[0], node)
        if len(value.shape) > MOST_DIMS:
            raise Cannot(f"more than {MOST_DIMS} dimensions")
        if 0 in value.shape:
            raise Cannot("a tensor without elements")
        if node in self.ranges:
            self.emitter.whole[value.name] = self.ranges[node]
        self.inputs.append(Input("prepared" if chain else "raw", at, value, tuple(reversed(chain))))
        return value

    def argument(self, node, wide=False):
        val = node.meta.get("val")
        if isinstance(val, (torch.SymInt, torch.SymFloat)):
            return self.shapes.value(val)
        if node not in self.values:
            self.values[node] = self.input_of(node)
        if wide and node in self.narrowed:
            if node not in self.widened:
                self.widened[node] = self.input_of(node, wide=True)
            return self.widened[node]
        return self.values[node]

    def meets_wide(self, node):
        """Whether an argument of the node has 32 bits."""
        values = [self.argument(n) for n in node.all_input_nodes]
        return any(isinstance(v, Value) and v.dtype == "f32" for v in values)

    def emit(self, node):
        """The values of one node. Their shapes are compared with those in torch."""
        name = name_of(node.target)
        if name == "getitem":
            got = self.argument(node.args[0])
            if not isinstance(got, list) or node.args[1] >= len(got):
                raise Cannot(f"result {node.args[1]} of {node.args[0].name}")
            result = got[node.args[1]]
        else:
            f = ROWS.get(name)
            if f is None:
                raise Cannot("no row for this operator")
            if name not in EXTENTS and any(_is_symbolic(a) for a in (*node.args, *node.kwargs.values())):
                raise Cannot("a number that depends on a dynamic extent")
            wide = self.meets_wide(node)
            args = fx.map_arg(node.args, lambda n: self.argument(n, wide))
            kwargs = dict(fx.map_arg(node.kwargs, lambda n: self.argument(n, wide)))
            tensors = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
            self.emitter.device = tensors[0].device.type if tensors else ""
            if name in HIDES:
                kwargs["node"] = node
            if name in CASTS and kwargs.get("device") == node.args[0].meta["val"].device:
                del kwargs["device"]  # type_as has this argument too
            args = [list(a) if isinstance(a, (list, tuple)) else a for a in args]
            try:
                result = f(self.emitter, *args, **kwargs)
            except (TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
                raise Cannot(f"arguments that are not supported ({error})") from None
        self._check(node, result)
        self.emitted.append(node)
        self.values[node] = result
        return result

    def _check(self, node, result):
        val = node.meta.get("val")
        vals = list(val) if isinstance(val, (list, tuple)) else [val]
        results = result if isinstance(result, list) else [result]
        for v, t in zip(results, vals):
            if not isinstance(v, Value):
                raise Cannot("a result that is not a tensor")
            if v.dtype in ARITHMETIC and str(t.dtype) not in DTYPES:
                raise Cannot(f"a result of dtype {str(t.dtype).removeprefix('torch.')}")
            if v.want != self.shapes.shape(t):
                raise Cannot(f"a result of shape {list(v.want)}, but torch's has {list(self.shapes.shape(t))}")
            batch = batch_of(t)
            if (batch and batch[0]) != v.batch:
                raise Cannot("the dynamic extent of the result is unknown, or in another dimension than torch's")


def build(nodes, outputs, prepared, shapes, name, static=frozenset(), frozen=frozenset()):
    """A program of these nodes, which are in topological order. Raises Cannot, with the failing node as `.node`. static: nodes of weights that may be
    copied. frozen: those of them from which the program may compute in advance."""
    b, inside = Builder(prepared, shapes, static), set(nodes)
    for node in nodes:
        try:
            b.emit(node)
            copied = is_light(node) and node not in outputs  # other programs have copies of it
            if node in b.emitter.hides and not attention.only_softmax(node, inside, copied=copied):
                raise Cannot("its softmax is in another program")  # where low numbers would not be what torch makes
        except Cannot as c:
            c.node = node
            raise
    outs = []
    for node in outputs:
        try:
            outs.append(output(b, node))
        except Cannot as c:
            c.node = node
            raise
    return finish(b, outs, name, frozen)


def output(b, node):
    dtype = node.meta["val"].dtype
    if b.values[node].dtype in CONDITIONS:
        raise Cannot("a result of booleans")
    v = b.emitter.full(b.values[node])
    if isinstance(b.emitter.same_numbers(v), str):  # an input has a range, and a call with other numbers is an error
        raise Cannot("whole numbers of an input, which may be larger than the language has")
    if v.name[0] != "t":  # an output that is an input must be copied
        v = b.emitter.unary("{0} * 1", v)
    if v.dtype not in WHOLE and v.dtype != DTYPES[str(dtype)] and WIDTH[v.dtype] < 4:
        raise Cannot(f"a result of dtype {v.dtype}")
    return Output(node, v, dtype)


def range_of(limits):
    """The range of an input in the syntax of the language."""
    return f"{f' >= {limits[0]}' if limits[0] else ''} < {limits[1] + 1}" if limits else ""


def _side_by_side(b, lines, wanted):
    """The lines with products of one operand joined (`products.py`), and the new inputs that these read."""
    weights = {i.value.name: i for i in b.inputs if i.node in b.static and i.kind in ("raw", "prepared") and b.emitter.device in products.DEVICES}
    inputs = []
    for dtype in dict.fromkeys(i.value.dtype for i in weights.values()):
        lines, joined = products.fold(lines, {n: i.value.shape for n, i in weights.items() if i.value.dtype == dtype}, wanted)
        for at, names in joined:
            parts = tuple(weights[n] for n in names)
            inputs.append(Input("joined", None, Value(at, products.extents([p.value.shape for p in parts]), dtype), (), parts))
    return lines, inputs


def _of(i, nodes):
    """Whether an input is a weight among these nodes, a view of one, or several of them joined."""
    return all(_of(p, nodes) for p in i.extra) if i.kind == "joined" else i.kind in ("raw", "prepared") and i.node in nodes


def finish(b, outs, name, frozen=frozenset()):
    wanted = [o.value.name for o in outs]
    lines, joined = _side_by_side(b, norms.fold(b.emitter.lines), wanted)
    lines, need = norms.live(lines, wanted)
    inputs = [i for i in [*b.inputs, *joined] if i.value.name in need]
    masks = {}
    for i in b.inputs:
        masks[i.value.source] = i
    for added, (kind, what) in b.emitter.added.items():
        if added not in need:
            continue
        if kind == "causal":
            t, s, low, dtype = what
            inputs.append(Input("causal", None, Value(added, (t, s), dtype), (), (low,)))
            continue
        source, *extra, dtype = what
        of = masks[source]
        inputs.append(Input(kind, of.node, Value(added, of.value.shape, dtype, None, of.value.batch), of.chain, tuple(extra)))
    text = [f"program {name} {{"]
    text += [f"  {i.value.name}: {i.value.dtype}[{', '.join(map(str, i.value.shape))}]{range_of(b.emitter.limits.get(i.value.name))}"
             f"{' frozen' if _of(i, frozen) else ''}" for i in inputs]
    text += [f"  {n} = {e}" for n, e, _, _ in lines]
    text += [f"  return {', '.join(o.value.name for o in outs)}", "}", ""]
    limits = {i.node: b.emitter.drawn.get(i.value.name, b.emitter.limits[i.value.name]) for i in inputs if i.value.name in b.emitter.limits}
    return Program("\n".join(text), inputs, outs, b.emitter.work, operators(b.emitted), limits)
