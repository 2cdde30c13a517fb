"""MPK's Qwen3 demo on Mica: the same calls, layer by layer, against random weights of a configuration.

    python examples/mega/qwen3_demo.py [config.json] [--engine gpu]
"""
import argparse
import json
import os

import numpy as np

from mica import mega

HERE = os.path.dirname(os.path.abspath(__file__))


def random_model(c, seed=0):
    """Weights by the names of transformers, [out, in]."""
    r = np.random.default_rng(seed)
    h, q, kv, d, inner = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["intermediate_size"]

    def matrix(out, n):
        return (r.standard_normal((out, n)) / np.sqrt(n)).astype("f4")

    def gain(n):
        return (1 + 0.1 * r.standard_normal(n)).astype("f4")
    w = {"model.embed_tokens": matrix(c["vocab_size"], h), "model.norm": gain(h), "lm_head": matrix(c["vocab_size"], h)}
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        w |= {at + "input_layernorm": gain(h), at + "post_attention_layernorm": gain(h), at + "self_attn.q_norm": gain(d),
              at + "self_attn.k_norm": gain(d),
              at + "self_attn.q_proj": matrix(q * d, h), at + "self_attn.k_proj": matrix(kv * d, h), at + "self_attn.v_proj": matrix(kv * d, h),
              at + "self_attn.o_proj": matrix(h, q * d), at + "mlp.gate_proj": matrix(inner, h), at + "mlp.up_proj": matrix(inner, h),
              at + "mlp.down_proj": matrix(h, inner)}
    return w


def build(c, w, rows=4, pages=16, **options):
    h, q, kv, d, inner = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["intermediate_size"]
    page_size, grid = 64, {"grid_dim": (1, 1, 1), "block_dim": (128, 1, 1)}
    angle = np.arange(16)[:, None] * c["rope_theta"] ** (-2.0 * (np.arange(d) % (d // 2)) / d)
    mpk = mega.PersistentKernel(mode="offline", world_size=1, mpi_rank=0, max_seq_length=256, max_num_batched_requests=rows,
                                max_num_batched_tokens=rows,
                                max_num_pages=pages, page_size=page_size, eos_token_id=-1, rms_norm_eps=c.get("rms_norm_eps", 1e-6), **options)
    x = mpk.attach_input(torch_tensor=np.zeros((rows, 1), "i8"), name="input_token")
    cos_pos_embed = mpk.attach_input(torch_tensor=np.cos(angle).astype("f4"), name="cos_position_embedding")
    sin_pos_embed = mpk.attach_input(torch_tensor=np.sin(angle).astype("f4"), name="sin_position_embedding")
    y = mpk.new_tensor(dims=(rows, h), name="embed_out")
    rmsnorm_out = mpk.new_tensor(dims=(rows, h), name="rmsnorm_out")
    attn_in = mpk.new_tensor(dims=(rows, (q + 2 * kv) * d), name="attn_in")
    attn_out = mpk.new_tensor(dims=(rows, q * d), name="attn_out")
    attn_proj_out = mpk.new_tensor(dims=(rows, h), name="attn_proj_out")
    mlp_mid = mpk.new_tensor(dims=(rows, 2 * inner), name="mlp_mid")
    silu_mul_out = mpk.new_tensor(dims=(rows, inner), name="silu_mul_out")
    mlp_out = mpk.new_tensor(dims=(rows, h), name="mlp_out")
    argmax_in = mpk.new_tensor(dims=(rows, c["vocab_size"]), name="argmax_in")
    argmax_part_value = mpk.new_tensor(dims=(rows, 1), name="argmax_part_value")
    argmax_part_index = mpk.new_tensor(dims=(rows, 1), name="argmax_part_index")
    argmax_out = mpk.attach_input(torch_tensor=np.zeros((rows, 1), "i8"), name="output_token")

    mpk.embed_layer(input=x, weight=mpk.attach_input(torch_tensor=w["model.embed_tokens"], name="embed_tokens"), output=y, **grid)
    x = y
    for i in range(c["num_hidden_layers"]):
        def weight(name):
            return mpk.attach_input(torch_tensor=w[f"model.layers.{i}.{name}"], name=f"layer_{i}_{name}")
        w_qkv = mpk.shuffle_tensors(inputs=[weight("self_attn.q_proj"), weight("self_attn.k_proj"), weight("self_attn.v_proj")], shuffled_dim=0,
                                    num_groups=kv, name=f"layer_{i}_qkv_proj")
        mpk.rmsnorm_layer(input=x, weight=weight("input_layernorm"), output=rmsnorm_out, **grid)
        mpk.linear_layer(input=rmsnorm_out, weight=w_qkv, output=attn_in, **grid)
        k_cache = mpk.attach_input(torch_tensor=np.empty((pages, page_size, kv, d), "f4"), name=f"layer_{i}_k_cache")
        v_cache = mpk.attach_input(torch_tensor=np.empty((pages, page_size, kv, d), "f4"), name=f"layer_{i}_v_cache")
        mpk.paged_attention_layer(input=attn_in, k_cache=k_cache, v_cache=v_cache, q_norm=weight("self_attn.q_norm"),
                                  k_norm=weight("self_attn.k_norm"),
                                  cos_pos_embed=cos_pos_embed, sin_pos_embed=sin_pos_embed, output=attn_out, **grid)
        mpk.linear_with_residual_layer(input=attn_out, weight=weight("self_attn.o_proj"), residual=x, output=attn_proj_out, **grid)
        x = attn_proj_out
        w_gatedup = mpk.shuffle_tensors(inputs=[weight("mlp.gate_proj"), weight("mlp.up_proj")], shuffled_dim=0, num_groups=1,
                                        name=f"layer_{i}_gatedup_proj")
        mpk.rmsnorm_layer(input=x, weight=weight("post_attention_layernorm"), output=rmsnorm_out, **grid)
        mpk.linear_layer(input=rmsnorm_out, weight=w_gatedup, output=mlp_mid, **grid)
        mpk.silu_mul_layer(input=mlp_mid, output=silu_mul_out, **grid)
        mpk.linear_with_residual_layer(input=silu_mul_out, weight=weight("mlp.down_proj"), residual=x, output=mlp_out, **grid)
        x = mlp_out
    mpk.rmsnorm_linear_layer(input=x, weight_norm=mpk.attach_input(torch_tensor=w["model.norm"], name="model_norm_weight"),
                             weight_linear=mpk.attach_input(torch_tensor=w["lm_head"], name="lm_head"), output=argmax_in, **grid)
    mpk.argmax_partial_layer(input=argmax_in, output=(argmax_part_value, argmax_part_index), **grid)
    mpk.argmax_reduce_layer(input=(argmax_part_value, argmax_part_index), output=argmax_out, **grid)
    return mpk.compile()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("config", nargs="?", default=os.path.join(HERE, "tiny_qwen3.json"))
    p.add_argument("--engine", default="cpu", choices=["cpu", "gpu"])
    a = p.parse_args()
    with open(a.config) as f:
        c = json.load(f)
    mpk = build(c, random_model(c), engine=a.engine)
    print(mpk.model.prove())
    for row in mpk([[1, 2, 3], [40, 50]], max_tokens=12):
        print(*row)


if __name__ == "__main__":
    main()
