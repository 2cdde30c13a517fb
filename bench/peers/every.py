"""All workloads, in the order of measuring within a family."""
from types import SimpleNamespace

from . import third
from .attention import add_attn
from .experts import add_mirage_moe, add_moe
from .linear import add_adapter, add_gmlp, add_lora, add_rmslin
from .small import (add_gemm_bias_relu, add_layernorm, add_lstm, add_mlp20, add_ngpt2, add_ntrans, add_softmax)
from .families import FAMILIES
from .workload import WORKLOADS


def define_workloads():
    del WORKLOADS[:]
    toks = (1, 32, 512)
    # Order within a family is order of measuring.
    for t in toks:
        for b in (1, 8):
            add_attn("attn/gqa_b%d_q%d" % (b, t), b, 16, 2, t, 4096, 128, note="LLaMA-2-70B, 4-way tensor parallel")
    for t in toks:
        for b in (1, 8):
            add_attn("attn/mqa_b%d_q%d" % (b, t), b, 71, 1, t, 4096, 64, note="Falcon-7B")
    for t in toks:
        for b in (1, 8):
            add_attn("attn/mha_b%d_q%d" % (b, t), b, 32, 32, t, 4096, 128, note="LLaMA-7B")
    for b in (1, 8):
        add_attn("attn/mirage_gqa_b%d" % b, b, 2, 2, 256, 4096, 64, scale=1.0,
                 note="mirage benchmark/group_query_attention.py: Q(2b,256,64), no scale")
    for b in (1, 8):
        add_attn("attn/mirage_qknorm_b%d" % b, b, 2, 2, 256, 4096, 64, scale=1.0, pre="qv",
                 note="mirage benchmark/qknorm_gqa.py (that file normalizes Q and V)")
    for b in (1, 8):
        add_attn("attn/qknorm_qk_b%d" % b, b, 2, 2, 256, 4096, 64, pre="qk",
                 note="same shape, Q and K normalized, scaled")
    for b in (1, 8):
        add_attn("attn/mirage_mha_b%d" % b, b, 32, 32, 16, 4096, 64, scale=1.0,
                 note="mirage benchmark/multi_head_attention.py: Q(32b,16,64)")
    for b in (1, 8):
        add_attn("attn/mirage_mqa_b%d" % b, b, 1, 1, 1024, 4096, 64, scale=1.0,
                 note="mirage benchmark/multi_query_attention.py: Q(b,1024,64)")
    add_attn("attn/chameleon_b1_q4", 1, 32, 32, 4, 4096, 128, scale=1.0,
             note="mirage benchmark/end-to-end/chameleon.py get_chameleon_attention")
    add_attn("attn/bert_fmha_b32", 32, 16, 16, 384, 384, 64, note="Graphene FMHA: BERT, 16 heads, batch 32, seq 384")

    for m in (1, 8, 16):
        add_lora("lin/lora_m%d" % m, m, 4096, 4096, note="LLaMA-7B")
    for m in (1, 8, 16):
        add_rmslin("lin/rmslin_m%d_n6144" % m, m, 4096, 6144,
                   note="mirage benchmark/rmsnorm.py is m=2b: m2 (b=1), m16 (b=8); llama.py get_rms_linear is m8")
    for m in (1, 8, 16):
        add_gmlp("lin/gmlp_m%d_4096" % m, m, 4096, 4096, note="m8 is mirage benchmark/gated_mlp.py")
    for m in (1, 8, 16):
        add_gmlp("lin/gmlp_m%d_14336" % m, m, 4096, 14336)
    for m in (16, 8):
        add_adapter("lin/adapter_m%d" % m, m)
    hit = {1: 2, 8: 7, 16: 8}
    for t in (1, 8, 16):
        add_moe("moe/top2_t%d" % t, t, 2, hit[t])
    for t in (1, 8, 16):
        add_moe("moe/dense_t%d" % t, t, None, 8)
    add_mirage_moe("moe/mirage_moe")
    for m in (1, 8, 16):
        add_lora("lin/mirage_lora_m%d" % m, m, 256, 4096,
                 note="mirage benchmark/lora.py is m16; baselines/pytorch/lora.py is m1, m8")
    add_rmslin("lin/rmslin_m2_n6144", 2, 4096, 6144, note="mirage benchmark/rmsnorm.py, bs 1", cprio=3)
    for m in (2, 16):
        add_rmslin("lin/rmslin_m%d_n4096" % m, m, 4096, 4096, note="mirage benchmark/baselines/pytorch/rms_norm.py, batch %d" % (m // 2), cprio=3)
    for m in (8, 64, 1):
        add_ntrans("lin/mirage_ntrans_m%d" % m, m)
    add_rmslin("lin/chameleon_rmslin1", 32, 4096, 12288, note="end-to-end/chameleon.py get_rms_linear", cprio=3)
    add_rmslin("lin/chameleon_rmslin2", 32, 4096, 22016, note="end-to-end/chameleon.py get_rms_linear2", cprio=3)
    add_rmslin("lin/llama_rmslin2", 8, 4096, 28672, note="end-to-end/llama.py get_rms_linear2", cprio=3)
    add_lora("lin/llama_rms_lora1", 8, 4096, 28672, with_rms=True, note="end-to-end/lora.py get_lora (RMSNorm + LoRA)", cprio=3)
    add_lora("lin/llama_lora2", 8, 14336, 4096, note="end-to-end/lora.py get_lora2", cprio=3)
    add_rmslin("lin/ngpt_norm1", 32, 4096, 4608, post="rms", note="end-to-end/ngpt.py get_norm1: Linear then RMSNorm", cprio=3)
    add_ngpt2("lin/ngpt_norm2", 32)

    add_gemm_bias_relu("misc/gemm_bias_relu", 5376, 5376, 2048)
    add_mlp20("misc/mlp20_m4096", 4096)
    for h in (128, 256, 512):
        add_lstm("misc/lstm_h%d" % h, 1024, h)
    for c in (1024, 2048, 4096, 8192):
        add_layernorm("misc/layernorm_%d" % c, 4096, c)
    for c in (1024, 2048, 4096, 8192):
        add_softmax("misc/softmax_%d" % c, 4096, c)
    for w in WORKLOADS:
        if w.family in third.rows.FIXED:
            family, kind = third.rows.FIXED[w.family]
            f = FAMILIES[family].kinds[kind][1] if kind else None
            w.baselines += third.rows.baselines(family, kind, SimpleNamespace(f=f))
