#!/usr/bin/env python3
"""Time decode steps of whole models. Compares transformers with a static cache, run by torch, with the persistent kernel of mica.models.

    python bench/torch_decode.py examples/mega/llama_3_2_1b.json --cache 512,4096 --batch 1,8 > bench/torch_decode_h200.csv
    # on a CPU
    python bench/torch_decode.py examples/mega/llama_3_2_1b.json --layers 2 --cache 512 --batch 1 --ways eager,inductor,backend --repeats 3

A row is a model, a cache, a batch and a way to run it: microseconds of a step, the median and the quartiles of `--repeats` runs of 32 steps each,
with tokens that follow one another. All ways stand 64 positions before the end of the cache. Ways:

    eager            transformers, captured in one CUDA graph
    inductor         torch.compile, captured in one CUDA graph
    reduce-overhead  torch.compile(mode="reduce-overhead"), called
    max-autotune     torch.compile(mode="max-autotune-no-cudagraphs"), captured in one CUDA graph; takes minutes
    backend          torch.compile(backend="mica"), captured in one CUDA graph
    mica             mica.models, 32 steps in one launch
    mica one step    mica.models, a launch a step

--fidelity N compares N steps of transformers in bfloat16 and of Mica, one row each, with transformers in float32, on the same weights and tokens: the
largest KL divergence of a step, and the largest difference of the negative log-likelihood of the next token. On the CPU the same runs in float32,
with one step a launch.
"""
import argparse
import csv
import json
import os
import statistics
import sys
import time

import torch
import transformers
from commit import commit
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

import mica
import mica.models
import mica.torch

FAMILIES = {"llama": mica.models.Llama, "qwen3": mica.models.Qwen3}
STEPS, BEFORE = 32, 64  # steps of a run; positions that are left at its begin
FIELDS = ("model", "cache", "batch", "way", "us", "p25", "p75", "repeats", "best torch over this", "kl", "nll", "first call s", "error")


def model_of(fields, dtype, device):
    config = AutoConfig.for_model(**{k: v for k, v in fields.items() if k != "torch_dtype"})
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval().requires_grad_(False)


class Decode:
    """A model with its cache and its next token. step() runs in place, so a CUDA graph may hold it."""

    def __init__(self, model, batch, most):
        self.model, self.most = model, most
        self.cache = StaticCache(config=model.config, max_cache_len=most)
        self.token = torch.ones(batch, 1, dtype=torch.long, device=model.device)
        self.forward = model.forward
        self.logits = self.step()  # allocates the cache
        for layer in self.cache.layers:
            layer.keys.normal_(), layer.values.normal_()

    def step(self):
        logits = self.forward(input_ids=self.token, past_key_values=self.cache, use_cache=True).logits[:, -1]
        self.token.copy_(logits.argmax(-1, keepdim=True))
        return logits

    def go_to(self, position):
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(position)


def quartiles(seconds):
    us = sorted(s / STEPS * 1e6 for s in seconds)
    cut = statistics.quantiles(us, n=4) if len(us) > 1 else us * 3
    return round(statistics.median(us), 1), round(cut[0], 1), round(cut[2], 1)


def timed(run, device):
    if device != "cuda":
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def by_torch(model, way, batch, most, repeats):
    """(quartiles of a step, seconds of the first call)"""
    torch._dynamo.reset()
    device, d = model.device.type, Decode(model, batch, most)
    mode = {"reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune-no-cudagraphs"}.get(way)
    if way == "backend":
        d.forward = torch.compile(model.forward, backend=mica.torch.backend, fullgraph=True)
    elif way != "eager":
        d.forward = torch.compile(model.forward, mode=mode, fullgraph=True)
    first = time.perf_counter()
    for _ in range(3):
        d.go_to(most - BEFORE)
        d.step()
    if device == "cuda":
        torch.cuda.synchronize()
    first = time.perf_counter() - first
    one = d.step
    if device == "cuda" and way != "reduce-overhead":
        graph = torch.cuda.CUDAGraph()
        d.go_to(most - BEFORE)
        with torch.cuda.graph(graph):
            d.step()
        one = graph.replay
    seconds = []
    for _ in range(repeats + 1):
        d.go_to(most - BEFORE)
        seconds.append(timed(lambda: [one() for _ in range(STEPS)], device))
    return quartiles(seconds[1:]), first


def rows_at(model, batch, most, position):
    """A seat for each row. Each row is a request with its own pages."""
    each = -(-most // model.slots)
    return [mica.mega.Row(r, 1, position, tuple(range(1 + r * each, 1 + (r + 1) * each))) for r in range(batch)]


def by_mica(fields, batch, most, repeats, device, weights=None):
    """(model, {steps a launch: quartiles of a step}, seconds of opening it)"""
    first = time.perf_counter()
    engine = {"cuda": "gpu", "cpu": "cpu"}[device]
    model = mica.mega.from_config(fields, engine=engine, rows=batch, pages=1 + batch * -(-most // 64))
    model = model.load(weights) if weights is not None else model.random(1)
    first = time.perf_counter() - first
    for at in range(0, most - BEFORE, STEPS):  # fills the cache by decoding
        model.step(rows_at(model, batch, most, at), STEPS)
    out = {}
    for steps in (STEPS, 1):
        seconds = []
        for i in range(repeats + 1):
            whole = 0
            for at in range(0, STEPS, steps):
                model.step(rows_at(model, batch, most, most - BEFORE + at), steps)
                whole += model.seconds
            seconds.append(whole)
        out[steps] = quartiles(seconds[1:])
    return model, out, first


def fidelity(model, fields, steps, most):
    """{way: (largest KL against float32, largest difference of the negative log-likelihood)}, each in nats, of `steps` tokens by a seed."""
    device = model.device.type
    torch.manual_seed(2)
    tokens = torch.randint(0, model.config.vocab_size, (steps + 1,)).tolist()

    def by(m):
        d, out = Decode(m, 1, most), []
        d.go_to(0)
        for t in tokens[:-1]:
            d.token.fill_(t)
            out.append(d.step()[0].double().cpu())
        return out
    got = {"torch": by(model)}
    state = model.state_dict()
    kernel = mica.mega.from_config(fields, engine={"cuda": "gpu", "cpu": "cpu"}[device], rows=1, pages=1 + -(-most // 64))
    tied = "lm_head.weight" in state and fields.get("tie_word_embeddings")
    kernel.load({k: v for k, v in state.items() if not (tied and k == "lm_head.weight")})
    got["mica"] = []
    for at, t in enumerate(tokens[:-1]):
        row = rows_at(kernel, 1, most, at)[0]._replace(token=t)
        _, logits = kernel.step([row], 1, True)
        got["mica"].append(torch.from_dlpack(logits).clone()[0].double())
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    want = [x.log_softmax(-1) for x in by(model.float())]
    model.to(torch.bfloat16 if device == "cuda" else torch.float32)
    out = {}
    for way, logits in got.items():
        have = [x.log_softmax(-1) for x in logits]
        kl = max(float((w.exp() * (w - h)).sum()) for w, h in zip(want, have))
        nll = max(abs(float(w[t] - h[t])) for w, h, t in zip(want, have, tokens[1:]))
        out[way] = (f"{kl:.2g}", f"{nll:.2g}")
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="+", help="config.json")
    arguments.add_argument("--cache", default="512,4096", help="positions of the cache")
    arguments.add_argument("--batch", default="1,8")
    arguments.add_argument("--ways", default="eager,inductor,reduce-overhead,mica")
    arguments.add_argument("--layers", type=int, help="in place of the model's")
    arguments.add_argument("--repeats", type=int, default=10)
    arguments.add_argument("--fidelity", type=int, default=0, metavar="STEPS")
    options = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"# {machine}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"mica {mica.__version__} {commit()}")
    out = csv.DictWriter(sys.stdout, FIELDS)
    out.writeheader()
    ways = options.ways.split(",")
    for path in options.models:
        with open(path, encoding="utf-8") as f:
            fields = json.load(f)
        name = os.path.basename(path).removesuffix(".json")
        if options.layers:
            fields["num_hidden_layers"], name = options.layers, f"{name} {options.layers} layers"
        model = model_of(fields, torch.bfloat16 if device == "cuda" else torch.float32, device)
        same = {}
        if options.fidelity:
            same = fidelity(model, fields, options.fidelity, 64)
        for most in map(int, options.cache.split(",")):
            for batch in map(int, options.batch.split(",")):
                rows = []
                for way in ways:
                    row = {"model": name, "cache": most, "batch": batch, "way": way,
                           "repeats": options.repeats}
                    row["kl"], row["nll"] = same.get("mica" if way == "mica" else "torch", ("", ""))
                    try:
                        if way == "mica":
                            kernel, times, first = by_mica(fields, batch, most, options.repeats, device)
                            row["us"], row["p25"], row["p75"] = times[STEPS]
                            row["first call s"] = round(first, 1)
                            rows.append(row)
                            row = {**row, "way": "mica one step"}
                            row["us"], row["p25"], row["p75"] = times[1]
                            del kernel
                        else:
                            (row["us"], row["p25"], row["p75"]), first = by_torch(model, way, batch, most, options.repeats)
                            row["first call s"] = round(first, 1)
                    except Exception as e:  # a failed way gets a row with the error
                        row["error"] = f"{type(e).__name__}: {str(e)[:200]}".replace("\n", " ")
                    rows.append(row)
                ours = ("mica", "mica one step", "backend")
                best = min((r["us"] for r in rows if "us" in r and r["way"] not in ours), default=None)
                for r in rows:
                    if best and r["way"] in ours and "us" in r:
                        r["best torch over this"] = round(best / r["us"], 3)
                    out.writerow(r)
                sys.stdout.flush()
        del model
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
