"""Compiles the text of a program to a function of torch tensors. Only this module calls mica.optimize.

A compiled program is in a folder of the cache. The folder's name is a hash of the text, the target, the options and the build of Mica. A later
process loads it without a search. Processes that need the same program wait for the first one, by a file lock. If a search had too little time, it is
repeated when there is more. It then continues from the results in the database of `mica.optimize`.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import json
import logging
import os
import subprocess
import threading

import torch

import mica
from mica import _mica
from mica.progress import progress_open

from .measure import has_turn

log = logging.getLogger("mica.torch")
DTYPES = {row["name"]: getattr(torch, row["array"]) for row in _mica.dtypes if hasattr(torch, row["array"])}
LONGEST = 60.0  # default seconds of a program
MORE_TIME = "a larger `time` gives it more"


class EngineError(RuntimeError):
    """Mica failed to make a program. The text is its message."""


class LateError(EngineError):
    """The time of the graph ended before this program was decided."""


@functools.cache
def targets():
    """Names of the targets. The command `mica targets` prints them; this may take time, because it measures the CPU."""
    from mica.config import command
    said = subprocess.run([command(), "targets", "--quiet", "--json", "-"], capture_output=True, text=True, check=True, timeout=60).stdout
    return [t["name"] for t in json.loads(said)["targets"]]


def check_target(name):
    """Raises an error if no target has this name."""
    if name and name not in targets():
        raise ValueError(f"option target of backend mica: there is no target {name!r}; there are {', '.join(targets())}")


class Compiled:
    """An optimized program. Inputs and outputs have the order of the text. Several threads may call it, on a GPU also in several streams, because its
    module has a workspace for each stream."""

    def __init__(self, folder, recalled):
        try:
            self._program = mica.load(folder)
        except mica.Error as error:
            raise EngineError(str(error)) from None
        self.folder, self.recalled = folder, recalled
        self.inputs, self.outputs = signature_of(self._program)
        self.frozen = self._program._frozen  # by input

    @property
    def report(self):
        return self._program.report

    @property
    def untried(self):
        """Text on work that was omitted for lack of time, or ""."""
        return untried(self.report)

    def __call__(self, inputs):
        """inputs: contiguous tensors on one device. Returns new tensors. A GPU runs the kernels in its current stream."""
        return _called(self._program, inputs)

    def freeze(self, weights):
        """A function like this object's calls, which computes nothing of the frozen inputs again. weights: those inputs."""
        program = self._program.freeze(*weights)
        return lambda inputs: _called(program, inputs)


def _called(program, inputs):
    with current(inputs):
        results = program(*inputs)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def current(tensors):
    """Context in which the device of these tensors is torch's current one."""
    if tensors and tensors[0].is_cuda and tensors[0].get_device() != torch.cuda.current_device():
        return torch.cuda.device(tensors[0].device)
    return contextlib.nullcontext()


def signature_of(program):
    """(dtype, shape) of every input, and of every output."""
    return tuple([(DTYPES[s.dtype], tuple(s.shape)) for s in specs] for specs in (program.inputs, program.outputs))


@functools.lru_cache(maxsize=256)
def signature(text):
    """The same for the text of a program."""
    source = _mica.Context().load_text(text, "program", ())
    return tuple([(DTYPES[dtype], tuple(shape)) for _, dtype, shape in specs] for specs in (source.inputs, source.outputs))


@functools.lru_cache(maxsize=64)
def target_of(device):
    if device.type == "cpu":
        return "cpu"
    try:
        return _mica.Context().gpu_target(torch.cuda.current_device() if device.index is None else device.index)
    except mica.Error as error:
        raise EngineError(str(error)) from None


def untried(report):
    left = report["left"] or ("the time was over" if report["stopped"] else "")
    return f"in {report['options']['time']:.3g} seconds not all was tried ({left})" if left else ""


def _asked(folder):
    """The file with the seconds of the program in this folder: its share of the time, of which its search may have had only a part."""
    return folder + ".asked"


def _is_final(folder, options, asked):
    """Whether a search in the seconds `asked` would not improve on the program in this folder."""
    try:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as f:
            report = json.load(f)
        disturbed = report.get("disturbed") and not options.search.get("disturbed")
        return not disturbed and (not untried(report) or asked <= _seconds_of(folder, report))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError) as error:
        raise EngineError(f"the cache of compiled programs: {folder}: {error!r}") from None


def _seconds_of(folder, report):
    try:
        with open(_asked(folder), encoding="utf-8") as f:
            return float(f.read())
    except (FileNotFoundError, ValueError):
        return report["options"]["time"]


def compile(text, target, options, seconds=None, asked=None, meanwhile=None):
    """Optimizes a program and returns a Compiled. asked: seconds of the program's share of the time; seconds: rest of the share for the search. The
    default of both is the whole time. meanwhile: function that this thread calls while another one searches, if a search is necessary.
    Raises EngineError; LateError if no time is left; RuntimeError within a turn (measure.py)."""
    if has_turn():
        raise RuntimeError("a search within a turn on the GPU would wait for itself: begin it before measure.turn()")
    seconds = (options.time or LONGEST) if seconds is None else seconds
    asked = seconds if asked is None else asked
    settings = {"threads": options.threads or torch.get_num_threads(), "f32_products": options.f32_products, **options.search}
    what = json.dumps([text, target, sorted(settings.items()), _mica.version()])
    folder = os.path.join(options.folder(), hashlib.sha256(what.encode()).hexdigest()[:24])
    with _locked(folder):
        recalled = _is_final(folder, options, asked)
        if not recalled:
            if seconds <= 0:
                raise LateError(f"no time was left; {MORE_TIME}")
            _beside(lambda ended: _make(text, target, settings, options, seconds, folder, ended), meanwhile)
            with open(_asked(folder), "w", encoding="utf-8") as f:
                f.write(repr(float(asked)))
        return Compiled(folder, recalled)


def _make_folder(folder):
    """os.makedirs, with the mode also for parent folders."""
    if folder and not os.path.isdir(folder):
        _make_folder(os.path.dirname(folder))
        os.makedirs(folder, mode=0o700, exist_ok=True)


def _own(cache):
    """Raises an error if other users may write to the cache, because its code will run."""
    _make_folder(cache)
    made = os.stat(cache)
    if made.st_uid != os.geteuid() or made.st_mode & 0o022:
        raise EngineError(f"the cache of compiled programs: {cache} can be written by other users")


@contextlib.contextmanager
def _locked(folder):
    """Context in which no other process makes this folder."""
    try:
        _own(os.path.dirname(folder))
        with open(folder + ".lock", "w", encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise EngineError(f"the cache of compiled programs: {error}") from None


@functools.cache
def _say_no_database(why):
    """Warns once in a process that the database is not used."""
    log.warning("%s; programs are searched without a database", why)


def _optimize(text, settings, **more):
    """mica.optimize, without the database if it cannot be trusted."""
    try:
        return mica.optimize(text, **settings, **more)
    except mica.Error as error:
        if getattr(error, "code", "") != "untrusted" or not settings.get("remember", True):
            raise
        _say_no_database(str(error).split("\n")[0])
        return mica.optimize(text, **{**settings, "remember": False}, **more)


def _beside(work, meanwhile):
    """Runs `work` in another thread while this one runs `meanwhile`. An exception in this thread, such as Ctrl-C, ends the work."""
    if meanwhile is None:
        return work(None)
    ended = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1, "mica-search") as pool:
        try:
            made = pool.submit(work, ended)
            meanwhile()
            return made.result()
        except BaseException:
            ended.set()
            raise


def _ends(ended, shown):
    """A progress function that ends the search when `ended` is set. shown: the progress to display."""
    def progress(now):
        if ended.is_set():
            raise EngineError("the search was ended")
        if shown.callback:
            shown.callback(**now)
    return progress


def _make(text, target, settings, options, seconds, folder, ended=None):
    shown = progress_open(options.progress if ended else False, "region")
    try:
        program = _optimize(text, settings, target=target, time=float(seconds), progress=_ends(ended, shown) if ended else options.progress)
        report, never_ran = program.report, (program.report.get("gpu") or {}).get("unmeasured")
        # The result is the same as without Mica, so no measurement is needed.
        if options.take == "faster" and report["stopped"] and never_ran and report["best"]["op_by_op"]:
            raise EngineError(f"{never_ran}; {MORE_TIME}")
        program.save(folder)
    except (mica.Error, TypeError) as error:
        late = f"; {MORE_TIME}" if getattr(error, "code", "") == "stopped" else ""
        raise EngineError(str(error).split("\n")[0] + late) from None
    finally:
        shown.close()
