"""FlashAttention 3 and 4, of the packages of these names."""
import importlib

from .library import MODULES, Way


def attention(name):
    """Tensors are [batch, heads, rows, width] here and [batch, rows, heads, width] there, by strides."""
    f = importlib.import_module(MODULES[name][-1]).flash_attn_func

    def call(q, k, v, scale, cap, causal, window):
        more = {"window_size": (window - 1, 0)} if window else {}
        more.update({"softcap": cap} if cap else {})
        out = f(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), softmax_scale=scale, causal=bool(causal or window), **more)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return Way(call)
