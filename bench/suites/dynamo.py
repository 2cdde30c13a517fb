#!/usr/bin/env python3
"""Models of torch's own benchmark of compilers (benchmarks/dynamo: its lists for transformers and timm), with random weights, by eager mode, Inductor
and Mica: which results are right, and how fast each is.

    dynamo.py [--suites transformers,timm] [--only REGEX] [--csv FILE] [--device cuda|cpu] [--sizes small|wide|full] [--dtype float32|bfloat16|float16]
              [--batch N] [--tokens N] [--time S] [--take faster|all] [--rest inductor|eager] [--trials N] [--deadline S] [--until S] [--workers N]
              [--threads N] [--shuffle SEED] [--calls]

The models are named here, and come from the packages `transformers` and `timm` (which imports `torchvision`); nothing is downloaded. With --sizes full
a model has the default sizes of its class. With `wide` a transformer has two layers of them. With `small` a transformer has the sizes of SMALL and
those of its row, and an image model the arguments of its row; column `changed` has what was changed. Losses are computed where the benchmark has
labels.

Each model runs in a process of its own, which is ended after --deadline seconds. --csv FILE gets a row as soon as a model is done. Rows that FILE
has of the same build, options and method are not run again. --workers N run side by side, which disturbs times. --shuffle SEED runs the models in
random order, so that those that --until leaves are a random sample. With --trials 0 nothing is timed, and Inductor does not compile the whole model.
--take all keeps programs that are not faster, to ask whether they are right.

A model is right where `torch._dynamo.utils.same` says so with the benchmark's tolerance 1e-3, as for eager mode against float64, or for dtypes of 16
bits against float32 where the model does not run in float64. For these dtypes small tensors, such as a loss, may differ more, as in some models of
the benchmark, since eager mode's own error in one number may be near zero by chance. A model is unfit where eager mode fails, failed where an error
kept Mica from running, late after its deadline. A time is the median in rounds that alternate. On a GPU each way is captured as a CUDA graph, as the
benchmark does with Inductor, because calls of small models take as long as the host needs to start kernels. Column `timed` has `calls` for a model
that cannot be captured; --calls captures none. The geometric mean over Inductor is said twice: of all right models, and with 1 for those of which
Mica takes nothing, as both sides run Inductor's code there. Exit status 1: a model is wrong, or failed.
"""
import argparse
import collections
import contextlib
import copy
import csv
import functools
import hashlib
import importlib
import math
import multiprocessing
import os
import platform
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernelbench import device_name, mean  # noqa: E402

SEED, TOLERANCE, ROUNDS = 1337, 1e-3, 5
ENDING = 10  # most seconds from a result to the end of its process
WAYS = ["eager", "inductor", "mica"]
FACTS = ["sizes", "dtype", "batch", "tokens", "time", "take", "rest", "trials", "device", "torch", "package", "mica", "machine", "method"]
COLUMNS = ["suite", "model", "fate", "changed", "parameters", *(f"{w}_us" for w in WAYS), "over_eager", "over_inductor",
           *(f"{w}_error" for w in WAYS), "timed", "graphs", "nodes", "taken", "programs", "first_s", "seconds", "why", "said", *FACTS]

# Sizes of a small transformer. A class gets those that its configuration has, by its own names.
SMALL = {"hidden_size": 256, "d_model": 256, "n_embd": 256, "dim": 256, "embedding_size": 256, "word_embed_proj_dim": 256, "vocab_size": 1024,
         "intermediate_size": 512, "d_ff": 512, "d_inner": 512, "ffn_dim": 512, "hidden_dim": 512, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512,
         "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2,
         "decoder_layers": 2, "num_decoder_layers": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "head_dim": 64, "d_kv": 64}
LAYERS = {name for name in SMALL if "layer" in name}  # what --sizes wide changes
NEO = {"attention_types": [[["global", "local"], 1]]}
WHISPER = {"max_source_positions": 64, "num_mel_bins": 80}

# Keys are the benchmark's names. Values are settings in addition to SMALL, and a class if transformers has none of that name.
TRANSFORMERS = {
    "AlbertForMaskedLM": ({},), "AlbertForQuestionAnswering": ({},), "AllenaiLongformerBase": ({"attention_window": 16}, "LongformerForMaskedLM"),
    "BartForCausalLM": ({},), "BartForConditionalGeneration": ({},), "BertForMaskedLM": ({},), "BertForQuestionAnswering": ({},),
    "BlenderbotForCausalLM": ({},), "BlenderbotForConditionalGeneration": ({},), "BlenderbotSmallForCausalLM": ({},),
    "BlenderbotSmallForConditionalGeneration": ({},), "CamemBert": ({}, "CamembertForMaskedLM"), "DebertaV2ForMaskedLM": ({},),
    "DebertaV2ForQuestionAnswering": ({},), "DistilBertForMaskedLM": ({},), "DistilBertForQuestionAnswering": ({},),
    "DistillGPT2": ({}, "GPT2LMHeadModel"), "ElectraForCausalLM": ({},), "ElectraForQuestionAnswering": ({},),
    "GPT2ForSequenceClassification": ({},), "GPTJForCausalLM": ({},), "GPTJForQuestionAnswering": ({},), "GPTNeoForCausalLM": (NEO,),
    "GPTNeoForSequenceClassification": (NEO,), "GoogleFnet": ({}, "FNetForMaskedLM"), "LayoutLMForMaskedLM": ({},),
    "LayoutLMForSequenceClassification": ({},), "M2M100ForConditionalGeneration": ({},), "MBartForCausalLM": ({},),
    "MBartForConditionalGeneration": ({},), "MT5ForConditionalGeneration": ({},), "MegatronBertForCausalLM": ({},),
    "MegatronBertForQuestionAnswering": ({},), "MobileBertForMaskedLM": ({"embedding_size": 128, "hidden_size": 256},),
    "MobileBertForQuestionAnswering": ({"embedding_size": 128, "hidden_size": 256},), "OPTForCausalLM": ({},), "PLBartForCausalLM": ({},),
    "PLBartForConditionalGeneration": ({},), "PegasusForCausalLM": ({},), "PegasusForConditionalGeneration": ({},), "RobertaForCausalLM": ({},),
    "RobertaForQuestionAnswering": ({},), "T5ForConditionalGeneration": ({},), "T5Small": ({}, "T5ForConditionalGeneration"),
    "TrOCRForCausalLM": ({},), "XGLMForCausalLM": ({},), "XLNetLMHeadModel": ({},), "YituTechConvBert": ({}, "ConvBertForMaskedLM"),
    "meta-llama/Llama-3.2-1B": ({}, "LlamaForCausalLM"), "google/gemma-2-2b": ({}, "Gemma2ForCausalLM"),
    "google/gemma-3-4b-it": ({}, "Gemma3ForCausalLM"), "openai/whisper-tiny": (WHISPER, "WhisperForConditionalGeneration"),
    "Qwen/Qwen3-0.6B": ({}, "Qwen3ForCausalLM"), "mistralai/Mistral-7B-Instruct-v0.3": ({}, "MistralForCausalLM"),
    "openai/gpt-oss-20b": ({"num_local_experts": 4, "num_experts_per_tok": 2}, "GptOssForCausalLM"),
    # not in the benchmark's list
    "PhiForCausalLM": ({},), "Phi3ForCausalLM": ({},), "Qwen2ForCausalLM": ({},), "MixtralForCausalLM": ({"num_local_experts": 4},),
}
VIT = {"img_size": 64, "embed_dim": 192, "depth": 2, "num_heads": 3}

# The name in timm: arguments of create_model in place of the published ones, and pixels of an image's side.
TIMM = {
    "inception_v3": ({}, 96), "beit_base_patch16_224": (VIT, 64), "convnextv2_nano": ({"depths": (1, 1, 1, 1)}, 64),
    "deit_base_distilled_patch16_224": (VIT, 64), "deit_tiny_patch16_224": (VIT, 64), "dm_nfnet_f0": ({}, 64), "ghostnet_100": ({}, 64),
    "mobilenetv2_100": ({}, 64), "mobilenetv3_large_100": ({}, 64), "mobilevit_s": ({}, 64), "nfnet_l0": ({}, 64), "repvgg_a2": ({}, 64),
    "swin_base_patch4_window7_224": ({"img_size": 64, "embed_dim": 32, "depths": (1, 1, 1, 1), "num_heads": (2, 2, 4, 4), "window_size": 4}, 64),
    "tf_efficientnet_b0": ({}, 64), "visformer_small": ({"img_size": 64}, 64),
    "vit_base_patch14_dinov2": ({**VIT, "img_size": 56}, 56), "vit_base_patch16_siglip_256": (VIT, 64),
    # not in the benchmark's list
    "mixer_b16_224": ({"img_size": 64}, 64),
}
SUITES = {"transformers": TRANSFORMERS, "timm": TIMM}


# ---- the models ----

def transformer(name, a):
    """A model of transformers, its inputs, and what of its configuration was changed."""
    import torch
    import transformers
    settings, *other = TRANSFORMERS[name]
    made = getattr(transformers, other[0] if other else name)
    default = made.config_class()
    some = {"small": {**SMALL, **settings}, "wide": {k: v for k, v in {**SMALL, **settings}.items() if k in LAYERS or k == "attention_types"}, "full": {}}
    changed = {k: v for k, v in some[a.sizes].items() if hasattr(default, k) and k not in default.attribute_map}
    config = made.config_class(**changed)
    config.use_cache = False
    if config.pad_token_id is None:
        config.pad_token_id = 0
    model = made(config)
    vocabulary, kind = config.vocab_size, made.__name__

    def ids(most):
        return torch.randint(3, most, (a.batch, a.tokens))
    inputs = {"input_ids": ids(vocabulary)}
    if "Whisper" in kind:
        inputs = {"input_features": torch.randn(a.batch, config.num_mel_bins, 2 * config.max_source_positions), "decoder_input_ids": ids(vocabulary)}
    elif kind.endswith("ForConditionalGeneration"):
        inputs["decoder_input_ids"] = ids(vocabulary)
    if "Bart" in kind:
        inputs["input_ids"][:, -1] = config.eos_token_id
    if kind.endswith("QuestionAnswering"):
        inputs |= {"start_positions": torch.randint(a.tokens, (a.batch,)), "end_positions": torch.randint(a.tokens, (a.batch,))}
    else:
        inputs["labels"] = torch.randint(config.num_labels, (a.batch,)) if kind.endswith("SequenceClassification") else ids(vocabulary)
    return model, inputs, changed


def image_model(name, a):
    """A model of timm, its inputs, and the arguments that were changed."""
    import timm
    import torch
    arguments, side = TIMM[name]
    small = a.sizes == "small"
    model = timm.create_model(name, pretrained=False, **(arguments if small else {}))
    side = side if small else model.default_cfg["input_size"][-1]
    return model, {"x": torch.randn(a.batch, 3, side, side)}, {**arguments, "image": side} if small else {}


MAKE = {"transformers": transformer, "timm": image_model}


# ---- one model, in its process ----

def tensors_of(x):
    import torch
    return [t.clone() for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


def exactly(model, inputs, dtype):
    """Results of the model in float64, as numbers of float64; of smaller dtypes in float32 where it does not run in float64; None where neither runs."""
    import torch
    for wide in ("float64",) if dtype == "float32" else ("float64", "float32"):
        wide = getattr(torch, wide)
        with contextlib.suppress(Exception):
            made = tensors_of(copy.deepcopy(model).to(wide)(**{k: x.to(wide) if x.is_floating_point() else x for k, x in inputs.items()}))
            return [x.double() if x.is_floating_point() else x for x in made]
    return None


def replays(runs, device):
    """name -> its calls captured as a CUDA graph; None if one cannot be captured."""
    import torch

    from mica.torch.measure import captured
    try:
        return {name: captured(f) for name, f in runs.items()}
    except Exception:  # such as an answer that the host waits for
        traceback.print_exc()
        torch.cuda.synchronize()
        return None


def timed(runs, trials, device, capture):
    """Median microseconds of each, in rounds that alternate and each begin with another one, and whether `graphs` or `calls` were timed."""
    from mica.torch.measure import time_calls, turn_on
    graphs = replays(runs, device) if capture else None
    names, took, runs = list(runs), {name: [] for name in runs}, graphs or runs
    with turn_on(device):
        for r in range(ROUNDS):
            for name in names[r % len(names):] + names[:r % len(names)]:
                runs[name]()
                took[name] += [time_calls(runs[name], 1, device) for _ in range(max(1, trials // ROUNDS))]
    return {name: statistics.median(x) for name, x in took.items()}, "graphs" if graphs else "calls"


def run(suite, name, a):
    import torch
    from torch._dynamo.utils import same

    from mica.torch import backend
    from mica.torch.compiler import _listeners
    from mica.torch.measure import distance
    from mica.torch.summary import five_lines
    torch.set_num_threads(a.threads), torch.manual_seed(SEED)
    model, inputs, changed = MAKE[suite](name, a)
    device = torch.device(a.device, 0) if a.device == "cuda" else torch.device("cpu")
    model = model.eval().to(device, getattr(torch, a.dtype))
    inputs = {k: x.to(device, getattr(torch, a.dtype) if x.is_floating_point() else x.dtype) for k, x in inputs.items()}
    made = {"changed": " ".join(f"{k}={v}" for k, v in changed.items()), "parameters": sum(p.numel() for p in model.parameters())}
    with torch.no_grad():
        try:
            want = tensors_of(model(**inputs))
            if device.type == "cuda":
                torch.cuda.synchronize()  # an index out of range is said late
        except Exception as error:
            return made | {"fate": "unfit", "why": f"eager mode fails: {type(error).__name__}: {error}"[:300]}
        exact, runs, graphs = exactly(model, inputs, a.dtype), {"eager": model}, []
        if a.trials:
            runs["inductor"] = torch.compile(model)
            runs["inductor"](**inputs)
        _listeners.lists = [graphs]
        options = {"time": a.time, "take": a.take, "rest": a.rest, "summary": False, "faults": "raise",
                   "graphs": device.type == "cuda" and not a.calls,
                   **({"min_ops": 1, "min_work": 0} if a.take == "all" else {})}
        runs["mica"] = torch.compile(model, backend=backend, options=options)
        began = time.monotonic()
        got = {name: tensors_of(f(**inputs)) for name, f in runs.items()}
        made["first_s"] = f"{time.monotonic() - began:.1f}"
        def passes(results):
            return same(want, results, exact, tol=TOLERANCE, equal_nan=True, use_larger_multiplier_for_smaller_tensor=a.dtype != "float32")
        made["fate"] = "right" if passes(got["mica"]) else "wrong"
        if made["fate"] == "wrong" and a.trials and not passes(got["inductor"]):
            made["why"] = "Inductor's results fail the check, too"
        for way, results in got.items():
            off = [distance(g, w) for g, w in zip(results, exact or want) if w.is_floating_point()]
            made[f"{way}_error"] = f"{max(o / s if s else o for o, s in off):.1e}"
        calls = {name: functools.partial(f, **inputs) for name, f in runs.items()}
        us, made["timed"] = timed(calls, a.trials, device, device.type == "cuda" and not a.calls) if a.trials else ({}, "")
    made |= {f"{way}_us": f"{t:.1f}" for way, t in us.items()}
    made |= {f"over_{way}": f"{us[way] / us['mica']:.3f}" for way in us if way != "mica"}
    return made | {"graphs": len(graphs), "nodes": sum(len(g.nodes) for g in graphs), "taken": sum(len(g.taken) for g in graphs),
                   "programs": sum(len(g.used) for g in graphs), "said": "; ".join(x.strip() for x in five_lines(graphs).split("\n")[1:4])}


def child(suite, name, a, log, pipe):
    """Runs a model, and sends its row."""
    os.setsid()  # with what it begins it is ended together
    for to in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), to)
    try:
        pipe.send(run(suite, name, a))
    except BaseException as error:
        traceback.print_exc()
        pipe.send({"fate": "failed", "why": f"{type(error).__name__}: {error}".replace("\n", " ")[:300]})


def asked(suite, name, a, context, limit):
    """The row of a model, None if all of the time was over."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        mine, its = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(suite, name, a, log.name, its))
        process.start(), its.close()
        made = None
        with contextlib.suppress(EOFError):
            if mine.poll(limit):
                made = mine.recv()
            else:
                made = {"fate": "late", "why": f"after {limit:g} seconds"} if limit >= a.deadline else {}
        process.join(0 if made is None or made.get("fate") == "late" else ENDING)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it began, too
        process.join()
        if made is None:
            made = {"fate": "failed", "why": f"exit status {process.exitcode}: {log.read()[-300:]}".replace("\n", " ")}
        return made or None


# ---- all models ----

def facts(a):
    """suite -> what its rows have of build, options and machine."""
    import torch

    import mica
    with open(__file__, "rb") as f:
        method = hashlib.sha256(b"%s %d %d %d" % (f.read(), a.workers, a.threads, a.calls)).hexdigest()[:12]
    cpu = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            cpu = (re.search(r"model name\s*: (.*)", f.read()) or [0, ""])[1]
    version = " ".join(map(str, mica._mica.version()))
    same = {"sizes": a.sizes, "dtype": a.dtype, "batch": a.batch, "tokens": a.tokens, "time": a.time, "take": a.take, "rest": a.rest, "trials": a.trials, "device": device_name(a.device), "torch": torch.__version__,
            "mica": version, "machine": f"{cpu or platform.machine()}, {os.cpu_count()} processors", "method": method}
    return {s: same | {"package": f"{s} {importlib.import_module(s).__version__}"} for s in a.suites}


def rows_of(path, same):
    """(suite, model) -> its row of an earlier run."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, newline="") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    return {(r["suite"], r["model"]): r for r in rows if r["suite"] in same and all(str(r.get(k)) == str(v) for k, v in same[r["suite"]].items())}


def summary(rows):
    for suite in sorted({r["suite"] for r in rows}):
        some = [r for r in rows if r["suite"] == suite]
        fates = collections.Counter(r["fate"] for r in some)
        line = f"{suite}: {len(some)} models, " + ", ".join(f"{n} {fate}" for fate, n in fates.most_common())
        timed = [r for r in some if r["fate"] == "right" and r.get("over_inductor")]
        if timed:
            ratios = [(float(r["over_inductor"]), int(r["taken"])) for r in timed]
            every, where_taken = mean([x for x, _ in ratios]), mean([x if n else 1 for x, n in ratios])
            line += f"; over Inductor {every:.3f}, with 1 where nothing is taken {where_taken:.3f}"
            line += f"; over eager mode {mean([float(r['over_eager']) for r in timed]):.3f}"
        print(line)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--suites", type=lambda s: s.split(","), default=list(SUITES)), p.add_argument("--csv")
    p.add_argument("--only", default="", help="a regular expression of names"), p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--sizes", default="small", choices=("small", "wide", "full"), help="`wide`: two layers of the class's default sizes")
    p.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16")), p.add_argument("--time", type=float, default=30)
    p.add_argument("--batch", type=int, default=2), p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--take", default="faster", choices=("faster", "all")), p.add_argument("--rest", default="inductor", choices=("inductor", "eager"))
    p.add_argument("--trials", type=int, default=30, help="calls that are timed"), p.add_argument("--deadline", type=float, default=600)
    p.add_argument("--until", type=float, default=math.inf, help="seconds after which nothing runs"), p.add_argument("--workers", type=int, default=1)
    p.add_argument("--threads", type=int, default=2, help="of a model on the CPU"), p.add_argument("--shuffle", type=int, default=0)
    p.add_argument("--calls", action="store_true", help="time plain calls on a GPU, too")
    a = p.parse_args()
    if set(a.suites) - set(SUITES):
        p.error(f"the suites are {', '.join(SUITES)}")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ.setdefault("MICA_GPU_LOCK", os.path.join(tempfile.mkdtemp(), "lock"))
    context = multiprocessing.get_context("spawn" if a.device == "cuda" else "forkserver")  # these modules begin CUDA, which survives no fork
    if a.device != "cuda":
        context.set_forkserver_preload(["torch._inductor.compile_fx", "torch._dynamo.utils", "mica.torch", *a.suites])
    same, began, lock = facts(a), time.monotonic(), threading.Lock()
    models = [(s, name) for s in a.suites for name in SUITES[s] if re.search(a.only, name)]
    if a.shuffle:
        random.Random(a.shuffle).shuffle(models)
    done = rows_of(a.csv, same)
    rows = [done[m] for m in models if m in done]
    with open(a.csv or os.devnull, "w", newline="") as f, ThreadPoolExecutor(a.workers) as pool:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader(), out.writerows(rows), f.flush()

        def one(model):
            start = time.monotonic()
            limit = min(a.deadline, a.until - (start - began))
            made = asked(*model, a, context, limit) if limit > 0 else None
            if made is None:
                return
            row = {"suite": model[0], "model": model[1], **made, "seconds": f"{time.monotonic() - start:.1f}", **same[model[0]]}
            with lock:
                rows.append(row), out.writerow(row), f.flush()
                print(f"{model[1]:42}{row['fate']:8}{row.get('over_inductor', ''):>8} {row.get('taken', ''):>5} of {row.get('nodes', ''):<6}"
                      f"{row.get('why', '')[:120]}", flush=True)
        list(pool.map(one, [m for m in models if m not in done]))
    summary(rows)
    return int(any(r["fate"] in ("wrong", "failed") for r in rows))


if __name__ == "__main__":
    sys.exit(main())
