"""Weights: arrays by the names of transformers for the plan's tensors, and files of safetensors. Files may come from anywhere, so every number in
them is checked."""
from __future__ import annotations

import json
import mmap
import os

from .._mica import UsageError

# name of a type in safetensors -> bytes, and numpy's dtype of the words that hold it
TYPES = {"F32": (4, "f4"), "F16": (2, "f2"), "BF16": (2, "u2"), "F64": (8, "f8")}
MOST_HEADER, MOST_DIMS = 100 << 20, 8


def as_float32(array):
    """A numpy array of float32 from an array of any library, or from the pair ("BF16", words) of read_safetensors."""
    import numpy as np
    if isinstance(array, tuple):
        return (array[1].astype("u4") << 16).view("f4")
    if hasattr(array, "detach"):  # torch
        array = array.detach().to("cpu").float().numpy()
    elif not hasattr(array, "__array__") and hasattr(array, "__dlpack__"):
        array = np.from_dlpack(array)
    return np.asarray(array).astype("f4", copy=False)


# ---- names of transformers ----

def _matrix(a):
    return a.T


def from_transformers(source, tensors, config):
    """Yields (name of the plan, array of float32) for each weight. One error lists all missing and unknown names."""
    import numpy as np
    layers, tied = tensors["Wqkv"][2][0], "head_table" not in tensors
    parts = {"table": ("model.embed_tokens.weight",), "final_norm": ("model.norm.weight",)}
    if not tied:
        parts["head_table"] = ("lm_head.weight",)
    by_layer = {"attn_norm": ("input_layernorm",), "Wqkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "Wo": ("self_attn.o_proj",),
                "mlp_norm": ("post_attention_layernorm",), "Wgate_up": ("mlp.gate_proj", "mlp.up_proj"), "Wdown": ("mlp.down_proj",)}
    experts = {}  # weight of the plan -> for each expert of a layer, the names of its matrices
    if "Wrouter" in tensors:
        by_layer["Wrouter"] = ("mlp.gate",)
        del by_layer["Wgate_up"], by_layer["Wdown"]
        experts = {name: [tuple(f"mlp.experts.{e}.{n}" for n in ns) for e in range(tensors[name][2][1])]
                   for name, ns in (("Wgate_up", ("gate_proj", "up_proj")), ("Wdown", ("down_proj",)))}
    if "q_norm" in tensors:
        by_layer |= {"q_norm": ("self_attn.q_norm",), "k_norm": ("self_attn.k_norm",)}
    wanted = {n for ns in parts.values() for n in ns}
    wanted |= {f"model.layers.{l}.{n}.weight" for ns in by_layer.values() for n in ns for l in range(layers)}
    wanted |= {f"model.layers.{l}.{n}.weight" for of in experts.values() for ns in of for n in ns for l in range(layers)}
    given = set(source)
    missing = sorted(wanted - given)
    unknown = sorted(n for n in given - wanted if not n.endswith(("rotary_emb.inv_freq",)) and not (tied and n == "lm_head.weight"))
    if missing or unknown:
        raise UsageError("weights " + " and ".join(f"{what}: {', '.join(ns[:8])}{' ...' if len(ns) > 8 else ''}"
                                                   for what, ns in (("that are missing", missing), ("that are not known", unknown)) if ns))

    def take(name, shape):
        a = as_float32(source[name])
        if tuple(a.shape) != tuple(shape):
            raise UsageError(f"{name} has the shape {list(a.shape)}, and the configuration says {list(shape)}")
        return a

    for name, (one,) in parts.items():
        shape = tensors[name][2]
        yield name, np.ascontiguousarray(take(one, shape if name != "final_norm" else shape[1:])).reshape(shape)
    for name, ns in by_layer.items():
        shape = tensors[name][2]
        out = np.empty(shape, "f4")
        for l in range(layers):
            full = [f"model.layers.{l}.{n}.weight" for n in ns]
            if len(shape) == 2:
                out[l] = take(full[0], shape[1:])
            elif name == "Wgate_up":
                for i, n in enumerate(full):
                    out[l, i] = _matrix(take(n, shape[:1:-1]))
            else:
                at = 0
                for n in full:
                    rows = as_float32(source[n]).shape[0] if len(full) > 1 else shape[2]
                    if at + rows > shape[2]:
                        raise UsageError(f"{n} has {rows} rows, and {shape[2] - at} of {shape[2]} are left")
                    out[l, :, at:at + rows] = _matrix(take(n, (rows, shape[1])))
                    at += rows
                if at != shape[2]:
                    raise UsageError(f"{', '.join(full)} have {at} rows, and the configuration says {shape[2]}")
        yield name, out
    for name, of in experts.items():
        shape = tensors[name][2]
        out = np.empty(shape, "f4")
        for l in range(layers):
            for e, ns in enumerate(of):
                for n, to in zip(ns, out[l, e] if len(ns) > 1 else out[l, e:e + 1]):
                    to[...] = _matrix(take(f"model.layers.{l}.{n}.weight", shape[:-3:-1]))
        yield name, out


# ---- safetensors ----

def _bad(path, what):
    return UsageError(f"{path}: no file of safetensors: {what}")


def _once(pairs):
    """A dictionary of the pairs of a JSON object. A name that is there twice is an error."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name that is there twice")
    return found


def _header(path, f, size):
    start = f.read(8)
    n = int.from_bytes(start, "little")
    if len(start) < 8 or n > min(size - 8, MOST_HEADER):
        raise _bad(path, "its header is longer than the file")
    try:
        header = json.loads(f.read(n).decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        raise _bad(path, f"its header is no JSON ({str(e)[:80]})") from None
    if not isinstance(header, dict):
        raise _bad(path, "its header is no object")
    return header, 8 + n


def _entry(path, name, x, room):
    if not isinstance(x, dict) or not isinstance(x.get("shape"), list) or not isinstance(x.get("data_offsets"), list) or len(x["data_offsets"]) != 2:
        raise _bad(path, f"{name[:80]} lacks dtype, shape or data_offsets")
    if not isinstance(x.get("dtype"), str) or x["dtype"] not in TYPES:
        raise _bad(path, f"{name[:80]} is {str(x.get('dtype'))[:20]}; types are {', '.join(TYPES)}")
    bytes_, word = TYPES[x["dtype"]]
    count = 1
    if len(x["shape"]) > MOST_DIMS:
        raise _bad(path, f"{name[:80]} has {len(x['shape'])} dimensions, at most {MOST_DIMS}")
    for d in [*x["shape"], *x["data_offsets"]]:
        if type(d) is not int or not 0 <= d < 1 << 60:
            raise _bad(path, f"{name[:80]} has a number that is no size")
    for d in x["shape"]:
        count *= d
    begin, end = x["data_offsets"]
    if end > room or end - begin != count * bytes_:
        raise _bad(path, f"{name[:80]} has {end - begin} bytes at {begin}; its shape needs {count * bytes_}, and the file has {room}")
    return begin, count, word


def _apart(path, places):
    """Refuses tensors that share bytes. places: (begin, end, name)."""
    end, before = 0, ""
    for begin, to, name in sorted(places):
        if begin < end:
            raise _bad(path, f"{name[:80]} overlaps {before[:80]}")
        if to > begin:
            end, before = to, name


def _read_file(path, out):
    import numpy as np
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        header, start = _header(path, f, size)
        memory = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    places = []
    for name, x in header.items():
        if name == "__metadata__":
            continue
        begin, count, word = _entry(path, name, x, size - start)
        if name in out:
            raise _bad(path, f"{name[:80]} is in two files")
        array = np.frombuffer(memory, word, count, start + begin).reshape(x["shape"])
        out[name] = ("BF16", array) if x["dtype"] == "BF16" else array
        places.append((*x["data_offsets"], name))
    _apart(path, places)


def read_safetensors(path) -> dict:
    """All tensors of a file, or of the files of a folder: name -> array, mapped from the file. A tensor of bfloat16 is the pair ("BF16", its words of
    16 bits). UsageError names the file and the tensor that is wrong."""
    path, out = os.fspath(path), {}
    files = [path]
    if os.path.isdir(path):
        files = sorted(os.path.join(path, n) for n in os.listdir(path) if n.endswith(".safetensors"))
        if not files:
            raise UsageError(f"{path}: there is no file *.safetensors")
    for f in files:
        _read_file(f, out)
    return out
