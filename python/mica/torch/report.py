"""The backend's decision on each node: taken into which program, or left and why."""
from __future__ import annotations

from dataclasses import dataclass, field


def counted(n, what):
    """1 program, 2 programs."""
    return f"{n} {what}{'s' * (n != 1)}"


@dataclass
class Node:
    name: str
    operator: str
    shape: str
    program: str = ""  # taken into
    why: str = ""      # left because
    where: str = ""    # file:line of the model


@dataclass
class Taken:
    """One program and what became of it."""
    name: str
    operators: int
    text: str
    taken: bool = False
    why: str = ""               # not taken because
    us: float | None = None     # measured in the same run as `rest_us`
    rest_us: float | None = None
    error: float | None = None  # relative norm of the difference to eager
    recalled: bool = False      # no search: the kernels of an earlier process
    late: bool = False          # the time was over before it was decided
    same_as: str = ""           # an earlier program of the graph, which this one equals: decided once
    sizes: dict = field(default_factory=dict)  # of a dynamic extent: bucket -> Taken

    def like(self, other):
        """Takes over the outcome of an equal program."""
        for name in ("text", "operators", "taken", "why", "us", "rest_us", "error", "recalled", "late", "sizes"):
            setattr(self, name, getattr(other, name))

    def line(self):
        if self.sizes:
            return f"{self.name}: {self.operators} operators, buckets {', '.join(map(str, self.sizes)) or 'none yet'}"
        head = f"{self.name}: {self.operators} operators, {'taken' if self.taken else 'left'}" + (f", as {self.same_as}" if self.same_as else "")
        if self.us is not None and self.rest_us is not None:
            head += f", {self.us:.1f} us against {self.rest_us:.1f}"
        return head + (f" ({self.why})" if self.why else "")


@dataclass
class Report:
    """Report of one graph that Dynamo gave to the backend."""
    nodes: list = field(default_factory=list)
    programs: list = field(default_factory=list)
    why: str = ""                # the whole graph was left because
    us: float | None = None      # of the whole graph with its programs, where that was measured, and
    rest_us: float | None = None  # of what the rest's compiler makes of it alone
    judged: int = 0               # distinct programs that were decided for this graph
    compilations: int = 0         # of Inductor, for judgements and for what runs
    seconds: float = 0.0          # that programs took of `time`

    def leave(self, why):
        """No program is taken after all."""
        for p in self.programs:
            if p.taken:
                p.taken, p.why = False, why

    def gone(self, names, why):
        """Nodes of these names are computed no more."""
        for n in self.nodes:
            n.why = why if n.name in names else n.why

    @property
    def taken(self):
        """Nodes that run in programs of Mica."""
        by_name = {p.name: p for p in self.programs}
        return [n for n in self.nodes if (p := by_name.get(n.program)) and (p.taken or p.sizes)]  # a mistake may end it before there is a program

    @property
    def left(self):
        names = {n.name for n in self.taken}
        return [n for n in self.nodes if n.name not in names]

    def head(self):
        """How much is taken."""
        if not self.taken:
            return f"none of {len(self.nodes)} nodes is taken"
        return f"{len(self.taken)} of {len(self.nodes)} nodes in {counted(len(self.used), 'program')}"

    @property
    def used(self):
        return [p for p in self.programs if p.taken or p.sizes]

    def __str__(self):
        if self.why:
            return f"left as it is: {self.why}"
        by_name = {p.name: p for p in self.programs}
        out = [self.head()]
        if self.us is not None and self.rest_us is not None:
            out[0] += f"; {self.us:.1f} us against {self.rest_us:.1f}"
        out += ["  " + p.line() for p in self.programs]
        width = max((len(n.name) for n in self.nodes), default=0)
        for n in self.nodes:
            p = by_name.get(n.program)
            where = (p.name if p.taken or p.sizes else f"left with {p.name}") if p else f"left: {n.why}"
            out.append(f"  {n.name:{width}}  {n.operator:34} {n.shape:20} {where}")
        return "\n".join(out)
