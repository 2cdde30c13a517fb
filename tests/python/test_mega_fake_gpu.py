"""Persistent kernels through the driver's functions, without a GPU: NVRTC compiles the text, a fake driver (tests/cuda/fake.c) loads its machine
code, and launches run the same text for a CPU. The tokens are those of the CPU engine. Calls come from several threads. A launch that hangs is
reported."""
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

SCRIPT = """
import sys, threading, mica
from mica import mega
options = dict(rows=2, pages=6, deadline=60)
try:
    gpu = mega.from_config(sys.argv[1], engine="gpu", workers=2, **options).random(3)
except mica.MachineError as e:
    sys.exit(print("no NVRTC") if "was not found" in str(e) else str(e))
cpu = mega.from_config(sys.argv[1], workers=2, **options).random(3)
prompts = [[1, 2, 3], [7]]
want = cpu.generate(prompts, 3, temperature=0.8, seed=5)
got = []
threads = [threading.Thread(target=lambda: got.append(gpu.generate(prompts, 3, temperature=0.8, seed=5))) for _ in range(2)]
for t in threads:
    t.start()
    t.join()
assert got == [want, want], (got, want)
rows = [mega.Row(0, 4, 0, (2,))]
a, b = (m.step(rows, logits=True)[1].tolist()[0] for m in (gpu, cpu))
assert max(abs(x - y) for x, y in zip(a, b)) < 1e-4 and gpu.seconds > 0
try:
    mega.from_config(sys.argv[1], engine="gpu", workers=5, **options)
except mica.UsageError as e:
    assert "5 workers, and a fake has 4 multiprocessors" in str(e)
print("equal")
"""


@pytest.mark.skipif(not os.environ.get("MICA_ALL"), reason="NVRTC takes long for the kernel: in the long tier")
def test_tokens_by_way_of_the_driver(tmp_path):
    if not shutil.which("g++") or not shutil.which("cc"):
        pytest.skip("no compilers")
    from mica.config import command
    config = os.path.join(ROOT, "examples/mega/tiny_llama.json")
    subprocess.run([command(), "mega", "emit", config, "--rows", "2", "--pages", "6", "--workers", "2", "--steps", "64", "--out", tmp_path],
                   check=True, capture_output=True)
    subprocess.run(["g++", "-O1", "-std=c++17", "-w", "-DMEGA_SHIM", "-DMEGA_LIBRARY", "-x", "c++", "-shared", "-fPIC", "-o", tmp_path / "kernel.so",
                    tmp_path / "tiny_llama.cu"], check=True)
    subprocess.run(["cc", "-std=gnu17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Isrc", "-Iinclude", "-Itests/cuda", "tests/cuda/fake.c",
                    "-ldl", "-o",
                    tmp_path / "libcuda.so.1"], cwd=ROOT, check=True)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")]))
    run = subprocess.run([sys.executable, "-c", SCRIPT, config],
                         env={**os.environ, "LD_LIBRARY_PATH": path, "FAKE_SHIM": str(tmp_path / "kernel.so")}, capture_output=True,
                         text=True, timeout=280)
    if "no NVRTC" in run.stdout:
        pytest.skip("no NVRTC")
    assert run.stdout.strip() == "equal" and run.returncode == 0, run.stderr
