"""Calls on a GPU in several streams and while a CUDA graph captures them, on a driver that has no GPU behind it (tests/cuda/fake.c): it
gives no memory to a thread that captures, unless the thread's capture mode is relaxed, and a launch copies its first buffer to its second."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

FIRST = {"name": "a", "how": "rows", "cubin": "a.cubin", "kernel": "a", "grid": 1, "block": 64, "shared": 0, "cluster": 1, "dependent": False,
         "args": [{"place": "input", "index": 0, "offset": 0}, {"place": "workspace", "index": 0, "offset": 128}], "maps": []}
SECOND = {**FIRST, "name": "b", "args": [FIRST["args"][1], {"place": "output", "index": 0, "offset": 0}]}
PROGRAM = {"program": "twice", "arch": "sm_90a", "compiler": "none", "missing": None, "inputs": [{"name": "X", "dtype": "f32", "shape": [32]}],
           "outputs": [{"name": None, "dtype": "f32", "shape": [32]}], "workspace": 256, "zeroed": 16, "launches": [FIRST, SECOND]}

BEGIN = """
import ctypes, sys, mica
cuda = ctypes.CDLL("libcuda.so.1")
class Fake(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("allocated", "released", "launches", "unloaded")]
fake = Fake.in_dll(cuda, "fake")

class OnGpu:
    def __init__(self):
        self.memory = ctypes.create_string_buffer(128 + 16)
        self.at = -(-ctypes.addressof(self.memory) // 16) * 16
        self.__cuda_array_interface__ = {"data": (self.at, False), "shape": (32,), "typestr": "<f4", "version": 3}
    def fill(self, c):
        ctypes.memset(self.at, c, 128)
        return self
    def bytes(self):
        return ctypes.string_at(self.at, 128)

def capture(stream, f):
    graph, run = ctypes.c_void_p(), ctypes.c_void_p()
    assert not cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 0)
    f()
    assert not cuda.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph))
    assert not cuda.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_ulonglong(0))
    return lambda: cuda.cuGraphLaunch(run, None)

f, x, y = mica.load(sys.argv[1]), OnGpu(), OnGpu()
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Runs a script where the fake is the driver."""
    cc = os.environ.get("CC", "cc").split()
    if not shutil.which(cc[0]):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("fake")
    subprocess.run([*cc, "-std=gnu17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Isrc", "-Iinclude", "-Itests/cuda", "tests/cuda/fake.c",
                    "-o", folder / "libcuda.so.1"], cwd=ROOT, check=True)
    (folder / "a.cubin").write_text("code")

    def run(script, arch="90", **program):
        (folder / "program.json").write_text(json.dumps({**PROGRAM, **program}))
        sums = ((hashlib.sha256((folder / name).read_bytes()).hexdigest(), name) for name in ("a.cubin", "program.json"))
        (folder / "SHA256SUMS").write_text("".join(f"{sum}  {name}\n" for sum, name in sums))
        libraries = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        done = subprocess.run([sys.executable, "-c", BEGIN + script, folder], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries, "FAKE_BYTES": "128", "FAKE_ARCH": arch})
        assert done.returncode == 0, done.stderr
        return done.stdout.split()
    return run


def test_each_stream_has_a_workspace(driver):
    assert driver("""
for stream in (7, 8, 7, 8, 9):
    f(x.fill(stream), out=y.fill(0), stream=stream)
    assert x.bytes() == y.bytes()
print(fake.allocated, fake.launches)
del f
print(fake.released)
print(fake.unloaded)  # the module stays loaded: unloading it may end kernels that the release of memory waits for
""") == ["3", "10", "3", "0"]


def test_without_memory_between_kernels_none_is_taken(driver):
    assert driver("""
for stream in (7, 8):
    f(x.fill(stream), out=y.fill(0), stream=stream)
    assert x.bytes() == y.bytes()
print(fake.allocated, fake.launches)
""", workspace=0, zeroed=0, launches=[{**FIRST, "args": [FIRST["args"][0], SECOND["args"][1]]}]) == ["0", "2"]


@pytest.mark.parametrize("before", ["", "f(x, out=y, stream=6)"], ids=["the first call of all", "the first in its stream"])
def test_the_first_call_may_be_captured(driver, before):
    assert driver(f"""
{before}
replay = capture(7, lambda: f(x, out=y, stream=7))
y.fill(0)
for c in (3, 4):
    x.fill(c)
    assert x.bytes() != y.bytes()
    replay()
    assert x.bytes() == y.bytes()
mode = ctypes.c_int(1)
cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
print(mode.value)  # what it was before
""") == ["0"]


def test_the_fake_refuses_memory_while_it_captures(driver):
    """The fake driver rejects allocations during a capture. Otherwise the tests above would prove nothing."""
    assert driver("""
address = ctypes.c_ulonglong()
codes = []
capture(7, lambda: codes.append(cuda.cuMemAlloc_v2(ctypes.byref(address), 64)))
print(*codes)
""") == ["900"]


@pytest.mark.parametrize("arch, target", [("90", "sm_90a"), ("80", "sm_80"), ("100", "sm_100a"), ("110", "None"), ("75", "None")])
def test_the_target_of_a_gpu(driver, arch, target):
    said = driver("""
from mica.config import gpu_target
from mica.optimize import _target_of
assert gpu_target(1) is None  # there is one GPU
try:
    of_array = _target_of([x])
except mica.UsageError as error:
    assert "no target for this machine's a fake" in str(error)
    of_array = None
print(gpu_target(), of_array)
""", arch)
    assert said == [target, target]
