"""Emits the text of a program, statement by statement, and records properties of its values.

Glossary. A *value* is a tensor of the program: its name, its extents there (`shape`), its extents in torch (`want`), and its dtype in Mica. An
extent of `shape` may be 1 while that of `want` is larger. An expanded tensor thus stays small until all elements are needed (`Emitter.full`), because
sums, products and matmul broadcast.

A dynamic graph may have one symbol. The *batch dimension* of a value (`batch`) is the one whose extent is a multiple of it. Every primitive computes
the batch dimension of its result. It refuses (`Cannot`) if elements of different batches would be combined: in sums along it, splits of it, and
reshapes that do not keep it outermost within its dimension. Other values may be padded at the end of this dimension. Rows of `ops.py` consist of
these primitives, so the rule is implemented here only.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

from mica import _mica

WIDTH = {row["name"]: row["bytes"] for row in _mica.dtypes}
WHOLE = ("i32", "i64")  # of indices
CONDITIONS = ("bool", "cond")  # inputs of booleans, and conditions that the program computes
MOST_DIMS = 8
MOST_WHOLE = 1 << 24    # up to which the language has whole numbers
MOST_DIVIDED = 1 << 21  # and their remainders


class Cannot(Exception):
    """A node that no program of Mica expresses. The text is the reason in the report."""


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple
    dtype: str  # Mica's name; "bool" of an input of booleans, "cond" of a condition (`conditions.py`)
    want: tuple = None
    batch: int | None = None
    source: object = None  # node of a mask

    def __post_init__(self):
        if self.want is None:
            object.__setattr__(self, "want", self.shape)

    @property
    def ndim(self):
        return len(self.want)


def bound(x):
    """A bound of clamp in the syntax of the language, which may be an infinity."""
    return str(x) if math.isinf(x) else number(x)


def number(x):
    """A number in the syntax of the language."""
    x = float(x)
    if not math.isfinite(x):
        raise Cannot(f"the number {x}")
    if x == int(x) and abs(x) < 1e15:
        return str(int(x))
    return next(text for text in (f"{x:.{digits}g}" for digits in range(1, 18)) if float(text) == x)  # the shortest exact text, as of str_double


def join_dtypes(a, b):
    return a if a == b else "f32"


def flag(condition, dtype):
    """A condition as 0 or 1 of a dtype."""
    return Value(condition.name, condition.shape, dtype, condition.want, condition.batch)


def broadcast(a, b):
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        raise Cannot(f"shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(a, b))


def axis(dim, ndim):
    return dim + ndim if dim < 0 else dim


# A reduction with fewer results than FEW, each over at least LONG elements, has several steps, so that the whole GPU has work. A step ends with the
# first dimension at which it reduces at least WIDE elements.
FEW, LONG, WIDE = 1 << 12, 1 << 20, 1 << 12


def _runs(shape, dims, results):
    """[extent, whether it is reduced] of each dimension, with adjacent reduced dimensions joined."""
    if len(dims) == 1 or all(shape[d] == 1 for d in dims):
        return [[s, d in dims] for d, s in enumerate(shape)]
    runs, long = [], results < FEW and math.prod(shape[d] for d in dims) >= LONG
    for d in reversed(range(len(shape))):
        if d not in dims:
            runs.append([shape[d], False])
        elif shape[d] > 1:
            if runs and runs[-1][1] and not (long and runs[-1][0] >= WIDE):
                runs[-1][0] *= shape[d]
            else:
                runs.append([shape[d], True])
    return runs[::-1]


@dataclass
class Emitter:
    lines: list = field(default_factory=list)  # (name, expression, names used, extents)
    added: dict = field(default_factory=dict)  # inputs without a node of the graph: name -> (kind, data)
    said: dict = field(default_factory=dict)   # expression -> name
    views: dict = field(default_factory=dict)  # name of a reshape's result -> the value before it
    sums: dict = field(default_factory=dict)   # name of a sum of two values -> them
    shown: dict = field(default_factory=dict)  # name of an addend with -inf for hidden elements -> the mask of booleans
    scaled: dict = field(default_factory=dict) # name of a value times a number -> (value, number)
    joined: dict = field(default_factory=dict) # name of a concat's result -> its dimension, and the values by their first index
    numbers: dict = field(default_factory=dict)  # name of a constant tensor -> its number
    whole: dict = field(default_factory=dict)  # name of a tensor of whole numbers -> the input that it is a view of, or its least and largest number
    limits: dict = field(default_factory=dict) # input of whole numbers -> (least, largest) number that it may contain
    drawn: dict = field(default_factory=dict)  # such an input -> the same for random examples, if the range is smaller
    hides: set = field(default_factory=set)    # nodes that are right only before a softmax of the same program
    device: str = ""                           # "cpu" or "cuda"
    work: float = 0.0                          # operations, roughly: 2 m n k of products, elements of the rest
    count: int = 0

    # ---- statements ----
    def say(self, text, args, shape, dtype, want=None, batch=None, whole=None):
        """name = text, where {0}, {1}, ... are the names of args. whole: of a result of whole numbers, what `self.whole` has of it."""
        if any(a.dtype == "bool" or (a.dtype == "cond" and dtype != "cond") for a in args):
            raise Cannot("a tensor of booleans, other than as a mask")
        if any(a.dtype in WHOLE for a in args) and whole is None:
            raise Cannot("a tensor of whole numbers, other than as indices")
        if len(shape) > MOST_DIMS:
            raise Cannot(f"more than {MOST_DIMS} dimensions")
        text = text.format(*(a.name for a in args))
        want = tuple(shape if want is None else want)
        if text in self.said:  # the same expression exists
            return Value(self.said[text], tuple(shape), dtype, want, batch)
        name = f"t{self.count}"
        self.count += 1
        self.said[text] = name
        self.lines.append((name, text, tuple(a.name for a in args), tuple(shape)))
        self.work += math.prod(shape)
        if dtype in WHOLE:
            self.whole[name] = whole
        return Value(name, tuple(shape), dtype, want, batch)

    def is_input(self, v):
        """Whether v is an input of the program or a view of one."""
        while v.name in self.views:
            v = self.views[v.name]
        return v.name not in self.said.values()

    def computed(self, v):
        """The least and the largest number of whole numbers that the program computes; None: those of an input, or no whole numbers."""
        of = self.same_numbers(v)
        return of if isinstance(of, tuple) and of else None

    def same_numbers(self, v):
        """The argument `whole` of `say` for a view of v."""
        return self.whole.get(v.name, v.name) if v.dtype in WHOLE else None

    def add_input(self, kind, what, shape, dtype, batch=None):
        name = f"m{len(self.added)}"
        self.added[name] = (kind, what)
        return Value(name, tuple(shape), dtype, None, batch)

    def full(self, v):
        """v with all extents of `want`. [a, 1] becomes [a, n] by a repetition of [a] to [a n]. Models mostly join the two dimensions next, as for
        heads that share keys, and then no reshape remains."""
        if v.name in self.numbers and v.shape != v.want:
            return self.say(f"iota({list(v.want)}) * const(0) + const({number(self.numbers[v.name])})", [], v.want, "f32")
        for d, (have, want) in enumerate(zip(v.shape, v.want)):
            if have != want:
                shape = v.shape[:d] + (want,) + v.shape[d + 1:]
                outer = v.want
                v = Value(v.name, v.shape, v.dtype, None, v.batch)
                if d:
                    v = self.reshape(v, v.shape[:d] + v.shape[d + 1:])
                v = self.reshape(self.repeat(v, max(d - 1, 0), want), shape)
                v = Value(v.name, v.shape, v.dtype, outer, v.batch)
        return v

    # ---- elementwise ----
    def unary(self, text, v):
        return self.say(text, [v], v.shape, v.dtype, v.want, v.batch)

    def times(self, v, by):
        """v times a number."""
        made = self.unary(f"{{0}} * ({number(by)})", v)
        self.scaled[made.name] = v, by
        return made

    def binary(self, text, a, b):
        made = self.several(text, [a, b], join_dtypes(a.dtype, b.dtype))
        if text == "{0} + {1}":
            self.sums[made.name] = (a, b)
        return made

    def constant(self, x, want):
        """A tensor of these extents whose elements are all the number x. It broadcasts. `full` writes it out, as kernels read no view of a
        constant."""
        v = self.say(f"const({number(x)})", [], (), "f32")
        v = self.reshape(v, [1] * len(want))
        self.numbers[v.name] = x
        return Value(v.name, v.shape, v.dtype, tuple(want))

    def several(self, text, vs, dtype, whole=None):
        """An operator of values that broadcast."""
        want, shape = (functools.reduce(broadcast, extents) for extents in ([v.want for v in vs], [v.shape for v in vs]))
        return self.say(text, vs, shape, dtype, want, self._together(*vs, n=len(want)), whole)

    @staticmethod
    def _together(*vs, n):
        """Batch dimension of a result with n dimensions, to which these values broadcast."""
        at = {n - v.ndim + v.batch for v in vs if v.batch is not None}
        if len(at) > 1:
            raise Cannot("the dynamic extent is in two dimensions")
        return at.pop() if at else None

    # ---- along dimensions ----
    def reduce(self, op, v, dims, keep):
        """Reduces adjacent dimensions as one, and the last dimensions first, so that adjacent elements are read together."""
        v = self.full(v)
        dims = {axis(d, v.ndim) for d in dims}
        if v.batch in dims:
            raise Cannot(f"{op} along the dynamic extent")
        left = [s for d, s in enumerate(v.shape) if d not in dims]
        kept = [1 if d in dims else s for d, s in enumerate(v.shape)]
        runs = _runs(v.shape, dims, math.prod(left))
        v = self.reshape(v, [extent for extent, _ in runs])
        for d in reversed(range(len(runs))):
            if runs[d][1]:
                self.work += math.prod(v.shape)
                v = self.say(f"{op}({{0}}, dim={d})", [v], v.shape[:d] + (1,) + v.shape[d + 1:], v.dtype, None, v.batch)
        return self.reshape(v, kept if keep else left)

    def top(self, v, k, d):
        """The largest k elements along dimension d, and their indices."""
        v = self.full(v)
        if d == v.batch:
            raise Cannot("topk along the dynamic extent")
        shape = v.shape[:d] + (k,) + v.shape[d + 1:]
        text = f"topk({{0}}, k={k}, dim={d})"
        made = self.say(text, [v], shape, v.dtype, None, v.batch)
        at = Value(f"{made.name}_at", shape, "i32", None, v.batch)  # the second result of the same statement
        self.whole[at.name] = (0, v.shape[d] - 1)
        return made, at

    def index(self, v, extent, wraps=False):
        """v as indices of a dimension with this extent. wraps: negative indices count from the end."""
        if v.dtype not in WHOLE:
            raise Cannot("indices that are not integers")
        v = self.full(v)
        of = self.same_numbers(v)
        if isinstance(of, str):
            least, most = self.limits.get(of, (-MOST_WHOLE, MOST_WHOLE))
            self.limits[of] = max(least, -extent if wraps else 0), min(most, extent - 1)
        elif of[1] >= extent:
            raise Cannot(f"computed indices up to {of[1]} of {extent} elements")
        if extent > (MOST_DIVIDED if wraps else MOST_WHOLE):
            raise Cannot(f"indices of {extent} elements")
        if not wraps or (not isinstance(of, str) and of[0] >= 0):
            return v
        return self.say(f"{{0}} % {extent}", [v], v.shape, v.dtype, None, v.batch, whole=(0, extent - 1))

    def gather(self, v, at, d):
        """Slices of v at indices `at` along dimension d. The dimensions of `at` replace it in the result."""
        v = self.full(v)
        if v.dtype in WHOLE:
            raise Cannot("a gather of whole numbers")
        if at.ndim == 0:
            raise Cannot("an index without dimensions")
        if v.batch == d or (v.batch is not None and at.batch is not None):
            raise Cannot("a gather along the dynamic extent")
        batch = d + at.batch if at.batch is not None else v.batch if v.batch is None or v.batch < d else v.batch + at.ndim - 1
        shape = v.shape[:d] + at.shape + v.shape[d + 1:]
        return self.say(f"gather({{0}}, {{1}}, dim={d})", [v, at], shape, v.dtype, None, batch, whole=())

    def softmax(self, v, dim, mask=None):
        """softmax(v) along dim. With a mask: softmax(v + mask), which is 0 if the mask is -inf, also in a row that is hidden completely."""
        if not v.ndim:
            return self.reshape(self.softmax(self.reshape(v, [1]), 0, mask), [])
        v = self.full(v)
        d = axis(dim, v.ndim)
        if mask is not None and broadcast(v.shape, mask.shape) != tuple(v.shape):
            raise Cannot("a mask that is wider than its scores")
        batch = v.batch if mask is None else self._together(v, mask, n=v.ndim)
        if d == batch:
            raise Cannot("softmax along the dynamic extent")
        self.work += 4 * math.prod(v.shape)
        if mask is None:
            return self.say(f"softmax({{0}}, dim={d})", [v], v.shape, v.dtype, None, batch)
        return self.say(f"softmax({{0}}, {{1}}, dim={d})", [v, mask], v.shape, join_dtypes(v.dtype, mask.dtype), None, batch)

    def softmax_up_to_row(self, v):
        """Softmax along the last dimension; row i has elements 0 to i only."""
        v = self.full(v)
        t, s = v.shape[-2:]
        return self.softmax_where(v, self.say(f"iota([1, {s}]) <= iota([{t}, 1])", [], (t, s), v.dtype))

    def softmax_where(self, v, shown):
        """Softmax along the last dimension over the elements that `shown` selects. A row without any is 0. shown may be an input of booleans."""
        v = self.full(v)
        if broadcast(v.shape, shown.shape) != tuple(v.shape):
            raise Cannot("a mask that is wider than its scores")
        batch = self._together(v, shown, n=v.ndim)
        if batch == v.ndim - 1:
            raise Cannot("softmax along the dynamic extent")
        self.work += 4 * math.prod(v.shape)
        shown = flag(shown, v.dtype)
        return self.say(f"softmax_where({{0}}, {{1}}, dim={v.ndim - 1})", [v, shown], v.shape, v.dtype, None, batch)

    def norm(self, op, v, others, eps):
        v = self.full(v)
        if v.batch == v.ndim - 1:
            raise Cannot(f"{op} along the dynamic extent")
        if any(o.batch is not None for o in others):
            raise Cannot(f"{op} with weights of dynamic extent")
        names = "".join(f", {{{i + 1}}}" for i in range(len(others)))
        dtype = v.dtype
        for o in others:
            dtype = join_dtypes(dtype, o.dtype)
        self.work += 4 * math.prod(v.shape)
        return self.say(f"{op}({{0}}{names}, eps={number(eps)})", [v, *others], v.shape, dtype, None, v.batch)

    def matmul(self, a, b):
        if a.ndim < 2 or b.ndim < 2:
            raise Cannot("a product of vectors")
        before = self._before_views(a, b)
        if before:
            return self.reshape(self.matmul(*before), a.want[:-1] + b.want[-1:])
        if self.device == "cuda" and a.dtype != b.dtype:  # no GPU kernel multiplies them
            raise Cannot(f"a product of {a.dtype} and {b.dtype}")
        # matmul broadcasts leading dimensions only.
        a, b, by = self._unscaled(a, b)
        a, b = self._full_matrix(a), self._full_matrix(b)
        if a.want[-1] != b.want[-2]:
            raise Cannot(f"a product of {list(a.want)} and {list(b.want)}")
        if a.batch == a.ndim - 1 or b.batch == b.ndim - 2:
            raise Cannot("a product that sums along the dynamic extent")
        want = broadcast(a.want[:-2], b.want[:-2]) + (a.want[-2], b.want[-1])
        shape = broadcast(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1])
        self.work += 2 * math.prod(shape) * a.want[-1]
        made = self.say("matmul({0}, {1})", [a, b], shape, join_dtypes(a.dtype, b.dtype), want, self._together(a, b, n=len(want)))
        return made if by == 1 else self.times(made, by)

    def _unscaled(self, a, b):
        """The operands without scalar factors, and the product of these factors. torch scales both operands if it has no kernel for an attention."""
        x, y = self.scaled.get(a.name), self.scaled.get(b.name)
        if not x or not y or self.is_short(a) or (a.shape, b.shape) != (x[0].shape, y[0].shape):
            return a, b, 1
        return *(Value(v.name, v.shape, v.dtype, w.want, v.batch) for (v, _), w in ((x, a), (y, b))), x[1] * y[1]

    def is_short(self, v):
        """Whether products of v may exceed its dtype before a factor makes them small. On a GPU they are parts of kernels, in 32 bits."""
        return v.dtype == "f16" and self.device == "cpu"

    def _before_views(self, a, b):
        """The operands before views that only join leading dimensions. torch makes such views for its batched product of three-dimensional tensors.
        Without them programs are shorter, and attention is recognized."""
        x, y = self.views.get(a.name), self.views.get(b.name)
        if not x or not y or a.ndim < 3 or not x.ndim == y.ndim > a.ndim == b.ndim or x.shape[:-2] != y.shape[:-2]:
            return None
        if a.want != a.shape or b.want != b.shape or a.shape[:-2] != b.shape[:-2]:
            return None
        return (x, y) if x.shape[-2:] == a.shape[-2:] and y.shape[-2:] == b.shape[-2:] else None

    def _full_matrix(self, v):
        if v.shape[-2:] == v.want[-2:]:
            return v
        outer, keep = v.want[:-2], v.shape[:-2]
        v = self.full(Value(v.name, v.shape, v.dtype, keep + v.want[-2:], v.batch))
        return Value(v.name, v.shape, v.dtype, outer + v.want[-2:], v.batch)

    # ---- shapes ----
    def reshape(self, v, shape):
        shape = list(shape)
        if -1 in shape:
            rest = math.prod(s for s in shape if s != -1)
            shape[shape.index(-1)] = math.prod(v.want) // max(rest, 1)
        if math.prod(shape) != math.prod(v.want):
            raise Cannot(f"a view of {list(v.want)} as {shape}")
        if tuple(shape) == v.want:
            return v
        if v.name in self.numbers and v.shape != v.want:
            return self.constant(self.numbers[v.name], shape)
        v = self.full(v)
        batch = None if v.batch is None else self._batch_after(v, shape)
        v = self.views.get(v.name, v)
        if tuple(shape) == v.shape:
            return v
        made = self.say(f"reshape({{0}}, {list(shape)})", [v], shape, v.dtype, None, batch, self.same_numbers(v))
        self.views[made.name] = v
        return made

    @staticmethod
    def _batch_after(v, shape):
        """The dimension of `shape` in which v's batch dimension is outermost: as many elements precede it. While a graph is examined the symbol is a
        large prime, so other extents are not multiples of it."""
        before = math.prod(v.shape[:v.batch])
        symbol = max((p for p in SYMBOLS if v.shape[v.batch] % p == 0), default=0)
        for d, s in enumerate(shape):
            if symbol and s % symbol == 0 and math.prod(shape[:d]) == before:
                return d
            if not symbol and s != 1 and math.prod(shape[:d]) == before:
                return d
        raise Cannot("a view that splits the dynamic extent")

    def permute(self, v, perm):
        perm = [axis(p, v.ndim) for p in perm]
        if perm == list(range(v.ndim)):
            return v
        if v.name in self.numbers:
            return self.constant(self.numbers[v.name], [v.want[p] for p in perm])
        batch = None if v.batch is None else perm.index(v.batch)
        last_two = list(range(v.ndim - 2)) + [v.ndim - 1, v.ndim - 2]
        text = "transpose({0})" if perm == last_two else f"transpose({{0}}, perm={perm})"
        return self.say(text, [v], [v.shape[p] for p in perm], v.dtype, [v.want[p] for p in perm], batch, self.same_numbers(v))

    def expand(self, v, want):
        want = list(want)
        lead = len(want) - v.ndim
        want = [v.want[d - lead] if s == -1 else s for d, s in enumerate(want)]
        if lead < 0 or any(h not in (1, w) for h, w in zip(v.want, want[lead:])):
            raise Cannot(f"expand of {list(v.want)} to {want}")
        if v.name in self.numbers:
            return self.constant(self.numbers[v.name], want)
        if lead:
            batch = None if v.batch is None else v.batch + lead
            v = self.say(f"reshape({{0}}, {[1] * lead + list(v.shape)})", [v], (1,) * lead + v.shape, v.dtype,
                         (1,) * lead + v.want, batch)
        return Value(v.name, v.shape, v.dtype, tuple(want), v.batch, v.source)

    def repeat(self, v, dim, times):
        v = self.full(v)
        d = axis(dim, v.ndim)
        if times == 1:
            return v
        shape = v.shape[:d] + (v.shape[d] * times,) + v.shape[d + 1:]
        return self.say(f"repeat({{0}}, dim={d}, times={times})", [v], shape, v.dtype, None, v.batch)

    def concat(self, vs, dim):
        vs = [self.full(v) for v in vs]
        d = axis(dim, vs[0].ndim)
        batches = {v.batch for v in vs}
        if len(batches) > 1 or d in batches:
            raise Cannot("a concatenation along the dynamic extent")
        if len({v.dtype for v in vs}) > 1:
            raise Cannot("a concatenation of several dtypes")
        extents = [v.shape[d] for v in vs]
        if self.device == "cuda" and len(set(extents)) > 1:  # GPU kernels join equal parts
            size = math.gcd(*extents)
            if sum(extents) > MOST_PARTS * size:
                raise Cannot(f"a concatenation of extents {extents}, which are more than {MOST_PARTS} equal parts")
            vs = [self.part(v, d, at, size) for v, extent in zip(vs, extents) for at in range(0, extent, size)]
        if len(vs) == 1:
            return vs[0]
        shape = list(vs[0].shape)
        shape[d] = sum(v.shape[d] for v in vs)
        names = ", ".join(f"{{{i}}}" for i in range(len(vs)))
        v = self.say(f"concat({names}, dim={d})", vs, shape, vs[0].dtype, None, vs[0].batch)
        self.joined[v.name] = d, {sum(x.shape[d] for x in vs[:i]): x for i, x in enumerate(vs)}
        return v

    def part(self, v, dim, start, length):
        """Elements start to start + length along dim: one of equal parts, or a slice."""
        d = axis(dim, v.ndim)
        extent = v.want[d]
        if d == v.batch:
            raise Cannot("a part of the dynamic extent")
        if (start, length) == (0, extent):
            return v
        if length <= 0:
            raise Cannot("a tensor without elements")
        if v.shape[d] == 1:  # all parts are equal
            return Value(v.name, v.shape, v.dtype, v.want[:d] + (length,) + v.want[d + 1:], v.batch)
        along, begins = self.joined.get(v.name, (None, {}))
        if along == d and start in begins and begins[start].shape[d] == length:
            return begins[start]
        shape, want = list(v.shape), list(v.want)
        shape[d] = want[d] = length
        parts = extent // length
        if start % length == 0 and parts * length == extent and parts <= MOST_CHUNKS:
            return self.say(f"chunk({{0}}, dim={d}, parts={parts}, index={start // length})", [v], shape, v.dtype, want, v.batch,
                            self.same_numbers(v))
        return self.say(f"slice({{0}}, dim={d}, start={start}, end={start + length})", [v], shape, v.dtype, want, v.batch, self.same_numbers(v))


MOST_CHUNKS = 64  # largest number of parts of the language's chunk
MOST_PARTS = 16  # largest number of equal parts of a concatenation

# Values of the symbol while a graph is examined: primes that are unlikely extents of a model.
SYMBOLS = (10007, 10009)
