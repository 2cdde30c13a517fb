"""bench/peers/mica.py on what `mica optimize` saved in a folder, with a driver and a torch that only write down what they are asked
for: each kernel must get one address for each of its buffers, inside of what is there, and its tensor maps behind them."""
import ctypes
import json
import os
import sys
import types

os.environ.pop("PEERS_ROLE", None)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from peers import mica  # noqa: E402

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "u8": 1}
problems = []


def expect(good, what):
    if not good:
        problems.append(what)


class Tensor:
    """A place in a memory that is not there."""
    next = 1 << 32

    def __init__(self, shape, dtype, at=None):
        self.shape, self.dtype = tuple(shape), dtype
        if at is None:
            at, Tensor.next = Tensor.next, Tensor.next + (self.numel() * BYTES[dtype] // 256 + 2) * 256
        self.at = at

    def numel(self):
        n = 1
        for x in self.shape:
            n *= x
        return n

    def data_ptr(self):
        return self.at

    def is_contiguous(self):
        return True

    def storage_offset(self):
        return 0

    def view(self, dtype):
        return Tensor([self.numel() * BYTES[self.dtype] // BYTES[dtype]], dtype, self.at)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return Tensor([self.shape[0] - i.start], self.dtype, self.at + i.start * BYTES[self.dtype])
        return Tensor(self.shape[1:], self.dtype, self.at)


products = []


def as_strided(t, size, stride, offset):
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    expect(last < t.numel(), "a product reaches element %d of %d" % (last, t.numel()))
    return Tensor(size, t.dtype, t.at)


def multiply(a, b, dtype=None, out=None):
    expect(a.shape[-1] == b.shape[-2] and out.shape[-2:] == (a.shape[-2], b.shape[-1]), "a product's extents")
    expect(a.dtype == b.dtype and out.dtype == (dtype or a.dtype), "a product's types")
    products.append(out)


class Driver:
    """Writes down addresses of launches, and of tensor maps."""

    def __init__(self):
        self.launched, self.images, self.maps = [], {}, {}

    def cuModuleLoadData(self, module, image):
        self.images[len(self.images) + 1] = image
        module._obj.value = len(self.images)
        return 0

    def cuModuleGetFunction(self, function, module, name):
        function._obj.value = module.value
        return 0 if name in self.images[module.value] else 500

    def cuFuncSetAttribute(self, function, attribute, value):
        return 0

    def cuTensorMapEncodeTiled(self, at, kind, rank, address, size, stride, box, *rest):
        self.maps[at.value] = address.value
        expect(at.value % 64 == 0 and 1 <= rank <= 5 and len(size) == rank, "a tensor map's place or rank")
        return 0

    def cuLaunchKernelEx(self, config, function, args, extra):
        expect(config._obj.grid[0] > 0 and config._obj.block[0] > 0 and config._obj.stream == 7, "an empty grid, or another stream")
        self.launched.append([self.maps.get(p) or ctypes.c_uint64.from_address(p).value for p in args])
        return 0


def main(where):
    driver = Driver()
    stream = types.SimpleNamespace(cuda_stream=7)
    mica.torch = types.SimpleNamespace(
        float16="f16", bfloat16="bf16", float32="f32", uint8="u8", mm=multiply, bmm=multiply, as_strided=as_strided,
        cuda=types.SimpleNamespace(current_stream=lambda: stream), zeros=lambda n, dtype, device: Tensor([n], dtype),
        empty=lambda shape, dtype, device: Tensor(shape, dtype))
    mica.driver = lambda: driver
    with open(os.path.join(where, "program.json")) as f:
        doc = json.load(f)
    saved = mica.Saved(where)
    inputs = [Tensor(x["shape"], x["dtype"]) for x in doc["inputs"]]
    out = saved(*inputs)
    spaces = [(t.at, t.at + t.numel() * BYTES[t.dtype]) for t in inputs + [saved.work]]
    spaces.append((out.at, Tensor.next))  # the outputs are the last that were made
    kernels = [x for x in doc["launches"] if "kernel" in x]
    expect(len(driver.launched) == len(kernels), "%d kernels launched" % len(driver.launched))
    expect(len(products) == len(doc["launches"]) - len(kernels), "%d products" % len(products))
    for spec, args in zip(kernels, driver.launched):
        expect(len(args) == len(spec["args"]) + len(spec["maps"]), "%s: %d parameters" % (spec["name"], len(args)))
        for a in args:
            expect(any(lo <= a < hi for lo, hi in spaces), "%s: an address outside of everything" % spec["name"])
        for m, a in zip(spec["maps"], args[len(spec["args"]):]):
            expect(a == args[m["arg"]], "%s: a map of another buffer" % spec["name"])
    try:
        saved(*inputs[:-1])
        expect(False, "an input too few is taken")
    except RuntimeError:
        pass
    for p in problems:
        print(p)
    return 1 if problems else 0


sys.exit(main(sys.argv[1]))
