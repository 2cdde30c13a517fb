"""The seconds that one graph may take: its distinct programs share them for search, compiling and measuring. Waiting for a turn on the GPU is
not counted."""
from __future__ import annotations

import contextlib
import math

from .emit import WIDTH
from .engine import LONGEST
from .measure import clock

OVER = 1.1  # of the seconds, what the last judgement may end at
BEGUN = 1.5  # of the seconds, until when a judgement may begin whose code of Inductor is there: it takes about a second
OPERATIONS = 16  # of f32 in the time of one byte of memory, about what GPUs have
LEAST, EACH = 8.0, 0.0125  # seconds of a graph and of each of its nodes, if none are given
FLOOR = 0.1  # of an equal share, which the smallest program has
FIRST = 5.0  # seconds that the first judgement is expected to take at most, which Inductor needs for a few kernels
BESIDE = 1.5  # the same, if Inductor compiles beside the search


def seconds_of(options, nodes, kind):
    """Seconds of a graph with so many nodes. If none are given, those in which the first call takes about three times Inductor's, which needs
    about 3 seconds and 0.012 a node on GPUs. Races on a CPU need more: all that a search may have."""
    return options.time or (LEAST + EACH * nodes if kind == "cuda" else LONGEST)


def bound_of(program):
    """Operations that take as long as the program takes at least: its own, or those in the time of its inputs and results."""
    moved = sum(WIDTH.get(v.dtype, 1) * math.prod(v.shape) for v in (x.value for x in [*program.inputs, *program.outputs]))
    return max(program.work, OPERATIONS * moved)


def weights_of(bounds):
    """key -> the weight of a distinct program. bounds: (key, bound) of all programs. Equal ones count together."""
    sums = {}
    for key, bound in bounds:
        sums[key] = sums.get(key, 0) + bound
    least = FLOOR * sum(sums.values()) / max(len(sums), 1)
    return {key: max(bound, least) for key, bound in sums.items()}


class Budget:
    """Turns have equal parts of the time, and the distinct programs of a turn have shares of that by their weights (`weights_of`). A share is the same
    in every process, so that a second one finds what the first one made."""

    def __init__(self, seconds, turns=1):
        self.seconds, self.turns = seconds, max(turns, 1)
        self.weight, self.total, self.waiting = 1, 1, 1  # of the program that is decided, of all of the turn, and of those that wait
        self.part, self.limit = seconds, seconds  # of the turn; all of it until one begins
        self.begun = 0        # turns
        self.spent = 0.0      # by programs that are decided
        self.longest = 0.0    # seconds of the longest judgement
        self.late = set()     # regions that there was no time for
        self.since = None     # when the program that is decided now began

    def begin(self, weights):
        """A turn of distinct programs of these weights. They also have the time that earlier turns left."""
        self.part = self.seconds / self.turns
        self.begun += 1
        self.limit = self.part * self.begun
        self.total = self.waiting = max(sum(weights), 1)

    def share_of(self, weight):
        return self.part * weight / max(self.total, weight)

    @property
    def share(self):
        """The share of the program that is decided now."""
        return self.share_of(self.weight)

    @property
    def used(self):
        return self.spent + (clock() - self.since if self.since is not None else 0.0)

    @contextlib.contextmanager
    def program(self, weight=1, first=True):
        """Around the decision on one of them. first: the turn has it, and none of its text was decided before."""
        self.since, self.weight = clock(), weight
        try:
            yield
        finally:
            self.spent, self.since = self.used, None
            self.waiting = max(self.waiting - weight * first, 0)

    def for_search(self, judged, beside=False):
        """Seconds of a search. judged: a judgement follows. It compiles what the program is measured against, unless that is done beside."""
        seconds = min(self.share, (self.limit - self.spent) * self.weight / max(self.waiting, self.weight))
        if not judged or seconds <= 0:
            return seconds
        return max(seconds - (self.longest or min(seconds / 2, BESIDE if beside else FIRST)), seconds / 4)

    def may_judge(self, compiled=False):
        """A judgement like the longest one yet would end in time; or what the program is compared with is compiled."""
        return self.used <= BEGUN * self.seconds if compiled else self.used + self.longest <= OVER * self.seconds

    @contextlib.contextmanager
    def judgement(self):
        begin = clock()
        try:
            yield
        finally:
            self.longest = max(self.longest, clock() - begin)
