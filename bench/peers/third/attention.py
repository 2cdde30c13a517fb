"""Attention by the libraries: any torch function whose attention is a parameter."""
import importlib

from .library import Way, baseline

ATTENTION = {"tilelang": ".tile_attention", "helion": ".helion_ways", "flash3": ".flash", "flash4": ".flash"}


def scale_of(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


def no_operand(mask, masked):
    """A mask by positions is not read; the libraries' kernels here have no other."""
    if mask is not None and not masked:
        raise RuntimeError("takes no mask as an operand")


def recorded(run, inputs, masked):
    """The arguments (q, k, v, scale, cap) with which a workload calls attention."""
    seen = []

    def note(q, k, v, mask=None, scale=None, cap=None):
        no_operand(mask, masked)
        seen.append((q, k, v, scale_of(q, scale), cap))
        return q.new_empty(q.shape[:-1] + v.shape[-1:])

    run(note)(*inputs)
    return seen[0]


def through(run, inner, causal, window):
    """A Way of the whole workload out of a library's attention; run(at) is the workload's function with attention at."""
    def call(*ins):
        rest = ins[-1:] if inner.configs else ()
        ins = ins[:-1] if inner.configs else ins

        def at(q, k, v, mask=None, scale=None, cap=None):
            no_operand(mask, causal or window)
            return inner.call(q, k, v, scale_of(q, scale), cap, causal, window, *rest)

        return run(at)(*ins)

    def configs(*ins):
        q, k, v, _, _ = recorded(run, ins, causal or window)
        return inner.configs(q, k, v, causal, window)

    def prepare(ins, found):
        return inner.prepare(recorded(run, ins, causal or window) + (causal, window), found)

    return Way(call, configs if inner.configs else None, inner.parts, prepare=prepare if inner.prepare else None)


def baselines(run, causal=False, window=0):
    """All libraries that have attention; causal: the last query reads the last key; window: how many keys a query reads at most."""
    def make(name):  # a window ends with the query's own key
        return through(run, importlib.import_module(ATTENTION[name], __package__).attention(name), bool(causal or window), window)

    return [baseline(name, lambda name=name: make(name)) for name in ATTENTION]
