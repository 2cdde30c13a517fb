"""Rows of data-dependent indices, against eager: ties, NaN, infinities, indices from the end, indices that are outside."""
import subprocess

import pytest

from conftest_torch import ALL, compiled, graph_of, torch
from test_torch_rows import interpreted, program_of

F = torch.nn.functional
aten = torch.ops.aten


def numbers():
    """[5, 9] without equal elements; [5, 9] with equal ones; the first with NaN, infinities and -0."""
    g = torch.Generator().manual_seed(3)
    x = torch.randperm(45, generator=g).reshape(5, 9) - 22.5
    ties = torch.randint(0, 3, (5, 9), generator=g).float()
    odd = x.clone()
    odd[0, 4], odd[0, 7], odd[1, 2], odd[1, 3], odd[2, :] = torch.nan, torch.nan, torch.inf, -torch.inf, -torch.inf
    odd[3, :2], odd[3, 2:] = torch.tensor([-0.0, 0.0]), -1
    return x, ties, odd


# Results of x without ties, t with ties, o with NaN and infinities, indices i [2, 3] from 0 to 4, j [4] that count from the end too.
CASES = {
    "topk": lambda x, t, o, i, j: [*x.topk(3), *x.topk(2, dim=0), t.topk(4)[0], o.topk(3)[0], *x.topk(9)],
    "argmax": lambda x, t, o, i, j: [f(a, dim=d, keepdim=k) for f in (torch.argmax, torch.argmin) for a in (x, t, o) for d,
                                     k in ((0, True), (1, False))],
    "argmax of all": lambda x, t, o, i, j: [t.argmax(), t.argmin(), o.argmax()],
    "extremes": lambda x, t, o, i, j: [r for a in (x, t, o) for r in (*a.max(1), *a.min(0, True))] + [x.max(0)[0], x.min(1)[1]],
    "index_select": lambda x, t, o, i, j: [x.index_select(0, i[0]), x.index_select(1, i[1]), o.index_select(0, i[0])],
    "embedding": lambda x, t, o, i, j: [F.embedding(i, x), F.embedding(i[0], o), F.embedding(i.t(), x)],
    "gather": lambda x, t, o, i, j: [x.gather(0, i), x.gather(1, i), o.gather(1, i), x[None].gather(2, i[None])],
    "index": lambda x, t, o, i, j: [x[j], x[:, j], x[i], o[i]],
    "chosen by what is computed": lambda x, t, o, i, j: [x[:, t.argmax(1)], F.embedding(t.argmax(0), x), x.gather(1, o.min(1, True)[1]),
                                                         t.gather(1, x.topk(2, dim=1)[1])],
}


def inputs():
    i = torch.tensor([[4, 0, 1], [2, 2, 3]])
    return *numbers(), i, torch.tensor([4, -5, -1, 0])


def same(got, want):
    assert got.shape == want.shape
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.nan_to_num(7, 8, 9), want.nan_to_num(7, 8, 9)), f"{got}\n{want}"


@pytest.mark.parametrize("case", CASES)
def test_row_is_eager(case, tmp_path):
    args = inputs()
    gm = graph_of(lambda *a: CASES[case](*a), args)
    program = program_of(gm)
    got = interpreted(program, dict(zip([n.name for n in gm.graph.nodes if n.op == "placeholder"], args)), tmp_path)
    want = CASES[case](*args)
    assert len(got) == len(want) > 0
    for g, w in zip(got, want):
        same(g.to(w.dtype), w)


def test_equal_elements_come_in_their_order(tmp_path):
    """torch does not define which of equal elements topk chooses."""
    ties = numbers()[1]
    program = program_of(graph_of(lambda t: list(t.topk(6)), (ties,)))
    values, places = interpreted(program, {"t_1": ties}, tmp_path)
    same(values.to(ties.dtype), ties.gather(1, places.long()))
    assert (((values[:, :-1] == values[:, 1:]) & (places[:, :-1] > places[:, 1:])).sum()) == 0


def test_ranges_are_those_of_all_uses():
    """An index of two tables is an index of the smaller one; one that counts from the end is none where another may not."""
    tables = torch.zeros(7, 2), torch.zeros(4, 2)
    text = program_of(graph_of(lambda a, b, i: [F.embedding(i, a), F.embedding(i, b)], (*tables, torch.zeros(3, dtype=torch.int64)))).text
    assert "i64[3] < 4\n" in text
    text = program_of(graph_of(lambda a, b, i: [a[i], b[i]], (*tables, torch.zeros(3, dtype=torch.int64)))).text
    assert "i64[3] >= -4 < 4\n" in text
    text = program_of(graph_of(lambda a, b, i: [a[i], F.embedding(i, b)], (*tables, torch.zeros(3, dtype=torch.int64)))).text
    assert "i64[3] < 4\n" in text


@pytest.mark.parametrize("f, why", [
    (lambda x, i: x.topk(2, largest=False)[0], "smallest"),
    (lambda x, i: x[i, i], "several dimensions"),
    (lambda x, i: F.embedding(i + 1, x), "whole numbers"),
    (lambda x, i: x[:3].index_select(0, x.argmax(1)), "up to 8 of 3"),
])
def test_what_cannot_be_said_is_refused_with_a_reason(f, why):
    from mica.torch.emit import Cannot
    gm = graph_of(lambda x, i: [f(x, i)], (numbers()[0], torch.tensor([1, 2])))
    with pytest.raises(Cannot, match=why):
        program_of(gm)


def test_an_index_that_is_outside_is_refused(tmp_path):
    table = torch.randn(4, 3)
    gm = graph_of(lambda t, i: [F.embedding(i, t)], (table, torch.tensor([3, 1])))
    program, names = program_of(gm), [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    for i in (4, -1):
        with pytest.raises(IndexError):
            F.embedding(torch.tensor([i, 1]), table)
        with pytest.raises(subprocess.CalledProcessError):
            interpreted(program, dict(zip(names, (table, torch.tensor([i, 1])))), tmp_path)


class Router(torch.nn.Module):
    """Tokens, and the weights of their experts."""

    def __init__(self):
        super().__init__()
        self.table, self.experts = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 8)

    def forward(self, token):
        p = self.experts(self.table(token)).softmax(-1)
        weight, which = p.topk(2, dim=-1)
        return weight / weight.sum(-1, keepdim=True), which


def test_a_router_is_one_program():
    from mica.torch import explain
    torch.manual_seed(0)
    model, token = Router(), torch.randint(0, 50, (12,))
    with torch.no_grad():
        e = explain(model, token, options=ALL)
        assert len(e.programs) == 1 and all(p.taken for p in e.programs), e
        run = compiled(model)
        for got, want in zip(run(token), model(token)):
            assert got.dtype == want.dtype and torch.allclose(got.double(), want.double(), atol=1e-5)
        with pytest.raises(Exception, match="50"):
            run(torch.full((12,), 50))
