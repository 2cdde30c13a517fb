"""On a machine with a GPU and torch: tensors stay there, and calls go to the current stream."""
import pytest

import mica

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


@pytest.fixture(scope="module")
def scaled():
    """softmax(x / 8) of f16[256, 1024]; the target is that of the example."""
    x = torch.zeros(256, 1024, dtype=torch.float16, device="cuda")
    return mica.optimize(lambda x: mica.softmax(x / 8, dim=1), x, time=25, progress=False)


def want(x):
    return torch.softmax(x.float() / 8, dim=1)


def near(a, b):
    return torch.allclose(a.float(), b.float(), atol=2e-3)


def test_results_are_there(scaled):
    assert scaled.target.startswith("sm_")
    x = torch.randn(256, 1024, dtype=torch.float16, device="cuda")
    y = scaled(x)
    assert y.device == x.device and y.dtype == x.dtype and near(y, want(x))
    out = torch.empty_like(x)
    assert scaled(x, out=out) is out and near(out, want(x))
    call = scaled.bind(x, out=out)
    x.normal_()
    call()
    assert near(out, want(x))


def test_current_stream(scaled):
    """The input is made in a stream after a long wait: only a call in that stream sees it."""
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        x = torch.zeros(256, 1024, dtype=torch.float16, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.normal_()
            y = scaled(x)
            z = scaled(x, stream=stream)
        stream.synchronize()
        assert near(y, want(x)) and near(z, want(x))


@pytest.fixture(scope="module")
def folder(scaled, tmp_path_factory):
    path = tmp_path_factory.mktemp("scaled")
    scaled.save(path)
    return path


@pytest.mark.parametrize("before", [False, True], ids=["the first call of all", "after a call"])
def test_graph_capture(folder, before):
    f = mica.load(folder)
    x = torch.zeros(256, 1024, dtype=torch.float16, device="cuda")
    y = torch.empty_like(x)
    if before:
        f(x, out=y)  # in another stream than the one that is captured
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=stream):
        f(x, out=y)
    for _ in range(2):
        x.normal_()
        g.replay()
        torch.cuda.synchronize()
        assert near(y, want(x))


def products(x, w, v):
    return mica.softmax(x @ w, dim=1) @ v


def test_memory_between_kernels(tmp_path):
    """One operator is one kernel, which the next kernel's data follow in memory; in two streams at once, and captured in both."""
    shapes = ((512, 512), (512, 512), (512, 512))
    specs = [mica.Spec(s, "f16") for s in shapes]
    f = mica.optimize(products, *specs, target=mica.config.gpu_target(), time=60, max_block_ops=1, measure=1, progress=False)
    x, w, v = (torch.randn(s, dtype=torch.float16, device="cuda") / 16 for s in shapes)
    others = [torch.randn_like(x) / 16 for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in others]
    graphs, out = [], [torch.empty_like(x) for _ in others]
    torch.cuda.synchronize()
    for other, stream, y in zip(others, streams, out):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], stream=stream):
            f(other, w, v, out=y)
    for _ in range(20):
        for other, stream, g in zip(others, streams, graphs):
            with torch.cuda.stream(stream):
                g.replay()
        plain = f(x, w, v)
    torch.cuda.synchronize()
    for a, y in zip((x, *others), (plain, *out)):
        right = torch.softmax(a.float() @ w.float(), dim=1) @ v.float()
        assert (y.float() - right).norm() / right.norm() < 5e-3


class Lends:
    """An array of another library, known only by its protocol."""

    def __init__(self, tensor, protocol):
        self.tensor = tensor
        if protocol == "dlpack":
            self.__dlpack__ = lambda **keywords: tensor.__dlpack__(**keywords)
            self.__dlpack_device__ = tensor.__dlpack_device__
        else:
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__


@pytest.mark.parametrize("protocol", ["dlpack", "interface"])
def test_other_arrays_by_their_protocols(scaled, protocol):
    x = torch.randn(256, 1024, dtype=torch.float16, device="cuda")
    y = torch.empty_like(x)
    scaled(Lends(x, protocol), out=Lends(y, protocol))
    torch.cuda.synchronize()
    assert near(y, want(x))
    with pytest.raises(mica.ArgumentError):
        scaled(Lends(x.t().contiguous().t(), protocol), out=y)


def test_cupy(scaled):
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal((256, 1024)).astype("f2")
    y = scaled(x)
    assert isinstance(y, cupy.ndarray)
    assert near(torch.as_tensor(cupy.asnumpy(y)), want(torch.as_tensor(cupy.asnumpy(x))))


def test_jax(scaled):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax has no GPU")
    x = jax.random.normal(jax.random.key(0), (256, 1024), dtype="float16").block_until_ready()
    y = torch.empty(256, 1024, dtype=torch.float16, device="cuda")
    scaled(x, out=y)
    torch.cuda.synchronize()
    assert near(y, want(torch.from_dlpack(x)))


def test_wrong_devices(scaled):
    with pytest.raises(mica.ArgumentError, match="in memory of the CPU"):
        scaled(torch.zeros(256, 1024, dtype=torch.float16))
    with pytest.raises(mica.ArgumentError, match="time it by events"):
        scaled.bind(torch.zeros(256, 1024, dtype=torch.float16, device="cuda")).time(1)


def test_torch_compile_in_graphs():
    """mode="reduce-overhead": correct results, also after weights changed since the capture."""
    import mica.torch
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.SiLU(), torch.nn.Linear(512, 256)).cuda().half().eval()
    run = torch.compile(model, backend=mica.torch.backend, options={"mode": "reduce-overhead", "take": "all", "time": 30})
    with torch.no_grad():
        for k in range(8):
            x = torch.randn(64, 256, dtype=torch.float16, device="cuda")
            if k == 5:
                model[0].weight.mul_(-1)
            right = model(x).float()
            assert (run(x).float() - right).norm() / right.norm() < 5e-3
        captured = mica.torch.measure.captured(lambda: mica.torch.call(SMALL, x, options={"time": 30})[0])
        x.normal_()
        y = captured()
        torch.cuda.synchronize()
        assert near(y, torch.softmax(x.float(), dim=1))


SMALL = "program p {\n  x: f16[64, 256]\n  return softmax(x, dim=1)\n}\n"
