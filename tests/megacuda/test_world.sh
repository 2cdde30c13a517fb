#!/usr/bin/env bash
# The kernel that `mica mega emit --world N` prints, compiled for a CPU: ranks are groups of blocks, and words to other ranks arrive late and in
# any order. Its tokens are those of one device; a counter that is never full on the last rank ends all ranks, and the next run is right.
# test: release
# test: timeout 600
set -u
. tests/shell.sh
command -v g++ >/dev/null || { echo "skipped: g++ is not there"; exit 77; }

# same FILE WORLD STEPS SEED OPTION...
same() {
  local name file=$1 world=$2 steps=$3 order=$4
  name=$(basename "${file%.*}")
  shift 4
  set -- --steps "$steps" "$@"
  under=("$MICA" mega)
  expect 0 'equal to the reference' run "$file" "$@"
  grep '^row' "$work/out" >"$work/want"
  expect 0 "$world ranks of .*equal to the reference" run "$file" --world "$world" "$@" --deadline 60
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "threads: tokens of $name $world $*"
  expect 0 'proved; ' emit "$file" --world "$world" "$@" --out "$work"
  under=()
  expect 0 '' bash tests/once.sh "$work/$name" "$work/$name.cu" "$work/mega_shim.h" -- \
    g++ -O1 -std=c++17 -Wall -Wno-unknown-pragmas -DMEGA_SHIM -DMEGA_GRAPH -x c++ -o "$work/$name" "$work/$name.cu"
  [ -s "$work/out" ] || [ -s "$work/err" ] && complain "warnings of $name.cu"
  MEGA_SHIM_SEED=$order expect 0 "planted: found, $world of $world ranks were stopped, and the next run is right" "$work/$name" --steps "$steps" \
    --plain 1 --hang --launches 2 --graph 1 --nccl 1 --deadline 500
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $name $world $*"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree, relative error of logits at most [0-9.]*e-0[67]' "$work/out" || complain "the plain model of $name $*"
  grep -Eq "^rank $((world - 1)): hung: .* waited for event .*: saw [0-9]+, wanted [0-9]+\$" "$work/out" || complain "the record of $name $*"
  grep -q '^graph: .* the tokens are the same$' "$work/out" || complain "a launch for each node of $name $*"
  grep -Eq "^the host in NCCL's place, [1-9][0-9]* all-reduces and 1 gathers a step, graph: .* the tokens are the same\$" "$work/out" ||
    complain "a graph with NCCL of $name $*"
  grep -q '2 launches of .* the same bits on all ranks' "$work/out" || complain "bits of $name $*"
}
[ -z "${MICA_ALL:-}" ] || same examples/mega/tiny_world.json 2 3 1 --workers 2 --context 5 --seed 3
same tests/mega/world_qwen3.json 2 2 77 --workers 2 --context 63 --rows 2 --seed 5
same examples/mega/tiny_world.json 4 2 5 --workers 1 --context 2 --seed 8
expect 2 '--flight and --calm take 1 to' "$work/tiny_world" --steps 2 --calm 0
expect 2 'options are .*--calm N, --nccl N' "$work/tiny_world" --calms 1

under=("$MICA" mega)
expect 2 'a world of 3 does not divide' emit examples/mega/tiny_world.json --world 3 --out "$work"
expect 2 'world is 16; 1 to 8 are supported' plan examples/mega/tiny_world.json --world 16
finish
