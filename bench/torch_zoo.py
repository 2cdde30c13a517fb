#!/usr/bin/env python3
"""Models of Hugging Face's transformers, with few and small layers of random weights, by torch.compile(backend="mica"): which nodes become
programs, and how far results are from those of the model in float32, beside eager mode's.

    python bench/torch_zoo.py [--dtype bfloat16] [--only gemma2,vit] [--time SECONDS] [--dynamic] [--why] > bench/torch_zoo.csv

Every program that can be made is taken, faster or not, and searched for little, as this asks whether it is right. --why prints what became
of nodes and programs that were left. On a GPU if torch sees one. A row whose `error` says "failed" makes the status 1.
"""
import argparse
import copy
import csv
import os
import sys
import time
import traceback

os.environ.setdefault("MICA_TORCH_FAULTS", "raise")

import torch
import transformers as tf
from commit import commit

import mica
import mica.torch

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 128}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
HEADS = {**SMALL, **TOKENS, "num_key_value_heads": 2, "head_dim": 16}
MLA = {**SMALL, "num_key_value_heads": 4, "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 16,
       "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
       "first_k_dense_replace": 1}
WHISPER = {**TOKENS, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 128, "num_mel_bins": 16, "max_source_positions": 32,
           "decoder_start_token_id": 1}

# name: model, settings, inputs
ZOO = {
    "bert": ("Bert", "Model", SMALL, "masked"),
    "bloom": ("Bloom", "ForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128}, "tokens"),
    "clip": ("CLIPText", "Model", {**SMALL, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 256}, "tokens"),
    "convnext": ("ConvNext", "Model", {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 4}, "pixels"),
    "deberta": ("DebertaV2", "Model", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "tokens"),
    "deepseek3": ("DeepseekV3", "ForCausalLM", MLA, "tokens"),
    "distilbert": ("DistilBert", "Model", {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": 128}, "tokens"),
    "falcon": ("Falcon", "ForCausalLM", SMALL, "tokens"),
    "gemma2": ("Gemma2", "ForCausalLM", HEADS, "tokens"),
    "gemma3": ("Gemma3Text", "ForCausalLM", HEADS, "tokens"),
    "gpt2": ("GPT2", "LMHeadModel", {**TOKENS, "vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}, "tokens"),
    "gpt_neox": ("GPTNeoX", "ForCausalLM", SMALL, "tokens"),
    "gpt_oss": ("GptOss", "ForCausalLM", {**HEADS, "num_local_experts": 4}, "tokens"),
    "llama": ("Llama", "ForCausalLM", HEADS, "tokens"),
    "llama4": ("Llama4Text", "ForCausalLM", {**HEADS, "num_local_experts": 4, "intermediate_size_mlp": 128}, "tokens"),
    "mamba": ("Mamba", "ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 8}, "tokens"),
    "mixtral": ("Mixtral", "ForCausalLM", {**HEADS, "num_local_experts": 4}, "tokens"),
    "opt": ("OPT", "ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 128,
                                   "word_embed_proj_dim": 64, "max_position_embeddings": 256, "pad_token_id": 1}, "tokens"),
    "phi3": ("Phi3", "ForCausalLM", {**SMALL, **TOKENS, "num_key_value_heads": 2}, "tokens"),
    "qwen2": ("Qwen2", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}, "tokens"),
    "qwen3": ("Qwen3", "ForCausalLM", HEADS, "tokens"),
    "swin": ("Swin", "Model", {"image_size": 32, "patch_size": 4, "embed_dim": 32, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
             "pixels"),
    "t5": ("T5", "EncoderModel", {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 128}, "tokens"),
    "vit": ("ViT", "Model", {**SMALL, "image_size": 32, "patch_size": 8}, "pixels"),
    "whisper": ("Whisper", "Model", WHISPER, "speech"),
}
LITTLE = {"max_kernel_ops": 1, "max_block_ops": 4, "measure": 1, "remember": False}
SEARCH = {"cpu": {**LITTLE, "seconds": 0.02}, "cuda": {**LITTLE, "tune": 0}}


def model_of(name):
    family, head, settings, _ = ZOO[name]
    config = getattr(tf, family + "Config")(**settings)
    made = getattr(tf, family.removesuffix("Text") + head if head == "ForCausalLM" else family + head)
    return made(config).eval()


def inputs_of(name):
    ids = torch.randint(3, 128, (2, 16))
    return {"tokens": {"input_ids": ids}, "masked": {"input_ids": ids, "attention_mask": (torch.arange(16) < torch.tensor([[16], [9]])).long()},
            "pixels": {"pixel_values": torch.randn(1, 3, 32, 32)},
            "speech": {"input_features": torch.randn(1, 16, 64), "decoder_input_ids": ids[:1]}}[ZOO[name][3]]


def moved(inputs, device, dtype):
    return {k: x.to(device, dtype) if x.is_floating_point() else x.to(device) for k, x in inputs.items()}


def first(model, inputs):
    return model(**inputs, return_dict=False)[0]


def row(name, given, device, dtype):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = model_of(name).to(device), moved(inputs_of(name), device, torch.float32)
    want = first(copy.deepcopy(model), inputs).double()
    model, inputs = model.to(dtype), moved(inputs, device, dtype)
    reports = []
    mica.torch.compiler._listeners.lists = [reports]
    options = {"rest": "eager", "take": "all", "min_work": 0, "time": given.time, "search": SEARCH[device]}
    began = time.monotonic()
    got = first(torch.compile(model, backend=mica.torch.backend, options=options, dynamic=given.dynamic or None), inputs)
    seconds = time.monotonic() - began
    programs = [p for r in reports for p in r.programs]
    if given.why:
        print("\n".join(map(str, reports)), file=sys.stderr)

    def error(x):
        return f"{((x.double() - want).norm() / want.norm()).item():.2g}"
    return {"eager_error": error(first(model, inputs)), "error": error(got), "nodes": sum(len(r.nodes) for r in reports),
            "taken": sum(len(r.taken) for r in reports), "programs": sum(p.taken or bool(p.sizes) for p in programs), "graphs": len(reports),
            "seconds": f"{seconds:.0f}", "left": "; ".join(sorted({p.why for p in programs if p.why}))}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    arguments.add_argument("--only", help="one model, or several with commas: " + ", ".join(ZOO))
    arguments.add_argument("--time", type=float, default=60, help="seconds for each program")
    arguments.add_argument("--dynamic", action="store_true", help="all sizes are symbols, as in generate()")
    arguments.add_argument("--why", action="store_true")
    given = arguments.parse_args()
    names = given.only.split(",") if given.only else list(ZOO)
    if set(names) - set(ZOO):
        arguments.error(f"there is no {', '.join(sorted(set(names) - set(ZOO)))}")
    device, failed = "cuda" if torch.cuda.is_available() else "cpu", False
    keys = "eager_error", "error", "nodes", "taken", "programs", "graphs", "seconds", "left"
    writer = csv.DictWriter(sys.stdout, ("model", "dtype", "device", *keys, "torch", "transformers", "mica", "commit"), lineterminator="\n")
    writer.writeheader()
    for name in names:
        try:
            with torch.no_grad():
                r = row(name, given, device, getattr(torch, given.dtype))
        except Exception as error:  # continue with the other models
            traceback.print_exc()
            r, failed = {"error": "failed", "left": f"{type(error).__name__}: {str(error).splitlines()[0]}"}, True
        writer.writerow({"model": name, "dtype": given.dtype, "device": device, **r, "torch": torch.__version__, "transformers": tf.__version__,
                         "mica": mica.__version__, "commit": commit()})
        sys.stdout.flush()
    sys.exit(failed)


if __name__ == "__main__":
    main()
