"""Cost of a call from Python beyond the kernel: a program of three tensors of one element, so with no work to speak of.

    PYTHONPATH=build/python python3 bench/python_call.py

The kernel's own time, of calls from C one after the other, is subtracted. Processor time of this thread's process; the least of many
short rounds is that of a machine that is otherwise idle, the median shows what others on it cost."""
import importlib.util
import statistics
import time
import timeit

import mica

ROUNDS, CALLS = 200, 3000
TEXT = "program add { X: f32[1]\n Y: f32[1]\n return X + Y }"


def times(statement: str, names: dict) -> tuple[float, float]:
    """Microseconds a call: (least, median)."""
    timer = timeit.Timer(statement, timer=time.process_time, globals=names)
    took = [t / CALLS * 1e6 for t in timer.repeat(ROUNDS, CALLS)]
    return min(took), statistics.median(took)


def rows(f, x, y, out, name):
    bound = f.bind(x, y, out=out)
    names = dict(f=f, x=x, y=y, out=out, bound=bound)
    took = [bound.time(CALLS) / CALLS * 1e6 for _ in range(ROUNDS)]
    kernel = min(took), statistics.median(took)
    for statement in ("f(x, y)", "f(x, y, out=out)", "bound()"):
        call = times(statement, names)
        print(f"{name:6} {statement:18} least {call[0] - kernel[0]:6.3f} us, median {call[1] - kernel[1]:6.3f} us "
              f"above the kernel's {kernel[0]:.3f} us")


def started() -> float:
    """Seconds that a fresh process takes to import the package, less those of one that imports nothing."""
    import subprocess
    import sys

    def least(text):
        took = []
        for _ in range(15):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", text], check=True)
            took.append(time.perf_counter() - start)
        return min(took)

    return least("import mica") - least("pass")


def main():
    print(f"import mica: {started() * 1e3:.1f} ms")
    f = mica.optimize(TEXT, progress=False, time=20, threads=1)
    if importlib.util.find_spec("numpy"):
        import numpy as np
        rows(f, np.ones(1, "f4"), np.ones(1, "f4"), np.empty(1, "f4"), "numpy")
        sub = type("Sub", (np.ndarray,), {})  # a subclass is read through __dlpack__
        rows(f, np.ones(1, "f4").view(sub), np.ones(1, "f4").view(sub), np.empty(1, "f4").view(sub), "dlpack")
    if importlib.util.find_spec("torch"):
        import torch
        rows(f, torch.ones(1), torch.ones(1), torch.empty(1), "torch")
    rows(f, mica.Array((1,)), mica.Array((1,)), mica.Array((1,)), "own")


if __name__ == "__main__":
    main()
