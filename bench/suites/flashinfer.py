#!/usr/bin/env python3
"""A solution of FlashInfer-Bench (github.com/flashinfer-ai/flashinfer-bench) from one of its definitions, through the ABI of tvm-ffi.

    flashinfer.py DEFINITION.json --out SOLUTION.json [--workloads FILE.jsonl] [--axes batch_size=1,M=16]... [--target sm_90a] [--check] [--list]
                  [--mica build/mica] [--folder DIR] [-- OPTIONS OF mica optimize]

A definition has axes that vary. Each set of their values, from the workloads of a file or from --axes, becomes a program of its own, which
`mica optimize` makes kernels of; the solution's function `run` picks one by the shapes of its arguments. --check holds each program against the
definition's reference code (torch, on the CPU). --list prints the kinds of definitions that have a program, and exits. Definitions whose tensors are
found by indices (paged and ragged attention, mixtures of experts by token) have no row yet. Exit status 0; 1: a program differs
from the reference; 2: there is no program for the definition.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
TOLERANCE = {"f16": 5e-3, "bf16": 4e-2, "f32": 1e-4}


class Refused(Exception):
    pass


# ---- programs: a row a kind of definition ----

def epsilon(definition):
    m = re.search(r"(?i)\beps(?:ilon)?\s*=\s*([0-9.]+(?:e[-+]?\d+)?)", definition["reference"])
    if not m:
        raise Refused("the reference does not say its epsilon")
    return m[1]


def gemm(d, names):
    a, b = names
    return [f"matmul({a}, transpose({b}))"]


def rmsnorm(d, names):
    x, w = names
    return [f"rms_norm({x}, {w}, eps={epsilon(d)})"]


def add_rmsnorm(d, names):
    x, residual, w = names
    return [f"rms_norm({x} + {residual}, {w}, eps={epsilon(d)})", f"{x} + {residual}"][:len(d["outputs"])]


# op_type, number of inputs: the results' expressions
PROGRAMS = {("gemm", 2): gemm, ("rmsnorm", 2): rmsnorm, ("rmsnorm", 3): add_rmsnorm, ("fused_add_rmsnorm", 3): add_rmsnorm}


def extents(definition, tensor, sizes):
    if tensor["shape"] is None:
        raise Refused("it has scalar arguments")
    axes = definition["axes"]
    return [int(axes[a]["value"] if axes[a]["type"] == "const" else sizes[a]) for a in tensor["shape"]]


def program(definition, sizes, name):
    """The definition at these sizes, in the language of Mica."""
    make = PROGRAMS.get((definition["op_type"], len(definition["inputs"])))
    if not make:
        raise Refused(f"there is no program for {definition['op_type']} of {len(definition['inputs'])} inputs")
    other = [t["dtype"] for t in (*definition["inputs"].values(), *definition["outputs"].values()) if t["dtype"] not in TYPES]
    if other:
        raise Refused(f"Mica has no {other[0]}")
    lines = [f"  {n}: {TYPES[t['dtype']]}[{', '.join(map(str, extents(definition, t, sizes)))}]" for n, t in definition["inputs"].items()]
    results = make(definition, list(definition["inputs"]))
    if len(results) != len(definition["outputs"]):
        raise Refused(f"the definition has {len(definition['outputs'])} outputs")
    return "\n".join([f"program {name} {{", *lines, f"  return {', '.join(results)}", "}", ""])


# ---- sizes ----

def varying(definition):
    return [a for a, v in definition["axes"].items() if v["type"] == "var"]


def all_sizes(definition, a):
    """The sets of values, each once, in their order."""
    found = [dict(pair.split("=") for pair in text.split(",")) for text in a.axes]
    if a.workloads:
        with open(a.workloads, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f if line.strip()]
        found += [r["workload"]["axes"] for r in rows if r["definition"] == definition["name"]]
    names, sets = varying(definition), []
    for one in found:
        if set(one) != set(names):
            raise Refused(f"its varying axes are {', '.join(names)}, not {', '.join(one)}")
        values = {n: int(one[n]) for n in names}
        if values not in sets:
            sets.append(values)
    if not sets:
        raise Refused(f"name sizes by --workloads or --axes: {', '.join(names) or 'there are no varying axes'}")
    return sets


# ---- the solution ----

DISPATCH = """// Picks the program by the sizes of its arguments. The structures are those of tvm-ffi's c_api.h.
#include <stdint.h>

struct ffi_tensor {{
  void *data;
  int32_t device, device_id, ndim;
  uint32_t type;
  int64_t *shape, *strides;
  uint64_t byte_offset;
}};
struct ffi_any {{
  int32_t kind;
  uint32_t zero;
  char *value;
}};
typedef int ffi_function(void *self, const ffi_any *args, int32_t nargs, ffi_any *result);
extern "C" {{
{declarations}
}}

static int64_t extent(const ffi_any *args, int32_t nargs, int i, int dim)
{{
  if (i >= nargs || (args[i].kind != 7 && args[i].kind != 70)) return -1;
  const ffi_tensor *t = (const ffi_tensor *)(args[i].value + (args[i].kind == 70 ? 24 : 0));
  return dim < t->ndim ? t->shape[dim] : -1;
}}

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_run(void *self, const ffi_any *args, int32_t nargs, ffi_any *result)
{{
{cases}
  return __tvm_ffi_{first}(self, args, nargs, result); // says which argument has another shape
}}
"""


def place(definition, axis):
    """Argument and dimension that have the axis."""
    for i, t in enumerate(definition["inputs"].values()):
        if axis in t["shape"]:
            return i, t["shape"].index(axis)
    raise Refused(f"no input has the axis {axis}")


def dispatcher(definition, made):
    cases = []
    for name, sizes in made:
        tests = [f"extent(args, nargs, {i}, {k}) == {sizes[axis]}" for axis in varying(definition) for i, k in [place(definition, axis)]]
        cases.append(f"  if ({' && '.join(tests) or 'true'}) return __tvm_ffi_{name}(self, args, nargs, result);")
    return DISPATCH.format(declarations="\n".join(f"ffi_function __tvm_ffi_{n};" for n, _ in made), cases="\n".join(cases), first=made[0][0])


def solution(definition, made, folders, target, version):
    sources = [{"path": "solution.cu", "content": dispatcher(definition, made)}]
    for name, _ in made:
        with open(os.path.join(folders[name], "kernel.cu"), encoding="utf-8") as f:
            sources.append({"path": f"{name}.cu", "content": f.read()})
    sizes = "; ".join(", ".join(f"{k}={v}" for k, v in s.items()) for _, s in made)
    return {"name": f"mica_{definition['name']}_{target}", "definition": definition["name"], "author": "mica",
            "description": f"Kernels found and proved by Mica {version} for {target}, for {sizes}",
            "spec": {"language": "cuda", "target_hardware": ["cuda"], "entry_point": "solution.cu::run", "dependencies": ["cublas"],
                     "destination_passing_style": True, "binding": "tvm-ffi"}, "sources": sources}


# ---- against the reference ----

def check(definition, sizes, path, mica, folder):
    """The largest relative norm of a difference between `mica run` and the reference, in the reference's own precision."""
    import numpy as np
    import torch
    names = {"__name__": "reference"}
    exec(compile(definition["reference"], "reference", "exec"), names)
    torch.manual_seed(1)
    inputs, words = [], []
    for name, t in definition["inputs"].items():
        x = (torch.randn(extents(definition, t, sizes)) * 0.5).to(getattr(torch, t["dtype"]))
        np.save(os.path.join(folder, f"{name}.npy"), x.float().numpy())
        inputs.append(x), words.append(f"{name}={os.path.join(folder, name)}.npy")
    out = os.path.join(folder, "out")
    subprocess.run([mica, "run", path, *words, "--out", out, "--quiet"], check=True)
    want = names["run"](*inputs)
    files = sorted((f for f in os.listdir(out) if f.endswith(".npy")), key=lambda f: int("0" + "".join(filter(str.isdigit, f))))
    worst = 0.0
    for file, w in zip(files, want if isinstance(want, (tuple, list)) else [want], strict=True):
        w = w.double().numpy()
        worst = max(worst, float(np.linalg.norm(np.load(os.path.join(out, file)).reshape(w.shape) - w) / np.linalg.norm(w)))
    return worst, max(TOLERANCE[TYPES[t["dtype"]]] for t in definition["outputs"].values())


def work(a, definition, folder):
    made, folders, wrong = [], {}, False
    base = re.sub(r"\W", "_", definition["name"])
    for sizes in all_sizes(definition, a):
        name = "_".join([base, *(re.sub(r"\W", "_", k) + str(v) for k, v in sizes.items())])
        path, folders[name] = os.path.join(folder, f"{name}.mica"), os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(program(definition, sizes, name))
        if a.check:
            error, most = check(definition, sizes, path, a.mica, folder)
            print(f"{name}: differs from the reference by {error:.1e}, at most {most:.0e}", flush=True)
            wrong |= not error <= most
        subprocess.run([a.mica, "optimize", path, "--target", a.target, "--out", folders[name], "--quiet", *a.options], check=True)
        made.append((name, sizes))
        print(f"{name}: optimized", flush=True)
    version = subprocess.run([a.mica, "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0].removeprefix("mica ")
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(solution(definition, made, folders, a.target, version), f, indent=1)
    return int(wrong)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("definition", nargs="?"), p.add_argument("--out"), p.add_argument("--workloads")
    p.add_argument("--axes", action="append", default=[])
    p.add_argument("--target", default="sm_90a"), p.add_argument("--check", action="store_true"), p.add_argument("--list", action="store_true")
    p.add_argument("--mica", default="build/mica"), p.add_argument("--folder", help="of programs and kernels; a temporary one unless given")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    a = p.parse_args(words[:cut])
    a.options = words[cut + 1:]
    if a.list:
        print("\n".join(f"{kind}, {n} inputs" for kind, n in PROGRAMS))
        return 0
    if not (a.definition and a.out):
        p.error("DEFINITION.json and --out")
    with open(a.definition, encoding="utf-8") as f:
        definition = json.load(f)
    try:
        if a.folder:
            os.makedirs(a.folder, exist_ok=True)
            return work(a, definition, a.folder)
        with tempfile.TemporaryDirectory() as folder:
            return work(a, definition, folder)
    except Refused as why:
        print(f"{definition.get('name')}: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
