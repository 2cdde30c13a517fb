"""quack-kernels: norms, softmax and products in CuTe's language for Python."""
import torch
from quack.gemm_config import GemmConfig
from quack.gemm_interface import gemm_act_tuned, gemm_tuned
from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd
from quack.softmax import softmax_fwd

from .library import Missing, Way

PARTS = "tile_m,tile_n,pingpong,cluster_m,cluster_n,swap_ab"
TILES = [(128, 192, True, 2, 1, False), (128, 256, False, 2, 1, False), (256, 128, False, 2, 1, False), (128, 128, True, 2, 1, False),
         (128, 160, True, 1, 2, False)]
FEW_ROWS = [(128, 128, True, 2, 1, True), (128, 128, True, 1, 2, True), (128, 128, True, 1, 2, False), (128, 192, True, 1, 2, False)]
ACTIVATIONS = {"relu": "relu", "gelu_tanh": "gelu_tanh_approx"}


def rms_norm(eps):
    return Way(lambda x, w: rmsnorm_fwd(x, w, eps=eps)[0])


def add_rms_norm(eps):
    """The norm of a sum; the kernel writes the sum, too."""
    return Way(lambda x, h, w: rmsnorm_fwd(x, w, residual=h, eps=eps)[0])


def norm_product(eps):
    return Way(lambda x, w, m: rmsnorm_fwd(x, w, eps=eps)[0] @ m)


def layer_norm(eps):
    return Way(lambda x, g, e: layernorm_fwd(x, g, e, eps=eps))


def layer_norm_product(eps):
    return Way(lambda x, g, e, w, bias: torch.addmm(bias, layernorm_fwd(x, g, e, eps=eps), w))


def softmax():
    return Way(softmax_fwd)


def product(after=None, turned="", operands=2, f=None):
    """x W; with a bias, an activation or a residual as the library has them."""
    def call(*ins):
        ins, config = ins[:-1], GemmConfig(**dict(zip(PARTS.split(","), ins[-1])))
        x, w = ins[0].t() if "X" in turned else ins[0].reshape(-1, ins[0].shape[-1]), ins[1].t() if "W" in turned else ins[1]
        bias = ins[2] if operands > 2 else None
        out = torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)
        if after in ACTIVATIONS:
            gemm_act_tuned.fn(x, w, None, out, None, bias, ACTIVATIONS[after], config=config)
        else:
            gemm_tuned.fn(x, w, out, C=ins[3] if operands > 3 else None, bias=bias, config=config)
        return out

    if after not in (None, "add") and after not in ACTIVATIONS:
        return Missing("quack has no such end of a product: %s" % after)
    return Way(call, lambda x, *rest: FEW_ROWS if (x.shape[1] if "X" in turned else x.shape[0]) <= 64 else TILES + FEW_ROWS[:1], PARTS)
