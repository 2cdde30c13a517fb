"""Divides the seconds of one graph among its distinct programs, for searching, compiling and measuring. Waiting for a turn on the GPU does not
count."""
from __future__ import annotations

import contextlib
import math

from .emit import WIDTH
from .engine import LONGEST
from .measure import clock

OVER = 1.1  # factor of the seconds: the last judgement must end before
BEGUN = 1.5  # factor of the seconds: a judgement that needs no compilation by Inductor must begin before; it takes about a second
OPERATIONS = 16  # f32 operations of a GPU in the time of one byte of memory, roughly
LEAST, EACH = 8.0, 0.0125  # default seconds of a graph, and of each of its nodes
FLOOR = 0.1  # the smallest share, as a fraction of an equal share
FIRST = 5.0  # expected maximum of seconds of the first judgement, in which Inductor compiles a few kernels
BESIDE = 1.5  # the same if Inductor compiles during the search


def seconds_of(options, nodes, kind):
    """Seconds of a graph with this number of nodes. By default the first call on a GPU takes about three times as long as with Inductor, which
    needs about 3 seconds and 0.012 a node. Races on a CPU need more time, so they get the maximum of a search."""
    return options.time or (LEAST + EACH * nodes if kind == "cuda" else LONGEST)


def bound_of(program):
    """A lower bound for the program's time, in operations: its own operations, or the time to read inputs and write results, if that is longer."""
    moved = sum(WIDTH.get(v.dtype, 1) * math.prod(v.shape) for v in (x.value for x in [*program.inputs, *program.outputs]))
    return max(program.work, OPERATIONS * moved)


def weights_of(bounds):
    """key -> weight of each distinct program. bounds: (key, bound) of all programs; the bounds of equal programs add up."""
    sums = {}
    for key, bound in bounds:
        sums[key] = sums.get(key, 0) + bound
    least = FLOOR * sum(sums.values()) / max(len(sums), 1)
    return {key: max(bound, least) for key, bound in sums.items()}


# Seconds below which a job rarely has a result: on a GPU it starts a process, checks and compiles; on a CPU the C compiler runs.
USEFUL = {"cuda": 2.0, "cpu": 0.5}
WHOLE = 5  # part of the first turn, whose programs are the largest and usually the fastest, in those of a later one


class Budget:
    """Turns have parts of the time. Distinct programs of a turn share its part by their weights (`weights_of`). Shares are the same in every process,
    so that a second process finds the compiled programs of the first. Programs whose share would be shorter than `useful` seconds have none, except
    the heaviest of a turn."""

    def __init__(self, seconds, turns=1, useful=0.0):
        self.seconds, self.turns, self.useful = seconds, max(turns, 1), useful
        self.lightest = 0     # least weight of a program that has a share
        self.weight, self.total, self.waiting = 1, 1, 1  # of the current program, of all programs of the turn, of those that wait
        self.part, self.limit = seconds, seconds  # of the turn; the whole time before the first turn
        self.begun = 0        # turns
        self.spent = 0.0      # seconds of programs that are decided
        self.longest = 0.0    # seconds of the longest judgement
        self.late = set()     # regions without a decision for lack of time
        self.since = None     # start of the current program

    def begin(self, weights):
        """Begins a turn of distinct programs with these weights. Unused time of earlier turns is added to its part."""
        each = self.seconds / (WHOLE + self.turns - 1)
        self.part = each if self.begun else WHOLE * each
        self.limit = self.part + self.limit * bool(self.begun)
        self.begun += 1
        some, most = weights, max(weights, default=0)
        while some and min(some) < most and self.part * min(some) < self.useful * sum(some):
            some = [w for w in some if w > min(some)]
        self.lightest = min(some) if len(some) < len(weights) else 0
        self.total = self.waiting = max(sum(some), 1)

    def share_of(self, weight):
        return self.part * weight / max(self.total, weight) if weight >= self.lightest else 0.0

    @property
    def share(self):
        """Seconds of the current program's share."""
        return self.share_of(self.weight)

    @property
    def used(self):
        return self.spent + (clock() - self.since if self.since is not None else 0.0)

    @contextlib.contextmanager
    def program(self, weight=1, first=True):
        """Context of the decision on one program. first: the program belongs to the turn, and no program with its text was decided before."""
        self.since, self.weight = clock(), weight
        try:
            yield
        finally:
            self.spent, self.since = self.used, None
            self.waiting = max(self.waiting - weight * (first and weight >= self.lightest), 0)

    def for_search(self, judged, beside=False):
        """Returns the time limit of a search in seconds.

        judged: the program is compared with Inductor's code after the search. This method reserves time for that.
        beside: Inductor compiles in parallel with the search. The reserve is smaller then.
        """
        seconds = min(self.share, (self.limit - self.spent) * self.weight / max(self.waiting, self.weight))
        if not judged or seconds <= 0:
            return seconds
        return max(seconds - (self.longest or min(seconds / 2, BESIDE if beside else FIRST)), seconds / 4)

    def may_judge(self, compiled=False):
        """Whether a judgement as long as the longest one so far would end in time. compiled: the alternative is compiled already."""
        return self.used <= BEGUN * self.seconds if compiled else self.used + self.longest <= OVER * self.seconds

    @contextlib.contextmanager
    def judgement(self):
        begin = clock()
        try:
            yield
        finally:
            self.longest = max(self.longest, clock() - begin)
