"""Programs built from Python: Graph, Tensor, Block, and tracing of functions. The C library numbers tensors, infers shapes and checks each
call immediately. This module wraps the numbers in objects with operators."""
from __future__ import annotations

import operator

from . import _mica, _ops
from .spec import Spec, dtype_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GRID, LOOP = "xyz", "ijkl"  # axes of blocks, in the order of maps


def hints():
    """The module hints, which errors alone load."""
    from . import hints as module
    return module


def number_text(x) -> str | None:
    """A number in the syntax of the language; None: not a number."""
    if isinstance(x, (bool, Tensor)):
        return None
    if isinstance(x, int):
        return repr(int(x))
    if isinstance(x, float) or (hasattr(x, "__float__") and not getattr(x, "shape", ())):
        return repr(float(x))
    return None


def map_list(m, axes: str) -> list[int]:
    """A map as a list of dimensions by axis. {"x": 0} and (0,) are [0]. None, "_" and missing axes are -1, which means replicated."""
    if m is None:
        return []
    if hasattr(m, "items"):
        wrong = [a for a in m if a not in tuple(axes)]
        if wrong:
            raise _mica.UsageError(f"there is no axis `{wrong[0]}`; the axes are {', '.join(axes)}")
        m = [m.get(a) for a in axes]
    return [-1 if d is None or d == "_" else d for d in m]


def attribute_text(name: str, value) -> str:
    if name in ("fmap", "imap", "omap"):
        axes = LOOP if name == "fmap" else GRID
        maps = ", ".join(f"{a}:{d}" for a, d in zip(axes, map_list(value, axes)) if d >= 0)
        return f"{name}={{{maps}}}"
    if isinstance(value, (list, tuple)):
        return f"{name}=[{', '.join(str(int(v)) for v in value)}]"
    text = number_text(value)
    if text is None:
        raise _mica.UsageError(f"{name} is {value!r}, which is no number\n  hint: attributes are numbers known while the program is built")
    return f"{name}={text}"


def _graph_of(tensors) -> Graph:
    for t in tensors:
        if isinstance(t, Tensor):
            return t.graph
    raise _mica.UsageError("an operator of Mica takes tensors of Mica, and none of the operands is one"
                           "\n  hint: tensors are inputs of a mica.Graph, or arguments of a function that mica.optimize traces")


def _number(graph: Graph, op: str, tensors: list, at: int) -> str | None:
    """Handles a number among the tensors of an operator. In the last place, as in `maximum(x, 0)`, it becomes an attribute, whose text is returned.
    In another place it becomes a constant tensor."""
    text = number_text(tensors[at])
    if text is None and hints().is_array(tensors[at]):
        raise hints().an_array(tensors[at], op)
    if text is None:
        raise _mica.UsageError(f"{op}: argument {at} is a {type(tensors[at]).__name__}, neither a tensor of Mica nor a number"
                               f"\n  hint: `mica ops {op}` shows how it is used")
    if at and at == len(tensors) - 1:
        tensors.pop()
        return text
    tensors[at] = graph._add("const", (), "scalar=" + text)
    return None


def call(graph: Graph | None, op: str, tensors: Sequence, **attributes):
    """Adds one operator to a graph, by default to that of its tensors. All functions of _ops.py call this."""
    tensors = [t for t in tensors if t is not None]
    graph = graph or _graph_of(tensors)
    texts = []
    for at in reversed(range(len(tensors))):
        if isinstance(tensors[at], Tensor):
            if tensors[at].graph is not graph:
                raise _mica.UsageError(f"{op}: its arguments are tensors of different graphs")
        else:
            text = _number(graph, op, tensors, at)
            if text is not None:
                texts.append(text)
    texts += [attribute_text(k, v) for k, v in attributes.items() if v is not None]
    return graph._add(op, tensors, ", ".join(texts))


_ops._call = call


class Tensor(_ops.TensorOps):
    """A tensor of a graph: shape and dtype, no values. + - * / @ **, < <= > >= and all operators work on it."""
    __slots__ = ("graph", "number", "shape", "dtype")
    def __init__(self, graph: Graph, number: int):
        self.graph, self.number = graph, number
        _, self.dtype, self.shape = graph._g.tensor(number)

    def __repr__(self) -> str:
        return f"<mica.Tensor {self.dtype}{list(self.shape)}>"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Tensor:
        """The tensor with its last two dimensions swapped."""
        return call(None, "transpose", (self,))

    # ---- what needs values, or is of another library ----
    def __bool__(self):
        raise hints().no_values("it cannot be a condition", "mica.where(c, x, y) chooses for each element")

    def __iter__(self):
        raise hints().no_values("it cannot be iterated", "mica.split(x, dim=0, parts=n) gives parts; operators work on all rows at once")

    def __float__(self):
        raise hints().no_values("it is no number", "keep it as a tensor: operators take tensors of any shape, and shapes broadcast")

    __int__ = __index__ = __complex__ = __float__

    def __array__(self, dtype=None, copy=None):
        raise hints().no_values("it is no array of numpy", "use operators of Mica, or call the program that mica.optimize returns")

    def __setitem__(self, at, value):
        raise _mica.ArgumentError("a tensor of Mica cannot be changed\n  hint: mica.where(c, x, y) and mica.concat make a tensor with other "
                                  "elements; mica.update(x, at, y, dim=0) replaces slices by index")

    if not TYPE_CHECKING:  # type checkers know the methods

        def __getattr__(self, name: str):
            if name.startswith("__") or name in Tensor.__slots__:
                raise AttributeError(name)
            raise hints().no_method(name, [m for m in dir(Tensor) if not m.startswith("_")])

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        """Operators with numbers of numpy, as in np.float32(2) * x."""
        f = _UFUNCS.get(ufunc.__name__)
        if f and method == "__call__" and not named and all(isinstance(x, Tensor) or number_text(x) for x in inputs):
            return f(*(x if isinstance(x, Tensor) else float(x) for x in inputs))
        raise hints().foreign("numpy", ufunc.__name__, inputs)

    def __array_function__(self, function, types, args, named):
        raise hints().foreign("numpy", function.__name__, args)

    @classmethod
    def __torch_function__(cls, function, types, args=(), named=None):
        raise hints().foreign("torch", function.__name__, args)

    # ---- operators ----
    def _binary(self, op: str, other, swapped: bool = False):
        if not isinstance(other, Tensor) and number_text(other) is None:
            if hints().is_array(other):
                raise hints().an_array(other, op)
            return NotImplemented
        return call(None, op, (other, self) if swapped else (self, other))

    def __add__(self, other): return self._binary("add", other)
    def __radd__(self, other): return self._binary("add", other)
    def __sub__(self, other): return self._binary("sub", other)
    def __mul__(self, other): return self._binary("mul", other)
    def __rmul__(self, other): return self._binary("mul", other)
    def __truediv__(self, other): return self._binary("div", other)
    def __rtruediv__(self, other): return self._binary("div", other, True)
    def __pow__(self, other): return self._binary("pow", other)
    def __rpow__(self, other): return self._binary("pow", other, True)
    def __lt__(self, other): return self._binary("less", other)
    def __gt__(self, other): return self._binary("less", other, True)
    def __le__(self, other): return self._binary("less_equal", other)
    def __ge__(self, other): return self._binary("less_equal", other, True)
    def __eq__(self, other): return self._binary("equal", other)
    def __ne__(self, other): return self._not(self._binary("equal", other))
    __hash__ = object.__hash__

    def __neg__(self): return call(None, "neg", (self,))
    def __abs__(self): return call(None, "abs", (self,))

    @staticmethod
    def _not(condition):
        return condition if condition is NotImplemented else 1 - condition

    def __rsub__(self, other):  # 1 - x, as the language reads it
        return NotImplemented if number_text(other) is None else -self + other

    def __getitem__(self, at) -> Tensor:
        """x[i]: slices along the first dimension, by an index tensor."""
        if not isinstance(at, Tensor):
            raise _mica.UsageError("a subscript of a tensor of Mica is a tensor of whole numbers\n  hint: mica.slice(x, dim, start, end) and "
                                   "mica.chunk(x, dim, parts, index) take parts; mica.reshape drops a dimension of extent 1")
        return call(None, "gather", (self, at), dim=0)

    def __matmul__(self, other):
        if not isinstance(other, Tensor) and hints().is_array(other):
            raise hints().an_array(other, "matmul")
        return call(None, "matmul", (self, other)) if isinstance(other, Tensor) else NotImplemented

    def __rmatmul__(self, other):
        return self.__matmul__(other) if not isinstance(other, Tensor) else NotImplemented


_UFUNCS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "power": operator.pow,
           "less": operator.lt, "greater": operator.gt, "less_equal": operator.le, "greater_equal": operator.ge, "equal": operator.eq,
           "not_equal": operator.ne}


class Graph(_ops.GraphOps):
    """A program being built.

        g = mica.Graph("scores")
        q, k = g.input("Q", (2, 256, 64), "f16"), g.input("K", (2, 64, 4096), "f16")
        g.output(mica.softmax(q @ k, dim=2))
        f = mica.optimize(g)
    """
    __slots__ = ("_g",)

    def __init__(self, name: str = "program", world: int = 1):
        """world: number of devices that run the program together. Shapes of inputs are those of whole tensors; other shapes are those on one
        device."""
        self._g = _mica.Graph(_mica.Context(), name)
        if world != 1:
            self._g.world(world)

    def _add(self, op: str, tensors: Sequence[Tensor], attributes: str):
        first, count = self._g.op(op, [t.number for t in tensors], attributes or None)
        return Tensor(self, first) if count == 1 else tuple(Tensor(self, first + i) for i in range(count))

    def input(self, name: str | None, shape: Sequence[int], dtype: str = "f32", *, least: int = 0, below: int | None = None,
              distinct: bool = False, state: bool = False, frozen: bool = False, shard: int | None = None) -> Tensor:
        """An input. Values of integer inputs are from `least` to below - 1; with `distinct` no two are equal. A state is updated in place. The
        elements of a frozen input do not change between calls (Program.freeze). With `shard` each device has its part along that dimension."""
        dtype = dtype_of(dtype)
        t = Tensor(self, self._g.input(name, dtype, tuple(shape)))
        most = (1 if dtype == "bool" else 1 << 24) if below is None else below - 1
        if least or below is not None or distinct or state:
            self._g.declare(t.number, least, most, distinct, state)
        if frozen:
            self._g.freeze(t.number)
        if shard is not None:
            self._g.shard(t.number, shard)
            t = Tensor(self, t.number)  # has the shape of a device's part
        return t

    def output(self, *tensors: Tensor) -> None:
        for t in tensors:
            self._own(t)
            self._g.output(t.number)

    def block(self, grid: Sequence[int] = (), loop: Sequence[int] = ()) -> Block:
        """A kernel, built as a block graph. grid: blocks along x, y, z. loop: iterations of each block along i, j, k, l."""
        return Block(self, grid, loop)

    def source(self) -> _mica.Source:
        return self._g.program()

    @property
    def text(self) -> str:
        """The program in the text language (docs/language.md)."""
        return self.source().text

    def _own(self, t) -> None:
        if not isinstance(t, Tensor) or t.graph is not self:
            raise _mica.UsageError(f"{t!r} is no tensor of this graph\n  hint: inputs and results of operators of this graph are")

    def __repr__(self) -> str:
        return f"<mica.{type(self).__name__}>"

    def _repr_html_(self) -> str:
        """For notebooks: the program as text, or the error if it is incomplete."""
        import html
        try:
            text = self.text
        except _mica.Error as e:
            text = str(e)
        return f"<pre>{html.escape(text)}</pre>"


class Block(Graph):
    """A block graph (docs/mugraph.md). It loads tiles, computes on them, accumulates over the loop and saves results."""
    __slots__ = ("around",)

    def __init__(self, around: Graph, grid: Sequence[int], loop: Sequence[int]):
        self.around = around
        self._g = around._g.block(tuple(grid), tuple(loop))

    def iter(self, x: Tensor, imap: Mapping | Sequence | None = None, fmap: Mapping | Sequence | None = None) -> Tensor:
        """The tile of x, a tensor of the enclosing graph, that a block loads in an iteration. imap, fmap: dimension of x by axis of grid, loop."""
        self.around._own(x)
        return Tensor(self, self._g.block_input(x.number, map_list(imap, GRID), map_list(fmap, LOOP)))

    def save(self, x: Tensor, omap: Mapping | Sequence | None = None) -> None:
        self._own(x)
        self._g.block_output(x.number, map_list(omap, GRID))

    def end(self):
        """Ends the block graph. Returns the saved tensors as tensors of the enclosing graph: one, or a tuple."""
        first, count = self._g.block_end()
        made = tuple(Tensor(self.around, first + i) for i in range(count))
        return made[0] if count == 1 else made


def _names(function: Callable, n: int) -> list[str]:
    """Names of the function's first n positional arguments; x0, x1, ... if they are not known or not names of the language."""
    code = getattr(function, "__code__", None)
    if code is None:
        function = getattr(function, "__func__", None) or getattr(type(function), "__call__", None)
        code = getattr(function, "__code__", None)
    names = list(code.co_varnames[:code.co_argcount]) if code else []
    if names and names[0] == "self":
        names = names[1:]
    plain = [x for x in names if x.isascii() and x not in ("return", "inf", "_")]
    return [plain[i] if i < len(plain) and len(plain) == len(names) else f"x{i}" for i in range(n)]


def trace(function: Callable, specs: Sequence[Spec], world: int = 1) -> Graph:
    """The program that a function computes on tensors of these shapes and dtypes. The function is called once with tensors of Mica. In a world of
    several devices the function describes the computation of one device."""
    name = getattr(function, "__name__", type(function).__name__)
    g = Graph(name if name.isidentifier() and name.isascii() else "program", world)
    names = _names(function, len(specs))
    inputs = [g.input(s.name or n, s.shape, s.dtype, shard=s.shard) for s, n in zip(specs, names)]
    try:
        result = function(*inputs)
    except Exception as e:
        hints().locate(e)
        raise
    results = result if isinstance(result, (tuple, list)) else (result,)
    for r in results:
        if not isinstance(r, Tensor):
            raise hints().wrong_result(function, name, r)
    g.output(*results)
    return g
