"""mica.optimize makes a Program that can be called from a function, a graph, a text or a file. mica.load reads a folder of Program.save."""
from __future__ import annotations

import os
import warnings

from . import _mica
from .extents import Call, has_extents
from .graph import Graph, trace
from .progress import progress_open
from .ranks import torchrun_rank
from .spec import Spec, spec_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Stopped(UserWarning):
    """Warning: an optimization was interrupted, and the result is the best program found until then."""


class Program(_mica.Module):
    """An optimized program. Call it with arrays of numpy, torch, cupy or jax, or any object with __dlpack__, __array_interface__ or a buffer.
    Results are arrays of the first input's library, on its device. out= takes arrays for them."""
    __slots__ = ("_report", "_folder", "_dict", "__weakref__")

    _report: _mica.Report | None
    _folder: str | None

    @property
    def inputs(self) -> tuple[Spec, ...]:
        return tuple(Spec(shape, dtype, name, dim) for (name, dtype, shape), dim in zip(self._inputs, self._shards[0]))

    @property
    def outputs(self) -> tuple[Spec, ...]:
        return tuple(Spec(shape, dtype, name, dim) for (name, dtype, shape), dim in zip(self._outputs, self._shards[1]))

    @property
    def report(self) -> dict[str, Any]:
        """Results, proofs and measured times; docs/report.md lists the keys. {} if a loaded folder has no report."""
        if self._dict is None:
            import json
            text = self._report.json if self._report else _read(self._folder, "report.json")
            self._dict = json.loads(text) if text else {}
        return self._dict

    @property
    def report_text(self) -> str:
        """The report as readable text."""
        return self._report.text if self._report else _read(self._folder, "report.txt")

    @property
    def report_html(self) -> str:
        """The report as one self-contained HTML page with graphs at three levels, candidates and roofline. "" for a loaded program."""
        return self._report.html if self._report else ""

    @property
    def recalled(self) -> bool:
        """True if the program came from the database of earlier results or from a folder, without a search."""
        return self._report.recalled if self._report else True

    @property
    def disturbed(self) -> str:
        """Text on disturbances of its measured times, or of the comparison by which it was chosen, that remained after repetitions; "": none."""
        return self.report.get("disturbed", "")

    @property
    def speedup(self) -> float | None:
        """Time of the program one operator at a time, divided by the time of this one; None if that was not measured."""
        return self.report.get("speedup")

    def save(self, path: str | os.PathLike) -> None:
        """Writes a folder that mica.load reads: kernels, their sources, the graph as text and JSON, the report. An older folder is replaced as a
        whole."""
        path = os.fspath(path)
        if self._report:
            self._report.save(path)
        elif os.path.realpath(path) != os.path.realpath(self._folder):
            _mica.Context().folder_copy(self._folder, path)

    def freeze(self, *inputs: Any, **named: Any) -> Program:
        """A program that computes only once, now, what follows from frozen inputs alone, and packs those that products read. The arguments are the
        frozen inputs, in order or by name. Its calls take all inputs, the frozen ones with the same elements. CPU only.

            f = mica.optimize("ffn.mica").freeze(W, V)
            y = f(x, W, V)
        """
        specs = self.inputs
        names = [s.name for s, frozen in zip(specs, self._frozen) if frozen]
        if len(inputs) > len(names):
            raise _mica.UsageError(f"{len(inputs)} arrays are given, and {self.name} has {len(names)} frozen inputs")
        given = dict(zip(names, inputs))
        for name, x in named.items():
            if name in given or name not in names:
                raise _mica.UsageError(f"there is no frozen input `{name}` that is not given yet; the frozen inputs are {', '.join(names)}")
            given[name] = x
        every = tuple(given.get(s.name) if frozen else None for s, frozen in zip(specs, self._frozen))
        return _program(lambda: _mica.module_freeze(type(self), self, every), self._report, self._folder)

    def rank(self, number: int | None = None, *, name: str | None = None, seconds: float = 60) -> Program:
        """The part of one device (a rank) of a program for several devices. It is a Program whose inputs and outputs are the device's parts. All
        ranks must make the same calls at the same time.

        number   number of the rank; None: that of this process under torchrun
        name     name of the world: its ranks are processes of this machine that give the same name. None: the ranks are threads of this process,
                 or the processes of torchrun
        seconds  limit of each wait for the other ranks, here and in calls
        """
        if number is None:
            number, name = torchrun_rank(self, name)
        return _program(lambda: _mica.module_rank(type(self), self, number, name, float(seconds)), self._report, self._folder)

    def __repr__(self) -> str:
        speedup = self.report.get("speedup")
        faster = f", {speedup:.2f} times faster than op by op" if speedup else ""
        return f"<mica.Program {self.name} for {self.target}: {list(self.inputs)} -> {list(self.outputs)}{faster}>"

    def _repr_html_(self) -> str:
        """For notebooks: the HTML report in an iframe, or the text report if there is none."""
        import html
        page = self.report_html
        if page:
            return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 40em; border: 0" title="Report of Mica"></iframe>'
        return f"<pre>{html.escape(self.report_text or repr(self))}</pre>"


class _Extents(Program):
    """A program with run-time extents. Shapes of arrays may have the extents' values, and results have them. Arrays with the shape of the bounds
    are not copied; the call then gives the values by name, as in f(q, K, V, n=17)."""
    __slots__ = ()

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        call = Call(self, inputs, named)
        arrays = call.arrays()
        made = super().__call__(*arrays, stream=stream)
        results = call.results(made)
        if out is None:
            return results
        for to, x in zip(out if isinstance(out, (tuple, list)) else (out,), results if isinstance(results, tuple) else (results,)):
            to[...] = x
        return out


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _program(make, report, folder) -> Program:
    program = make()
    if has_extents(program):
        program.__class__ = _Extents
    program._report, program._folder, program._dict = report, folder, None
    return program


# ---- sources of programs ----

def _settings(params: Mapping[str, int] | None, entry: str | None = None) -> tuple[str, ...]:
    return tuple(f"{k}={int(v)}" for k, v in (params or {}).items()) + ((f"entry={entry}",) if entry else ())


def _is_text(what: str) -> bool:
    return "{" in what or "\n" in what


def source_of(what, examples: tuple[Spec, ...], params: Mapping[str, int] | None, world: int = 1, entry: str | None = None) -> _mica.Source:
    if world != 1 and not callable(what):
        raise _mica.UsageError("world= is of a function; a graph or a text says it itself")
    if isinstance(what, Graph):
        return what.source()
    if isinstance(what, (str, os.PathLike)):
        text = os.fspath(what)
        context = _mica.Context()
        settings = _settings(params, entry)
        return context.load_text(text, "program", settings) if _is_text(text) else context.load(text, settings)
    if callable(what):
        if not examples:
            raise _mica.UsageError("a function needs example inputs: arrays, or mica.Spec(shape, dtype)")
        return trace(what, examples, world).source()
    raise _mica.UsageError(f"a {type(what).__name__} is no program: a function, a mica.Graph, .mica text or a path is")


def _check_examples(source: _mica.Source, examples: tuple[Spec, ...], dtype: str | None) -> None:
    want = [Spec(shape, dtype or d, name) for name, d, shape in source.inputs]
    if len(want) != len(examples):
        raise _mica.UsageError(f"{len(examples)} example inputs, and the program {source.name} has {len(want)} inputs")
    for i, (w, e) in enumerate(zip(want, examples)):
        if w != e:
            hint = f"; dtype=\"{e.dtype}\" makes all inputs that" if w.shape == e.shape else ""
            raise _mica.UsageError(f"example input {i} is {e}, and the program's is {w}{hint}")


def _target_of(examples) -> str:
    """The target of the first example input on a GPU; "cpu" if there is none."""
    for x in examples:
        if getattr(x, "is_cuda", False):  # torch
            return _mica.Context().gpu_target(x.get_device())
        if hasattr(x, "__cuda_array_interface__"):  # cupy and compatible libraries
            return _mica.Context().gpu_target(getattr(getattr(x, "device", None), "id", 0))
    return "cpu"


# ---- public functions ----

def optimize(what: Callable | Graph | str | os.PathLike, *example_inputs, target: str | None = None, params: Mapping[str, int] | None = None,
             progress: bool | Callable[[dict], None] | None = None, world: int = 1, entry: str | None = None, **options) -> Program:
    """Searches for a faster equivalent of a program; proves, compiles and measures it. Returns a Program, which can be called.

    what            a function of tensors of Mica, which is called once with them; a Graph; .mica text; the path of a .mica or .json file
    example_inputs  arrays or Specs; only their shapes and dtypes are used, and their device
    target          "cpu", "sm_90a", ... (`mica targets`); None: that of the example inputs
    params          values of a text's parameters: {"b": 8}
    world           for a function: number of devices that run it together; Specs with shard= are divided among them
    entry           for a text with several programs: name of the program (mica.model takes all)
    progress        None: a line on terminals and in notebooks; False: nothing; a function: called with a dictionary
    options         those of the C interface (mica.h) and of the command: time=60, threads=2, fresh=True, dtype="f32", ...
                    trace="job.json" and dump="all", dump_dir="passes" write the results of passes (docs/debugging.md)

    Ctrl-C ends the search and returns the best proven program, with the warning mica.Stopped. If there is none, KeyboardInterrupt is raised.
    """
    examples = tuple(spec_of(x) for x in example_inputs)
    source = source_of(what, examples, params, world, entry)
    if examples:
        _check_examples(source, examples, options.get("dtype"))
    options["target"] = target or _target_of(example_inputs)
    if isinstance(options.get("off"), (list, tuple)):
        options["off"] = ",".join(options["off"])
    for path in ("db", "dump_dir", "trace", "keep_dropped", "candidate"):
        if options.get(path) is not None:
            options[path] = os.fspath(options[path])
    shown = progress_open(progress, source.name)
    try:
        report, interrupted = _mica.optimize(source, options, shown.callback)
    finally:
        shown.close()
    if report is None:
        raise interrupted
    if interrupted is not None and not isinstance(interrupted, KeyboardInterrupt):
        raise interrupted  # raised in the progress function
    program = _program(lambda: _mica.module_of(Program, report), report, None)
    if interrupted is not None:
        warnings.warn("the optimization was interrupted; the best until then is kept", Stopped, stacklevel=2)
    return program


def load(path: str | os.PathLike) -> Program:
    """Loads a folder that Program.save wrote, without a search. A file that was changed since is an error. The folder contains code that will run,
    so load only folders that you trust."""
    path = os.fspath(path)
    return _program(lambda: _mica.module_load(Program, _mica.Context(), path), None, path)


def verify(a, b, *, params: Mapping[str, int] | None = None, seed: int = 1) -> dict[str, Any]:
    """Decides whether two programs or graphs are equal; each is a Graph, a text or a path. Returns the certificate (docs/theory.md). Its keys are
    "equal"; "finding": equal, not equal or undecided; and "scope", the evidence: proved, full or reduced."""
    import json
    first = source_of(a, (), params)
    second = first.context.load_text(source_of(b, (), params).text, "second", ())
    equal, certificate = first.context.verify(first, second, seed)
    return {**(json.loads(certificate) if certificate else {}), "equal": equal}
