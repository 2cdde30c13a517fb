"""PersistentKernel: builds a model layer by layer, with the interface of MPK (Mirage). The calls become a model in the text form. Mica makes its
plan, events and proof, so grids and blocks in the arguments are ignored."""
from __future__ import annotations

import math
import re

from .._mica import UsageError
from .batch import Batch
from .model import Model
from .weights import as_float32

COLUMNS, SAMPLED, TOP = 8, 32, 64  # columns of a product's work tile; work tiles of sampling; candidates that each keeps


class Tensor:
    """A tensor that layers read and write. parts: the arrays of a weight, [out, in] each; none: an activation."""
    __slots__ = ("name", "dims", "parts")

    def __init__(self, name, dims, parts=()):
        self.name, self.dims, self.parts = name, tuple(int(d) for d in dims), tuple(parts)

    def dim(self, i: int) -> int:
        return self.dims[i]

    @property
    def num_dims(self) -> int:
        return len(self.dims)


class _Call:
    """A layer: its kind, the tensors that it reads and writes, and its weights by name of the argument."""
    __slots__ = ("kind", "reads", "writes", "weights", "attrs")

    def __init__(self, kind, reads, writes, weights=None, attrs=None):
        self.kind, self.reads, self.writes, self.weights, self.attrs = kind, tuple(reads), tuple(writes), weights or {}, attrs or {}

    def signature(self):
        return (self.kind, tuple(t.dims for t in self.reads + self.writes), tuple((k, t.dims, len(t.parts)) for k, t in self.weights.items()),
                tuple(sorted(self.attrs.items())))


# The arguments that each layer reads, in order. A number is the index of an activation in the call; a name is a weight, or a tensor of the model.
_LAYERS = {
    "embed": ("token", "table"), "rmsnorm": (0, "norm"), "linear": (0, "weight"), "rmsnorm_linear": (0, "norm", "weight"),
    "rmsnorm_head": (0, "norm", "table"),
    "linear_with_residual": (0, "weight", 1), "rmsnorm_gate_up": (0, "norm", "gate_up"), "served_attention": (0,),
    "qknorm_served_attention": (0, "q_norm", "k_norm"),
    "sample_partial": (0, "settings"), "sample": (0, "settings"),
}
_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f32"}


def _type_of(array) -> str:
    name = str(getattr(array, "dtype", "float32")).removeprefix("torch.")
    if name not in _TYPES:
        raise UsageError(f"weights are {name}; types are {', '.join(_TYPES)}")
    return _TYPES[name]


def theta_of(cos, dim: int) -> float:
    """The base of a rotary embedding from its table of cosines [position][dim]: that of position 1 is cos(theta^(-2 i / dim))."""
    table = as_float32(cos)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < dim // 2 or dim < 4:
        raise UsageError(f"a table of cosines is [position][{dim}], with two positions or more")
    first = [math.acos(max(-1.0, min(1.0, float(c)))) for c in table[1][:dim // 2]]
    # The most exact angle is used: cosines near 1 have few significant bits.
    best = max(range(1, dim // 2), key=lambda i: first[i] * (1 if first[i] > 0.05 else 0))
    theta = first[best] ** (-dim / (2 * best)) if first[best] > 0 else 1.0
    theta = float(f"{theta:.3g}") if abs(float(f"{theta:.3g}") / theta - 1) < 0.02 else theta
    if any(abs(math.cos(theta ** (-2 * i / dim)) - float(table[1][i])) > 0.01 for i in range(dim // 2)):
        raise UsageError("the table of cosines is no rotary embedding with one base; give rope_theta and rope_scaling to PersistentKernel")
    return theta


class PersistentKernel:
    """Takes MPK's arguments, but ignores the ones for MPK's scheduler, GPU memory and compiler.

    engine, deadline: as for mica.mega.from_config. rope_theta, rope_scaling: in place of tables of cosines. rms_norm_eps: epsilon of all norms."""

    def __init__(self, *, world_size: int = 1, max_num_batched_tokens: int = 1, max_num_batched_requests: int = 0, max_num_pages: int = 64,
                 page_size: int = 64,
                 max_seq_length: int = 512, eos_token_id: int = -1, num_workers: int = 0, meta_tensors: dict | None = None, engine: str = "cpu",
                 deadline: float = 2.0, rope_theta: float | None = None, rope_scaling: dict | None = None, rms_norm_eps: float = 1e-6, **ignored):
        if world_size != 1:
            raise UsageError(f"world_size is {world_size}; one GPU is supported")
        if page_size < max_num_batched_tokens:
            raise UsageError(f"page_size is {page_size}, and rows without a request need {max_num_batched_tokens}")
        self.rows = self.max_num_batched_tokens = max_num_batched_tokens
        self.max_num_batched_requests = max_num_batched_requests or max_num_batched_tokens
        self.pages, self.slots, self.max_seq_length, self.eos = max_num_pages, page_size, max_seq_length, eos_token_id
        self.num_workers, self.meta, self.engine, self.deadline = num_workers, meta_tensors or {}, engine, deadline
        self.theta, self.scaling, self.eps = rope_theta, rope_scaling or {}, rms_norm_eps
        self.calls: list[_Call] = []
        self.model: Model | None = None
        self._names: set[str] = set()
        self._token = None  # the input tensor of tokens

    # ---- tensors ----

    def _name(self, name: str | None) -> str:
        base = re.sub(r"\W", "_", name or "t") or "t"
        base = base if base[0].isalpha() else "t" + base
        made, n = base, 1
        while made in self._names or made in ("token", "cache", "settings", "rows"):
            made, n = f"{base}_{n}", n + 1
        self._names.add(made)
        return made

    def attach_input(self, torch_tensor=None, name: str | None = None, *, tensor=None) -> Tensor:
        """A tensor for an array of the caller: weights, tokens, caches or tables. Mica has its own caches and tokens, so of such arrays only the
        sizes are used."""
        array = torch_tensor if torch_tensor is not None else tensor
        if array is None or not hasattr(array, "shape"):
            raise UsageError("attach_input takes an array")
        return Tensor(self._name(name), array.shape, [array])

    def new_tensor(self, dims, dtype=None, name: str | None = None, **ignored) -> Tensor:
        return Tensor(self._name(name), dims)

    def fuse_tensors(self, inputs, fused_dim: int = 0, num_groups: int = 1, name: str | None = None) -> Tensor:
        """Concatenates weights along dimension 0. MPK interleaves them for its packing; Mica packs all weights by itself."""
        if fused_dim != 0 or any(len(t.parts) != 1 or t.dims[1:] != inputs[0].dims[1:] for t in inputs):
            raise UsageError("weights are joined along dimension 0, with equal other dimensions")
        return Tensor(self._name(name), (sum(t.dims[0] for t in inputs), *inputs[0].dims[1:]), [p for t in inputs for p in t.parts])

    def shuffle_tensors(self, inputs, shuffled_dim: int = 0, num_groups: int = 1, name: str | None = None) -> Tensor:
        return self.fuse_tensors(inputs, shuffled_dim, num_groups, name)

    # ---- layers ----

    def _add(self, kind, reads, writes, weights=None, attrs=None) -> None:
        for t in (*reads, *writes):
            if not isinstance(t, Tensor):
                raise UsageError(f"{kind}: a {type(t).__name__} is no tensor of this kernel")
        for k, t in (weights or {}).items():
            if not isinstance(t, Tensor) or not t.parts:
                raise UsageError(f"{kind}: {k} has no values; attach_input gives them")
        self.calls.append(_Call(kind, reads, writes, weights, attrs))

    def embed_layer(self, input, weight, output, **grid) -> None:
        self._token = input
        self._add("embed", (), (output,), {"table": weight})

    def rmsnorm_layer(self, input, weight, output, **grid) -> None:
        self._add("rmsnorm", (input,), (output,), {"norm": weight}, {"eps": self.eps})

    def linear_layer(self, input, weight, output, **grid) -> None:
        self._add("linear", (input,), (output,), {"weight": weight})

    def rmsnorm_linear_layer(self, input, weight_norm, weight_linear, output, **grid) -> None:
        self._add("rmsnorm_linear", (input,), (output,), {"norm": weight_norm, "weight": weight_linear}, {"eps": self.eps})

    def linear_with_residual_layer(self, input, weight, residual, output, **grid) -> None:
        self._add("linear_with_residual", (input, residual), (output,), {"weight": weight})

    def silu_mul_layer(self, input, output, **grid) -> None:
        self._add("silu_mul", (input,), (output,))

    def paged_attention_layer(self, input, k_cache, v_cache, output, q_norm=None, k_norm=None, cos_pos_embed=None, sin_pos_embed=None,
                              **grid) -> None:
        """input: [rows, (heads + 2 * kv heads) * dim], queries, keys and values. k_cache and v_cache: [pages, page_size, kv heads, dim]; only the
        last two dimensions are used."""
        if len(k_cache.dims) < 2 or k_cache.dims != v_cache.dims:
            raise UsageError("caches of keys and of values have equal shapes, [pages, page_size, heads, dim]")
        kv, dim = k_cache.dims[-2:]
        heads = input.dims[-1] // dim - 2 * kv
        if self.theta is None:
            if cos_pos_embed is None:
                raise UsageError("a rotary embedding needs cos_pos_embed, or rope_theta of PersistentKernel")
            self.theta = theta_of(cos_pos_embed.parts[0], dim)
        attrs = {"heads": heads, "kv": kv, "dim": dim, "theta": self.theta}
        for name, field in (("rope_factor", "factor"), ("rope_low", "low_freq_factor"), ("rope_high", "high_freq_factor"),
                            ("rope_original", "original_max_position_embeddings")):
            if field in self.scaling:
                attrs[name] = float(self.scaling[field])
        if (q_norm is None) != (k_norm is None):
            raise UsageError("norms of queries and of keys come together")
        if q_norm is None:
            self._add("served_attention", (input,), (output,), None, attrs)
        else:
            self._add("qknorm_served_attention", (input,), (output,), {"q_norm": q_norm, "k_norm": k_norm}, attrs | {"eps": self.eps})

    def argmax_partial_layer(self, input, output, **grid) -> None:
        self._add("sample_partial", (input,), (output[0] if isinstance(output, (tuple, list)) else output,))

    def argmax_reduce_layer(self, input, output, **grid) -> None:
        self._add("sample", (input[0] if isinstance(input, (tuple, list)) else input,), ())

    def argmax_layer(self, input, output, **grid) -> None:
        between = self.new_tensor((self.rows, 1), name="best")
        self.argmax_partial_layer(input, between)
        self.argmax_reduce_layer(between, output)

    # ---- the model from the calls ----

    def _joined(self) -> list[_Call]:
        """The calls with fewer layers: a norm and a product, or these and SiLU, become one layer if nothing else reads the values between them."""
        out: list[_Call] = []
        for i, c in enumerate(self.calls):
            last = out[-1] if out else None
            follows = last is not None and len(c.reads) == 1 and last.writes == c.reads and not self._read_later(c.reads[0], i)
            if c.kind == "linear" and follows and last.kind == "rmsnorm":
                out[-1] = _Call("rmsnorm_linear", last.reads, c.writes, {**last.weights, "weight": c.weights["weight"]}, last.attrs)
            elif c.kind == "silu_mul":
                if not follows or last.kind != "rmsnorm_linear" or len(last.weights["weight"].parts) != 2:
                    raise UsageError(f"silu_mul_layer of {c.reads[0].name}: it must follow a norm and one fused product of a gated MLP's weights")
                out[-1] = _Call("rmsnorm_gate_up", last.reads, c.writes, {"norm": last.weights["norm"], "gate_up": last.weights["weight"]},
                                last.attrs)
            else:
                out.append(c)
        return out

    def _read_later(self, t: Tensor, at: int) -> bool:
        for c in self.calls[at + 1:]:
            if t in c.reads:
                return True
            if t in c.writes:
                return False
        return False

    @staticmethod
    def _repeated(calls) -> tuple[int, int, int]:
        """(first, period, times) of the longest range of calls that repeat, which are the layers of the model."""
        s, best = [c.signature() for c in calls], (0, 0, 1)
        for period in range(1, len(s) // 2 + 1):
            run = 0
            for i in range(len(s) - period - 1, -1, -1):
                run = run + 1 if s[i] == s[i + period] else 0
                times = run // period + 1
                if times > 1 and period * times > best[1] * best[2]:
                    best = (i, period, times)
        return best

    def _unify(self, calls, first, period, times) -> dict[Tensor, Tensor]:
        """Maps activations of all layers to those of the first layer, and checks that each layer still reads the right ones."""
        root = {t: t for c in calls for t in c.reads + c.writes}

        def of(t):
            while root[t] is not t:
                t = root[t]
            return t
        for l in range(1, times):
            for j in range(period):
                a, b = calls[first + j], calls[first + l * period + j]
                for x, y in zip(a.reads + a.writes, b.reads + b.writes):
                    root[of(y)] = of(x)
        holds = {}
        for c in calls:
            for t in c.reads:
                if holds.get(of(t)) is not t:
                    raise UsageError(f"{c.kind} reads {t.name}, which another layer has overwritten, or none has written")
            for t in c.writes:
                holds[of(t)] = t
        return {t: of(t) for t in root}

    @staticmethod
    def _array(argument, t: Tensor):
        import numpy as np
        parts = [as_float32(p) for p in t.parts]
        if argument in ("norm", "q_norm", "k_norm"):
            return parts[0].reshape(1, -1)
        if argument == "table":
            return np.concatenate(parts)
        if argument == "gate_up":
            return np.stack([p.T for p in parts])[None]
        return np.concatenate(parts).T[None]

    def _tensors_and_operators(self):
        import numpy as np
        calls = self._joined()
        if not calls or self._token is None or calls[-1].kind != "sample":
            raise UsageError("a kernel begins with embed_layer and ends with argmax_layer")
        first, period, times = self._repeated(calls)
        root = self._unify(calls, first, period, times)
        names = {t: t.name for t in root.values()}
        tensors, operators, arrays, at = [f"token: i32[rows] state", f"settings: f32[rows, 6] input"], [], {}, 0
        layers, written = max(times, 1) if period else 1, set()
        while at < len(calls):
            c, layered = calls[at], period > 0 and first <= at < first + period
            n = layers if layered else 1
            kind = "rmsnorm_head" if c.kind == "rmsnorm_linear" and not layered else c.kind
            group = [calls[at + l * period] if layered else c for l in range(n)]
            weights = {}
            for k in c.weights:
                argument = "table" if kind == "rmsnorm_head" and k == "weight" else k
                of_layers = group[:1] if argument == "table" else group
                stacked = np.concatenate([self._array(argument, g.weights[k]) for g in of_layers])
                name = weights[argument] = f"w{len(arrays)}_{argument}"
                arrays[name] = np.ascontiguousarray(stacked)
                kind_of = _type_of(c.weights[k].parts[0])
                tensors.append(f"{name}: {kind_of}[{', '.join(map(str, stacked.shape))}] weights")
            for t in c.writes:
                r = root[t]
                if r in written:
                    continue
                written.add(r)
                if c.kind == "sample_partial":
                    tensors.append(f"{names[r]}: f32[rows, {self._parts(c.reads[0].dims[-1])}, {TOP}, 2] activation")
                else:
                    last = calls[-2].reads[0]
                    tensors.append(f"{names[r]}: f32[rows, {r.dims[-1]}] {'output' if root[last] is r else 'activation'}")
            operators.append(self._operator(f"o{at}", kind, c, weights, root, names, n if layered else 0))
            if kind.endswith("served_attention"):
                a = c.attrs
                tensors.append(f"cache: {self._cache_type(calls)}[{n}, {self.pages}, {a['kv']}, 2, {self.slots}, {a['dim']}] state")
            at += 1
            if at == first + period and layered:
                at = first + period * times
        return tensors, operators, arrays

    @staticmethod
    def _cache_type(calls) -> str:
        return _type_of(calls[0].weights["table"].parts[0])

    def _parts(self, vocabulary: int) -> int:
        parts = min(self._workers, SAMPLED)
        width = -(-vocabulary // parts)
        return -(-vocabulary // width)

    def _operator(self, name, kind, c, weights, root, names, layers) -> str:
        reads = [names[root[c.reads[x]]] if isinstance(x, int) else weights.get(x, x) for x in _LAYERS[kind]]
        writes = [names[root[t]] for t in c.writes]
        if kind.endswith("served_attention"):
            writes.insert(0, "cache")
        if kind == "sample":
            writes = ["token"]
        lines = [f"layer {kind}", f"reads {', '.join(reads)}", f"writes {', '.join(writes)}"]
        if kind == "sample_partial":
            lines.append(f"tiles {self._parts(c.reads[0].dims[-1])}")
        elif kind not in ("sample", "rmsnorm") and not kind.endswith("served_attention"):
            tiles = -(-c.writes[0].dims[-1] // COLUMNS)
            lines.append(f"tiles {min(tiles, 16) if kind == 'embed' else tiles}")
        if c.attrs:
            lines.append("with " + ", ".join(f"{k} = {v!r}" for k, v in c.attrs.items()))
        return f"  operator {name}{f'[{layers}]' if layers else ''} {{\n    " + "\n    ".join(lines) + "\n  }"

    @property
    def _workers(self) -> int:
        return self.num_workers or (132 if self.engine == "gpu" else 4)

    def text(self, name: str = "kernel") -> str:
        """The model in Mica's text form."""
        tensors, operators, _ = self._tensors_and_operators()
        context = self.slots - (1 if (self.pages - 1) // self.rows > 1 else 2)
        return "\n".join([f"mega {name}(rows = {self.rows}, context = {context}) {{", f"  workers {self._workers}", *("  " + t for t in tensors),
                          *operators, "}", ""])

    def compile(self, **ignored) -> PersistentKernel:
        """Makes and proves the plan, and sets the weights."""
        _, _, arrays = self._tensors_and_operators()
        self.model = Model(self.text(), "PersistentKernel", None, engine=self.engine, deadline=self.deadline)
        for name, array in arrays.items():
            self.model.set_weights(name, array)
        return self

    def __call__(self, prompts=None, max_tokens: int | None = None, **options) -> list[list[int]]:
        """Returns the tokens after each prompt, up to max_tokens, the sequence's largest length or the end token. Without prompts, they are in
        meta_tensors: `tokens` [request][position], to which the new tokens are also written, and `prompt_lengths`."""
        if self.model is None:
            raise UsageError("compile comes before the call")
        tokens, lengths = self.meta.get("tokens"), self.meta.get("prompt_lengths")
        if prompts is None:
            if tokens is None or lengths is None:
                raise UsageError("without prompts, meta_tensors must have tokens and prompt_lengths")
            prompts = [[int(t) for t in tokens[r][:int(n)]] for r, n in enumerate(lengths)]
        batch = Batch(self.model, burst=16)
        stop = [self.eos] if self.eos >= 0 else []
        requests = [batch.submit(p, max_tokens or self.max_seq_length - len(p), stop=stop, **options) for p in prompts]
        while batch.busy:
            batch.step()
        for r, x in enumerate(requests):
            for i, t in enumerate(x.made):
                if tokens is not None and r < len(tokens) and len(x.prompt) + i < len(tokens[r]):
                    tokens[r][len(x.prompt) + i] = t
        return [x.made for x in requests]
