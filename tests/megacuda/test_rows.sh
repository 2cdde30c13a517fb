#!/usr/bin/env bash
# Emitted kernels of many rows on a CPU, and what goes with their panels.
# test: release
# test: timeout 900
set -u
. tests/shell.sh
. tests/megacuda/emit.sh
quick=-O1

# Many rows. With float32 weights all of the input is kept; with bf16 pieces of it are copied ahead, which of up to eight rows are exact.
deadline=1500 # ms of the process
[ -z "${MICA_ALL:-}" ] || deadline=8000
hang=${MICA_ALL:+yes}
hang=${hang:-no}
long examples/mega/tiny_llama.json 3 --workers 4 --context 5 --rows 9 --seed 4
long examples/mega/tiny_llama.json 3 --workers 4 --context 5 --rows 64 --seed 4
same tests/megacuda/even.json 2 --workers 3 --context 70 --rows 8 --seed 4
long tests/megacuda/even.json 2 --workers 3 --rows 8 --pages 17 --seed 4
long tests/megacuda/even.json 2 --workers 3 --context 70 --rows 8 --attention-parts 2 --attention-merge operator --seed 4
long tests/megacuda/even.json 2 --workers 3 --rows 8 --pages 17 --attention-parts 2 --attention-merge operator --seed 4
# rounded ROWS WORKERS: of more rows the input is rounded, and logits differ a little; a planted mistake ends as hung
rounded() {
  fibers tests/megacuda/even.json even --steps 2 --workers "$2" --context 3 --rows "$1" --seed 4
  expect 0 'relative error of logits at most 0[.]00' "$work/even" --steps 2 --plain 1 --hang --deadline "$deadline"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree' "$work/out" || complain "the plain model of $1 rows"
  grep -q '^planted: found, and the next run is right$' "$work/out" || complain "the planted mistake of $1 rows"
}
rounded 16 3
[ -z "${MICA_ALL:-}" ] || { rounded 33 5; rounded 40 5; rounded 64 4; rounded 64 16; } # 40 and 64: wgmma
[ -z "${MICA_ALL:-}" ] || grep -q ' COLUMNS = 48, WIDTH = 160,' "$work/even.cu" || complain "tiles of 48 columns"
# Mistakes in products of many rows are found: planted WHAT SED MESSAGE.
planted() {
  sed "$2" "$work/even.cu" >"$work/wrong.cu"
  cmp -s "$work/even.cu" "$work/wrong.cu" && complain "no mistake: $1"
  quick=-O0 compile wrong -w
  expect 1 "$3" "$work/wrong" --steps 2 --plain 1 --deadline "$deadline"
}
[ -z "${MICA_ALL:-}" ] || fibers tests/megacuda/even.json even --steps 2 --workers 3 --context 3 --rows 16 --seed 4 # else it is there
differs='^plain: ([0-9]|1[0-5]) of 16 tokens agree'
[ -z "${MICA_ALL:-}" ] || planted 'a piece of weights that is not awaited' 's/if (of == 0) wait_stage(&S.full.*$/;/' "$differs"
[ -z "${MICA_ALL:-}" ] || planted 'an operand that is packed wrongly' 's/if constexpr (W::PANEL) place_in_operand<W>(at, place);//' "$differs"
planted 'a piece that is counted twice' 's/taken += (u32)tiles;/taken += 2 * (u32)tiles;/' '^hung: .* at [a-z_]+.* waited for a stage: saw [0-9]+, wanted [0-9]+$'
# The plain model finds a wrong token.
if [ -n "${MICA_ALL:-}" ]; then
  sed 's/M.tokens\[j.at \* ROWS + row\] = at/& ^ 1/' "$work/tiny_llama.cu" >"$work/wrong.cu"
  cmp -s "$work/tiny_llama.cu" "$work/wrong.cu" && complain "no wrong token"
  quick=-O0 compile wrong -w
  expect 1 '^plain: ' "$work/wrong" --steps 1 --plain 1 --deadline "$deadline"
fi
# Three pieces of an input take the memory of two stages. That is faster by the model where the products are long.
few() {
  sed -E '/"num_hidden_layers"/s/[0-9]+/2/' "examples/mega/$1.json" >"$work/$1.json"
  expect 0 "$3" emit "$work/$1.json" --rows 64 --context "$2" --out "$work"
}
under=("$MICA" mega)
few llama_3_1_8b 1024 'pipeline of 7 stages'
grep -q ' SLOTS = 3, ' "$work/llama_3_1_8b.cu" || complain "three pieces of an input"
few llama_3_2_1b 128 'pipeline of 9 stages'
grep -q ' SLOTS = 3, ' "$work/llama_3_2_1b.cu" && complain "three pieces of an input of a small model"
under=()
# The largest of logits that are tagged words, and of logits in panels.
for rows in 8 ${MICA_ALL:+16}; do
  sed "s/rows = 8/rows = $rows/" tests/megacuda/picked.mega >"$work/picked$rows.mega"
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$work/picked$rows.mega" --steps 3 --seed 4 --out "$work"
  expect 0 '' run "$work/picked$rows.mega" --steps 3 --seed 4 --deadline 60
  grep '^row' "$work/out" >"$work/want"
  quick=-O0 fibers "$work/picked$rows.mega" picked --steps 3 --seed 4
  expect 0 "^plain: $((3 * rows)) of $((3 * rows)) tokens agree" "$work/picked" --steps 3 --plain 3 --deadline "$deadline"
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $rows picked rows"
done
# Attention in parts that a product with bf16 weights copies in panels, and a product with float32 weights reads element by element.
under=("$MICA" mega)
expect 0 'rows = 16' plan tests/megacuda/even.json --workers 3 --context 3 --rows 16 --attention-parts 2 --attention-merge product --text
awk '/^    after /{next} {sub(/ versions 1$/, "")} /^  Wo:/{$0 = $0 "\n  Wmore: f32[1, 512, 1024] weights"}
  /^  operator (attend|o)\[/{copy = 1} /^  operator gate_up/{printf "%s", more} {print}
  copy{sub(/operator attend/, "operator again"); sub(/operator o/, "operator more"); sub(/Wo,/, "Wmore,"); sub(/tiles 32/, "tiles 64"); more = more $0 "\n"}
  /^  }/{copy = 0}' "$work/out" >"$work/twice.mega"
[ -n "${MICA_ALL:-}" ] || { finish; exit; }
fibers "$work/twice.mega" even --steps 2 --seed 4
grep -A5 '^struct t_attended' "$work/even.cu" | grep -q 'PANEL = true, REST = true' || complain "panels of parts of attention"
expect 0 'relative error of logits at most 0[.]00' "$work/even" --steps 2 --plain 2 --deadline "$deadline"

finish
