"""Kernels of Liger-Kernel: norms, softmax and gates. Matrix products around them are torch's."""
import torch
from liger_kernel.ops import (LigerGELUMulFunction, LigerSiLUMulFunction, fused_add_rms_norm_forward, group_norm_forward, layer_norm_forward,
                              rms_norm_forward)
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.swiglu import swiglu_fused_gate_up_forward

from .library import Way

GATES = {"silu": LigerSiLUMulFunction.apply, "gelu_tanh": LigerGELUMulFunction.apply}
F32 = "gemma"  # the casting mode that computes in float32 up to the result


def norm(x, w, eps, offset=0.0):
    return rms_norm_forward(x, w, eps, offset, F32, None)[0]


def rms_norm(eps):
    return Way(lambda x, w: norm(x, w, eps))


def add_rms_norm(eps):
    """The norm of a sum; the kernel writes the sum, too."""
    return Way(lambda x, h, w: fused_add_rms_norm_forward(x, h, w, eps, 0.0, F32)[0])


def post_norm(eps):
    return Way(lambda x, h, w: x + norm(h, w, eps, 1.0))


def norm_product(eps):
    return Way(lambda x, w, m: norm(x, w, eps) @ m)


def layer_norm(eps):
    return Way(lambda x, g, e: layer_norm_forward(x, g, e, eps)[0])


def layer_norm_product(eps):
    return Way(lambda x, g, e, w, bias: torch.addmm(bias, layer_norm_forward(x, g, e, eps)[0], w))


def group_norm(groups, eps):
    return Way(lambda x, w, bias: group_norm_forward(x, x.shape[1], groups, w[:, 0], bias[:, 0], eps)[0])


def softmax():
    return Way(LigerSoftmaxFunction.apply)


def gated_unit(after):
    """A gate of the two halves of a row; the kernel of GELU wants them apart, which is part of the time."""
    if after == "silu":
        return Way(lambda x: swiglu_fused_gate_up_forward(x)[1])
    return Way(lambda x: GATES[after](*x.chunk(2, -1)))


def gated_product(after, f=None):
    return Way(lambda x, a, b: GATES[after](x @ a, x @ b))


def gated_block(after):
    return Way(lambda x, a, b, c: GATES[after](x @ a, x @ b) @ c)
