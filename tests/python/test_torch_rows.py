"""Every row of mica.torch's table against eager: one graph of all of them becomes one program, which the interpreter runs."""
import math
import subprocess
import sys

import pytest

from conftest_torch import ALL, close, compiled, graph_of, torch

np = pytest.importorskip("numpy")
F = torch.nn.functional
aten = torch.ops.aten

# Computations on x [2, 4, 6], y [4, 6], w [6], m [6, 8], positive p [2, 4, 6], boolean mask b [4, 4].
CASES = {
    "unary": lambda x, y, w, m, p, b: [f(x) for f in (
        torch.exp, torch.neg, torch.abs, F.silu, torch.sigmoid, torch.relu, torch.tanh, torch.square, torch.exp2, F.gelu)],
    "of positive": lambda x, y, w, m, p, b: [f(p) for f in (torch.log, torch.sqrt, torch.rsqrt, torch.reciprocal)],
    "gelu tanh": lambda x, y, w, m, p, b: [F.gelu(x, approximate="tanh")],
    "binary": lambda x, y, w, m, p, b: [x + y, x - y, x * w, x / p, torch.minimum(x, y), torch.maximum(x, y)],
    "numbers": lambda x, y, w, m, p, b: [x + 2, 2 - x, x * -0.5, x / 3, 1 / p, torch.add(x, y, alpha=-2), torch.sub(x, 1.5)],
    "powers": lambda x, y, w, m, p, b: [x ** 2, x ** 7, x ** 3, p ** 0.5, p ** -0.5, p ** -1],
    "clamp": lambda x, y, w, m, p, b: [x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2), F.hardtanh(x), aten.clamp_min(x, 0.3)],
    "reduce": lambda x, y, w, m, p, b: [x.sum(1), x.sum((0, 2), True), x.mean(-1, keepdim=True), x.mean((1, 2)), x.amax(1),
                                        x.var(-1), x.var((0, 1), correction=0, keepdim=True)],
    "softmax": lambda x, y, w, m, p, b: [x.softmax(-1), x.softmax(1)],
    "norms": lambda x, y, w, m, p, b: [F.layer_norm(x, (6,)), F.layer_norm(x, (6,), w, w), F.rms_norm(x, (6,), w, 1e-5),
                                       aten._fused_rms_norm(x, [6], w, 1e-6)[0], F.layer_norm(x, (6,), None, w)],
    "written norms": lambda x, y, w, m, p, b: [x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w,
                                               x * torch.rsqrt(x.pow(2).mean((1, 2), keepdim=True) + 0.5) * y,
                                               x * torch.rsqrt(x.pow(2).mean((0, 1, 2), keepdim=True) + 0.5),
                                               x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 0.5),
                                               x[0] * torch.rsqrt(x[0].pow(2).mean((0, 1)) + 0.5),
                                               x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)],
    "products": lambda x, y, w, m, p, b: [y @ m, x @ m, torch.bmm(x, x.transpose(1, 2)), F.linear(y, m.t(), m[0]),
                                          torch.addmm(m[1], y, m, beta=2, alpha=0.5), aten.linear(x, m.t().contiguous())],
    "views": lambda x, y, w, m, p, b: [x.view(8, 6) * 1.5, x.permute(2, 0, 1) + 1, x.transpose(0, 1) * 2, y.t() + 3, x[:, None] * y,
                                       x.flatten(1) + 1, x.unsqueeze(-1).squeeze(-1) + 4, x.reshape(2, 24) * w.repeat_interleave(4, 0)],
    "expand": lambda x, y, w, m, p, b: [y.expand(2, 4, 6) * x, y[:, None].expand(4, 3, 6).reshape(12, 6) + 1,
                                        x[:, :, None].expand(2, 4, 2, 6).reshape(2, 8, 6) * 3],
    "parts": lambda x, y, w, m, p, b: [x[..., :3] * 2, x[:, 2:] * 2, x[:, -1] + 1, x.select(1, 2) * 5, *(c + 1 for c in x.chunk(2, -1)),
                                       *(c + 1 for c in x.split(3, 2)), *(c * 2 for c in x.unbind(0)), F.glu(x),
                                       *(c - 1 for c in x.split([2, 2, 2], -1))],
    "unequal parts": lambda x, y, w, m, p, b: [x[..., 1:6] + 1, x[..., 2:] * 2, *(c + 3 for c in x.split([1, 4, 1], -1)),
                                               *(c * 3 for c in y.split(4, -1))],
    "parts of parts": lambda x, y, w, m, p, b: [y.repeat_interleave(32, 0)[i] * 2 for i in (0, 67, 127)] + [
        y.repeat_interleave(32, 0).repeat_interleave(65, 0)[64:128] + 1, torch.cat([y, y, y])[1:11] * 2, y.repeat_interleave(67, 0)[:1] + 1],
    "steps": lambda x, y, w, m, p, b: [x[..., ::2] * x[..., 1::2], x[:, 3::4] + 1, x[:, 1:4:2] * 2],
    "joined": lambda x, y, w, m, p, b: [torch.cat((x, p), 1), torch.cat((-x[..., 3:], x[..., :3]), -1), torch.stack((x, p), 1)],
    "attention": lambda x, y, w, m, p, b: [F.scaled_dot_product_attention(x[None], x[None], p[None]),
                                           F.scaled_dot_product_attention(x[None], x[None], p[None], is_causal=True),
                                           F.scaled_dot_product_attention(x[None], x[None], p[None], attn_mask=b, scale=0.3),
                                           F.scaled_dot_product_attention(x[None], x[None], p[None], attn_mask=y @ y.mT)],
    "grouped attention": lambda x, y, w, m, p, b: [aten.scaled_dot_product_attention(
        torch.cat((x, p), 0)[None], x[None], p[None], enable_gqa=True)],
    "masked": lambda x, y, w, m, p, b: [(x @ x.mT).masked_fill(b, -torch.inf).softmax(-1)],
    "batch_norm in training": lambda x, y, w, m, p, b: [
        *aten._native_batch_norm_legit_functional(x, m[0, :4], None, x[0, :, 0], p[0, :, 0], True, 0.1, 1e-5),
        aten._native_batch_norm_legit_functional(y, w, w, y[0], p[0, 0], True, 0.3, 1e-3)[0]],
    "batch_norm without statistics": lambda x, y, w, m, p, b: [aten._native_batch_norm_legit.no_stats(x, m[0, :4], None, True, 0.1, 1e-5)[0],
                                                               aten._native_batch_norm_legit.no_stats(x[:1], None, m[0, :4], True, 0.1, 1e-3)[0]],
    "running sums": lambda x, y, w, m, p, b: [x.cumsum(1), y.cumsum(-1), x.exp().cumsum(0) * 0.5, y.sum().cumsum(0) * 2],
    "convolutions": lambda x, y, w, m, p, b: [F.conv1d(x, m[:4, :4, None], y[:, 0]), F.conv1d(x, m[:3, :8].reshape(3, 4, 2), stride=2),
                                              F.conv1d(x, y.reshape(2, 4, 3)[..., :2] * 1, stride=2),
                                              F.conv1d(x, w.reshape(1, 6).repeat(4, 1)[:, :4].reshape(1, 4, 4), stride=4),
                                              F.conv2d(x[:, :, None].reshape(2, 1, 4, 6), m[:2, :6].reshape(2, 1, 2, 3), w[:2], stride=(2, 3)),
                                              F.conv3d(x.reshape(1, 2, 2, 2, 6), y.reshape(3, 2, 2, 2, 1), stride=(2, 2, 1))],
    "pools that leave a rest": lambda x, y, w, m, p, b: [F.max_pool1d(x, 4), F.avg_pool1d(x, 5), F.avg_pool2d(x, (3, 4)), F.max_pool2d(x, 3)],
    "triangles": lambda x, y, w, m, p, b: [x.triu(), x.tril(), x.triu(-2), y.tril(1), (y @ m).triu(3)],
    "conditions": lambda x, y, w, m, p, b: [
        x * (x > 0), torch.where(x > y, x, p), torch.where(x <= 0.5, 2.0, x), torch.where(w == w[0], x, -1.5), torch.where(x != p, y, w),
        torch.where((x > 0) & ~(y < 0.3), x, y), torch.where((x >= 1).logical_or(y < 0), 3.0, 4.0), (x > 0).float().sum(1),
        (y < w).float() - (y > w).float(),
        torch.where((x > 0).reshape(8, 6).t(), 1.0, y.repeat(2, 1).t()), (x[..., :4] * 2).masked_fill(b, 0.25), torch.where(b, y[:, :4], 7.0),
        torch.where(b & (y[:, :4] > 0), 1.0, 0.0), (x @ x.mT).masked_fill(y[:, :4] > 0.5, -torch.inf).softmax(-1), x.masked_fill(x > 0, x.sum()),
        F.scaled_dot_product_attention(x[None], x[None], p[None], attn_mask=(y[:, :4] + y[:, :4].t() > -0.5).logical_or(y[0, 0] < 9))],
    "whole numbers": lambda x, y, w, m, p, b: [
        x.argmax(1) + 1, x.argmax(1) * -3 - y.argmin(0), 2 - y.argmax(1), -y.argmax(1), torch.arange(6) + x.argmax(1), y.argmax(1).clamp(1, 3),
        torch.minimum(y.argmax(1), torch.arange(4)), torch.maximum(y.argmax(1), torch.arange(4)) * torch.arange(4), y.argmax(1) * 0.5 + w[0],
        x * y.argmax(0), y.argmax(1) / 4, y.argmax(1).float().exp(), (torch.arange(6) * 2).float() + w, torch.add(y.argmax(1), y.argmin(1), alpha=2),
        F.embedding((y.argmax(1) + 1).clamp(max=3), y), torch.where(y.argmax(1) - 2 > torch.arange(4), y[:, 0], 0.5)],
    "functions of conditions": lambda x, y, w, m, p, b: [F.threshold(x, 0.1, -2.0), F.hardshrink(x, 0.3), F.softshrink(x, 0.4), x.sign(),
                                                        torch.floor(x * 3), torch.ceil(x * 3)],
    "constants": lambda x, y, w, m, p, b: [
        torch.full((4, 6), 2.5) * y, torch.full_like(x, 3.0) - x, torch.ones_like(x) / p, y.new_full((6,), 0.5) + y, torch.ones(4, 6).tril() * y,
        torch.cat([torch.zeros(4, 2), y, y.new_ones(4, 1)], 1), y @ torch.full((6, 3), 0.25), y + torch.ones(4, 6).sum(1, keepdim=True),
        torch.where(y > 0, y, torch.scalar_tensor(0.5)), aten.copy(torch.zeros(2, 4, 6), y), torch.zeros_like(y).cumsum(1) + y,
        F.layer_norm(x, (6,), torch.ones(6), torch.zeros(6)), torch.full((6, 4), 2.0).t().cumsum(1) * y, torch.ones(4, 3).view(2, 6).sum(1),
        torch.ones(6).expand(4, 6).sum(0) * w],
    "indices in numbers": lambda x, y, w, m, p, b: [
        torch.arange(6, dtype=torch.float32) * y, torch.arange(1, 4, 0.5) + y, torch.arange(8.0, -4, -2) * w, x * (torch.arange(6) < 3),
        torch.where(torch.arange(4)[:, None] >= torch.arange(1, 12, 2), y, 0.0), torch.arange(6, 0, -1).ne(2) * w],
    "padding": lambda x, y, w, m, p, b: [F.pad(x, (1, 2)), F.pad(y, (0, 0, 2, 1), value=1.5), F.pad(x, (-1, 1, 0, -2)),
                                         F.pad(x, (0, 0, 1, 0, 0, 1), value=-3)],
    "rolled": lambda x, y, w, m, p, b: [x.roll(1, 0), x.roll((2, -1), (1, 2)), y.roll(5), y.roll(12, 0), w.roll(-2, 0) * 2],
    "reversed": lambda x, y, w, m, p, b: [x.flip(0), x.flip(1, 2), w.flip(-1) * 2, m.flip((0, 1)).cumsum(1)],
    "addcmul": lambda x, y, w, m, p, b: [torch.addcmul(x, y, w, value=0.5)],
}


def inputs():
    g = torch.Generator().manual_seed(0)
    x, y, w, m, p = (torch.randn(s, generator=g) for s in ((2, 4, 6), (4, 6), (6,), (6, 8), (2, 4, 6)))
    b = torch.rand(4, 4, generator=g) < 0.5
    b[:, 0], b[:, 1] = True, False
    return x, y, w, m, p.abs() + 0.5, b


def program_of(gm):
    """All computed nodes of a graph as one program; a Cannot is a failure."""
    from mica.torch.ops import is_emitted
    from mica.torch.program import Shapes, build
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    outputs = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    return build([n for n in nodes if is_emitted(n)], list(outputs), {}, Shapes(), "rows")


def interpreted(program, tensors, folder):
    """The outputs, by the interpreter in float64."""
    (folder / "rows.mica").write_text(program.text)
    args = []
    for i in program.inputs:
        if i.kind == "causal":
            t = torch.triu(torch.full(i.value.shape, i.extra[0]), 1)
        else:
            t = tensors[i.node.name]
            if i.kind == "mask":
                t = torch.zeros(t.shape).masked_fill(t if i.extra[0] else ~t, i.extra[1])
            if i.kind == "floor":
                t = t.clamp(min=i.extra[0])
        np.save(folder / f"{i.value.name}.npy", t.contiguous().numpy())
        args.append(f"{i.value.name}={folder / i.value.name}.npy")
    subprocess.run([sys.executable, "-m", "mica", "run", str(folder / "rows.mica"), *args, "--out", str(folder / "out"), "--quiet"],
                   check=True, timeout=120)
    return [torch.from_numpy(np.load(folder / "out" / f"{o.value.name}.npy")) for o in program.outputs]


@pytest.mark.parametrize("case", CASES)
def test_row_is_eager(case, tmp_path):
    args = inputs()
    gm = graph_of(lambda *a: CASES[case](*a), args)
    program = program_of(gm)
    placeholders = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    got = interpreted(program, dict(zip(placeholders, args)), tmp_path)
    want = CASES[case](*args)
    assert len(got) == len(want) > 0
    for g, w in zip(got, want):
        close(g.to(w.dtype), w, 2e-5)


@pytest.mark.parametrize("f, why", [
    (lambda x: x.logcumsumexp(0), "no row"),
    (lambda x: x ** 2.5, "power"),
    (lambda x: x[::3], "in steps of 3"),
    (lambda x: x[1:7:2], "in steps of 2"),
    (lambda x: x[:0] + 1, "without elements"),
    (lambda x: x > 0, "a result of booleans"),
    (lambda x: x.repeat(2, 2, 2, 2, 2, 2, 2), "more than 8 dimensions"),
    (lambda x: x.repeat(0, 1), "without elements|its row makes|a view of"),
    (lambda x: (x * 2).gt(x.argmax()), "a comparison of whole numbers"),
    (lambda x: x.long() > 0, "a copy to torch.int64"),
    (lambda x: F.pad(x, (1, 1), value=torch.inf), "padding with infinities"),
    (lambda x: torch.where(x.argmax(1) < math.inf, x, 0.0), "a comparison of whole numbers"),
    (lambda x: x.argmax(1) * (1 << 22), "whole numbers from 0 to 29360128"),
    (lambda x: x.argmax(1).clamp(9, 12), "whole numbers from 0 to 7, limited"),
    (lambda x: x.argmax(1) * x.half()[0], "no row|cast|whole numbers"),
    (lambda x: x[:1].var(0), "a variance of 1 elements with the correction 1"),
    (lambda x: x.std(1, correction=9), "a variance of 8 elements with the correction 9"),
    (lambda x: torch.var_mean(x, 0, correction=8), "a variance of 8 elements with the correction 8"),
    (lambda x: 1 ** x, "powers of 1"),
    (lambda x: math.inf ** x, "powers of inf"),
    (lambda x: x.double(), "cast|copy"),
    (lambda x: x.to(torch.bfloat16) * 2, "cast"),
    (lambda x: x.cumprod(0), "no row"),
    (lambda x: x.cumsum(0, dtype=torch.float64), "a result of dtype float64"),
    (lambda x: x.cumsum(0, dtype=torch.int64) * x, "a result of dtype int64"),
    (lambda x: x.sum(0, dtype=torch.float64), "a result of dtype float64"),
    (lambda x: (x.half() * 2).cumsum(0, dtype=torch.float32), "cast"),
    (lambda x: (x[:, :1].repeat(1 << 17, 1) * 2).cumsum(0), "cumsum of 1048576 elements"),
    (lambda x: F.conv1d(x, x.reshape(8, 8, 1), stride=2), "overlap"),
    (lambda x: F.conv1d(x, x.reshape(8, 4, 2), stride=2, groups=2), "groups"),
    (lambda x: F.conv1d(x, x.reshape(4, 8, 2), stride=2, padding=1), "padding"),
    (lambda x: F.conv1d(x, x.reshape(4, 8, 2), stride=2, dilation=2), "dilation"),
    (lambda x: F.conv_transpose1d(x, x.reshape(8, 4, 2), stride=2), "overlap"),
    (lambda x: F.avg_pool2d(x[None], 3, ceil_mode=True), "overlap"),
    (lambda x: F.avg_pool2d(x[None], 2, padding=1), "padding"),
    (lambda x: F.avg_pool2d(x[None], 2, divisor_override=3), "divisor"),
    (lambda x: F.max_pool2d(x[None], 2, dilation=2), "pool"),
])
def test_what_has_no_row_is_refused_with_a_reason(f, why):
    from mica.torch.emit import Cannot
    from mica.torch.program import Shapes, build
    gm = graph_of(lambda x: [f(x)], (torch.randn(8, 8),))
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    with pytest.raises(Cannot, match=why):
        build(nodes, nodes[-1:], {}, Shapes(), "p")


def test_whole_numbers_that_are_only_moved_are_left():
    from mica.torch.emit import Cannot
    from mica.torch.program import Shapes, build
    x = torch.tensor([[-8, 1 << 40]])
    for f in (lambda x: x.repeat(1, 1, 1), lambda x: x.t(), lambda x: x[:, 1:]):
        gm = graph_of(lambda x: [f(x)], (x,))
        nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
        with pytest.raises(Cannot, match="may be larger than the language has"):
            build(nodes, nodes[-1:], {}, Shapes(), "p")
    gm = graph_of(lambda x: [x + 1], (x,))
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    with pytest.raises(Cannot, match="arithmetic of whole numbers of an input"):
        build(nodes, nodes[-1:], {}, Shapes(), "p")
    made = compiled(lambda x: x.repeat(1, 1, 1))(x)
    assert torch.equal(made, x.repeat(1, 1, 1))


def test_arithmetic_of_indices_is_part_of_their_program():
    from mica.torch import explain

    def f(x):
        near = torch.arange(6)[:, None] - torch.arange(6)
        return x.argmax(1) + 1, F.embedding((x.max(1).indices + 1).clamp(max=5), x), x * near.clamp(-2, 2), x.argmax(1).float() * x[:, 0]
    x = torch.randn(6, 6)
    e = explain(f, x, options=ALL)
    assert not e.left and e.taken, e
    with torch.no_grad():
        for got, want in zip(compiled(f)(x), f(x), strict=True):
            torch.testing.assert_close(got, want)


def test_elements_that_are_not_chosen_do_not_reach_the_result():
    x = torch.randn(6, 6)
    x[0, 5], x[4, 0], x[2, 3], x[5] = math.inf, -math.inf, math.nan, -math.inf

    def f(x):
        return [x.tril(-9) + x.triu(100), x.tril(-1), x.triu(1), torch.where(x < 9, x, 0.0), torch.where(x > -9, x, x.t()),
                x.masked_fill(x != x, 1.0)]

    def ends(x):
        return [torch.lerp(x, torch.ones_like(x), 0.2), torch.lerp(torch.ones_like(x), x, 0.7), torch.lerp(x, x + 1e8, 1.0)]
    with torch.no_grad():
        for g in (f, ends):
            torch.testing.assert_close(compiled(g)(x), g(x), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_padding_has_the_dtype_of_its_tensor(tmp_path):
    x = torch.randn(4, 6).half()
    gm = graph_of(lambda x: [F.pad(x, (2, 1), value=0.5), F.pad(x, (0, 0, 1, 0))], (x,))
    name = next(n.name for n in gm.graph.nodes if n.op == "placeholder")
    for got, want in zip(interpreted(program_of(gm), {name: x}, tmp_path), (F.pad(x, (2, 1), value=0.5), F.pad(x, (0, 0, 1, 0))), strict=True):
        assert torch.equal(got.half(), want)


CLASSES = {  # of x [3, 4, 6], probabilities p like it, weights w [4], image i [2, 4, 6, 6], and class numbers of rows t and of pixels c
    "mean": lambda x, p, w, i, t, c: [F.cross_entropy(x, t), F.nll_loss(x[0].t(), t[0]), F.nll_loss(x, t.clamp(min=0), ignore_index=9),
                                       F.nll_loss(x[0].t(), p[0].argmax(0))],
    "sum and none": lambda x, p, w, i, t, c: [F.cross_entropy(x, t, reduction="sum"), F.cross_entropy(x, t, reduction="none"),
                                               F.nll_loss(x[0, :, 0], t[0, 0])],
    "weights": lambda x, p, w, i, t, c: [F.nll_loss(x, t, w), F.cross_entropy(x, t, w), F.cross_entropy(x, t, w, reduction="none")],
    "images": lambda x, p, w, i, t, c: [F.cross_entropy(i, c, reduction="none"), F.cross_entropy(i, c, w), F.nll_loss(i, c)],
}


@pytest.mark.parametrize("case", CLASSES)
def test_a_loss_by_class_numbers_is_eager(case, tmp_path):
    from mica.torch.program import Shapes, build
    g = torch.Generator().manual_seed(3)
    x, p, i = (torch.randn(s, generator=g) for s in ((3, 4, 6), (3, 4, 6), (2, 4, 6, 6)))
    t, c = (torch.randint(0, 4, s, generator=g) for s in ((3, 6), (2, 6, 6)))
    t[1, 2:], c[0, 0] = -100, -100
    args = x, p.softmax(1), torch.rand(4, generator=g), i, t, c
    gm = graph_of(lambda *a: CLASSES[case](*a), args)
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    whole = [n for n in nodes if n.target is aten.clamp.default]
    tensors = {}
    for n in gm.graph.nodes:  # whole numbers that the graph computes are inputs here, too
        if n.op == "placeholder":
            tensors[n.name] = args[len(tensors)]
    for n in whole:
        tensors[n.name] = n.target(*[tensors[a.name] if isinstance(a, torch.fx.Node) else a for a in n.args], **n.kwargs)
    outputs = list(next(n for n in gm.graph.nodes if n.op == "output").args[0])
    program = build([n for n in nodes if n not in whole], outputs, {}, Shapes(), "rows")
    for got, want in zip(interpreted(program, tensors, tmp_path), CLASSES[case](*args), strict=True):
        close(got.reshape(want.shape).to(want.dtype), want, 2e-5)
    assert {(0, 3)} >= set(program.limits.values()) != set()  # of examples, which eager mode takes


@pytest.mark.parametrize("f, why", [
    (lambda x, t: F.cross_entropy(x, t, ignore_index=2), "the class 2 is ignored"),
    (lambda x, t: F.cross_entropy(x, t + 1), "whole numbers"),
])
def test_a_loss_by_class_numbers_is_refused_with_a_reason(f, why):
    from mica.torch.emit import Cannot
    from mica.torch.program import Shapes, build
    gm = graph_of(lambda x, t: [f(x, t)], (torch.randn(4, 6), torch.tensor([0, 1, 3, 5])))
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    with pytest.raises(Cannot, match=why):
        build(nodes, nodes[-1:], {}, Shapes(), "p")


def test_a_loss_over_many_classes_counts_its_rows_exactly():
    from mica.torch.engine import signature
    from mica.torch.program import Shapes, build
    gm = graph_of(lambda x, t: [F.cross_entropy(x, t)], (torch.empty(1, 1).expand(128, 256000), torch.zeros(128, dtype=torch.int64)))
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    outputs = list(next(n for n in gm.graph.nodes if n.op == "output").args[0])
    assert signature(build(nodes, outputs, {}, Shapes(), "loss").text)[1] == [(torch.float32, ())]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_narrow_loss_by_class_numbers_counts_in_32_bits(dtype, tmp_path):
    from mica.torch.engine import signature
    g = torch.Generator().manual_seed(3)
    x, t = torch.randn(600, 6, generator=g).to(dtype), torch.randint(0, 6, (600,), generator=g)
    t[5:9] = -100
    gm = graph_of(lambda x, t: [F.cross_entropy(x, t)], (x, t))
    program = program_of(gm)
    assert signature(program.text)[1] == [(torch.float32, ())]
    if dtype is torch.float16:  # numpy has no bfloat16
        tensors = dict(zip([n.name for n in gm.graph.nodes if n.op == "placeholder"], (x, t)))
        (got,) = interpreted(program, tensors, tmp_path)
        close(got.float().reshape(()), F.cross_entropy(x.float(), t), 2e-3)


@pytest.mark.parametrize("refused", [False, True])
def test_cumsum_is_left_where_the_language_refuses_it(refused, tmp_path):
    from mica import _mica
    from mica.torch.emit import Cannot
    n = math.isqrt(_mica.extent_limit) - (not refused)
    (tmp_path / "p.mica").write_text("program p {\n  x: f32[%d, 2]\n  return cumsum(x, dim=0)\n}" % n)
    command = [sys.executable, "-m", "mica", "optimize", tmp_path / "p.mica", "--target", "cpu", "--stop-after", "expand"]
    assert (subprocess.run(command, capture_output=True, timeout=120).returncode != 0) == refused
    try:
        program_of(graph_of(lambda x: [x.cumsum(0)], (torch.zeros(n, 2),)))
        left = False
    except Cannot:
        left = True
    assert left == refused


def test_few_results_of_many_elements_are_made_in_two_steps():
    from mica.torch.emit import FEW, LONG, WIDE, _runs
    assert _runs((LONG // WIDE, 4, WIDE), {0, 1, 2}, 1) == [[LONG // WIDE * 4, True], [WIDE, True]]  # the last ones first
    assert _runs((LONG // WIDE, 4, WIDE // 2), {0, 1, 2}, 1) == [[LONG // WIDE, True], [WIDE * 2, True]]
    assert _runs((LONG // WIDE, 4, WIDE), {0, 1, 2}, FEW) == [[LONG * 4, True]]  # there is work for a whole GPU
    assert _runs((2, 4, WIDE), {0, 1, 2}, 1) == [[8 * WIDE, True]]  # not many elements
    assert _runs((2, LONG), {1}, 2) == [[2, False], [LONG, True]]  # nothing to divide


def test_narrow_statistics_of_a_batch_are_refused():
    """The running ones have 32 bits, and would be made of narrow numbers."""
    from mica.torch.emit import Cannot
    x, w = torch.randn(2, 4, 6, dtype=torch.bfloat16), torch.ones(4)
    gm = graph_of(lambda x, w, m, v: list(aten._native_batch_norm_legit_functional(x, w, w, m, v, True, 0.1, 1e-5)), (x, w, w, w))
    with pytest.raises(Cannot, match="bf16: its statistics have 32 bits"):
        program_of(gm)


@pytest.mark.parametrize("x", [2.0 ** -24, 1 / 3, 0.1, 1e-5, 11 / 12, 3.0])
def test_numbers_are_those_that_the_language_reads(x):
    """The shortest text of Python has fewer digits than the language asks for of some powers of 2."""
    import mica
    from mica.torch.emit import number
    assert float(number(x)) == x
    mica._mica.Context().load_text("program p {\n  x: f32[2]\n  return x * %s\n}" % number(x), "p", ())


def test_a_written_norm_is_one_operator():
    x, y, w, m, p, b = inputs()
    program = program_of(graph_of(lambda x, w: [x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w], (x, w)))
    assert "rms_norm(x0, eps=1e-05)" in program.text and "mean" not in program.text
    program = program_of(graph_of(lambda x, w: [x * torch.rsqrt(x.pow(2).mean((1, 2), keepdim=True) + 1e-5) * w], (x, w)))
    assert "rms_norm(" in program.text and "mean" not in program.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_eps_that_rms_norm_has_by_itself(dtype):
    """That of the dtype that torch computes in: seen where the squares are as small."""
    from mica.torch.emit import Emitter, Value
    from mica.torch.ops import ROWS
    x, e = torch.full((2, 64), 2.0 ** -11, dtype=dtype), Emitter()
    ROWS["aten._fused_rms_norm.default"](e, Value("x", (2, 64), {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]), [64])
    eps = float(e.lines[0][1].split("eps=")[1].split(")")[0])
    want = aten._fused_rms_norm(x, [64], None, None)[0]
    close((x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)).to(dtype), want, 1e-2)


def test_shared_heads_are_one_repeat():
    k = torch.randn(2, 2, 5, 4)
    program = program_of(graph_of(lambda k: [k[:, :, None].expand(2, 2, 3, 5, 4).reshape(2, 6, 5, 4) * 1.5], (k,)))
    assert "repeat(x0, dim=1, times=3)" in program.text and "reshape" not in program.text


def test_views_around_a_batched_product_go():
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 4, 7)
    program = program_of(graph_of(lambda q, k: [(q @ k) * 2], (q, k)))
    assert "matmul(x0, x1)" in program.text and "reshape" not in program.text
