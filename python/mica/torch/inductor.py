"""Compiles a graph with Inductor, in the mode that the user asked for."""
from __future__ import annotations

import functools
import itertools
import logging

import torch
from torch import fx

log = logging.getLogger("mica.torch")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def settings_of(mode):
    return {} if mode == "default" else torch._inductor.list_mode_options(mode)


@functools.cache
def in_graphs(mode):
    """Whether calls run as CUDA graphs in this mode."""
    return bool(settings_of(mode).get("triton.cudagraphs"))


_compilations = itertools.count()
compilations = 0  # of this process


def compile(gm, inputs, mode, static=()):
    """A function of the graph's inputs. gm becomes Inductor's. static: places of inputs that stay where they are, which CUDA graphs do
    not copy. (compile_fx itself knows only of those that Dynamo told it of, and is asked here from within a compilation.)"""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph, example_inputs, **kwargs):
        return compile_fx_inner(graph, example_inputs, **{**kwargs, "static_input_idxs": list(static)})
    global compilations
    compilations = next(_compilations) + 1
    with torch._guards.tracing(None):
        return compile_fx(gm, inputs, inner_compile=inner, config_patches=settings_of(mode) or None)


def compile_alone(module, examples, mode, static=()):
    """The same of a module with real tensors, outside of what traces. CUDA graphs are left to who calls."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for n in graph.nodes:
        n.meta = {k: v for k, v in n.meta.items() if k not in ("val", "tensor_meta", "example_value")}
    no_graphs = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}.get(mode, mode)
    return compile(fx.GraphModule(module, graph), list(examples), no_graphs, static)


def may_run_beside(device, mode):
    """Whether Inductor may compile while a program is searched and raced on the device: not if it measures kernels itself, nor beside a race that
    needs the CPU."""
    return device.type == "cuda" and not settings_of(mode).get("max_autotune")


class Later:
    """A result of `make`, made once: when it is asked for, or before that, if there was time for it. `make` is called once, and who asks for the
    result hears of its exception."""

    def __init__(self, make):
        self._make, self._made, self._error = make, None, None

    @property
    def made(self):
        return self._made is not None

    def begin(self):
        if self._make is None:
            return
        make, self._make = self._make, None
        try:
            self._made = make()
        except Exception as error:
            log.debug("compiled beside a search", exc_info=True)
            self._error = error

    def get(self):
        self.begin()
        if self._error is not None:
            raise self._error
        return self._made
