"""What the backend did with each node: taken into which program, or left and why."""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Node:
    name: str
    operator: str
    shape: str
    program: str = ""  # taken into
    why: str = ""      # left because


@dataclass
class Taken:
    """One program and what became of it."""
    name: str
    operators: int
    text: str
    taken: bool = False
    why: str = ""               # not taken because
    us: float | None = None     # measured here, beside `rest_us`
    rest_us: float | None = None
    error: float | None = None  # relative norm of the difference to eager
    recalled: bool = False      # no search: the kernels of an earlier process
    sizes: dict = field(default_factory=dict)  # of a dynamic extent: bucket -> Taken

    def like(self, other):
        """What became of the same program before."""
        for name in ("text", "operators", "taken", "why", "us", "rest_us", "error", "recalled", "sizes"):
            setattr(self, name, getattr(other, name))

    def line(self):
        if self.sizes:
            return f"{self.name}: {self.operators} operators, buckets {', '.join(map(str, self.sizes)) or 'none yet'}"
        head = f"{self.name}: {self.operators} operators, {'taken' if self.taken else 'left'}"
        if self.us is not None and self.rest_us is not None:
            head += f", {self.us:.1f} us against {self.rest_us:.1f}"
        return head + (f" ({self.why})" if self.why else "")


@dataclass
class Report:
    """Of one graph that Dynamo gave to the backend."""
    nodes: list = field(default_factory=list)
    programs: list = field(default_factory=list)
    why: str = ""                # the whole graph was left because
    us: float | None = None      # of the whole graph with its programs, where that was measured, and
    rest_us: float | None = None  # of what the rest's compiler makes of it alone

    def leave(self, why):
        """No program is taken after all."""
        for p in self.programs:
            if p.taken:
                p.taken, p.why = False, why

    @property
    def taken(self):
        """Nodes that run in programs of Mica."""
        by_name = {p.name: p for p in self.programs}
        return [n for n in self.nodes if n.program and (by_name[n.program].taken or by_name[n.program].sizes)]

    @property
    def left(self):
        names = {n.name for n in self.taken}
        return [n for n in self.nodes if n.name not in names]

    def __str__(self):
        if self.why:
            return f"left as it is: {self.why}"
        by_name = {p.name: p for p in self.programs}
        out = [f"{len(self.taken)} of {len(self.nodes)} nodes in {sum(p.taken or bool(p.sizes) for p in self.programs)} programs"]
        if self.us is not None and self.rest_us is not None:
            out[0] += f"; {self.us:.1f} us against {self.rest_us:.1f}"
        out += ["  " + p.line() for p in self.programs]
        width = max((len(n.name) for n in self.nodes), default=0)
        for n in self.nodes:
            p = by_name.get(n.program)
            where = (p.name if p.taken or p.sizes else f"left with {p.name}") if p else f"left: {n.why}"
            out.append(f"  {n.name:{width}}  {n.operator:34} {n.shape:20} {where}")
        return "\n".join(out)


@dataclass
class Explanation:
    """All graphs of a model (more than one where Dynamo broke it)."""
    graphs: list

    @property
    def taken(self):
        return [n for g in self.graphs for n in g.taken]

    @property
    def left(self):
        return [n for g in self.graphs for n in g.left]

    @property
    def programs(self):
        return [p for g in self.graphs for p in g.programs]

    def __str__(self):
        if not self.graphs:
            return "Dynamo gave no graph to the backend"
        return "\n".join(f"graph {i}: {g}" for i, g in enumerate(self.graphs))
