"""Rows of operators that the language expresses, on samples as torch's OpInfo has them, against eager mode in f32, f16 and bf16."""
import subprocess
import sys

import pytest

from conftest_torch import close, graph_of, torch

np = pytest.importorskip("numpy")
nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


# ---- samples: of x [3, 4, 6], y like it, positive p < 1 like it, weights w and v [4], image i [2, 4, 6, 6] ----
ELEMENTWISE = {
    "leaky_relu": lambda s: [F.leaky_relu(s.x), F.leaky_relu(s.x, 0.3), F.leaky_relu(s.x * 4, 0)],
    "prelu": lambda s: [F.prelu(s.x, s.w), F.prelu(s.x, s.w[:1])],
    "elu": lambda s: [F.elu(s.x), F.elu(s.x * 3, 0.5), F.celu(s.x, 2.0), F.selu(s.x), F.elu(s.x * 40)],
    "mish": lambda s: [F.mish(s.x), F.mish(s.x * 20)],
    "softplus": lambda s: [F.softplus(s.x), F.softplus(s.x, 2.0), F.softplus(s.x * 30)],
    "hard": lambda s: [F.hardsigmoid(s.x * 4), F.hardswish(s.x * 4), F.hardtanh(s.x * 2), F.hardtanh(s.x, -0.2, 0.7), F.relu6(s.x * 8)],
    "soft": lambda s: [F.softsign(s.x), F.tanhshrink(s.x * 3), F.logsigmoid(s.x), F.logsigmoid(s.x * 30)],
    "waves": lambda s: [torch.sin(s.x), torch.cos(s.x), torch.sin(s.x * 20), torch.erf(s.x)],
    "logarithms": lambda s: [torch.log2(s.p), torch.log10(s.p), 2.5 ** s.x],
    "clamps": lambda s: [s.x.clamp(-0.5, 0.5), s.x.clamp(max=0.2), s.x.clamp(s.y, s.y + 1), s.x.clamp(min=s.y), aten.clamp_max(s.x, 0.3)],
    "powers": lambda s: [s.x ** 4, s.x ** 5, s.p ** -3],
    "mixtures": lambda s: [torch.lerp(s.x, s.y, 0.3), torch.lerp(s.x, s.y, s.p), torch.addcdiv(s.x, s.y, s.p, value=0.5)],
}
REDUCTIONS = {
    "extremes": lambda s: [s.x.amax(-1), s.x.amin((0, 1)), s.x.max(1).values, s.x.min(-1, keepdim=True).values, s.x.max(), s.x.min()],
    "sums": lambda s: [s.x.sum(), s.x.mean(), s.x.sum((1, 2)), s.x.mean(0)],
    "products": lambda s: [s.x.prod(1), s.p.prod(-1, keepdim=True), s.p[0, 0].prod()],
    "logsumexp": lambda s: [s.x.logsumexp(1), s.x.logsumexp((0, 2), True), (s.x * 30).logsumexp(-1)],
    "log_softmax": lambda s: [s.x.log_softmax(-1), s.x.log_softmax(0), F.softmin(s.x, -1)],
    "vector norms": lambda s: [s.x.norm(), s.x.norm(dim=1), torch.linalg.vector_norm(s.x, 1, -1, True),
                               torch.linalg.vector_norm(s.x, float("inf"), (0, 1)),
                               torch.linalg.vector_norm(s.x, -float("inf"), 1), F.normalize(s.x, dim=1), F.normalize(s.x, p=1, dim=-1)],
    "deviations": lambda s: [s.x.std(-1), s.x.std((0, 1), correction=0), *torch.var_mean(s.x, -1), *torch.std_mean(s.x, 1, keepdim=True)],
    "vectors": lambda s: [torch.mv(s.x[0], s.x[1, 0]), torch.dot(s.w, s.v), torch.addmv(s.w, s.x[0], s.x[1, 1], beta=2, alpha=0.5),
                          torch.outer(s.w, s.v),
                          s.w.repeat(3, 2), s.x.repeat(2, 1, 3), s.i.repeat(1, 2, 1, 1, 2)],
    "pools": lambda s: [F.avg_pool2d(s.i, 2), F.avg_pool2d(s.i, (3, 2)), F.max_pool2d(s.i, 3), F.avg_pool1d(s.x, 3), F.max_pool1d(s.x, 2),
                        F.adaptive_avg_pool2d(s.i, 1), F.adaptive_avg_pool2d(s.i, 3)],
    "pools of volumes": lambda s: [F.avg_pool3d(s.i[None], 2), F.max_pool3d(s.i[None], (2, 3, 3))],
}
NORMS = {
    "group_norm": lambda s: [F.group_norm(s.i, 2), F.group_norm(s.i, 4, s.w, s.v), F.group_norm(s.x, 1, s.w, s.v, 1e-3),
                             F.group_norm(s.i, 2, None, s.v)],
    "batch_norm": lambda s: [F.batch_norm(s.i, s.v, s.p[0, :, 0]), F.batch_norm(s.x, s.v, s.p[0, :, 0], s.w, s.v, eps=1e-3),
                             F.batch_norm(s.x[0].t(), s.v, s.p[0, :, 0], s.w, s.v)],
    "instance_norm": lambda s: [F.instance_norm(s.i), F.instance_norm(s.i, weight=s.w, bias=s.v)],
    "norms of several dimensions": lambda s: [F.layer_norm(s.x, (4, 6)), F.layer_norm(s.i, (6, 6), s.i[0, 0], s.i[0, 1]),
                                              F.rms_norm(s.x, (4, 6), s.x[0], 1e-5)],
}
LOSSES = {
    "differences": lambda s: [F.mse_loss(s.x, s.y), F.l1_loss(s.x, s.y, reduction="sum"), F.mse_loss(s.x, s.y, reduction="none")],
    "bent": lambda s: [F.smooth_l1_loss(s.x, s.y), F.smooth_l1_loss(s.x, s.y, beta=0.3), F.smooth_l1_loss(s.x, s.y, beta=0.0),
                       F.huber_loss(s.x, s.y), F.huber_loss(s.x, s.y, delta=0.4, reduction="sum")],
    "divergences": lambda s: [F.kl_div(s.x, s.y.softmax(-1), reduction="batchmean"), F.kl_div(s.x, s.y, log_target=True), F.kl_div(s.x, F.relu(s.y))],
    "of probabilities": lambda s: [F.cross_entropy(s.x, s.y.softmax(1)), F.cross_entropy(s.x, s.y.softmax(1), label_smoothing=0.1),
                                   F.binary_cross_entropy(s.p, s.y.sigmoid()), F.binary_cross_entropy_with_logits(s.x, s.p),
                                   F.binary_cross_entropy_with_logits(s.x, s.p, pos_weight=s.p[0, 0])],
    "margins": lambda s: [F.soft_margin_loss(s.x, torch.tanh(s.y)), F.triplet_margin_loss(s.x, s.y, s.p), torch.clamp(1 - s.x * s.y, min=0).mean()],
}
SAMPLES = {**ELEMENTWISE, **REDUCTIONS, **NORMS, **LOSSES}
TOLERANCE = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


class Samples:
    NAMES = ("x", "y", "p", "w", "v", "i")

    def __init__(self, *tensors):
        for name, t in zip(self.NAMES, tensors):
            setattr(self, name, t)


def tensors(dtype):
    g = torch.Generator().manual_seed(2)
    x, y, p, w, v, i = (torch.randn(s, generator=g) for s in ((3, 4, 6), (3, 4, 6), (3, 4, 6), (4,), (4,), (2, 4, 6, 6)))
    return [t.to(dtype) for t in (x, y, torch.rand(p.shape, generator=g) * 0.8 + 0.1, w, v, i)]


def saved(path, t):
    """A file of numpy, which has no bfloat16: numbers of it are written in 32 bits."""
    np.save(path, (t.float() if t.dtype is torch.bfloat16 else t).contiguous().numpy())


def interpreted(program, inputs, folder):
    (folder / "rows.mica").write_text(program.text)
    args = []
    for i in program.inputs:
        saved(folder / f"{i.value.name}.npy", inputs[i.node.name])
        args.append(f"{i.value.name}={folder / i.value.name}.npy")
    subprocess.run([sys.executable, "-m", "mica", "run", str(folder / "rows.mica"), *args, "--out", str(folder / "out"), "--quiet"],
                   check=True, timeout=120)
    return [torch.from_numpy(np.load(folder / "out" / f"{o.value.name}.npy")).to(o.dtype) for o in program.outputs]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.parametrize("case", SAMPLES)
def test_row_is_eager(case, dtype, tmp_path):
    from mica.torch.program import Shapes, build
    args = tensors(dtype)
    try:
        want = SAMPLES[case](Samples(*args))
    except NotImplementedError as error:
        pytest.skip(f"eager: {error}")
    gm = graph_of(lambda *a: SAMPLES[case](Samples(*a)), args)
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    outputs = list(next(n for n in gm.graph.nodes if n.op == "output").args[0])
    program = build(nodes, outputs, {}, Shapes(), "rows")
    names = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    got = interpreted(program, dict(zip(names, args)), tmp_path)
    assert len(got) == len(want) > 0
    for g, w in zip(got, want):
        close(g, w, TOLERANCE[dtype])
