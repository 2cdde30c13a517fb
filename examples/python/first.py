"""First steps: a softmax with a temperature, written as a Python function, made faster for this machine's CPU. Needs nothing but the package.

    pip install . && python examples/python/first.py
"""
import math
import random
from array import array

import mica

ROWS, COLUMNS = 1024, 2048


def probabilities(scores):
    return mica.softmax(scores / 8, dim=1)


def main():
    random.seed(1)
    numbers = array("f", (random.uniform(-40, 40) for _ in range(ROWS * COLUMNS)))
    scores = memoryview(numbers).cast("B").cast("f", (ROWS, COLUMNS))  # an array of numpy, torch or jax does as well

    f = mica.optimize(probabilities, scores, time=120)
    print(f.report_text)

    row = memoryview(f(scores)).tolist()[0]
    powers = [math.exp((x - max(numbers[:COLUMNS])) / 8) for x in numbers[:COLUMNS]]
    error = max(abs(y - p / math.fsum(powers)) for y, p in zip(row, powers)) / max(row)
    assert error < 1e-5, f"the first row is wrong by {error}"

    seconds = min(f.bind(scores).time(1) for _ in range(20))
    print(f"{f.speedup:.2f} times faster than one operator at a time; {seconds * 1e6:.0f} us a call; largest relative error of a row {error:.1e}")


if __name__ == "__main__":
    main()
