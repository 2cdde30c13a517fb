#!/usr/bin/env bash
# mica mega from outside: plans, proofs, runs; what is wrong with a model or a configuration, and the status.
# test: quick release
set -u
. tests/shell.sh
under=("$MICA" mega)
e=examples/mega

expect 0 'waits for' plan $e/tiny_llama.json --workers 3
expect 0 'pipeline of 12 stages' plan $e/llama_3_2_1b.json
grep -q '2.471 GB a step' "$work/out" || complain "bytes of a step"
expect 0 'wait for event .*of the step before, for reuse' plan $e/mlp.mega --dump events
expect 0 'streams +cache\[' plan $e/tiny_llama.json --dump regions
expect 0 '^embed +0\.\.' plan $e/tiny_llama.json --workers 3 --dump schedule
expect 2 'regions, events, schedule or model, not clocks' plan $e/tiny_llama.json --dump clocks
expect 0 '"versions"' plan $e/tiny_llama.json --workers 3 --json -
expect 0 'ok, 4 operators' check $e/mlp.mega
expect 0 'proved' prove $e/tiny_qwen3.json --rows 9 --workers 20 --context 64
expect 0 '"proved": true' prove $e/tiny_qwen3.json --workers 4 --json -
expect 0 'equal to the reference' run $e/tiny_llama.json --steps 6
expect 0 'equal to the reference' run $e/tiny_qwen3.json --rows 2 --context 0 --steps 5 --seed 9
expect 0 'not compared' run $e/mlp.mega --steps 2
expect 0 'equal to the reference' run $e/tiny_llama.json --rows 3 --pages 7 --steps 4
expect 0 'equal to the reference' run $e/tiny_qwen3.json --rows 3 --pages 10 --attention-parts 3 --steps 12
expect 0 'merge .*merge_parts' plan $e/tiny_llama.json --rows 2 --pages 5 --attention-parts 2 --attention-merge operator
expect 2 'takes operator or product, not both' plan $e/tiny_llama.json --attention-parts 2 --attention-merge both
expect 0 'attend .*served_attention_part' plan $e/tiny_llama.json --rows 2 --pages 5 --attention-parts 2
expect 0 'proved' prove $e/tiny_qwen3.json --rows 9 --pages 40 --workers 5
expect 0 'equal to the reference' run $e/tiny_qwen3_moe.json --rows 2 --context 3 --steps 5
expect 0 'equal to the reference' run $e/tiny_qwen3_moe.json --rows 2 --pages 5 --steps 3
# Two of 48 layers, which are alike. docs/mega.md shows all of them.
sed '/"num_hidden_layers"/s/48/2/' $e/qwen3_30b_a3b.json >"$work/c.json"
expect 0 'gate_up .*rmsnorm_experts_gate_up +2 .* 768 .*100.7 MB  o .tagged., choose .tagged.' plan "$work/c.json"
expect 0 'attend .*qknorm_served_attention' plan $e/tiny_qwen3.json --rows 2 --pages 5
expect 2 '4 rows need one each besides the first' plan $e/tiny_llama.json --rows 4 --pages 4
expect 2 'a context of 63' plan $e/tiny_llama.json --rows 4 --pages 8 --context 63
expect 2 'from 1 to 1000000, not 2000000' plan $e/tiny_llama.json --pages 2000000
[ -e /dev/nvidiactl ] || expect 3 'no GPU to run on' run $e/tiny_llama.json --gpu
expect 2 'there are plan, check, prove, run and emit' proof $e/mlp.mega
expect 2 'rows is 65' plan $e/tiny_llama.json --rows 65
expect 2 'context is 1048577; 0 to 1048576 are supported' plan $e/tiny_llama.json --context 1048577
expect 2 'context is 1048577; 0 to 1048576 are supported' check $e/mlp.mega --context 1048577
expect 3 'no.mega' plan no.mega

# ---- configurations ----
config() {
  sed "$1" $e/tiny_llama.json >"$work/c.json"
}
config 's/"hidden_size": 32,/"hidden_siz": 32, "extra": 1,/'
expect 2 'lacks hidden_size' plan "$work/c.json"
config 's/"hidden_size": 32,/"hidden_size": 32, "one": 1, "two": 2,/'
expect 2 'unknown: one, two' plan "$work/c.json"
config 's/"llama"/"gpt2"/'
expect 2 'model_type is gpt2' plan "$work/c.json"
config 's/"silu"/"gelu"/'
expect 2 'hidden_act is gelu' plan "$work/c.json"
config 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
expect 2 'not a multiple of 3' plan "$work/c.json"
config 's/"head_dim": 8/"head_dim": 7/'
expect 2 'needs an even number' plan "$work/c.json"
config 's/"float32"/"int8"/'
expect 2 'torch_dtype is int8' plan "$work/c.json"
config 's/"hidden_size": 32/"hidden_size": -1/'
expect 2 'not an integer from 1' plan "$work/c.json"
config 's/"rope_theta": 10000.0/"rope_scaling": {"rope_type": "yarn"}/'
expect 2 'rope_scaling is yarn' plan "$work/c.json"
config 's/"num_attention_heads": [0-9]*/"num_attention_heads": null/'
expect 2 'lacks num_attention_heads' plan "$work/c.json"
config 's/"head_dim": 8/"head_dim": 8, "num_experts": 4/'
expect 2 'a llama has no experts' plan "$work/c.json"
config 's/}$//'
expect 2 'bad-json' plan "$work/c.json"
experts() {
  sed "$1" $e/tiny_qwen3_moe.json >"$work/c.json"
}
experts '/"num_experts_per_tok"/d'
expect 2 'lacks num_experts_per_tok' plan "$work/c.json"
experts 's/"num_experts_per_tok": 2/"num_experts_per_tok": 9/'
expect 2 'num_experts_per_tok is 9, but num_experts is 8' plan "$work/c.json"
experts 's/"norm_topk_prob": true/"norm_topk_prob": false/'
expect 2 'norm_topk_prob is not set' plan "$work/c.json"
experts 's/"decoder_sparse_step": 1/"decoder_sparse_step": 2/'
expect 2 'decoder_sparse_step is 2' plan "$work/c.json"
experts 's/"mlp_only_layers": \[\]/"mlp_only_layers": [1]/'
expect 2 'mlp_only_layers names layers' plan "$work/c.json"
experts 's/"mlp_only_layers": \[\]/"mlp_only_layers": 3/'
expect 2 'mlp_only_layers names layers' plan "$work/c.json"
experts 's/"num_experts": [0-9]*/"num_experts": null/'
expect 2 'lacks num_experts' plan "$work/c.json"
expect 2 'the model has experts' plan $e/tiny_qwen3_moe.json --world 2
finish
