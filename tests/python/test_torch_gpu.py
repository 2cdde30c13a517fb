"""torch.compile(model, backend="mica") on a machine with a GPU: models in f16 and bf16, strides that attention gives there, streams, graphs,
threads, several devices. The code around a program is tried with one small program, which is searched once."""
import threading

import pytest

from conftest_torch import ALL, close, torch
import torch_models as models

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import mica.torch
from mica.torch import explain, measure

nn, F = torch.nn, torch.nn.functional
from torch.nn.attention import SDPBackend, sdpa_kernel

QUICK = {**ALL, "time": 60, "search": {"max_kernel_ops": 1, "max_block_ops": 4, "measure": 2, "tune": 0, "remember": False}}
SEARCHED = {"search": QUICK["search"]}
NEAR = {torch.float16: 5e-3, torch.bfloat16: 3e-2, torch.float32: 1e-3}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def compiled(model, **options):
    return torch.compile(model, backend=mica.torch.backend, options={**QUICK, **options})


def on_gpu(model, inputs, dtype=torch.float16, device="cuda"):
    return model.to(device, dtype).eval(), [x.to(device, dtype) if x.is_floating_point() else x.to(device) for x in inputs]


def near(got, want):
    close(got, want.to(got.dtype), NEAR[got.dtype])


def lora(rows=16, **where):
    return on_gpu(models.LoraLinear(128, 128, 16), [torch.randn(rows, 128)], **where)


MODELS = {
    "llama": lambda: (models.LlamaLayer(128, 2, 1, 256), [torch.randn(1, 64, 128), *models.rotary(64, 64)]),
    "bert": lambda: (models.BertAttention(128, 2), [torch.randn(2, 64, 128), torch.arange(64)[None] > torch.tensor([[50], [60]])]),
    "mixtral": lambda: (models.MixtralExperts(64, 128, 4), [torch.randn(16, 64) / 8]),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_eager(name, dtype):
    model, inputs = on_gpu(*MODELS[name](), dtype)
    want = model(*inputs)
    e = explain(model, *inputs, options={**QUICK, "rest": "inductor"})
    assert e.programs and all(p.taken for p in e.programs), e
    run = compiled(model, rest="inductor")
    for _ in range(2):
        near(run(*inputs), want)


class Strided(nn.Module):
    """Attention whose result has other strides, read by a program and by a remaining operator (logcumsumexp)."""

    def forward(self, q, k, v):
        a = F.scaled_dot_product_attention(q * 2, k, v)
        return a.transpose(1, 2).reshape(2, 64, 256).logcumsumexp(-1), a


@pytest.mark.parametrize("rest", ["eager", "inductor"])
@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"])
def test_attention_of_each_kind(backend, rest):
    q, k, v = (torch.randn(2, 64, 4, 64, device="cuda", dtype=torch.float16).transpose(1, 2) for _ in range(3))
    with sdpa_kernel(getattr(SDPBackend, backend)):
        try:
            want = Strided()(q, k, v)
        except RuntimeError as error:
            pytest.skip(f"torch has none here: {str(error).splitlines()[0]}")
        e = explain(Strided(), q, k, v, options=QUICK)
        assert len(e.programs) == 1 and "softmax" in e.programs[0].text, e
        assert e.programs[0].taken or backend == "MATH", e  # which torch computes in 32 bits
        for got, w in zip(compiled(Strided(), rest=rest)(q, k, v), want):
            near(got, w)


def test_inputs_with_strides_of_their_own():
    """Transposed, expanded, sliced, and not at a multiple of 16 bytes."""
    model, (x,) = lora()
    run = compiled(model)
    wide = torch.randn(16, 256, device="cuda", dtype=torch.float16)
    flat = torch.randn(16 * 128 + 1, device="cuda", dtype=torch.float16)
    for y in (x, x.t().contiguous().t(), x[:1].expand(16, 128), wide[:, 128:], wide[:, ::2], flat[1:].view(16, 128)):
        near(run(y), model(y))


def test_streams():
    """The input is made in a stream after a long wait: only a call in that stream sees it."""
    model, (x,) = lora()
    run = compiled(model)
    run(x)
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            y = torch.randn_like(x) * 2
            got = run(y)
            want = model(y)
        stream.synchronize()
        near(got, want)


def test_results_are_their_own():
    """Results of earlier calls stay, and an argument may go as soon as the call has returned."""
    model, (x,) = lora()
    run = compiled(model)
    run(x)
    torch.cuda.synchronize()
    kept = []
    for k in range(50):
        y = x * (k + 1)
        kept.append((k, run(y)))
        del y
        torch.full_like(x, torch.nan)  # where y was, if its memory was free too early
    for k, got in kept:
        near(got, model(x * (k + 1)))


def test_copies_of_weights_are_there_for_other_streams():
    model, (x,) = lora()
    run = compiled(model)
    run(x)
    model.base.weight.mul_(2)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        run(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        got = run(x)
    torch.cuda.synchronize()
    near(got, model(x))


def test_a_capture_after_a_change_of_weights():
    """Captured work is done when the graph is replayed: a call before that sees the new weights too."""
    model, (x,) = lora()
    run = compiled(model)
    run(x)
    model.base.weight.mul_(2)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        captured = run(x)
    near(run(x), model(x))
    graph.replay()
    torch.cuda.synchronize()
    near(captured, model(x))


def test_threads_in_streams():
    model, (x,) = lora()
    run, wrong = compiled(model), []
    run(x)

    def work(k):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            y = torch.full_like(x, float(k)) + torch.arange(128, device="cuda", dtype=torch.float16) / 128
            want = model(y)
            for _ in range(50):
                got = run(y)
                torch.cuda.current_stream().synchronize()
                wrong.extend([k] if (got - want).norm() > 5e-3 * want.norm() else [])
    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_captured():
    model, (x,) = lora()
    run = compiled(model, graphs=True)
    run(x)
    replay = measure.captured(lambda: run(x))
    for _ in range(2):
        x.normal_()
        got = replay()
        torch.cuda.synchronize()
        near(got, model(x))


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_reduce_overhead(rest):
    """Weights that have changed since the capture are seen."""
    model, (x,) = lora()
    run = compiled(model, mode="reduce-overhead", rest=rest)
    for k in range(6):
        x.normal_()
        if k == 4:
            model.base.weight.mul_(-1)
        near(run(x), model(x))


def test_what_is_faster_is_measured():
    model, (x,) = lora()
    e = explain(model, x, options={**QUICK, "rest": "inductor", "take": "faster", "max_ops": 256})
    (p,) = e.programs
    assert p.us > 0 and p.rest_us > 0 and p.taken == (p.us < p.rest_us), e


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
def test_autocast(dtype):
    model, (x,) = lora(dtype=torch.float32)
    with torch.autocast("cuda", dtype):
        e = explain(model, x, options=QUICK)
        assert len(e.taken) >= 4 and "f32" not in e.programs[0].text, e
        got, want = compiled(model)(x), model(x)
    assert got.dtype is want.dtype is dtype
    near(got, want)


def test_batches_take_buckets():
    model, _ = lora()
    run = torch.compile(model, backend=mica.torch.backend, dynamic=True, options={**QUICK, "buckets": [16, 32]})
    for rows in (3, 16, 30, 40):
        x = torch.randn(rows, 128, device="cuda", dtype=torch.float16)
        near(run(x), model(x))


def test_inference_mode():
    model, (x,) = lora()
    with torch.inference_mode():
        near(compiled(model)(x), model(x))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_another_device_than_the_current():
    first, (x,) = lora()
    compiled(first)(x)
    torch._dynamo.reset()
    model, (y,) = lora(device="cuda:1")
    assert torch.cuda.current_device() == 0
    run = compiled(model)
    near(run(y), model(y))
    y = y * 2
    torch.cuda.synchronize(1)
    near(run(y), model(y))
    assert torch.cuda.current_device() == 0


def test_the_operator():
    text = "program p {\n  x: f16[16, 128]\n  return softmax(x, dim=1), x * 2\n}\n"
    x = torch.randn(16, 128, device="cuda", dtype=torch.float16)
    y, twice = mica.torch.call(text, x, options=SEARCHED)
    near(y, x.softmax(1))
    near(twice, x * 2)
    near(torch.compile(lambda x: mica.torch.call(text, x.sin(), options=SEARCHED)[0] + 1, fullgraph=True)(x), x.sin().softmax(1) + 1)
