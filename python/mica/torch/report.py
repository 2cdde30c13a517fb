"""The backend's decision on each node: the program that takes it, or the reason why it is left."""
from __future__ import annotations

from dataclasses import dataclass, field


def counted(n, what):
    """Number and noun, such as "1 program", "2 programs"."""
    return f"{n} {what}{'s' * (n != 1)}"


@dataclass
class Node:
    name: str
    operator: str
    shape: str
    program: str = ""  # name of the program that takes it
    why: str = ""      # reason why it is left
    where: str = ""    # file:line of the model


@dataclass
class Taken:
    """A program and the decision on it."""
    name: str
    operators: int
    text: str
    taken: bool = False
    why: str = ""               # reason why it is not taken
    us: float | None = None     # measured in the same run as `rest_us`
    rest_us: float | None = None
    error: float | None = None  # relative norm of the difference to eager mode
    recalled: bool = False      # no search: the kernels are from an earlier process
    late: bool = False          # not decided for lack of time
    same_as: str = ""           # name of an equal program of the graph, whose decision holds
    sizes: dict = field(default_factory=dict)  # with a dynamic extent: bucket -> Taken

    def like(self, other):
        """Copies the decision on an equal program."""
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
    """Report on one graph that Dynamo gave to the backend."""
    nodes: list = field(default_factory=list)
    programs: list = field(default_factory=list)
    why: str = ""                # reason why the whole graph is left
    us: float | None = None      # microseconds of the whole graph with its programs, if measured
    rest_us: float | None = None  # the same of the whole graph by the rest's compiler
    judged: int = 0               # number of distinct programs decided for this graph
    compilations: int = 0         # number of compilations by Inductor
    seconds: float = 0.0          # part of `time` used for programs

    def leave(self, why):
        """Rejects all programs, for the reason `why`."""
        for p in self.programs:
            if p.taken:
                p.taken, p.why = False, why

    def gone(self, names, why):
        """Records that nodes of these names are no longer computed."""
        for n in self.nodes:
            n.why = why if n.name in names else n.why

    @property
    def taken(self):
        """Nodes that run in programs of Mica."""
        by_name = {p.name: p for p in self.programs}
        # After an error there may be no program of that name.
        return [n for n in self.nodes if (p := by_name.get(n.program)) and (p.taken or p.sizes)]

    @property
    def left(self):
        names = {n.name for n in self.taken}
        return [n for n in self.nodes if n.name not in names]

    def head(self):
        """Text on the number of nodes that are taken."""
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
