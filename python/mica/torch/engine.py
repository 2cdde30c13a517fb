"""Programs that run: text in, a function of torch tensors out. The only module here that knows how Mica is reached.

A compiled program lies in a folder of the cache, named by everything that made it: the text, the target, the options and the
build of Mica. A later process loads it without a search; processes that want the same wait for the first one (a file lock).
The database of `mica optimize` is used beside it, so a search that ran out of time goes on in the next process.
"""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile

import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class EngineError(RuntimeError):
    """Mica did not make a program; the text is its message."""


class Compiled:
    """A program that was optimized. Inputs and outputs in the order of the text; several threads may call it."""

    def __init__(self, folder, inputs, outputs, report, recalled):
        self.folder, self.inputs, self.outputs, self.report, self.recalled = folder, inputs, outputs, report, recalled
        name = report["program"]
        self._library = ctypes.CDLL(os.path.join(folder, "kernel.so"))
        self._run = getattr(self._library, f"mica_{name}")
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self._run.restype = ctypes.c_int
        size = getattr(self._library, f"mica_{name}_workspace")
        size.restype = ctypes.c_size_t
        self.workspace = size()

    def __call__(self, inputs):
        """inputs: contiguous tensors. The results are new ones."""
        outputs = [torch.empty(shape, dtype=dtype) for dtype, shape in self.outputs]
        space = torch.empty(self.workspace, dtype=torch.uint8) if self.workspace else None
        ins = (ctypes.c_void_p * len(inputs))(*(t.data_ptr() for t in inputs))
        outs = (ctypes.c_void_p * len(outputs))(*(t.data_ptr() for t in outputs))
        if self._run(ins, outs, space.data_ptr() if space is not None else None):
            raise EngineError(f"{self.folder}: the kernel had no memory")
        return outputs


def command():
    """The `mica` command: $MICA, or the one on the path."""
    found = os.environ.get("MICA") or shutil.which("mica")
    if not found:
        raise EngineError("there is no `mica` command: put it on PATH or name it by $MICA")
    return found


def _run(args, timeout):
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{args[0]} took longer than {timeout:.0f} seconds") from None
    except OSError as error:
        raise EngineError(f"{args[0]}: {error}") from None
    if done.returncode:
        raise EngineError((done.stderr or done.stdout).strip().removeprefix("mica: error: ") or f"{args[0]} failed")
    return done.stdout


@functools.lru_cache(maxsize=None)
def build_of(path):
    """What identifies this build of Mica and the compiler it uses."""
    return _run([path, "version"], 60)


def target_of(device):
    if device.type == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def available(target):
    """None, or why no program can be compiled for the target."""
    if target != "cpu":
        return f"no engine for {target} yet"
    try:
        build_of(command())
    except EngineError as error:
        return str(error)
    return None


def compile(text, target, options):
    """A program of the language, optimized: a Compiled. Raises EngineError."""
    mica = command()
    threads = options.threads or torch.get_num_threads()
    args = [f"--{k.replace('_', '-')}={v}" if v is not True else f"--{k.replace('_', '-')}"
            for k, v in sorted(options.search.items())]
    args = [a for arg in args for a in arg.split("=", 1)]
    what = json.dumps([text, target, threads, args, build_of(mica)])
    folder = os.path.join(options.folder(), hashlib.sha256(what.encode()).hexdigest()[:24])
    os.makedirs(options.folder(), exist_ok=True)
    with _locked(folder + ".lock"):
        recalled = os.path.exists(os.path.join(folder, "kernel.so"))
        if not recalled:
            _make(mica, text, target, threads, args, options.time, folder)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as f:
        report = json.load(f)
    return Compiled(folder, *signature_of(folder), report, recalled)


@contextlib.contextmanager
def _locked(path):
    with open(path, "w", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _make(mica, text, target, threads, args, seconds, folder):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as made:
        source = os.path.join(made, "p.mica")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        _run([mica, "optimize", source, "--target", target, "--out", os.path.join(made, "out"), "--quiet",
              "--threads", str(threads), "--time", f"{seconds:g}", *args], seconds + 120)
        out = os.path.join(made, "out")
        _compile_c(out)
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        os.rename(out, folder)


def _compile_c(out):
    """kernel.so of kernel.c, as the head of kernel.h says."""
    with open(os.path.join(out, "kernel.h"), encoding="utf-8") as f:
        lines = re.findall(r"^//   (cc .*)$", f.read(), re.M)
    flags = [a for a in shlex.split(lines[0]) if a not in ("cc", "-c", "kernel.c")]
    libraries = [a for a in shlex.split(lines[1]) if a.startswith("-l")] if len(lines) > 1 else []
    _run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", *flags, os.path.join(out, "kernel.c"), "-o",
          os.path.join(out, "kernel.so"), *libraries], 120)


def signature_of(folder):
    """(dtype, shape) of every input, and of every output, as the head of kernel.h lists them."""
    with open(os.path.join(folder, "kernel.h"), encoding="utf-8") as f:
        rows = re.findall(r"^//   (in|out) (\w+) \[([\d, ]*)\]$", f.read(), re.M)
    of = {"in": [], "out": []}
    for way, dtype, shape in rows:
        of[way].append((DTYPES[dtype], tuple(int(s) for s in shape.split(",") if s.strip())))
    return of["in"], of["out"]
