"""Launches the result of `mica optimize --target ... --out DIR` saved, launched on torch's stream: DIR/program.json says which kernels of which
cubins, with which arguments (docs/lower.md). Through the driver's interface alone, as any user of the exported files would;
products that are left to the vendor's library are torch's, which calls that too."""
import ctypes
import json
import math
import os

from .env import torch
from .programs import folder
from .workload import Baseline

TYPES = {"fp16": 6, "bf16": 9, "fp32": 7}  # CU_TENSOR_MAP_DATA_TYPE_*
DTYPES = {"fp16": lambda: torch.float16, "bf16": lambda: torch.bfloat16, "fp32": lambda: torch.float32}
DTYPES.update(f16=DTYPES["fp16"], f32=DTYPES["fp32"])  # of tensors, as Mica's language has them
CLUSTER, DEPENDENT, SHARED = 4, 6, 8  # launch attributes; a function's attribute


class Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


def driver():
    lib = ctypes.CDLL("libcuda.so.1")
    lib.cuModuleGetFunction.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
    return lib


def check(code, what):
    if code:
        raise RuntimeError("%s: CUDA driver error %d" % (what, code))


class Launch:
    """One kernel with its arguments."""

    def __init__(self, cu, where, spec):
        self.cu, self.spec = cu, spec
        with open(os.path.join(where, spec["cubin"]), "rb") as f:
            image = f.read()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cu.cuModuleLoadData(ctypes.byref(self.module), image), spec["cubin"])
        check(cu.cuModuleGetFunction(ctypes.byref(self.function), self.module, spec["kernel"].encode()), spec["kernel"])
        if spec["shared"] > 48 << 10:
            check(cu.cuFuncSetAttribute(self.function, SHARED, spec["shared"]), "shared memory")
        if spec.get("cluster", 1) > 8:
            check(cu.cuFuncSetAttribute(self.function, 14, 1), "clusters of more than 8 blocks")
        self.attributes = (Attribute * 2)()
        count = 0
        if spec.get("cluster", 1) > 1:
            self.attributes[count].id = CLUSTER
            self.attributes[count].value[0:3] = [spec["cluster"], 1, 1]
            count += 1
        if spec.get("dependent"):
            self.attributes[count].id = DEPENDENT
            self.attributes[count].value[0] = 1
            count += 1
        self.config = Config((spec["grid"], 1, 1), (spec["block"], 1, 1), spec["shared"], None, self.attributes, count)

    def tensor_map(self, m, address):
        room = ctypes.create_string_buffer(256)
        at = (ctypes.addressof(room) + 63) & ~63
        rank = len(m["size"])
        u64, u32 = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[m["swizzle"]]
        check(self.cu.cuTensorMapEncodeTiled(
            ctypes.c_void_p(at), TYPES[m["type"]], rank, ctypes.c_void_p(address), u64(*m["size"]), u64(*(m["stride"][1:] + [0])),
            u32(*m["box"]), u32(*([1] * rank)), 0, swizzle, 2, 0), "tensor map")
        return room, at

    def run(self, places, stream):
        addresses = [places.address(a) for a in self.spec["args"]]
        held, pointers = [], []
        for address in addresses:
            held.append(ctypes.c_uint64(address))
            pointers.append(ctypes.addressof(held[-1]))
        for m in self.spec.get("maps", []):
            room, at = self.tensor_map(m, addresses[m["arg"]])
            held.append(room)
            pointers.append(at)
        self.config.stream = stream
        check(self.cu.cuLaunchKernelEx(ctypes.byref(self.config), self.function, (ctypes.c_void_p * len(pointers))(*pointers), None),
              self.spec["kernel"])


class Product:
    """A product that is left to the vendor's library, by way of torch."""

    def __init__(self, spec):
        p = self.spec = spec["product"]
        a, b, d = (p["batch"], p["m"], p["k"]), (p["batch"], p["k"], p["n"]), (p["batch"], p["m"], p["n"])
        self.operands = list(zip(spec["args"], p["type"], [a, b, d, d, d], p["stride"]))  # a, b, d, then c, then a bias
        self.alpha, self.beta = p.get("alpha", 1), p.get("beta", 0)
        ends = p.get("epilogue", "").split("_")
        self.biased, self.relu, self.gelu = "bias" in ends, "relu" in ends, "gelu" in ends  # gelu: by tanh

    def run(self, places, stream):
        a, b, d, *more = [places.matrices(*x) for x in self.operands]
        if more or self.relu or self.gelu or self.alpha != 1:
            self.ended(a, b, d, more[0] if self.beta else None, more[-1] if self.biased else None)
            return
        if a.shape[0] == 1:
            a, b, d, multiply = a[0], b[0], d[0], torch.mm
        else:
            multiply = torch.bmm
        if d.dtype == a.dtype:
            multiply(a, b, out=d)
        else:
            multiply(a, b, d.dtype, out=d)

    def ended(self, a, b, d, c, bias):
        """If torch has a call that ends in the library's epilogue, this call is used; else operators run one by one, in fp32."""
        vector = bias is not None and a.shape[0] == 1 and c is None and self.alpha == 1 and bias.stride(1) == 0 and d.dtype == a.dtype
        if vector and (self.relu or self.gelu):
            torch._addmm_activation(bias[0, 0], a[0], b[0], use_gelu=self.gelu, out=d[0])
        elif vector:
            torch.addmm(bias[0, 0], a[0], b[0], out=d[0])
        else:
            x = torch.bmm(a, b, torch.float32) if a.dtype != torch.float32 else torch.bmm(a, b)
            x = x * self.alpha
            x = x if c is None else x + self.beta * c
            x = x if bias is None else x + bias
            x = torch.relu(x) if self.relu else x
            d.copy_(torch.nn.functional.gelu(x, approximate="tanh") if self.gelu else x)


class Places:
    """The memory of one call: inputs, outputs, workspace."""

    def __init__(self, inputs, outputs, work):
        self.tensors = {"input": inputs, "output": outputs, "workspace": [work]}

    def address(self, arg):
        return self.tensors[arg["place"]][arg["index"]].data_ptr() + arg["offset"]

    def matrices(self, arg, kind, size, stride):
        t, dtype = self.tensors[arg["place"]][arg["index"]], DTYPES[kind]()
        if arg["place"] == "workspace":
            t = t[arg["offset"]:].view(dtype)
        if t.dtype != dtype:
            raise RuntimeError("the product takes %s, not %s" % (dtype, t.dtype))
        return torch.as_strided(t, size, stride, t.storage_offset())


class Saved:
    """A program that Mica made, as a function of torch tensors."""

    def __init__(self, where):
        with open(os.path.join(where, "program.json")) as f:
            self.doc = json.load(f)
        if self.doc.get("missing"):
            raise RuntimeError("no machine code: %s" % self.doc["missing"])
        cu = driver()
        torch.cuda.current_stream()  # torch's context is the current one
        self.launches = [Product(x) if "product" in x else Launch(cu, where, x) for x in self.doc["launches"]]
        self.work = torch.zeros(-(-max(1, self.doc["workspace"]) // 256) * 256, dtype=torch.uint8, device="cuda")

    def check(self, inputs):
        """Kernels look at nothing but addresses."""
        if len(inputs) != len(self.doc["inputs"]):
            raise RuntimeError("%d inputs, the program takes %d" % (len(inputs), len(self.doc["inputs"])))
        for i, (t, x) in enumerate(zip(inputs, self.doc["inputs"])):
            if t.dtype != DTYPES[x["dtype"]]() or t.numel() != math.prod(x["shape"]) or not t.is_contiguous() or t.data_ptr() % 16:
                raise RuntimeError("input %d is %s %s, the program takes %s %s, row by row" % (
                    i, t.dtype, list(t.shape), x["dtype"], x["shape"]))

    def __call__(self, *inputs):
        self.check(inputs)
        outs = [torch.empty(x["shape"], dtype=DTYPES[x["dtype"]](), device="cuda") for x in self.doc["outputs"]]
        for out, x in zip(outs, self.doc["outputs"]):
            if "state" in x:  # is in the place of the output before the first launch
                out.copy_(inputs[x["state"] - 1])
        places, stream = Places(inputs, outs, self.work), torch.cuda.current_stream().cuda_stream
        for launch in self.launches:
            launch.run(places, stream)
        return outs[0]


def add_mica(workloads, where, known):
    """One more way to compute each workload that Mica has made a program for."""
    for w in workloads:
        path = os.path.join(where, folder(w.name))
        if w.name not in known or not os.path.exists(os.path.join(path, "program.json")):
            continue

        def build(ctx, path=path, turn=known[w.name].inputs):
            saved = Saved(path)
            return lambda *ins: saved(*turn(*ins))

        w.baselines.append(Baseline("mica", 0, build))
