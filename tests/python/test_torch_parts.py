"""Which programs a model becomes: where large ones are cut, what is tried again as smaller ones, and when the rest's compiler keeps it all."""
import contextlib
import glob
import os

import pytest

from conftest_torch import ALL, SHORT, close, compiled, graph_of, torch
import torch_models as models

import mica.torch
from mica.torch import engine, explain, measure
from mica.torch.cut import pieces
from mica.torch.ops import SOFTMAX, is_light, name_of, operators
from mica.torch.partition import split_off_ends
from mica.torch.program import Shapes, build
from mica.torch.summary import FREE
from torch.nn.attention import SDPBackend, sdpa_kernel

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def anew():
    """Keeps programs of other tests, but not the verdicts on their times."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    mica.torch.library._regions.clear()
    for f in glob.glob(os.path.join(os.environ["MICA_TORCH_CACHE"], "*.verdict.json")):
        os.remove(f)


def nodes_of(f, *args):
    gm = graph_of(lambda *a: [f(*a)], args)
    return [n for n in gm.graph.nodes if n.op == "call_function" and n.all_input_nodes]


def attention(q, k, v):
    return ((q @ k.transpose(-1, -2) / 8).softmax(-1) @ v).transpose(1, 2).reshape(2, q.shape[2], -1)


def block(x, w, wo, q_rows=None):
    q, k, v = ((x[:, :rows] @ m).view(2, -1, 4, 16).transpose(1, 2) for m, rows in zip(w, (q_rows, None, None)))
    a = attention(q, k, v)
    return torch.relu(a @ wo) + 1


def nodes_of_block(rows, q_rows=None):
    """Projections, attention, another product: 10 operators."""
    weights = [torch.randn(64, 64) for _ in range(4)]
    return nodes_of(lambda x, wo, *w: block(x, w, wo, q_rows), torch.randn(2, rows, 64), *weights)


def test_views_are_not_counted():
    nodes = nodes_of_block(12)
    assert operators(nodes) == 10 < 20 < len(nodes)
    assert len(pieces(nodes, 10)) == 1 and len(pieces(nodes, 9)) == 2


@pytest.mark.parametrize("keys", [12, 256], ids=["few keys", "one query of many keys"])
@pytest.mark.parametrize("most", [4, 5, 6, 8])
def test_attention_is_not_cut(keys, most):
    """Also where the scores are the smallest tensor of all."""
    nodes = nodes_of_block(keys, None if keys == 12 else 1)
    cut = pieces(nodes, most)
    assert len(cut) > 1
    (whole,) = [p for p in cut if any(name_of(n.target) in SOFTMAX for n in p.nodes)]
    softmax = next(n for n in whole.nodes if name_of(n.target) in SOFTMAX)
    at = whole.nodes.index(softmax)
    assert any(name_of(n.target) == "aten.bmm.default" for n in whole.nodes[:at])
    assert any(name_of(n.target) == "aten.bmm.default" for n in whole.nodes[at:])


@pytest.mark.parametrize("logits", [True, False], ids=["with logits", "loss alone"])
def test_a_log_softmax_of_which_few_elements_are_read_is_left(logits):
    """If the logits are a result too, the program ends with them, and the rest's compiler computes the loss."""
    def model(x, w, t):
        y = (x @ w).view(2, 6, 40)
        loss = F.nll_loss(F.log_softmax(y.view(12, 40), 1), t)
        return (y, loss) if logits else loss
    gm = graph_of(lambda *a: list(model(*a)) if logits else [model(*a)], (torch.randn(12, 8), torch.randn(8, 40), torch.zeros(12, dtype=torch.long)))
    outside = {"aten.nll_loss_forward.default", "getitem"}
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and name_of(n.target) not in outside]
    kept, reasons = split_off_ends(nodes)
    names = {name_of(n.target) for n in kept}
    assert ("aten._log_softmax.default" in names) == (not logits) and names & {"aten.mm.default", "aten.matmul.default"}
    assert ("few of its elements are read" in reasons.values()) == logits


@pytest.mark.parametrize("most", [1, 3, 6])
def test_pieces_are_all_of_it(most):
    """Every operator is in one piece, every piece is a program, and reads only what is before it."""
    nodes = nodes_of_block(12)
    cut, made = pieces(nodes, most), set()
    assert sorted(n.name for p in cut for n in p.nodes if not is_light(n)) == sorted(n.name for n in nodes if not is_light(n))
    for p in cut:
        assert 0 < operators(p.nodes) <= most
        inside = set(p.nodes)
        for n in p.nodes:
            assert all(a in inside or a in made or a not in nodes for a in n.all_input_nodes), n
        made |= set(p.outputs)
        assert build(p.nodes, p.outputs, {}, Shapes(), "p").operators == operators(p.nodes)


def test_cuts_fall_before_products(monkeypatch):
    """Norms that are written out, in f16 with their sums in 32 bits, stay whole and go to what is before the product."""
    def no_time(*_):
        raise engine.LateError("no program of this GPU runs here")
    monkeypatch.setattr(engine, "compile", no_time)
    model, d = models.LlamaLayer(64, 4, 2, 96).half().eval(), 64
    x = (torch.randn(1, 8, d).half(), *(t.half() for t in models.rotary(8, 16)))
    e = explain(model, *x, options={**ALL, "max_ops": 16, "target": "sm_90a"})
    assert [p.operators for p in e.programs] == [6, 14, 14]
    first, second, third = (p.text for p in e.programs)
    assert "rms_norm" in first and "matmul" not in first
    assert "softmax" in second and "rms_norm" not in second
    assert "rms_norm" in third and third.count("matmul") == 4


def bert():
    return models.BertAttention().eval(), (torch.randn(2, 8, 64), torch.arange(8)[None] > torch.tensor([[5], [7]]))


def test_pieces_are_eager():
    """Views between pieces belong to those that read them."""
    model, inputs = bert()
    with torch.no_grad():
        e = explain(model, *inputs, options={**ALL, "max_ops": 4})
        assert len(e.programs) > 2 and all(p.taken and p.operators <= 4 for p in e.programs), e
        assert sum(p.operators for p in e.programs) == 11
        close(compiled(model, max_ops=4)(*inputs), model(*inputs))


class Left(nn.Module):
    """logcumsumexp is no part of a program. It reads a view of the result of attention, whose strides torch chooses."""

    def forward(self, q, k, v):
        a = F.scaled_dot_product_attention(q * 2, k, v)
        return a.transpose(1, 2).reshape(2, 8, 64).logcumsumexp(-1)


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_view_of_a_result_with_other_strides(rest):
    q, k, v = (torch.randn(2, 8, 4, 16).transpose(1, 2) for _ in range(3))
    with torch.no_grad():
        assert not F.scaled_dot_product_attention(q, k, v).is_contiguous()  # else this tests nothing
        e = explain(Left(), q, k, v, options=ALL)
        assert len(e.programs) == 1 and e.programs[0].taken, e
        close(compiled(Left(), rest=rest)(q, k, v), Left()(q, k, v))


class Heads(nn.Module):
    """The result is attention's, whose strides are torch's own."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q * 2, k, v)


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_results_have_the_strides_of_eager(rest):
    """So that who calls the model may view them."""
    q, k, v = (torch.randn(2, 8, 4, 16).transpose(1, 2) for _ in range(3))
    with torch.no_grad():
        got, want = compiled(Heads(), rest=rest)(q, k, v), Heads()(q, k, v)
        assert got.stride() == want.stride() and not got.is_contiguous()
        close(got.transpose(1, 2).view(2, 8, 64), want.transpose(1, 2).view(2, 8, 64))


def test_examples_have_the_strides_of_what_comes(monkeypatch):
    """A copy that a call needs is measured with it."""
    seen = []
    monkeypatch.setattr(measure, "race", lambda a, b, *_: (a(), b(), (1.0, 2.0))[-1])
    call = mica.torch.region._Program.__call__
    monkeypatch.setattr(mica.torch.region._Program, "__call__", lambda self, args: (seen.append([a.stride() for a in args]), call(self, args))[1])
    x = torch.randn(8, 16).t()
    with torch.no_grad():
        assert explain(nn.Sequential(nn.SiLU(), nn.Softmax(-1)), x, options=options()).programs[0].taken
    assert seen and all(s == [x.stride()] for s in seen)


class SharedMask(nn.Module):
    """Two attentions become two programs: a mask for a softmax of another program is no part of a program."""

    def forward(self, q, k, v, mask):
        bias = torch.zeros(8, 8).masked_fill(mask, -torch.inf)
        a = F.scaled_dot_product_attention(q + 1, k, v, attn_mask=bias)
        return F.scaled_dot_product_attention(a.relu(), k, v, attn_mask=bias)


@pytest.mark.parametrize("most", [3, 5, 16])
def test_masks_are_made_where_their_softmax_is(most):
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    mask = torch.ones(8, 8).triu(1).bool()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        e = explain(SharedMask(), q, k, v, mask, options={**ALL, "max_ops": (most,)})
        assert e.programs and all(p.taken for p in e.programs), e
        close(compiled(SharedMask(), max_ops=(most,))(q, k, v, mask), SharedMask()(q, k, v, mask))


class Causal(nn.Module):
    """A mask that stands in a buffer, compared in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.ones(1, 1, 16, 16).tril())

    def forward(self, q, k, v):
        scores = (q @ k.mT).masked_fill(self.bias[:, :, :8, :8] == 0, -torch.inf)
        return scores.softmax(-1) @ v


def test_a_mask_of_a_buffer_is_made_once():
    model, inputs = Causal(), [torch.randn(2, 4, 8, 16) for _ in range(3)]
    with torch.no_grad():
        e = explain(model, *inputs, options=ALL)
        assert len(e.programs) == 1 and e.programs[0].taken, e
        assert {n.why for n in e.left} <= set(FREE), e
        f = compiled(model)
        close(f(*inputs), model(*inputs))
        model.bias.fill_(1)  # a new version of the buffer
        close(f(*inputs), model(*inputs))


class Far(nn.Module):
    """Elements of 100, and a column of zeros."""

    def forward(self, x):
        return (x * 0 + 100).relu() * (x.abs().amax(0, keepdim=True) * 0 + self.keep)

    keep = torch.tensor([1.0, 0.0] + [1.0] * 14)


@pytest.mark.parametrize("limits, taken", [((), True), ((1e-3, 1e-3), True), ((0, 1e-3), False), ((1e-3, 0), False)])
def test_each_element_may_have_to_be_close(monkeypatch, limits, taken):
    """A program whose result is off by 1e-2 in an element of about 100, and by 1e-5 in one of 0."""
    x = torch.randn(8, 16)
    call = mica.torch.region._Program.__call__

    def off(self, args):
        y, = call(self, args)
        y[0, 0] += 1e-2
        y[0, 1] += 1e-5
        return [y]
    monkeypatch.setattr(mica.torch.region._Program, "__call__", off)

    with torch.no_grad():
        p = explain(Far(), x, options={**ALL, "max_ops": 256, "close": limits}).programs[0]
    assert p.taken == taken and (taken or "elements differ from eager's" in p.why), p.why


class Halves(nn.Module):
    """Forms that some models write of a rotation of a part of each head, if the part is all of it; and a root, whose argument is a sum of squares."""

    def forward(self, x):
        turned = torch.cat([x[..., :16] * 2, x[..., 16:]], -1)
        return turned * x.square().sum(-1, keepdim=True).sqrt()


def test_nothing_is_joined_and_roots_are_of_what_is_positive():
    x = torch.randn(4, 16)
    with torch.no_grad():
        e = explain(Halves(), x, options={**ALL, "max_ops": (2,), "min_ops": 1})
        assert len(e.programs) > 1 and all(p.taken for p in e.programs), e
        assert any("sqrt" in p.text and "sum" not in p.text for p in e.programs), "the root is of an input"
        assert not any("concat" in p.text for p in e.programs)
        close(compiled(Halves(), max_ops=(2,), min_ops=1)(x), Halves()(x))


class WideNorm(nn.Module):
    """A norm as Gemma's models write it: in 32 bits, its weights too, and narrow in the end."""

    def __init__(self):
        super().__init__()
        self.w, self.p = nn.Parameter(torch.randn(64) / 4), nn.Parameter(torch.randn(64, 64) / 8)

    def norm(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1.0 + self.w.float())).type_as(x)

    def forward(self, x):
        return self.norm(x + self.norm(self.norm(x) @ self.p).relu())


@pytest.mark.parametrize("most", [8, 256])
def test_what_is_wide_inside_only_is_narrow_in_programs(most):
    model, x = WideNorm().bfloat16(), torch.randn(8, 64).bfloat16()
    with torch.no_grad():
        e = explain(model, x, options={**ALL, "max_ops": (most,)})
        assert all(p.taken and p.text.count("rms_norm") and "f32" not in p.text for p in e.programs), e
        assert sum(p.text.count("rms_norm") for p in e.programs) == 3
        close(compiled(model, max_ops=(most,))(x), model(x), 2e-2)


class Router(nn.Module):
    """Chances in 32 bits, which are a result: what leads to them stays, but for the last step."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate = WideNorm(), nn.Linear(64, 8, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return y * 2, self.gate(y).float().softmax(-1) * 3


def test_a_wide_result_is_cut_off_at_the_last_cast():
    model, x = Router().bfloat16(), torch.randn(8, 64).bfloat16()
    with torch.no_grad():
        e = explain(model, x, options=ALL)
        casts = [n for n in e.left if n.operator == "aten._to_copy.default" and "result of" in n.why]
        assert [p.taken for p in e.programs] == [True, True] and len(casts) == 1, e
        got, want = compiled(model)(x), model(x)
        assert got[1].dtype == torch.float32
        close(got[0], want[0], 2e-2), close(got[1], want[1], 2e-2)


class MaskedAttention(nn.Module):
    """A mask of booleans, which torch makes numbers of by constants that no program has."""

    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=mask.view(2, 1, 1, 8)) * 2


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
def test_a_boolean_mask_of_attention_is_in_the_program(backend):
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    mask = torch.arange(8)[None] < torch.tensor([[5], [7]])
    with torch.no_grad(), sdpa_kernel(backend):
        e = explain(MaskedAttention(), q, k, v, mask, options=ALL)
        assert len(e.programs) == 1 and e.programs[0].taken and e.programs[0].text.count("matmul") == 2, e
        close(compiled(MaskedAttention())(q, k, v, mask), MaskedAttention()(q, k, v, mask))


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
@pytest.mark.parametrize("floats", [False, True])
def test_attention_makes_zeros_of_hidden_rows(backend, floats):
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    mask = (torch.arange(8)[None] < torch.tensor([[5], [0]])).view(2, 1, 1, 8)
    mask = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) if floats else mask

    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=mask) * 2
    with torch.no_grad(), sdpa_kernel(backend):
        e = explain(f, q, k, v, mask, options=ALL)
        assert len(e.programs) == 1 and e.programs[0].taken and e.programs[0].text.count("matmul") == 2, e
        got = compiled(f)(q, k, v, mask)
        assert not got[1].any()
        close(got, f(q, k, v, mask))


def test_a_mask_is_not_cut_from_its_softmax():
    """Nor by a view between them."""
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    mask = torch.arange(8)[None] < torch.tensor([[5], [7]])

    def f(q, k, v, mask):
        hidden = torch.where(mask, torch.full((), 0.0), torch.full((), -torch.inf)).view(2, 1, 1, 8)
        return (((q * 2 + 1).exp() @ k.mT + hidden).softmax(-1) @ v.exp()).exp()
    for most in (4, 6):
        with torch.no_grad():
            e = explain(f, q, k, v, mask, options={**ALL, "max_ops": most, "min_ops": 1})
        (p,) = [p for p in e.programs if "softmax" in p.text]
        assert "matmul" in p.text and all(p.taken for p in e.programs), e


# ---- races ----

class Clock:
    """Replaces measure.race. The winner is given by the number of operators of the program, or for the whole graph."""

    def __init__(self, monkeypatch, faster, whole=True):
        self.faster, self.whole, self.races, self.operators = faster, whole, [], None
        monkeypatch.setattr(measure, "race", self.race)
        judge = mica.torch.region.Region._judge

        def judged(region, made, bucket, real, taken, rest):
            self.operators = taken.operators
            judge(region, made, bucket, real, taken, rest)
            self.operators = None
        monkeypatch.setattr(mica.torch.region.Region, "_judge", judged)

    def race(self, a, b, device, graphs=False, seconds=0.5):
        a(), b()
        self.races.append((self.operators, graphs))
        won = self.whole if self.operators is None else self.faster(self.operators)
        return (1.0, 2.0) if won else (2.0, 1.0)


def options(**more):
    return {**ALL, "take": "faster", **more}


def test_what_is_not_faster_is_tried_in_parts(monkeypatch, caplog):
    clock = Clock(monkeypatch, lambda n: n <= 4)
    model, inputs = bert()
    with torch.no_grad(), caplog.at_level("INFO", "mica.torch"):
        e = explain(model, *inputs, options=options(max_ops=(256, 20, 4)))
        assert [n for n, _ in clock.races][0] == 11 and 11 not in [n for n, _ in clock.races][1:]  # 20 are no fewer than 11
        left, *kept = (r for r in mica.torch.library._regions.values())
        assert not left.prepared and any(r.prepared for r in kept)  # copies of weights
        assert not e.programs[0].taken and len(e.programs) > 2 and all(p.taken for p in e.programs[1:]), e
        said = [r.message for r in caplog.records if r.name == "mica.torch"]
        assert all(p.line() in said for p in e.programs), said
        assert {n.program for n in e.taken} == {f"program {k}" for k in range(1, len(e.programs))}
        close(torch.compile(model, backend=mica.torch.backend, options=options(max_ops=(256, 20, 4)))(*inputs), model(*inputs))


def test_what_is_left_beside_what_is_taken_is_tried_in_parts(monkeypatch):
    """The graph then contains programs of earlier rounds."""
    Clock(monkeypatch, lambda n: n != 7)
    model, inputs = models.MixtralExperts().eval(), (torch.randn(4, 32),)
    with torch.no_grad():
        e = explain(model, *inputs, options=options(max_ops=(256, 5)))
        sizes = [(p.operators, p.taken) for p in e.programs]
        assert sizes[:2] == [(5, True), (7, False)] and len(sizes) > 2 and all(t for _, t in sizes[2:]), e
        assert len(e.taken) == 26, e
        close(torch.compile(model, backend=mica.torch.backend, options=options(max_ops=(256, 5)))(*inputs), model(*inputs))


def test_nodes_that_are_put_back_are_those_of_this_graph(monkeypatch):
    """Also where an earlier graph had the same region."""
    Clock(monkeypatch, lambda n: False)
    compiler, modes = mica.torch.compiler, []
    rest = compiler._rest

    def watched(gm, *more):
        vals = [n.meta.get("val") for n in gm.graph.nodes]
        modes.append({id(t.fake_mode) for t in vals if isinstance(t, torch.Tensor)})
        return rest(gm, *more)
    monkeypatch.setattr(compiler, "_rest", watched)
    model, x = models.LoraLinear().eval(), torch.randn(8, 64)
    for _ in range(2):
        assert not explain(model, x, options=options(max_ops=256)).taken
    assert [len(m) for m in modes] == [1, 1]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_the_rest_keeps_what_is_faster_as_a_whole(monkeypatch, mode):
    """Each program is faster alone, but not all of them with the remaining nodes. Nothing is measured twice."""
    clock = Clock(monkeypatch, lambda n: True, whole=False)
    model, inputs = models.MixtralExperts().eval(), (torch.randn(4, 32),)
    with torch.no_grad():
        e = explain(model, *inputs, options=options(rest="inductor", mode=mode))
        assert not e.taken and {p.why for p in e.programs} == {"together with the rest not faster than the rest's compiler alone"}, e
        assert e.graphs[0].us > e.graphs[0].rest_us and (None, mode != "default") in clock.races
        races = len(clock.races)
        mica.torch.library._regions.clear()  # as in another process
        run = torch.compile(model, backend=mica.torch.backend, options=options(rest="inductor", mode=mode))
        close(run(*inputs), model(*inputs))
        assert len(clock.races) == races


class Places(torch.nn.Module):
    """Positions that are counted from tokens, as in RoBERTa: with tokens of zeros the last position is none of the table. A buffer counts calls, as the
    length of a cache does, and is an index too."""

    def __init__(self):
        super().__init__()
        self.place, self.first, self.second = torch.nn.Embedding(6, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("table", torch.randn(3, 64))

    def forward(self, tokens, x):
        shown = (tokens != 1).long()
        y = F.gelu(self.first(x)).relu() + self.place(torch.cumsum(shown, 1) * shown)
        y = F.gelu(self.second(y.cumsum(0))).relu() + self.table[self.calls]
        self.calls += 1
        return y


def test_whole_graphs_are_measured_with_the_integers_that_are_given(monkeypatch):
    clock, calls = Clock(monkeypatch, lambda n: True), []

    def race(a, b, *more):
        if clock.operators is None:  # the whole graph
            calls.extend(f()[0] for f in (a, b) * 4)
        return 1.0, 2.0
    monkeypatch.setattr(measure, "race", race)
    model, x = Places().eval(), torch.randn(2, 8, 64)
    tokens = torch.tensor([[0, 2, 3, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 4, 5]])
    with torch.no_grad():
        run = compiled(model, take="faster", rest="inductor", max_ops=4, faults="raise")
        got = run(tokens, x)
        assert len(calls) == 8 and int(model.calls) == 1
        model.calls.zero_()
        close(got, model(tokens, x))


def test_what_cannot_be_measured_as_a_whole_is_left(monkeypatch):
    """As if a CUDA graph cannot capture the remaining nodes."""
    clock, model, inputs = Clock(monkeypatch, lambda n: True), models.MixtralExperts().eval(), (torch.randn(4, 32),)

    def race(*a):
        if clock.operators is None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return 1.0, 2.0
    monkeypatch.setattr(measure, "race", race)
    with torch.no_grad():
        e = explain(model, *inputs, options=options(rest="inductor"))
        assert not e.taken and {p.why for p in e.programs} == {
            "together with the rest not measured: operation not permitted when stream is capturing"}, e
        close(compiled(model, take="faster", rest="inductor")(*inputs), model(*inputs))


@pytest.mark.parametrize("more, graphs", [({}, False), ({"graphs": True}, True), ({"mode": "reduce-overhead"}, True),
                                          ({"mode": "max-autotune-no-cudagraphs"}, False)])
def test_times_are_those_of_the_mode(monkeypatch, more, graphs):
    clock = Clock(monkeypatch, lambda n: False)
    explain(models.LoraLinear().eval(), torch.randn(8, 64), options=options(**more))
    assert {g for _, g in clock.races} == {graphs}


def test_new_weights_are_seen_in_graphs():
    """A captured CUDA graph reads the copy of a weight at its old address, so a new copy is made there."""
    model, x = models.LoraLinear().eval(), torch.randn(8, 64)
    run = compiled(model, mode="reduce-overhead")
    with torch.no_grad():
        close(run(x), model(x))
        (region,) = mica.torch.library._regions.values()
        copies = [e[2] for _, p in region.prepared_inputs() for e in p.made.values()]
        before = [(c, c.data_ptr(), c.clone()) for c in copies]
        for p in model.parameters():
            p.mul_(-2)
        close(run(x), model(x))
    assert before and all(c.data_ptr() == at and torch.equal(c, -2 * was) for c, at, was in before)


def test_what_is_captured_changes_no_copy(monkeypatch):
    """It is done when the CUDA graph is replayed, not before."""
    from mica.torch import weights
    w = torch.randn(4, 6)
    prepared = weights.Prepared(lambda w: w.t())
    first = prepared(w)
    before = first.clone()
    w.mul_(2)
    monkeypatch.setattr(weights, "capturing", lambda t: True)
    assert torch.equal(prepared(w), w.t()) and torch.equal(first, before)
    assert prepared(torch.ones(2, 3)).shape == (3, 2) and len(prepared.made) == 1
    monkeypatch.undo()
    assert prepared(w) is first and torch.equal(first, w.t())


def test_the_device_is_that_of_the_inputs(monkeypatch):
    class There:
        is_cuda, device = True, torch.device("cuda:1")

        def get_device(self):
            return 1
    now = [0]

    class Device:
        def __init__(self, device):
            self.index = torch.device(device).index

        def __enter__(self):
            self.was, now[0] = now[0], self.index

        def __exit__(self, *_):
            now[0] = self.was
    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    compiled = engine.Compiled.__new__(engine.Compiled)
    compiled._program = lambda x: now[0]
    assert compiled([There()]) == [1] and now == [0]
    assert measure.race(lambda: 0, lambda: 0, torch.device("cpu"))[0] >= 0
    seen = []
    monkeypatch.setattr(measure, "_race", lambda *_: seen.append(now[0]) or (1.0, 1.0))
    measure.race(None, None, torch.device("cuda:1"))
    assert set(seen) == {1}


def test_the_larger_difference_decides(monkeypatch):
    """Between plain calls and captured ones, if both can be timed."""
    monkeypatch.setattr(torch.cuda, "device", lambda d: contextlib.nullcontext())
    cases = [((1232, 1249), (403, 209), (403, 209)), ((400, 1200), (403, 209), (400, 1200)), ((100, 90), (10, 20), (10, 20)), ((3, 2), None, (3, 2))]
    for plain, graphs, want in cases:
        def timed(a, b, device, captured, seconds, plain=plain, graphs=graphs):
            if captured and graphs is None:
                raise RuntimeError("operation not permitted when stream is capturing")
            return graphs if captured else plain
        monkeypatch.setattr(measure, "_race", timed)
        assert measure.race(None, None, torch.device("cuda:0")) == want


def test_mode_of_torch_compile():
    torch._dynamo.reset()
    with pytest.raises(Exception, match="mode of backend mica is one of default, reduce-overhead"):
        torch.compile(nn.Linear(4, 4), backend=mica.torch.backend, mode="fast")(torch.randn(2, 4))


def test_each_result_is_held_against_the_tolerance_of_its_dtype():
    from mica.torch.measure import TOLERANCE, difference
    wide, narrow = torch.ones(4), torch.ones(4, dtype=torch.bfloat16)
    error, limit = difference([wide * 1.001, narrow], [wide, narrow])
    assert limit == TOLERANCE[torch.float32] and error > limit  # though a narrow result may be off by as much
    error, limit = difference([wide, narrow * 1.01], [wide, narrow])
    assert limit == TOLERANCE[torch.bfloat16] and 0 < error < limit
    assert difference([wide * 1.001, narrow], [wide, narrow], 0.1)[1] == 0.1
    assert difference([wide * float("nan")], [wide])[0] == difference([narrow], [wide])[0] == float("inf")
