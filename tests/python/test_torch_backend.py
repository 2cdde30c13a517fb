"""torch.compile(model, backend="mica") with real torch: models, dynamic sizes, training, weights, threads, caches, export."""
import json
import os
import subprocess
import sys
import threading
import types

import pytest

from conftest_torch import ALL, SHORT, close, compiled, torch
import torch_models as models

import mica.torch
from mica.torch import explain

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch.set_num_threads(2)


def bert():
    return models.BertAttention().eval(), (torch.randn(2, 8, 64), torch.arange(8)[None] > torch.tensor([[5], [7]]))


def llama():
    return models.LlamaLayer().eval(), (torch.randn(2, 8, 64), *models.rotary(8, 16))


def lora():
    return models.LoraLinear().eval(), (torch.randn(8, 64),)


def mixtral():
    return models.MixtralExperts().eval(), (torch.randn(4, 32),)


# Model, nodes taken, programs, nodes that need no program because they are made of weights alone, other nodes left.
MODELS = [(llama, 69, 1, 7, 0), (bert, 43, 1, 4, 2), (lora, 5, 1, 3, 0), (mixtral, 26, 2, 7, 1)]


@pytest.mark.parametrize("make, taken, programs, weights, left", MODELS, ids=lambda x: getattr(x, "__name__", None))
def test_model_is_eager(make, taken, programs, weights, left):
    model, inputs = make()
    with torch.no_grad():
        want = model(*inputs)
        e = explain(model, *inputs, options=ALL)
        of_weights = [n for n in e.left if n.why == "made once, of weights alone"]
        assert (len(e.taken), len(e.programs), len(of_weights), len(e.left) - len(of_weights)) == (taken, programs, weights, left), e
        assert all(p.taken for p in e.programs) and all(n.why for n in e.left), e
        run = compiled(model)
        close(run(*inputs), want)
        frames = len(e.graphs)
        with torch.compiler.set_stance("fail_on_recompile"):  # the same shapes: nothing is compiled again
            close(run(*inputs), want)
    assert frames == 1


def test_what_is_left_is_named_with_its_reason():
    model, inputs = mixtral()
    e = explain(model, *inputs, options=ALL)
    reasons = {n.operator: n.why for n in e.left}
    assert reasons["aten.scatter.src"] == "no row for this operator"
    assert "aten.scatter.src" in str(e) and "26 of 34 nodes" in str(e)


def test_too_little_is_left():
    e = explain(nn.Linear(4, 4), torch.randn(2, 4), options={**ALL, "min_work": 1e5})
    assert not e.taken and "fewer than" in str(e)


def test_slower_programs_are_left():
    """Eager mode adds two small tensors faster than any call of Mica. The verdict is measured and reported."""
    model, inputs = lora()
    e = explain(model, *inputs, options={**ALL, "take": "faster"})
    (p,) = e.programs
    assert p.us > 0 and p.rest_us > 0
    assert p.taken == (p.us < p.rest_us) and bool(p.why) != p.taken
    close(compiled(model, take="faster")(*inputs), model(*inputs))


def test_wrong_programs_are_left(monkeypatch):
    from mica.torch import engine
    right = engine._called  # by calls and by those of frozen weights
    monkeypatch.setattr(engine, "_called", lambda program, inputs: [1.01 * y for y in right(program, inputs)])
    model, inputs = lora()
    e = explain(model, *inputs, options={**ALL, "threads": 1})
    assert not e.taken and "differ from eager" in e.programs[0].why


def test_too_little_time_is_told(tmp_path, monkeypatch):
    """With more time the same program is taken."""
    from mica.torch import measure
    model, inputs = lora()
    options = {**ALL, "take": "faster", "cache": str(tmp_path)}
    monkeypatch.setattr(measure, "race", lambda *_: (2.0, 1.0))
    e = explain(model, *inputs, options={**options, "time": 1e-3})
    assert not e.taken
    why = e.programs[0].why
    assert why.endswith("a larger `time` gives it more")
    if why.startswith("not faster"):
        assert "in 0.001 seconds not all was tried (" in why
    else:  # a slow compiler is stopped; a slow machine takes no program
        assert "[stopped]" in why or why.startswith("no time was left to measure it")
    monkeypatch.setattr(measure, "race", lambda *_: (1.0, 2.0))
    e = explain(model, *inputs, options=options)
    assert e.taken and not e.programs[0].recalled and not e.programs[0].why


def test_what_there_was_no_time_for_is_made_again(tmp_path, monkeypatch):
    """A program that is not faster reports what was not tried. It is searched again with more time, not with as much or less."""
    from mica.torch import engine, measure
    model, inputs = lora()
    options = {**ALL, "take": "faster", "time": 100, "cache": str(tmp_path)}
    monkeypatch.setattr(measure, "race", lambda *_: (2.0, 1.0))

    def said(**more):
        mica.torch.library._regions.clear()
        e = explain(model, *inputs, options={**options, **more})
        return e.programs[0].recalled, e.programs[0].why
    assert said() == (False, "not faster than the rest's compiler")
    assert said(time=200) == (True, "not faster than the rest's compiler")
    (report,) = tmp_path.glob("*/report.json")
    assert engine.untried(mica.load(report.parent).report) == ""
    monkeypatch.setattr(engine, "untried", lambda report: "in 100 seconds not all was tried (the search was ended early)")
    assert said() == (True, "not faster than the rest's compiler; in 100 seconds not all was tried (the search was ended early): "
                            "a larger `time` gives it more")
    assert said(time=50)[0] and not said(time=300)[0] and said(time=300)[0]


def test_training_is_untouched():
    model, inputs = lora()
    run = compiled(model)
    run(*inputs).square().sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(*inputs).square().sum().backward()
    for g, p in zip(grads, model.parameters()):
        close(g, p.grad)


def test_new_weights_are_seen():
    model, inputs = lora()
    run = compiled(model)
    with torch.no_grad():
        close(run(*inputs), model(*inputs))
        model.base.weight.mul_(-2)                                   # in place
        close(run(*inputs), model(*inputs))
        model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
        close(run(*inputs), model(*inputs))
        model.base.weight = nn.Parameter(torch.randn(48, 64))        # another storage
        close(run(*inputs), model(*inputs))


def test_frozen_weights():
    """Two layers share one program, each with memory of its own, which is freed with its weights."""
    from mica.torch import library
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)) for _ in range(2)]
    model, x = nn.Sequential(*layers), torch.randn(40, 64)
    with torch.no_grad():
        e = explain(model, x, options={**ALL, "max_ops": 5})
        assert " frozen" in e.programs[0].text, e
        run = compiled(model, max_ops=5)
        close(run(x), model(x)), close(run(x), model(x))
        frozen = [p.frozen for r in library._regions.values() for p in r.programs.values() if p and p.frozen]
        assert sorted(len(f.made) for f in frozen)[-1] == 2, [len(f.made) for f in frozen]
        layers[0][0].weight.add_(1)
        close(run(x), model(x))
    with torch.inference_mode():  # changes are not counted, so nothing is kept
        model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
        close(compiled(model)(x), model(x))
        model[0].weight.add_(1)
        close(compiled(model)(x), model(x))


def test_weights_live():
    model, inputs = lora()
    with torch.no_grad():
        e = explain(model, *inputs, options={**ALL, "weights": "live"})
        assert len(e.taken) == 8 and "transpose" in e.programs[0].text
        close(compiled(model, weights="live")(*inputs), model(*inputs))


def test_bfloat16():
    model, inputs = lora()
    model, inputs = model.bfloat16(), [x.bfloat16() for x in inputs]
    with torch.no_grad():
        assert len(explain(model, *inputs, options=ALL).taken) == 5
        close(compiled(model)(*inputs), model(*inputs), 2e-2)


def test_autocast():
    """The casts are torch's: of weights made once, of activations outside; the products are bfloat16's."""
    model, inputs = lora()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        e = explain(model, *inputs, options=ALL)
        assert len(e.taken) >= 4 and "bf16" in e.programs[0].text and "f32" not in e.programs[0].text, e
        close(compiled(model)(*inputs), model(*inputs), 2e-2)


def test_batches_take_buckets():
    model, _ = lora()
    from mica.torch import backend
    torch._dynamo.reset()
    run = torch.compile(model, backend=backend, dynamic=True, options={**ALL, "buckets": [4, 16]})
    graphs = []
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        for rows in (3, 4, 11, 16, 2, 40):  # 3 and 2 are padded to 4, 11 to 16; 40 runs as torch has it
            x = torch.randn(rows, 64)
            close(run(x), model(x))
    mica.torch.compiler._listeners.lists = []
    assert len(graphs) == 1, "one graph for all sizes"
    (program,) = graphs[0].programs
    assert sorted(program.sizes) == [4, 16] and all(t.taken for t in program.sizes.values())


class Scaled(nn.Module):
    def forward(self, x, w):
        return (x @ w).relu() * 2


def test_strides_with_a_dynamic_extent():
    """The batch is the second dimension in memory, so the stride of rows depends on it."""
    run, graphs = compiled(Scaled(), buckets=[8]), []
    x, w = torch.randn(4, 8, 16).transpose(0, 1), torch.randn(16, 16)
    torch._dynamo.mark_dynamic(x, 0)
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        close(run(x, w), Scaled()(x, w))
    mica.torch.compiler._listeners.lists = []
    assert graphs[0].programs[0].sizes[8].taken, graphs[0]


def test_results_of_three_dynamic_extents():
    class Three(nn.Module):
        def forward(self, x, y, z, w):
            return (x @ w).relu() * 2, y.t() + 1, z + 1

    inputs = [torch.randn(n, 16) for n in (3, 5, 7)]
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 0)
    w = torch.randn(16, 16)
    with torch.no_grad():
        for got, want in zip(compiled(Three(), buckets=[4])(*inputs, w), Three()(*inputs, w)):
            close(got, want)
            assert got.stride() == want.stride()


def test_attention_over_a_dynamic_batch():
    class Attention(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(*(x.view(x.shape[0], 8, 4, 16).transpose(1, 2) for x in (q, k, v))) * 2

    run, graphs = compiled(Attention(), buckets=[4]), []
    q = torch.randn(3, 8, 64)
    for t in (q, k := q * 2):
        torch._dynamo.mark_dynamic(t, 0)
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        close(run(q, k, q), Attention()(q, k, q))
    mica.torch.compiler._listeners.lists = []
    assert 4 in graphs[0].programs[0].sizes and graphs[0].programs[0].sizes[4].taken, graphs[0]


def test_what_mixes_a_dynamic_extent_is_left():
    class Mixes(nn.Module):
        def forward(self, x):
            return (x - x.mean(0)).softmax(0) @ x.t() + 1

    run, graphs = compiled(Mixes()), []
    x = torch.randn(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        close(run(x), Mixes()(x))
    mica.torch.compiler._listeners.lists = []
    reasons = {n.operator: n.why for n in graphs[0].left}
    assert "along the dynamic extent" in reasons["aten.mean.dim"] and "along the dynamic extent" in reasons["aten._softmax.default"]
    assert "two d" in reasons["aten.mm.default"], reasons


@pytest.mark.parametrize("f, operator", [
    (lambda x, w: x.relu() @ (w.triu(x.shape[0]) + 1), "aten.triu.default"),
    (lambda x, w: x.relu() @ (w * x.shape[0]), "aten.mul.Tensor"),
    (lambda x, w: x.relu() @ w.clamp(max=x.shape[0]), "aten.clamp.default"),
    (lambda x, w: x.relu() @ torch.add(w, w.relu(), alpha=x.shape[0]), "aten.add.Tensor"),
], ids=["diagonal", "factor", "bound", "keyword"])
def test_a_number_that_depends_on_a_dynamic_extent_is_left(f, operator):
    class Scales(nn.Module):
        def forward(self, x, w):
            return f(x, w)

    run, graphs, w = compiled(Scales(), buckets=[4, 16]), [], torch.randn(16, 16)
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        for n in (3, 9):
            x = torch.randn(n, 16)
            torch._dynamo.mark_dynamic(x, 0)
            close(run(x, w), f(x, w))
    mica.torch.compiler._listeners.lists = []
    assert len(graphs) == 1
    reasons = {n.operator: n.why for n in graphs[0].left}
    assert "depends on a dynamic extent" in reasons[operator], reasons


def test_a_group_norm_of_a_dynamic_batch():
    """Its node also has the batch size as a number, which its row does not read."""
    from mica.torch.program import Shapes, build
    x = torch.randn(3, 4, 6)
    torch._dynamo.mark_dynamic(x, 0)
    found = []

    def keep(gm, _):
        nodes = [n for n in gm.graph.nodes if n.op == "call_function" and "group_norm" in str(n.target)]
        found.append(build(nodes, [], {}, Shapes(), "p"))
        return make_boxed_func(gm.forward)
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(lambda x: F.group_norm(x, 2), backend=aot_autograd(fw_compiler=keep, decompositions={}))(x)
    assert found


def test_inductor_runs_the_rest():
    model, inputs = mixtral()
    with torch.no_grad():
        run = compiled(model, rest="inductor")
        close(run(*inputs), model(*inputs))
        close(run(*inputs), model(*inputs))
    assert mica.torch.library._regions


def test_threads():
    model, inputs = lora()
    run = compiled(model)
    wrong = []

    def work(k):
        with torch.no_grad():
            x = torch.full_like(inputs[0], float(k))
            want = model(x)
            wrong.extend(1 for _ in range(50) if not torch.allclose(run(x), want, atol=1e-4))

    with torch.no_grad():
        run(*inputs)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_second_process_searches_nothing(tmp_path):
    script = """
import sys, torch
from conftest_torch import ALL
import torch_models as models
from mica.torch import explain
torch.manual_seed(0)
torch.set_num_threads(2)
e = explain(models.LoraLinear().eval(), torch.randn(8, 64), options={**ALL, "cache": sys.argv[1]})
assert e.programs[0].taken, e
print("recalled", e.programs[0].recalled)
"""
    said = [subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True,
                           cwd=os.path.dirname(__file__)).stdout for _ in range(2)]
    assert "recalled False" in said[0] and "recalled True" in said[1]


def test_an_engine_that_fails_leaves_the_model_alone(monkeypatch):
    from mica.torch import engine
    monkeypatch.setattr(engine, "compile", lambda *a: (_ for _ in ()).throw(engine.EngineError("no compiler")))
    model, inputs = lora()
    e = explain(model, *inputs, options={**ALL, "threads": 1, "max_ops": 100})
    assert not e.taken and e.programs[0].why == "no compiler"
    with torch.no_grad():
        close(compiled(model, threads=1, max_ops=100)(*inputs), model(*inputs))


@pytest.mark.parametrize("options, message", [
    ({"tiem": 3}, "no option 'tiem'; there are target, time"), ({"rest": "tvm"}, "one of inductor, eager"),
    ({"time": "long"}, "is a number"), ({"max_ops": []}, "there is no size"), ({"max_ops": "all"}, "a number or several"),
    ({"buckets": [0]}, "at least 1")])
def test_wrong_options_are_errors(options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(nn.Linear(4, 4), backend=mica.torch.backend, options=options)(torch.randn(2, 4))


def test_products_of_f32_are_as_torch_is_set(monkeypatch):
    from mica.torch.options import options_of
    said = types.SimpleNamespace(fp32_precision="none")
    monkeypatch.setattr(torch.backends.cuda, "matmul", said)
    assert options_of({}).f32_products == "bf16x6"
    said.fp32_precision = "ieee"
    assert options_of({}).f32_products == "ieee" and options_of({"f32_products": "bf16x6"}).f32_products == "bf16x6"
    with pytest.raises(ValueError, match="one of , bf16x6, ieee"):
        options_of({"f32_products": "tf32"})


PROGRAM = "program p {\n  x: f32[8, 16]\n  w: f32[16, 16]\n  return silu(matmul(x, w)), x * 2\n}\n"


class Calls(nn.Module):
    def forward(self, x, w):
        y, twice = mica.torch.call(PROGRAM, x.sin(), w, options={"search": SHORT})
        return y + twice


def want_of_calls(x, w):
    return F.silu(x.sin() @ w) + 2 * x.sin()


def test_the_operator_is_exported_saved_and_loaded(tmp_path):
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    close(Calls()(x, w), want_of_calls(x, w))
    close(torch.compile(Calls(), fullgraph=True, backend="aot_eager")(x, w), want_of_calls(x, w))
    torch.export.save(torch.export.export(Calls(), (x, w)), tmp_path / "p.pt2")
    loaded = torch.export.load(tmp_path / "p.pt2")
    (call,) = [n for n in loaded.graph.nodes if n.target is torch.ops.mica.call.default]
    assert not any("\n" in a for a in call.args[1:])  # Inductor writes them into comments
    close(loaded.module()(x, w), want_of_calls(x, w))


def test_the_operator_is_checked():
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    torch.library.opcheck(torch.ops.mica.call.default, ([x, w], json.dumps(PROGRAM), json.dumps({"search": SHORT})),
                          test_utils=("test_schema", "test_faketensor"))
    with pytest.raises(ValueError, match="input 0 of the program is"):
        mica.torch.call(PROGRAM, x.t(), w, options={"search": SHORT})
    with pytest.raises(Exception, match="matmlu"):
        mica.torch.call("program p {\n  x: f32[2, 2]\n  return matmlu(x, x)\n}", x[:2, :2])


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_mistake_costs_no_model(monkeypatch, caplog, rest):
    def wrong(*_):
        raise KeyError("no such node")
    monkeypatch.setattr(mica.torch.fuse, "fuse", wrong)
    model, inputs = lora()
    with torch.no_grad():
        e = explain(model, *inputs, options={**ALL, "rest": rest, "faults": "leave"})
        assert not e.programs and "KeyError" in e.graphs[0].why and "please report" in caplog.text
        close(compiled(model, rest=rest, faults="leave")(*inputs), model(*inputs))
        with pytest.raises(Exception, match="no such node"):
            compiled(model, rest=rest)(*inputs)


def test_a_mistake_is_reported(monkeypatch):
    """Also where it comes between the nodes of a program and the program."""
    def wrong(*_):
        raise KeyError("no such thing")
    monkeypatch.setattr(mica.torch.region.Region, "compile", wrong)
    model, inputs = lora()
    e = mica.torch.explain(model, *inputs, options={**ALL, "faults": "leave"})
    assert not e.taken and "KeyError" in str(e) + e.details(), e


def test_a_mistake_costs_no_call(monkeypatch, caplog):
    """Programs of dynamic graphs are made in calls."""
    def wrong(*_):
        raise KeyError("no such bucket")
    monkeypatch.setattr(mica.torch.region.Region, "examples", wrong)
    x, w, graphs = torch.randn(3, 16), torch.randn(16, 16), []
    torch._dynamo.mark_dynamic(x, 0)
    mica.torch.compiler._listeners.lists = [graphs]
    with torch.no_grad():
        close(compiled(Scaled(), faults="leave", buckets=[4])(x, w), Scaled()(x, w))
        with pytest.raises(Exception, match="no such bucket"):
            compiled(Scaled(), buckets=[4])(torch.cat([x, x])[:3], w)
    mica.torch.compiler._listeners.lists = []
    assert "KeyError" in graphs[0].programs[0].sizes[4].why and "please report" in caplog.text
