"""Mirage's Python interface, implemented by Mica:

    import mica.mirage as mi

    graph = mi.new_kernel_graph()
    X = graph.new_input(dims=(16, 4096), dtype=mi.float16)
    ...
    graph.mark_output(graph.matmul(X, W))
    optimized = graph.superoptimize()
    outputs = optimized(inputs=[x, w])

Differences: the search derives maps, grids and loop ranges, so such arguments are ignored with a warning. Results are those of mica.optimize, so
numpy, cupy and jax work besides torch, and the CPU besides GPUs. docs/python.md has a table.
"""
from __future__ import annotations

import warnings

from .config import gpu_target
from .graph import Block, Graph, Tensor
from .optimize import Program, optimize
from ._mica import UsageError

float16, bfloat16, float32 = "f16", "bf16", "f32"
DTensor = STensor = Tensor
ACCUMULATORS = {None: "accum", "sum": "accum_sum", "mean": "accum_mean", "rms": "accum_rms", "sum_todimx": "accum_sum_to"}


class _Names(Graph):
    """Methods that kernel graphs and threadblock graphs share."""
    __slots__ = ()

    def reduction(self, A: Tensor, dim: int) -> Tensor:
        return self.sum(A, dim)

    def clamp(self, A: Tensor, min_val: float, max_val: float) -> Tensor:
        return super().clamp(A, min_val, max_val)

    def rms_norm(self, A: Tensor, normalized_shape=None) -> Tensor:
        if normalized_shape is not None and tuple(normalized_shape) != A.shape[-1:]:
            raise UsageError(f"rms_norm of {list(A.shape)} over {list(normalized_shape)}: Mica normalizes the last dimension")
        return super().rms_norm(A)


class KNGraph(_Names):
    """A kernel graph."""
    __slots__ = ("_loose", "_marked", "_optimized", "__weakref__")

    def __init__(self, name: str = "program"):
        super().__init__(name)
        self._loose, self._marked, self._optimized = {}, False, None  # results that nothing uses yet, by number

    def _add(self, op, tensors, attributes):
        made = super()._add(op, tensors, attributes)
        self._follow(tensors, made if isinstance(made, tuple) else (made,))
        return made

    def _follow(self, used, made) -> None:
        for t in used:
            self._loose.pop(t.number, None)
        self._loose.update((t.number, t) for t in made)
        self._optimized = None

    def new_input(self, dims, strides=None, dtype: str = float16) -> Tensor:
        if strides is not None and not _dense(dims, strides):
            raise UsageError(f"strides {tuple(strides)} of {tuple(dims)}: tensors of Mica are dense row by row; pass the transposed shape "
                             "and use transpose()")
        return self.input(None, dims, dtype)

    def mark_output(self, A: Tensor, strides=None) -> None:
        if strides is not None and not _dense(A.shape, strides):
            raise UsageError("outputs are dense row by row")
        self._marked = True
        self.output(A)

    def customized(self, inputs, bgraph: TBGraph) -> list[Tensor]:
        """Adds a kernel given by a threadblock graph, and returns its outputs. inputs: the tensors that it loads, in the order of new_input."""
        loaded = [t.number for t in bgraph.loaded]
        if [t.number for t in inputs] != loaded:
            raise UsageError("customized: the inputs are not the tensors that the threadblock graph loads, in the order in which it does")
        made = bgraph.end()
        made = list(made) if isinstance(made, tuple) else [made]
        self._follow(bgraph.loaded, made)
        return made

    def superoptimize(self, imaps=None, omaps=None, griddims=None, blockdims=None, fmaps=None, franges=None, verbose: bool = False,
                      config: str | None = None, backend: str | None = None, warmup_iters: int | None = None,
                      profile_iters: int | None = None, previous_checkpoint: str | None = None, save_codes: bool = False,
                      target: str | None = None, **options) -> Optimized:
        """Calls mica.optimize on the graph. target: None is this machine's GPU, or the CPU if there is none or with backend="cpu". Other options
        are those of mica.optimize. If no output is marked, the outputs are the tensors that nothing uses."""
        left = dict(imaps=imaps, omaps=omaps, griddims=griddims, blockdims=blockdims, fmaps=fmaps, franges=franges,
                    warmup_iters=warmup_iters, profile_iters=profile_iters, previous_checkpoint=previous_checkpoint)
        told = [k for k, v in left.items() if v is not None]
        if told:
            warnings.warn(f"superoptimize: {', '.join(told)} mean nothing to Mica, which derives them or remembers results itself", stacklevel=2)
        if not self._marked:
            for t in self._loose.values():
                self.mark_output(t)
        target = target or ("cpu" if backend == "cpu" else gpu_target() or "cpu")
        program = optimize(self, target=target, **options)
        if verbose:
            print(program.report_text)
        if save_codes:
            program.save("generated_codes")
        return Optimized(program)

    def __call__(self, *, inputs, **keywords):
        """Runs the graph. With kernels given by threadblock graphs it runs as written, otherwise optimized."""
        if self._optimized is None:
            self._optimized = self.superoptimize(target=keywords.pop("target", None))
        return self._optimized(inputs=inputs, **keywords)


class TBGraph(_Names, Block):
    """A threadblock graph. It belongs to the kernel graph whose tensor it loads first."""
    __slots__ = ("loaded", "_grid", "_range", "_dimx")

    def __init__(self, grid_dim, forloop_range: int, reduction_dimx: int):
        grid = list(grid_dim)
        while grid and grid[-1] == 1:
            grid.pop()
        self.loaded, self._grid, self._range, self._dimx = [], grid, forloop_range, reduction_dimx

    def new_input(self, dtensor: Tensor, input_map, forloop_dim: int = -1, store_in_dmem: bool = False) -> Tensor:
        if not self.loaded:
            Block.__init__(self, dtensor.graph, self._grid, () if self._range == 1 else (self._range,))
        self.loaded.append(dtensor)
        return self.iter(dtensor, self._map(input_map), self._loop(forloop_dim))

    def new_output(self, stensor: Tensor, output_map, forloop_dim: int = -1, epilogue: str | None = None) -> None:
        if epilogue:
            raise UsageError(f"new_output: there is no epilogue `{epilogue}` on one device")
        if forloop_dim >= 0:
            stensor = self.accum(stensor, fmap=self._loop(forloop_dim))
        self.save(stensor, self._map(output_map))

    def forloop_accum(self, A: Tensor, acc: str | None = None) -> Tensor:
        """The sum over the iterations. acc: also reduces along the last dimension, by sum, mean, rms or sum_todimx."""
        if acc not in ACCUMULATORS:
            raise UsageError(f"forloop_accum: there is no `{acc}`; there are {', '.join(str(a) for a in ACCUMULATORS)}")
        attributes = {} if acc is None else {"dim": A.ndim - 1}
        if acc == "sum_todimx":
            attributes["extent"] = self._dimx
        return getattr(self, ACCUMULATORS[acc])(A, **attributes)

    def _map(self, dims) -> list[int]:
        return [d if n > 1 else -1 for d, n in zip(dims, self._grid)]

    def _loop(self, dim: int) -> tuple[int, ...]:
        return () if self._range == 1 else (dim,)


class Optimized:
    """Result of superoptimize: called with inputs=[...], it gives a list of outputs. `program` is the mica.Program."""
    __slots__ = ("program",)

    def __init__(self, program: Program):
        self.program = program

    def __call__(self, *, inputs, outputs=None, stream=None, **_) -> list:
        result = self.program(*inputs, out=tuple(outputs) if outputs else None, stream=stream)
        return list(result) if isinstance(result, tuple) else [result]

    def valid_kernels(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.program)


def _dense(dims, strides) -> bool:
    step = 1
    for n, s in zip(reversed(tuple(dims)), reversed(tuple(strides))):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def new_kernel_graph() -> KNGraph:
    return KNGraph()


def new_threadblock_graph(grid_dim, block_dim=None, forloop_range: int = 1, reduction_dimx: int = 64) -> TBGraph:
    """A new threadblock graph. block_dim is ignored, because Mica chooses the number of threads of a block."""
    return TBGraph(grid_dim, forloop_range, reduction_dimx)
