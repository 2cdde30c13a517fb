"""Which program of Mica's computes a workload, at which sizes, and how the workload's inputs become the program's."""
from .program import Program


def layers(x, w, b):
    out = [x]
    for i in range(w.shape[0]):
        out += [w[i], b[i]]
    return tuple(out)


def programs(seed=None):
    """Programs of the fixed list, or of the families that a seed draws."""
    if seed is not None:
        from .drawn import programs as drawn

        return drawn(seed)
    p = {}
    for t, kind in ((1, "dec"), (32, "spec"), (512, "pre")):
        for b in (1, 8):
            for heads in ("gqa", "mqa", "mha"):
                p["attn/%s_b%d_q%d" % (heads, b, t)] = Program("examples/%s_%s.mica" % (heads, kind), b=b, t=t)
    for b in (1, 8):
        p["attn/mirage_gqa_b%d" % b] = Program("bench/programs/attention.mica", b=b)
        p["attn/mirage_mha_b%d" % b] = Program("bench/programs/attention.mica", b=b, h=32, t=16)
        p["attn/mirage_mqa_b%d" % b] = Program("bench/programs/attention.mica", b=b, h=1, t=1024)
        p["attn/mirage_qknorm_b%d" % b] = Program("bench/programs/attention_qv.mica", b=b)
        p["attn/qknorm_qk_b%d" % b] = Program("bench/programs/attention_qk.mica", b=b)
    p["attn/chameleon_b1_q4"] = Program("bench/programs/attention.mica", b=1, h=32, t=4, d=128)
    p["attn/bert_fmha_b32"] = Program("examples/g_fmha.mica")
    for m in (1, 8, 16):
        p["lin/lora_m%d" % m] = Program("examples/lora.mica", m=m)
        p["lin/mirage_lora_m%d" % m] = Program("examples/m_lora.mica", m=m)
        p["lin/gmlp_m%d_4096" % m] = Program("examples/m_gated.mica", m=m)
        p["lin/gmlp_m%d_14336" % m] = Program("examples/m_gated.mica", m=m, n=14336)
        p["moe/dense_t%d" % m] = Program("examples/moe.mica", t=m)
    for m, n in ((1, 6144), (2, 6144), (8, 6144), (16, 6144), (2, 4096), (16, 4096)):
        p["lin/rmslin_m%d_n%d" % (m, n)] = Program("examples/m_rms.mica", m=m, n=n)
    for m in (8, 16):
        p["lin/adapter_m%d" % m] = Program("examples/mlp.mica", m=m)
    for m in (1, 8, 64):
        p["lin/mirage_ntrans_m%d" % m] = Program("examples/m_ntrans.mica", lambda h, x, a: (x, h, a), m=m)
    p["moe/mirage_moe"] = Program("examples/m_moe.mica")
    p["lin/chameleon_rmslin1"] = Program("examples/chameleon_rms.mica")
    p["lin/chameleon_rmslin2"] = Program("examples/chameleon_rms.mica", n=22016)
    p["lin/llama_rmslin2"] = Program("examples/llama_rms.mica")
    p["lin/llama_rms_lora1"] = Program("examples/llama_rms_lora.mica")
    p["lin/llama_lora2"] = Program("examples/llama_lora.mica")
    p["lin/ngpt_norm1"] = Program("examples/ngpt.mica")
    p["lin/ngpt_norm2"] = Program("examples/ngpt_alpha.mica")
    p["misc/gemm_bias_relu"] = Program("examples/g_gemm.mica")
    p["misc/mlp20_m4096"] = Program("examples/g_mlp20.mica", layers)
    for h in (128, 256, 512):
        p["misc/lstm_h%d" % h] = Program("examples/g_lstm.mica", n=h)
    for n in (1024, 2048, 4096, 8192):
        p["misc/layernorm_%d" % n] = Program("examples/g_norm.mica", n=n)
        p["misc/softmax_%d" % n] = Program("examples/softmax.mica", n=n)
    return p


def folder(workload):
    """Folder of Mica's result for a workload, inside --mica."""
    return workload.replace("/", "_")
