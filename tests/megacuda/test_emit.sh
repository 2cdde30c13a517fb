#!/usr/bin/env bash
# The kernel that `mica mega emit` prints, compiled for a CPU with fibers as threads, all blocks alive at once: its tokens are those of the
# reference in float64, which `mica mega run` compares its own with; a planted mistake ends as hung, and the next run is right.
# test: release
# test: timeout 900
set -u
. tests/shell.sh
. tests/megacuda/emit.sh

same examples/mega/tiny_llama.json 4 --workers 3 --context 5 --seed 2
long examples/mega/tiny_llama.json 6 --workers 4 --context 62 --seed 3
same examples/mega/tiny_qwen3.json 4 --workers 3 --context 0 --rows 2 --seed 5
MEGA_SHIM_SEED=77 expect 0 '^row 1:' "$work/tiny_qwen3" --steps 4 # another order of fibers
# Whole stages of bf16, as in large models: sums without bounds; rotation with several warps a head. Optimized, for the compiler's warnings.
quick=-O1 same tests/megacuda/even.json 2 --workers 3 --context 70 --seed 4

# Attention in parts: words that are merged, and with more values plain floats behind a counter.
long examples/mega/tiny_llama.json 3 --workers 5 --context 62 --attention-parts 3 --seed 6
long examples/mega/tiny_qwen3.json 4 --workers 3 --context 9 --rows 2 --attention-parts 2 --seed 7
# Parts that an operator merges: words, an odd number of parts, and words of more values than other tensors may have.
same examples/mega/tiny_llama.json 3 --workers 5 --context 62 --rows 2 --attention-parts 3 --attention-merge operator --seed 6
long examples/mega/tiny_llama.json 3 --workers 3 --context 5 --attention-parts 2 --attention-merge operator --seed 6
long examples/mega/tiny_qwen3.json 4 --workers 3 --context 9 --rows 9 --attention-parts 4 --attention-merge operator --seed 7
fibers tests/mega/split_merge_rows.mega tiny_llama --steps 2
grep -A3 '^struct t_partial' "$work/tiny_llama.cu" | grep -q 'TAGGED = true' || complain "tagged parts of eight rows"
expect 0 '^plain: 16 of 16 tokens agree, relative error of logits at most [0-9.]*e-0[67]' "$work/tiny_llama" --steps 2 --plain 2
# Mistakes in the merge are found: missed WHAT SED.
missed() {
  sed "$2" "$work/tiny_llama.cu" >"$work/wrong.cu"
  cmp -s "$work/tiny_llama.cu" "$work/wrong.cu" && complain "no mistake: $1"
  compile wrong -w
  expect 1 '^plain: ' "$work/wrong" --steps 2 --plain 2 --deadline "$deadline"
}
missed 'a part that is not merged' 's/if (from + p < parts) add/if (from + p + 1 < parts) add/'
[ -z "${MICA_ALL:-}" ] || missed 'a divisor of another part' 's/(part \* HEADS + head\[/(0 * HEADS + head[/'
[ -z "${MICA_ALL:-}" ] || missed 'a maximum that is not applied' 's/scale\[h\] = exp_of(most - next)/scale[h] = 1/'

# Experts: float32, with a last tile that is narrower; bf16 by tensor cores; experts whose weights are several pieces.
sed 's/"moe_intermediate_size": 24/"moe_intermediate_size": 28/' examples/mega/tiny_qwen3_moe.json >"$work/tiny_moe.json"
quick=-O0 same "$work/tiny_moe.json" 4 --workers 5 --context 5 --seed 2
[ -z "${MICA_ALL:-}" ] || quick=-O1 same tests/megacuda/even_moe.json 3 --workers 3 --rows 2 --context 3 --seed 4
long examples/mega/tiny_qwen3_moe.json 3 --workers 3 --rows 2 --pages 5 --seed 6
under=("$MICA" mega)
expect 0 'pipeline 12 x 16384' plan tests/megacuda/even_moe.json --workers 3 --context 3 --text
sed 's/pipeline 12 x 16384/pipeline 6 x 1024/' "$work/out" >"$work/pieces.mega"
if [ -n "${MICA_ALL:-}" ]; then
  fibers "$work/pieces.mega" even_moe --steps 2
  expect 0 'relative error of logits at most [0-9.]*e-0[567]' "$work/even_moe" --steps 1 --plain 1
fi
fibers tests/megacuda/ties.mega ties --steps 2
expect 0 'relative error of logits at most [0-9.]*e-0[67]' "$work/ties" --steps 1 --plain 1
sed 's/"moe_intermediate_size": 128/"moe_intermediate_size": 96/' tests/megacuda/even_moe.json >"$work/uneven.json"
under=("$MICA" mega)
expect 0 'pipeline 12 x 16384' plan "$work/uneven.json" --workers 3 --context 3 --text
sed 's/pipeline 12 x 16384/pipeline 6 x 1024/' "$work/out" >"$work/uneven.mega"
expect 2 'not a multiple of pieces of 64' emit "$work/uneven.mega" --steps 2 --out "$work"
sed 's/"num_experts_per_tok": 5/"num_experts_per_tok": 33/' tests/megacuda/even_moe.json >"$work/many.json"
expect 2 '33 experts a row; CUDA bodies take up to 32' emit "$work/many.json" --out "$work"

# Requests that share a cache, at one position, over the border of a page.
long examples/mega/tiny_llama.json 3 --workers 3 --rows 2 --pages 5 --seed 6
same examples/mega/tiny_llama.json 3 --workers 5 --rows 2 --pages 5 --attention-parts 3 --seed 6
long examples/mega/tiny_qwen3.json 4 --workers 3 --pages 5 --attention-parts 2 --seed 7

# A text form; what CUDA does not take.
fibers examples/mega/mlp.mega mlp
expect 0 'relative error of logits at most [0-9.]*e-0[67]' "$work/mlp" --plain 2
# Separate layers for the cache and for attention.
if [ -n "${MICA_ALL:-}" ]; then
  fibers tests/mega/split_few.mega tiny_llama
  expect 0 '2 of 2 tokens agree' "$work/tiny_llama" --steps 3 --plain 2
fi
# The last work tile of the head has fewer columns, and wider pieces; tiles of other products have four columns.
sed 's/"vocab_size": 96/"vocab_size": 92/' tests/megacuda/even.json >"$work/ragged.json"
under=("$MICA" mega)
expect 0 'pipeline 12 x 16384' plan "$work/ragged.json" --workers 3 --context 3 --text
sed 's/pipeline 12 x 16384/pipeline 11 x 8192/; s/tiles 128$/tiles 256/' "$work/out" >"$work/ragged.mega"
grep -q 'tiles 256' "$work/ragged.mega" || complain "no narrow tiles"
if [ -n "${MICA_ALL:-}" ]; then
  fibers "$work/ragged.mega" ragged --steps 2
  expect 0 'relative error of logits at most [0-9.]*e-0[567]' "$work/ragged" --steps 1 --plain 1
fi
under=("$MICA" mega)
sed 's/"head_dim": 8/"head_dim": 6/' examples/mega/tiny_llama.json >"$work/odd.json"
expect 2 'a head has 24 bytes' emit "$work/odd.json" --out "$work"
# Large models have two layers in the quick tier, because layers are alike.
few() {
  local layers='2'
  [ -z "${MICA_ALL:-}" ] || layers='&'
  sed -E "/\"num_hidden_layers\"/s/[0-9]+/$layers/" "examples/mega/$1.json" >"$work/$1.json"
}
few qwen3_8b
[ -z "${MICA_ALL:-}" ] || expect 0 'pipeline of 1[01] stages' emit "$work/qwen3_8b.json" --out "$work"
few qwen3_30b_a3b
expect 0 'pipeline of 1[012] stages' emit "$work/qwen3_30b_a3b.json" --out "$work"

# The kernel of a large model keeps everything in registers; most are needed for many rows.
if [ -n "${MICA_ALL:-}" ] && command -v nvcc >/dev/null; then
  few llama_3_2_1b
  for rows in 1 32; do
    under=("$MICA" mega)
    expect 0 'proved; ' emit "$work/llama_3_2_1b.json" --rows "$rows" --out "$work"
    under=()
    expect 0 '' nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -Xptxas -v -cubin -o "$work/llama.cubin" "$work/llama_3_2_1b.cu"
    cat "$work/out" "$work/err" | grep -A1 'properties for mega_kernel' | grep -q ' 0 bytes stack frame, 0 bytes spill stores' || complain "spills of $rows rows"
  done
fi
finish
