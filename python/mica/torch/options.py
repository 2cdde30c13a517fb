"""Options of the backend: torch.compile(model, backend="mica", options={...}). Errors for wrong names or values list the possible ones."""
from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass, field

import torch

from .inductor import MODES, in_graphs


@dataclass(frozen=True)
class Options:
    """Options of the backend; docs/torch.md describes them."""
    target: str = ""            # "cpu", "sm_90a"; empty: the target of the tensors' device
    time: float = 0.0           # seconds for one graph, shared by its distinct programs: search, compiling and measuring; 0: by its nodes
    rest: str = "inductor"      # compiler of the nodes that Mica does not take: "inductor" or "eager"
    take: str = "faster"        # "faster": a program must be measured faster than the rest's compiler; "all": no such test
    min_ops: int = 2            # operators of a program, views not counted
    min_work: float = 1e5       # operations of a program, a product of m, n, k counted as 2 m n k
    mode: str = "default"       # of the rest's compiler, as in torch.compile; if it has CUDA graphs, times are those of graphs
    graphs: bool = False        # the caller captures calls into CUDA graphs, so times are those of graphs
    max_ops: tuple = (256, 16, 6)   # largest number of operators of a program, views not counted; next: of programs tried if that is not faster
    weights: str = "copy"       # "copy": views and casts of weights are computed once for each version; "live": in every call
    buckets: tuple = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # sizes of a dynamic extent; (): none
    tolerance: float = 0.0      # relative norm of the difference to eager that is accepted; 0: by dtype
    f32_products: str = ""      # on GPUs: "bf16x6", "ieee"; empty: as torch.backends.cuda.matmul.fp32_precision says
    close: tuple = ()           # (relative, absolute): tolerances of each element, as rtol and atol of torch.allclose; (): only the norm is tested
    search: dict = field(default_factory=dict)  # options of mica optimize, such as {"max_block_ops": 6, "measure": 2}
    threads: int = 0            # of kernels; 0: torch.get_num_threads()
    summary: bool = True        # a line on standard error after a graph is compiled, whether Mica helped or not; $MICA_TORCH_SUMMARY=0 has none
    progress: bool = False      # a line on the terminal or in the notebook during search and measurement
    faults: str = ""            # after an internal error of Mica: "leave" the graph to the rest, or "raise"; empty: $MICA_TORCH_FAULTS or "leave"
    cache: str = ""             # folder of compiled programs; empty: $MICA_TORCH_CACHE or ~/.cache/mica/torch

    @property
    def timed_in_graphs(self):
        return self.graphs or in_graphs(self.mode)

    def folder(self):
        return self.cache or os.environ.get("MICA_TORCH_CACHE") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "mica", "torch")


CHOICES = {"rest": ("inductor", "eager"), "take": ("faster", "all"), "weights": ("copy", "live"), "mode": MODES, "faults": ("", "leave", "raise"),
           "f32_products": ("", "bf16x6", "ieee")}


def _sizes(given, name, least):
    """A number or several, as a tuple."""
    try:
        sizes = tuple(int(s) for s in (given if isinstance(given, (list, tuple)) else [given]))
    except (TypeError, ValueError):
        raise ValueError(f"option {name} of backend mica is a number or several, not {given!r}") from None
    if any(s < least for s in sizes):
        raise ValueError(f"option {name} of backend mica: sizes are at least {least}")
    return sizes


def _f32_products():
    """"ieee" if torch is set to it, for example by torch.backends.fp32_precision = "ieee". Older versions of torch have no such setting."""
    return "ieee" if getattr(torch.backends.cuda.matmul, "fp32_precision", "") == "ieee" else "bf16x6"


def _closeness(given):
    try:
        close = tuple(map(float, given))
    except (TypeError, ValueError):
        close = None
    if close is None or len(close) not in (0, 2) or not all(0 <= c < math.inf for c in close):
        raise ValueError(f"option close of backend mica is a relative and an absolute difference, not {given!r}")
    return close


def options_of(given, mode=None):
    given = {**({"mode": mode} if mode else {}), **(given or {})}
    names = [f.name for f in dataclasses.fields(Options)]
    for name in given:
        if name not in names:
            raise ValueError(f"backend mica has no option {name!r}; there are {', '.join(names)}")
    for name, choices in CHOICES.items():
        if name in given and given[name] not in choices:
            raise ValueError(f"option {name} of backend mica is one of {', '.join(choices)}, not {given[name]!r}")
    for f in dataclasses.fields(Options):
        if f.name in given and isinstance(f.default, (int, float)) and not isinstance(given[f.name], (int, float)):
            raise ValueError(f"option {f.name} of backend mica is a number, not {given[f.name]!r}")
    if "buckets" in given:
        given["buckets"] = tuple(sorted(set(_sizes(given["buckets"], "buckets", 1))))
    if "max_ops" in given:
        given["max_ops"] = tuple(sorted(set(_sizes(given["max_ops"], "max_ops", 1)), reverse=True))
        if not given["max_ops"]:
            raise ValueError("option max_ops of backend mica: there is no size")
    if "close" in given:
        given["close"] = _closeness(given["close"])
    given["summary"] = bool(given.get("summary", os.environ.get("MICA_TORCH_SUMMARY", "1") != "0"))
    given["f32_products"] = given.get("f32_products") or _f32_products()
    given["faults"] = given.get("faults") or os.environ.get("MICA_TORCH_FAULTS", "leave")
    return Options(**given)
