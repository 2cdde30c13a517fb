"""Calls: arrays of each library in and out without copies, wrong arguments, bound calls, threads."""
import array
import gc
import subprocess
import sys
import threading

import pytest

import mica


def flat(values):
    """An array without a library."""
    return memoryview(array.array("f", values)).cast("B").cast("f", (4, 6))


def near(a, b):
    import numpy as np
    return np.allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def test_what_it_says_of_itself(pair):
    assert [s.name for s in pair.inputs] == ["X", "Y"] and pair.inputs[0] == mica.Spec((4, 6))
    assert [s.shape for s in pair.outputs] == [(4, 6), (4, 1)] and pair.target == "cpu" and pair.name == "pair"
    assert "pair" in repr(pair) and "pair" in pair._repr_html_()


def test_without_a_library(pair):
    total, sums = pair(flat(range(24)), flat([1] * 24))
    assert type(total) is type(sums) is mica.Array and sums.shape == (4, 1) and sums.dtype == "f32"
    assert total.tolist()[1] == [8, 9, 10, 11, 12, 13] and sums.tolist() == [[15], [51], [87], [123]]
    again = pair(total, mica.Array((4, 6)))[0]
    assert again.tolist() == total.tolist() and memoryview(again).shape == (4, 6)


def test_numpy(pair, arrays):
    np = pytest.importorskip("numpy")
    x, y, total, sums = arrays
    a, b = pair(x, y)
    assert type(a) is np.ndarray and near(a, total) and near(b, sums)
    a, b = pair(Y=y, X=x)
    assert near(a, total)
    x.flags.writeable = False
    assert near(pair(x, y)[0], total)
    assert near(pair(x[:, :], y)[0], total)


def test_out(pair, arrays):
    np = pytest.importorskip("numpy")
    x, y, total, sums = arrays
    out = np.empty((4, 6), "f4"), np.empty((4, 1), "f4")
    assert pair(x, y, out=out) is out and near(out[0], total) and near(out[1], sums)
    with pytest.raises(mica.ArgumentError, match="output 0 shares memory with input 0"):
        pair(x, y, out=(x, out[1]))
    with pytest.raises(mica.ArgumentError, match="output 1 shares memory with output 0"):
        pair(x, y, out=(out[0], out[0].reshape(-1)[:4].reshape(4, 1)))
    with pytest.raises(mica.ArgumentError, match="2 outputs"):
        pair(x, y, out=(out[0],))
    out[0].flags.writeable = False
    with pytest.raises(mica.ArgumentError, match="output 0: it is read-only"):
        pair(x, y, out=out)


def test_out_that_makes_arrays_when_asked(pair, arrays):
    """A sequence may return a new array at each access, to which nothing else refers."""
    np = pytest.importorskip("numpy")
    x, y, total, _ = arrays

    class Views:
        def __init__(self):
            self.memory = np.zeros(28, "f4")

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return self.memory[:24].reshape(4, 6) if i == 0 else self.memory[24:].reshape(4, 1)

    class Own(Views):
        def __getitem__(self, i):
            return mica.Array((4, 6) if i == 0 else (4, 1))
    for _ in range(20):
        views, own = Views(), Own()
        assert pair(x, y, out=views) is views and near(views[0], total)
        assert pair(x, y, out=own) is own
    for wrong, words in ("ab", "str is no array"), (3, "out= takes a sequence of 2 arrays"):
        with pytest.raises(mica.ArgumentError, match=words):
            pair(x, y, out=wrong)


def test_wrong_arguments(pair, arrays):
    np = pytest.importorskip("numpy")
    x, y, *_ = arrays
    wrong = [((x.astype("f8"), y), "input 0 .X.: its dtype is float64, and the program's is f32"),
             ((x, y.astype("f2")), "input 1 .Y.: its dtype is f16"), ((x.astype(">f4"), y), ">f4"),
             ((x.astype("i4"), y), "its dtype is i32"), ((x.astype("i2"), y), "int16"),
             ((x[:2], y), "its shape is .2, 6., and the program's is .4, 6."),
             ((np.asfortranarray(x), y), "contiguous"), ((np.ones((4, 12), "f4")[:, ::2], y), "contiguous"),
             ((np.ones((1,) * 9, "f4"), y), "its shape is one of 9 dimensions, and the program's is .4, 6."), ((3, y), "int is no array"),
             (([1.0], y), "list is no array"),
             ((x,), "input 1 .Y. is missing"), ((x, y, x), "3 inputs are given")]
    for arguments, words in wrong:
        with pytest.raises(mica.ArgumentError, match=words):
            pair(*arguments)
    for keywords, words in [(dict(Z=x), "no input `Z`; the inputs are X, Y,"), (dict(**{"z" + "\u00e9" * 99: x}), "no input `z\u00e9"),
                            (dict(X=x), "given twice")]:
        with pytest.raises(mica.ArgumentError, match=words):
            pair(x, y, **keywords)
    with pytest.raises(mica.ArgumentError, match="stream="):
        pair(x, y, stream="fast")
    assert issubclass(mica.ArgumentError, TypeError)


@pytest.mark.parametrize("make", [
    lambda np, x: x.copy().view(type("Sub", (np.ndarray,), {})), lambda np, x: np.ma.masked_array(x),
    lambda np, x: x.astype(np.dtype("f4", metadata={"a": 1})), lambda np, x: np.array(x, order="C").reshape(4, 1, 6)[:, 0],
    lambda np, x: np.lib.stride_tricks.as_strided(x, (4, 6), (24, 4)), lambda np, x: np.frombuffer(x.tobytes(), "f4").reshape(4, 6)])
def test_numpy_of_every_kind(pair, arrays, make):
    np = pytest.importorskip("numpy")
    x, y, total, _ = arrays
    assert near(pair(make(np, x), y)[0], total)


@pytest.mark.parametrize("make, words", [
    (lambda np, x: x[::-1], "contiguous"), (lambda np, x: np.broadcast_to(x[0], (4, 6)), "contiguous"), (lambda np, x: x.T, "shape"),
    (lambda np, x: x.byteswap().view(">f4"), "dtype"), (lambda np, x: x.view("i4"), "dtype"), (lambda np, x: x.view([("a", "f4")]), "dtype"),
    (lambda np, x: x.astype(object), "dtype|object"), (lambda np, x: np.float32(1), "shape"), (lambda np, x: np.empty((0, 6), "f4"), "shape"),
    (lambda np, x: np.ones((1,) * 20 + (4, 6), "f4"), "shape"), (lambda np, x: np.empty((), "f4"), "shape"),
    (lambda np, x: np.frombuffer(b"0" * 97, "u1")[1:].view("f4").reshape(4, 6), "multiple of 4")])
def test_numpy_that_does_not_fit(pair, arrays, make, words):
    np = pytest.importorskip("numpy")
    x, y, *_ = arrays
    wrong = make(np, x)
    before = sys.getrefcount(wrong)
    with pytest.raises((mica.ArgumentError, mica.Error), match=words):
        pair(wrong, y)
    assert sys.getrefcount(wrong) == before


def test_out_that_must_not_be_written(pair, arrays):
    np = pytest.importorskip("numpy")
    x, y, total, sums = arrays
    out = np.zeros((4, 6), "f4"), np.zeros((4, 1), "f4")
    for wrong in (np.frombuffer(bytes(96), "f4").reshape(4, 6), np.broadcast_to(out[0], (4, 6))):
        with pytest.raises(mica.ArgumentError, match="output 0: it is read-only"):
            pair(x, y, out=(wrong, out[1]))
    assert not out[0].any()


def test_a_type_that_calls_itself_numpys(pair, arrays):
    x, y, total, _ = arrays
    fake = type("ndarray", (), {"__module__": "numpy", "__array_interface__": x.__array_interface__})()
    assert near(pair(fake, y)[0], total)
    with pytest.raises(Exception):
        pair(type("ndarray", (), {"__module__": "numpy"})(), y)
    with pytest.raises(mica.ArgumentError, match="no dictionary"):
        pair(type("Other", (), {"__array_interface__": "text"})(), y)


def test_bf16_of_numpy():
    """ml_dtypes may be loaded after the first arrays of numpy."""
    np = pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    text = """
import sys, numpy as np, mica
f, g = (mica.optimize("program p { X: %s[4]\\n return X + X }" % t, measure=1, seconds=0.02, progress=False, threads=1) for t in ("f32", "bf16"))
assert f(np.ones(4, "f4")).tolist() == [2] * 4 and "ml_dtypes" not in sys.modules
import ml_dtypes
for _ in range(2):
    y = g(np.ones(4, ml_dtypes.bfloat16))
    assert y.dtype == ml_dtypes.bfloat16 and y.tolist() == [2] * 4
assert g(y, out=y.copy()).tolist() == [4] * 4
for wrong in (np.ones(4, "u2"), np.ones(4, "f2")):
    try: g(wrong)
    except mica.ArgumentError: continue
    sys.exit("taken as bf16")
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


class OnGpu:
    """The interface of a CUDA array."""
    shape, dtype = (4, 6), "float32"
    __cuda_array_interface__ = {"data": (1 << 40, False), "shape": (4, 6), "typestr": "<f4", "version": 3, "stream": 1}


class Liar:
    def __init__(self, interface):
        self.__array_interface__ = interface


def test_other_devices_and_broken_interfaces(pair, arrays):
    x, y, *_ = arrays
    with pytest.raises(mica.ArgumentError, match="it is on cuda:0, and the program runs on the CPU"):
        pair(OnGpu(), y)
    for interface in ({}, {"data": None}, {"data": (0, False), "shape": (4, 6), "typestr": "<f4"},
                      {"data": (64, False), "shape": "ab", "typestr": "<f4"}, {"data": (64, False), "shape": (4, 6), "typestr": 3}):
        with pytest.raises((mica.ArgumentError, TypeError)):
            pair(Liar(interface), y)
    ours = Liar(mica.Array((4, 6)).__array_interface__)
    with pytest.raises(mica.ArgumentError, match="has no memory|its shape"):
        pair(Liar({**ours.__array_interface__, "data": (0, False)}), y)


def test_bound(pair, arrays):
    np = pytest.importorskip("numpy")
    x, y, total, sums = arrays
    x = x.copy()
    f = pair.bind(x, y)
    first = f()
    assert first is f.result and f() is first and near(first[0], total)
    x += 1
    assert near(f()[0], total + 1) and f.time(10) > 0
    with pytest.raises(TypeError):
        f(1)
    out = np.empty((4, 6), "f4"), np.empty((4, 1), "f4")
    assert pair.bind(x, y, out=out)() is out
    with pytest.raises(mica.ArgumentError):
        pair.bind(x, y[:2])


def test_nothing_is_kept(pair, arrays):
    x, y, *_ = arrays
    pair(x, y)
    before = sys.getrefcount(x), sys.getrefcount(y), len(gc.get_objects())
    for _ in range(1000):
        pair(x, y)
        pair.bind(x, y)()
        with pytest.raises(mica.ArgumentError):
            pair(x, y[:2])
    gc.collect()
    after = sys.getrefcount(x), sys.getrefcount(y), len(gc.get_objects())
    assert before[:2] == after[:2] and after[2] - before[2] < 500


def test_threads(pair, arrays):
    x, y, total, _ = arrays
    wrong = []

    def work(k):
        for _ in range(200):
            if not near(pair(x + k, y)[0], total + k):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_array():
    a = mica.Array((2, 3), "bf16", [1, 2, 3, 4, 5, 1e6])
    assert a.tolist()[0] == [1, 2, 3] and a.dtype == "bf16" and a.shape == (2, 3)
    assert mica.Array((), "f16", [0.5]).tolist() == 0.5 and mica.Array((2,)).tolist() == [0, 0]
    assert mica.Array((2,), "f16", [1, 65536]).tolist() == [1, float("inf")]
    for arguments in (((2,), "f32", [1]), ((0,),), ((2,), "f64"), ((1 << 40, 1 << 40),)):
        with pytest.raises((mica.ArgumentError, MemoryError)):
            mica.Array(*arguments)
    with pytest.raises(TypeError):
        mica.Array(("a",))
    view = memoryview(a)
    assert view.format == "H" and view.shape == (2, 3)


def test_array_is_shared(arrays):
    np = pytest.importorskip("numpy")
    a = mica.Array((2, 3), "f32", range(6))
    shared = np.from_dlpack(a), np.asarray(a), np.asarray(memoryview(a))
    shared[1][0, 0] = 7
    assert a.tolist()[0][0] == 7 and all(s[0, 0] == 7 for s in shared)
    del a
    gc.collect()
    assert [s[1, 2] for s in shared] == [5, 5, 5]


def test_torch(pair, arrays):
    torch = pytest.importorskip("torch")
    x, y, total, sums = arrays
    s, t = torch.from_numpy(x), torch.from_numpy(y)
    a, b = pair(s, t)
    assert type(a) is torch.Tensor and near(a, total) and near(b, sums)
    out = torch.empty(4, 6), torch.empty(4, 1)
    assert pair(s, t, out=out) is out and near(out[0], total)
    for wrong, words in [((s.double(), t), "torch.float64"), ((s.T.contiguous().T, t), "contiguous"), ((s[:2], t), "shape"),
                         ((s.bfloat16(), t), "bf16")]:
        with pytest.raises(mica.ArgumentError, match=words):
            pair(*wrong)
    with pytest.raises(mica.ArgumentError, match="resolve_neg"):
        pair(torch._neg_view(s), t)
    assert near(pair(torch._neg_view(s).resolve_neg(), t)[0], 2 * y - x)
    p = torch.nn.Parameter(s)
    with pytest.raises(mica.ArgumentError, match="no_grad"):
        pair(p, t)
    with torch.no_grad():
        assert near(pair(p, t)[0], total)


@pytest.mark.parametrize("make", [
    lambda torch, x: x.as_subclass(type("Sub", (torch.Tensor,), {})), lambda torch, x: torch.nn.Parameter(x, requires_grad=False),
    lambda torch, x: torch.nn.Buffer(x), lambda torch, x: x.clone().share_memory_(), lambda torch, x: torch.cat([x[:1] * 0, x])[1:],
    lambda torch, x: torch.as_strided(x.reshape(-1), (4, 6), (6, 1)), lambda torch, x: x.detach().requires_grad_().detach()])
def test_torch_of_every_kind(pair, arrays, make):
    torch = pytest.importorskip("torch")
    x, y, total, sums = arrays
    made = make(torch, torch.from_numpy(x))
    before = sys.getrefcount(made)
    a, b = pair(made, torch.from_numpy(y))
    assert isinstance(a, torch.Tensor) and a.is_contiguous() and not a.requires_grad and near(a, total) and near(b, sums)
    assert sys.getrefcount(made) == before


def freed(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("make, words", [
    (lambda torch, x: x.to("meta"), "meta|no memory"), (lambda torch, x: x.to_sparse(), "."), (lambda torch, x: x.to(torch.complex64), "complex64"),
    (lambda torch, x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "."), (lambda torch, x: x.view(torch.int32), "torch.int32|i32"),
    (lambda torch, x: x.reshape((1,) * 20 + (4, 6)), "shape"), (lambda torch, x: x[0].expand(4, 6), "contiguous"),
    (lambda torch, x: torch.empty(0, 6), "shape"), (lambda torch, x: x.reshape(-1)[0], "shape"), (lambda torch, x: x.half(), "f16"),
    (lambda torch, x: torch._to_functional_tensor(x), "."), (lambda torch, x: freed(x.clone()), "no memory")])
def test_torch_that_does_not_fit(pair, arrays, make, words):
    torch = pytest.importorskip("torch")
    x, y, *_ = arrays
    with pytest.raises(Exception, match=words):
        pair(make(torch, torch.from_numpy(x.copy())), torch.from_numpy(y))


def test_torch_in_a_transform(pair, arrays):
    torch = pytest.importorskip("torch")
    x, y, *_ = arrays
    with pytest.raises(Exception):
        torch.vmap(lambda t: pair(t, torch.from_numpy(y))[0])(torch.from_numpy(x).expand(3, 4, 6).contiguous())


def test_jax(pair, arrays):
    jax = pytest.importorskip("jax")
    x, y, total, sums = arrays
    a, b = pair(jax.numpy.asarray(x), jax.numpy.asarray(y))
    assert isinstance(a, jax.Array) and near(a, total) and near(b, sums)
    assert type(pair.bind(jax.numpy.asarray(x), jax.numpy.asarray(y))()[0]) is mica.Array
