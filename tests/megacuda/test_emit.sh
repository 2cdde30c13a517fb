#!/usr/bin/env bash
# The kernel that `mica mega emit` prints, compiled for a CPU with fibers as threads, all blocks alive at once: its tokens are those of the
# reference in float64, which `mica mega run` compares its own with; a planted mistake ends as hung, and the next run is right.
# test: release
# test: timeout 900
set -u
. tests/shell.sh
command -v g++ >/dev/null || { echo "skipped: g++ is not there"; exit 77; }

deadline=500 # of a wait, ms
# same FILE STEPS OPTION...: a model with these options
same() {
  local name file=$1 steps=$2
  name=$(basename "${file%.*}")
  shift 2
  set -- --steps "$steps" "$@"
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  expect 0 'equal to the reference' run "$file" "$@" --deadline 60
  grep '^row' "$work/out" >"$work/want"
  under=()
  expect 0 '' g++ -O1 -std=c++17 -Wall -Wno-unknown-pragmas -DMEGA_SHIM -DMEGA_GRAPH -x c++ -o "$work/$name" "$work/$name.cu"
  [ -s "$work/out" ] || [ -s "$work/err" ] && complain "warnings of $name.cu"
  expect 0 'planted: found, and the next run is right' "$work/$name" --steps "$steps" --plain 2 --hang --graph 1 --deadline "$deadline"
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $name $*"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree' "$work/out" || complain "the plain model of $name $*"
  grep -q '^graph: .* the tokens are the same$' "$work/out" || complain "a launch for each node of $name $*"
  grep -Eq '^hung: .*in step [0-9]+ at .* waited for event .*: saw [0-9]+, wanted [0-9]+$' "$work/out" || complain "the record of $name $*"
}
# fibers FILE NAME OPTION...: NAME.cu, which is emitted of FILE with these options, compiled as $work/NAME; `under` is empty after it
fibers() {
  local file=$1 name=$2
  shift 2
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  under=()
  expect 0 '' g++ -O1 -std=c++17 -w -DMEGA_SHIM -x c++ -o "$work/$name" "$work/$name.cu"
}
long() { [ -z "${MICA_ALL:-}" ] || same "$@"; } # in the long tier
same examples/mega/tiny_llama.json 4 --workers 3 --context 5 --seed 2
long examples/mega/tiny_llama.json 6 --workers 4 --context 62 --seed 3
same examples/mega/tiny_qwen3.json 4 --workers 3 --context 0 --rows 2 --seed 5
# Whole stages of bf16, as in large models: sums without bounds; rotation with several warps a head.
same tests/megacuda/even.json 2 --workers 3 --context 70 --seed 4

# Attention in parts: words that are merged, and with more values plain floats behind a counter.
same examples/mega/tiny_llama.json 3 --workers 5 --context 62 --attention-parts 3 --seed 6
long examples/mega/tiny_qwen3.json 4 --workers 3 --context 9 --rows 2 --attention-parts 2 --seed 7

# Many rows. With float32 weights all of the input is kept; with bf16 pieces of it are copied ahead, which of up to eight rows are exact.
deadline=8000
same examples/mega/tiny_llama.json 3 --workers 4 --context 5 --rows 9 --seed 4
long examples/mega/tiny_llama.json 3 --workers 4 --context 5 --rows 64 --seed 4
same tests/megacuda/even.json 2 --workers 3 --context 70 --rows 8 --seed 4
long tests/megacuda/even.json 2 --workers 3 --rows 8 --pages 17 --seed 4
# rounded ROWS WORKERS: of more rows the input is rounded, and logits differ a little; a planted mistake ends as hung
rounded() {
  fibers tests/megacuda/even.json even --steps 2 --workers "$2" --context 3 --rows "$1" --seed 4
  expect 0 'relative error of logits at most 0[.]00' "$work/even" --steps 2 --plain 1 --hang --deadline "$deadline"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree' "$work/out" || complain "the plain model of $1 rows"
  grep -q '^planted: found, and the next run is right$' "$work/out" || complain "the planted mistake of $1 rows"
}
rounded 16 3
rounded 33 5
[ -z "${MICA_ALL:-}" ] || rounded 64 4
# The plain model finds a wrong token.
sed 's/M.tokens\[j.at \* ROWS + row\] = at/& ^ 1/' "$work/even.cu" >"$work/wrong.cu"
cmp -s "$work/even.cu" "$work/wrong.cu" && complain "no wrong token"
expect 0 '' g++ -O1 -std=c++17 -w -DMEGA_SHIM -x c++ -o "$work/wrong" "$work/wrong.cu"
expect 1 '^plain: ' "$work/wrong" --steps 1 --plain 1 --deadline "$deadline"
# The largest of logits that are tagged words, and of logits in panels.
for rows in 8 16; do
  sed "s/rows = 8/rows = $rows/" tests/megacuda/picked.mega >"$work/picked$rows.mega"
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$work/picked$rows.mega" --steps 3 --seed 4 --out "$work"
  expect 0 '' run "$work/picked$rows.mega" --steps 3 --seed 4 --deadline 60
  grep '^row' "$work/out" >"$work/want"
  fibers "$work/picked$rows.mega" picked --steps 3 --seed 4
  expect 0 "^plain: $((3 * rows)) of $((3 * rows)) tokens agree" "$work/picked" --steps 3 --plain 3 --deadline "$deadline"
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $rows picked rows"
done
# Attention in parts that a product with bf16 weights copies in panels, and a product with float32 weights reads element by element.
under=("$MICA" mega)
expect 0 'rows = 16' plan tests/megacuda/even.json --workers 3 --context 3 --rows 16 --attention-parts 2 --text
awk '/^    after /{next} {sub(/ versions 1$/, "")} /^  Wo:/{$0 = $0 "\n  Wmore: f32[1, 512, 1024] weights"}
  /^  operator (attend|o)\[/{copy = 1} /^  operator gate_up/{printf "%s", more} {print}
  copy{sub(/operator attend/, "operator again"); sub(/operator o/, "operator more"); sub(/Wo,/, "Wmore,"); sub(/tiles 32/, "tiles 64"); more = more $0 "\n"}
  /^  }/{copy = 0}' "$work/out" >"$work/twice.mega"
fibers "$work/twice.mega" even --steps 2 --seed 4
grep -A5 '^struct t_attended' "$work/even.cu" | grep -q 'PANEL = true, REST = true' || complain "panels of parts of attention"
expect 0 'relative error of logits at most 0[.]00' "$work/even" --steps 2 --plain 2 --deadline "$deadline"
deadline=500

# Experts: float32, with a last tile that is narrower; bf16 by tensor cores; experts whose weights are several pieces.
sed 's/"moe_intermediate_size": 24/"moe_intermediate_size": 28/' examples/mega/tiny_qwen3_moe.json >"$work/tiny_moe.json"
same "$work/tiny_moe.json" 4 --workers 5 --context 5 --seed 2
same tests/megacuda/even_moe.json 3 --workers 3 --rows 2 --context 3 --seed 4
long examples/mega/tiny_qwen3_moe.json 3 --workers 3 --rows 2 --pages 5 --seed 6
under=("$MICA" mega)
expect 0 'pipeline 11 x 16384' plan tests/megacuda/even_moe.json --workers 3 --context 3 --text
sed 's/pipeline 11 x 16384/pipeline 6 x 1024/' "$work/out" >"$work/pieces.mega"
fibers "$work/pieces.mega" even_moe --steps 2
expect 0 'relative error of logits at most [0-9.]*e-0[567]' "$work/even_moe" --steps 1 --plain 1
fibers tests/megacuda/ties.mega ties --steps 2
expect 0 'relative error of logits at most [0-9.]*e-0[67]' "$work/ties" --steps 1 --plain 1
sed 's/"moe_intermediate_size": 128/"moe_intermediate_size": 96/' tests/megacuda/even_moe.json >"$work/uneven.json"
under=("$MICA" mega)
expect 0 'pipeline 11 x 16384' plan "$work/uneven.json" --workers 3 --context 3 --text
sed 's/pipeline 11 x 16384/pipeline 6 x 1024/' "$work/out" >"$work/uneven.mega"
expect 2 'no whole number of pieces of 64' emit "$work/uneven.mega" --steps 2 --out "$work"
sed 's/"num_experts_per_tok": 5/"num_experts_per_tok": 33/' tests/megacuda/even_moe.json >"$work/many.json"
expect 2 '33 experts a row; CUDA bodies take up to 32' emit "$work/many.json" --out "$work"

# Requests that share a cache, at one position, over the border of a page.
same examples/mega/tiny_llama.json 3 --workers 3 --rows 2 --pages 5 --seed 6
same examples/mega/tiny_llama.json 3 --workers 5 --rows 2 --pages 5 --attention-parts 3 --seed 6
long examples/mega/tiny_qwen3.json 4 --workers 3 --pages 5 --attention-parts 2 --seed 7

# Another order of fibers; a text form; what CUDA does not take.
under=()
MEGA_SHIM_SEED=77 expect 0 '^row 1:' "$work/tiny_qwen3" --steps 4
fibers examples/mega/mlp.mega mlp
expect 0 'relative error of logits at most [0-9.]*e-0[67]' "$work/mlp" --plain 2
# Separate layers for the cache and for attention.
fibers tests/mega/split_few.mega tiny_llama
expect 0 '2 of 2 tokens agree' "$work/tiny_llama" --steps 3 --plain 2
# The last work tile of the head has fewer columns, and wider pieces; tiles of other products have four columns.
sed 's/"vocab_size": 96/"vocab_size": 92/' tests/megacuda/even.json >"$work/ragged.json"
under=("$MICA" mega)
expect 0 'pipeline 11 x 16384' plan "$work/ragged.json" --workers 3 --context 3 --text
sed 's/pipeline 11 x 16384/pipeline 11 x 8192/; s/tiles 128$/tiles 256/' "$work/out" >"$work/ragged.mega"
grep -q 'tiles 256' "$work/ragged.mega" || complain "no narrow tiles"
fibers "$work/ragged.mega" ragged --steps 2
expect 0 'relative error of logits at most [0-9.]*e-0[567]' "$work/ragged" --steps 1 --plain 1
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
expect 0 'pipeline of 10 stages' emit "$work/qwen3_8b.json" --out "$work"
few qwen3_30b_a3b
expect 0 'pipeline of 10 stages' emit "$work/qwen3_30b_a3b.json" --out "$work"

# The kernel of a large model keeps everything in registers.
if command -v nvcc >/dev/null; then
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
