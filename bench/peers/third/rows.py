"""Which kernels of which library compute a family: one row a family, or a kind of a family."""
import importlib

from .library import Missing, baseline


def norm_weights_in_float32(ins):
    """quack's layer norm takes its weights so; they are converted outside the timed region."""
    return (ins[0], ins[1].float(), ins[2].float()) + tuple(ins[3:])


# Function -> libraries that have it, with the module here and how inputs are made.
LIGER, QUACK, QUACK_NORM = ("liger", ".liger", None), ("quack", ".quack", None), ("quack", ".quack", norm_weights_in_float32)
TILE, TILES, HELION = ("tilelang", ".tile_rows", None), ("tilelang", ".tile_products", None), ("helion", ".helion_ways", None)
FUNCTIONS = {
    "rms_norm": (LIGER, QUACK, TILE, HELION),
    "add_rms_norm": (LIGER, QUACK),
    "post_norm": (LIGER,),
    "norm_product": (LIGER, QUACK),
    "layer_norm": (LIGER, QUACK_NORM, TILE, HELION),
    "layer_norm_product": (LIGER, QUACK_NORM),
    "group_norm": (LIGER,),
    "softmax": (LIGER, QUACK, TILE, HELION),
    "gated_unit": (LIGER,),
    "gated_product": (LIGER, TILES, HELION),
    "gated_block": (LIGER,),
    "product": (QUACK, TILES, HELION),
}


def by_kind(operands):
    """A product whose end is the family's kind."""
    return lambda p, kind: {"after": kind, "operands": operands, "f": p.f}


def silu(x):
    import torch

    return torch.nn.functional.silu(x)


def gelu_tanh(x):
    import torch

    return torch.nn.functional.gelu(x, approximate="tanh")


ALL = None
TURNED = {"left": "X", "right": "W", "both": "XW"}
# Family -> (kinds that it is for, function, its options as a function of the sizes p and the kind).
ROWS = {
    "rms_norm": (ALL, "rms_norm", lambda p, kind: {"eps": 1e-6}),
    "residual_norm": (ALL, "add_rms_norm", lambda p, kind: {"eps": 1e-5}),
    "post_norm": (ALL, "post_norm", lambda p, kind: {"eps": 1e-6}),
    "norm_product": (ALL, "norm_product", lambda p, kind: {"eps": 1e-5}),
    "layer_norm": (ALL, "layer_norm", lambda p, kind: {"eps": 1e-5}),
    "layer_norm_product": (ALL, "layer_norm_product", lambda p, kind: {"eps": 1e-5}),
    "group_norm": (ALL, "group_norm", lambda p, kind: {"groups": p.g, "eps": 1e-5}),
    "softmax": (("plain",), "softmax", lambda p, kind: {}),
    "gated_unit": (("silu", "gelu_tanh"), "gated_unit", lambda p, kind: {"after": kind}),
    "gated_silu": (ALL, "gated_product", lambda p, kind: {"after": "silu", "f": silu}),
    "gated_gelu": (ALL, "gated_product", lambda p, kind: {"after": "gelu_tanh", "f": gelu_tanh}),
    "gated_block": (ALL, "gated_block", lambda p, kind: {"after": "silu"}),
    "product": (ALL, "product", lambda p, kind: {}),
    "tensor_product": (ALL, "product", lambda p, kind: {}),
    "transposed": (ALL, "product", lambda p, kind: {"turned": TURNED[kind]}),
    "product_epilogue": (ALL, "product", by_kind(3)),
    "product_residual": (ALL, "product", by_kind(4)),
}
# Kernels of the same name that compute another function: the table tells why there is no figure.
REASONS = {
    "rotary": {"halves": (("liger", "rotates two tensors in place, which is another function"),),
               "pairs": (("liger", "rotates halves, not pairs"),)},
}
# Families of workloads of the fixed list (every.py) -> family and kind here.
FIXED = {"ln": ("layer_norm", None), "sm": ("softmax", "plain"), "gemm": ("product_epilogue", "relu"), "gmlp0": ("gated_silu", None),
         "gmlp1": ("gated_silu", None)}


def baselines(family, kind, p):
    """Peers of a workload of a family; p as the argument p of its torch function."""
    out = [baseline(name, lambda why=why: Missing(why)) for name, why in REASONS.get(family, {}).get(kind, ())]
    kinds, function, options = ROWS.get(family, ((), None, None))
    if function is None or kinds is not ALL and kind not in kinds:
        return out

    def make(module):
        return getattr(importlib.import_module(module, __package__), function)(**options(p, kind))

    return out + [baseline(name, lambda module=module: make(module), prep) for name, module, prep in FUNCTIONS[function]]
