"""Texts on the gain and on reasons why it is not larger: one line after a compilation, and the five lines of `explain`."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .engine import MORE_TIME
from .masks import GONE
from .report import counted

NO_GRAD = "call the model within torch.no_grad() or torch.inference_mode()"
NO_GRAPH = "Dynamo gave no graph to the backend"
FREE = ("made once, of weights alone", "a view at the end of a program", GONE)  # reasons of nodes that cost nothing
FOLLOWS = ("a result of a node that is left", "it changes an input in place")  # reasons that follow from another node's
KINDS = 3  # number of kinds of left nodes that a line names


def one_line(report):
    """The summary of one graph."""
    if report.why:
        return f"a graph is left as it is: {report.why}"
    gain = _gain([report]) if report.taken else "; ".join(dict.fromkeys(p.why for p in report.programs if p.why)) or _left([report])
    return f"{report.head()}: {gain}"


def five_lines(graphs):
    lines = (("taken", _taken(graphs)), ("left", _left(graphs)), ("gain", _gain(graphs)), ("slowest", _slowest(graphs)), ("change", _change(graphs)))
    return "\n".join(f"{name:8}{text}" for name, text in lines)


def _programs(graphs):
    return [p for g in graphs for p in g.programs]


def _used(graphs):
    return [p for g in graphs for p in g.used]


def _taken(graphs):
    taken, nodes, used = sum(len(g.taken) for g in graphs), sum(len(g.nodes) for g in graphs), _used(graphs)
    of = f"{taken} of {counted(nodes, 'node')}" + (f" of {len(graphs)} graphs" if len(graphs) > 1 else "")
    texts = len({p.text for p in used})
    return f"{of}, in {counted(len(used), 'program')} of {counted(texts, 'text')}" if taken else f"none of {counted(nodes, 'node')}"


def _reason(graph, node):
    """The reason why a node is left."""
    program = next((p for p in graph.programs if p.name == node.program), None)
    return graph.why or node.why or (program.why if program else "")


def _kinds(graphs):
    """((operator, reason), left nodes), by decreasing number of nodes. Nodes that cost nothing are omitted."""
    found = {}
    for g in graphs:
        for n in g.left:
            if n.why not in FREE:
                found.setdefault((n.operator, _reason(g, n)), []).append(n)
    return sorted(found.items(), key=lambda item: (item[0][1] in FOLLOWS, -len(item[1])))


def _left(graphs):
    whys = list(dict.fromkeys(g.why for g in graphs if g.why))
    if whys:
        return "; ".join(whys)
    kinds = _kinds(graphs)
    if not kinds:
        return "nothing that costs time"
    said = []
    for (operator, why), nodes in kinds[:KINDS]:
        where = next((n.where for n in nodes if n.where), "")
        said.append(f"{len(nodes)} {operator} ({why}{'; ' + where if where else ''})")
    more = sum(len(nodes) for _, nodes in kinds[KINDS:])
    return "; ".join(said) + (f"; and {counted(more, 'other node')}" if more else "")


def _times(us, rest_us):
    return f"{us:.1f} us against {rest_us:.1f} without Mica, {rest_us / us:.2f} times as fast"


def _gain(graphs):
    measured = [g for g in graphs if g.us is not None and g.rest_us is not None]
    programs = [p for p in _used(graphs) if p.us is not None and p.rest_us is not None]
    if measured:
        text = "a call takes " + _times(sum(g.us for g in measured), sum(g.rest_us for g in measured))
        return text if _used(measured) else f"none: {text}, so that Mica is not used"
    if programs:
        return "programs take " + _times(sum(p.us for p in programs), sum(p.rest_us for p in programs))
    if any(p.sizes for p in _used(graphs)):
        return "measured for each bucket when a call needs it first"
    return "not measured, as `take` is \"all\"" if _used(graphs) else "none"


def _slowest(graphs):
    known = [p for p in _programs(graphs) if p.us is not None and p.rest_us is not None]
    if not known:
        return "no program was measured"
    p = max(known, key=lambda p: p.us)
    return f"{p.name} of {counted(p.operators, 'operator')}: {_times(p.us, p.rest_us)}, {'taken' if p.taken else 'left'}"


def _change(graphs):
    """Advice on options: the first that applies."""
    return next(text for text in (rule(graphs) for rule in CHANGES) if text)


def _gradients(graphs):
    return NO_GRAD if any("gradients" in g.why for g in graphs) else ""


def _time(graphs):
    late = sum(MORE_TIME in p.why for p in _programs(graphs))
    return f"a larger `time`: {counted(late, 'program')} had too little" if late else ""


def _rows(graphs):
    missing = Counter(operator for (operator, why), nodes in _kinds(graphs) if why == "no row for this operator" for _ in nodes)
    return f"operators that Mica lacks: {', '.join(missing)}" if missing else ""


def _small(graphs):
    small = [n for (_, why), nodes in _kinds(graphs) if "fewer than" in why for n in nodes]
    return f"`min_ops` and `min_work`: {counted(len(small), 'node')} would be tried with smaller ones" if small else ""


def _faster(graphs):
    slower = sum("not faster" in p.why for p in _programs(graphs))
    return f"faster kernels: of {counted(slower, 'program')} the rest's compiler has better ones" if slower else ""


CHANGES = (_gradients, _time, _rows, _small, _faster, lambda graphs: "nothing that is known")


@dataclass
class Explanation:
    """The reports of all graphs of a model. There are several if Dynamo has graph breaks."""
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

    def details(self):
        """Text on every program and every node, with reasons."""
        if not self.graphs:
            return NO_GRAPH
        return "\n".join(f"graph {i}: {g}" for i, g in enumerate(self.graphs))

    def __str__(self):
        """Five lines: nodes that are taken, nodes that are left with reasons, the gain, the slowest program, and advice."""
        return five_lines(self.graphs) if self.graphs else NO_GRAPH
