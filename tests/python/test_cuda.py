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
    return mica.optimize(lambda x: mica.softmax(x / 8, dim=1), x, time=60, progress=False)


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


def test_graph_capture(scaled):
    x = torch.zeros(256, 1024, dtype=torch.float16, device="cuda")
    y = torch.empty_like(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        scaled(x, out=y)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=stream):
        scaled(x, out=y)
    x.normal_()
    g.replay()
    torch.cuda.synchronize()
    assert near(y, want(x))


def test_wrong_devices(scaled):
    with pytest.raises(mica.ArgumentError, match="in memory of the CPU"):
        scaled(torch.zeros(256, 1024, dtype=torch.float16))
    with pytest.raises(mica.ArgumentError, match="time it by events"):
        scaled.bind(torch.zeros(256, 1024, dtype=torch.float16, device="cuda")).time(1)
