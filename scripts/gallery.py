#!/usr/bin/env python3
"""Writes docs/gallery.md: twelve programs, each with a graph that the search ranks high for an H200, its figures of bench/peers_h200.csv, and the
command. The script searches for the graphs, which takes minutes; $MICA is the command (build/mica).

    scripts/gallery.py
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import textwrap

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TREE, "bench"))
from peers.programs import programs  # noqa: E402

MICA, TARGET = os.environ.get("MICA", os.path.join(TREE, "build/mica")), "sm_90a"
TOP, NEAR = 32, 1.1  # graphs of a search; the largest ratio of modelled times to the first
# workload, title, what the program computes
ROWS = (
    ("attn/gqa_b1_q1", "Decoding, grouped queries", "One token: 16 heads of queries on two heads of keys and values."),
    ("attn/bert_fmha_b32", "Attention of BERT", "512 heads of 384 queries and keys, without a mask."),
    ("attn/mirage_qknorm_b1", "Attention with norms", "Queries and values are normalized first."),
    ("lin/rmslin_m16_n4096", "RMS norm and product", "16 rows are normalized, weighted and multiplied."),
    ("lin/mirage_lora_m8", "LoRA", "A product and its low-rank adapter."),
    ("lin/gmlp_m8_4096", "Gated MLP", "Two products of one input, of which one gates the other by silu."),
    ("lin/mirage_ntrans_m8", "Residual of a normalized transformer", "Two norms and a blend of each row."),
    ("lin/adapter_m16", "Adapter", "Two products with an activation between, and the input added."),
    ("misc/softmax_4096", "Softmax", "Rows of 4096 elements."),
    ("misc/layernorm_4096", "Layer norm", "Rows of 4096 elements, with weight and shift."),
    ("misc/lstm_h256", "LSTM cell", "Four gates of two products, and the state."),
    ("moe/mirage_moe", "Mixture of experts", "All experts of a token, weighted and added up."),
)


def run(*words):
    return subprocess.run([MICA, *words], cwd=TREE, capture_output=True, text=True, check=True).stdout


def drawing(program):
    """The simplest graph of the first part, of those with nearly the least modelled time, as `mica show --draw` draws it; the number of parts."""
    with tempfile.TemporaryDirectory() as out:
        text = run("search", *program.words(), "--target", TARGET, "--top", str(TOP), "--no-db", "--quiet", "--out", out, "--json", "-")
        parts = json.loads(text)["parts"]
        graphs = parts[0]["graphs"]
        near = [i for i, g in enumerate(graphs) if g["model_us"] <= NEAR * graphs[0]["model_us"]]
        simplest = min(near, key=lambda i: (graphs[i]["kernels"], graphs[i]["block_ops"], i))
        return run("show", os.path.join(out, sorted(f for f in os.listdir(out) if f.startswith("part1_"))[simplest]), "--draw").rstrip(), len(parts)


def section(workload, title, sentence, row):
    program = programs()[workload]
    picture, parts = drawing(program)
    words = "".join(f" {w}" for w in program.words()[1:])
    of = f", the first of {parts} parts" if parts > 1 else ""
    prose = (f"{sentence} On an H200 it takes {row['mica us']} us; the best peer, `{row['peer']}`, takes {row['peer us']} us: "
             f"**{row['ratio']} times as fast**.")
    command = f"$ build/mica optimize {program.file}{words} --target {TARGET}"
    return "\n".join([f"## {title}", "", textwrap.fill(prose, 150), "", "```console needs=slow,tree", command, "```", "",
                      f"The graph{of}:", "", "```text", picture, "```", ""])


def main():
    with open(os.path.join(TREE, "bench/peers_h200.csv"), newline="") as f:
        rows = {r["workload"]: r for r in csv.DictReader(f)}
    head = (f"Twelve programs, each with a kernel graph that the search finds: the simplest of the first {TOP} whose modelled time is within "
            f"{round(100 * NEAR - 100)}% of the first one's. `scripts/gallery.py` writes this page. A frame is a block graph: its loads, its loop, "
            "and what it saves. Adjacent block graphs may become one CUDA kernel. Times are rows of `bench/peers_h200.csv` (fp16, cold caches). They "
            "belong to the graph that won the race on the GPU, which may differ from the graph shown.")
    out = ["# Gallery", "", textwrap.fill(head, 150), ""]
    for workload, title, sentence in ROWS:
        print(workload, file=sys.stderr, flush=True)
        out.append(section(workload, title, sentence, rows[workload]))
    with open(os.path.join(TREE, "docs/gallery.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
