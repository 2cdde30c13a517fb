#!/usr/bin/env python3
"""Time steps of requests of unequal lengths against equal lengths of the same sum.

    python bench/mega/lengths.py examples/mega/llama_3_2_1b.json --rows 64 --least 128 --most 4096 > bench/mega/lengths_h200.csv

A row is an order of the lengths among the rows of a step: microseconds of a step, median, least and most of `--repeats` launches. Ways:

    equal     each request has the mean
    shuffled  lengths from the least to the most in equal distances, in a random order
    sorted    the same, the longest first
    one long  one request has the most, and the others have equal lengths: the same sum

Requests have the same tokens in each order of the same lengths; the exit status is 1 where they do not.
"""
import argparse
import csv
import random
import statistics
import sys

from mica import mega

FIELDS = ("model", "rows", "way", "positions", "parts", "us", "least", "most", "repeats", "of equal")


def lengths_of(rows, least, most):
    every = [least + (most - least) * i // max(rows - 1, 1) for i in range(rows)]
    mean, rest = divmod(sum(every), rows)
    shuffled = every[:]
    random.Random(1).shuffle(shuffled)
    others, more = divmod(sum(every) - most, max(rows - 1, 1))
    return {"equal": [mean + (i < rest) for i in range(rows)], "shuffled": shuffled, "sorted": sorted(every, reverse=True),
            "one long": [others + (i < more) for i in range(rows - 1)] + [most]}


def rows_of(model, lengths, steps):
    """Pages are given out by length, so that a request has the same ones in each order."""
    rows, free = [None] * len(lengths), 1
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        pages = -(-(lengths[i] + steps) // model.slots)
        rows[i] = mega.Row(i, lengths[i] % 100, lengths[i], tuple(range(free, free + pages)))
        free += pages
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("config")
    p.add_argument("--rows", type=int, default=64)
    p.add_argument("--least", type=int, default=128)
    p.add_argument("--most", type=int, default=4096)
    p.add_argument("--steps", type=int, default=8, help="of a launch")
    p.add_argument("--repeats", type=int, default=10)
    p.add_argument("--parts", type=int, default=0, help="of attention; 0: chosen by the model of time")
    p.add_argument("--engine", default="gpu")
    a = p.parse_args()
    ways = lengths_of(a.rows, a.least, a.most)
    pages = 1 + a.rows + max(sum(-(-(n + a.steps) // 64) for n in w) for w in ways.values())
    model = mega.from_config(a.config, rows=a.rows, pages=pages, engine=a.engine, attention_parts=a.parts).random(seed=1)
    if a.engine == "cpu":  # there a cache that no step has written has no numbers; on a GPU it has zeros
        import numpy

        model.set_weights("cache", numpy.ones(model.tensors["cache"][2], numpy.float32))
    out = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    out.writeheader()
    equal, fine, first = 0.0, True, {}
    for way, lengths in ways.items():
        rows, us = rows_of(model, lengths, a.steps), []
        for _ in range(a.repeats + 1):
            made, _ = model.step(rows, a.steps)
            us.append(1e6 * model.seconds / a.steps)
        us = us[1:]
        equal = equal or statistics.median(us)
        by_length = sorted(zip(lengths, zip(*made)))
        fine &= first.setdefault(tuple(sorted(lengths)), by_length) == by_length
        out.writerow({"model": a.config.rsplit("/", 1)[-1], "rows": a.rows, "way": way, "positions": sum(lengths), "parts": a.parts or "chosen",
                      "us": f"{statistics.median(us):.1f}", "least": f"{min(us):.1f}", "most": f"{max(us):.1f}", "repeats": a.repeats,
                      "of equal": f"{statistics.median(us) / equal:.3f}"})
        sys.stdout.flush()
    if not fine:
        print("tokens of a request depend on its row", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
