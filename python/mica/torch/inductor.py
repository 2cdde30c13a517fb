"""Compiles a graph with Inductor in the user's mode."""
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
    """Whether this mode uses CUDA graphs."""
    return bool(settings_of(mode).get("triton.cudagraphs"))


_compilations = itertools.count()
compilations = 0  # number of compilations in this process


def compile(gm, inputs, mode, static=()):
    """A function of the graph's inputs. Inductor may change gm. static: positions of inputs with a fixed address, which CUDA graphs do not copy.
    compile_fx knows only those that Dynamo reported, and this function runs within a compilation."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph, example_inputs, **kwargs):
        return compile_fx_inner(graph, example_inputs, **{**kwargs, "static_input_idxs": list(static)})
    global compilations
    compilations = next(_compilations) + 1
    with torch._guards.tracing(None):
        return compile_fx(gm, inputs, inner_compile=inner, config_patches=settings_of(mode) or None)


def compile_alone(module, examples, mode, static=()):
    """The same for a module and real tensors, outside of tracing. It does not use CUDA graphs; the caller may."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for n in graph.nodes:
        n.meta = {k: v for k, v in n.meta.items() if k not in ("val", "tensor_meta", "example_value")}
    no_graphs = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}.get(mode, mode)
    return compile(fx.GraphModule(module, graph), list(examples), no_graphs, static)


def may_run_beside(device, mode):
    """Whether Inductor may compile during the search and race of a program for the device. It may not if it measures kernels itself, or if the race
    needs the CPU."""
    return device.type == "cuda" and not settings_of(mode).get("max_autotune")


class Later:
    """The result of `make`, which is called once: when the result is needed, or earlier if there is time. Its exception is raised by `get`."""

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
