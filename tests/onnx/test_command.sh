#!/usr/bin/env bash
# `mica import`, `run` and `optimize` of models; against onnxruntime where python3 has it (PYTHON names another).
# test: release
# test: timeout 1500
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db
models=tests/onnx/models

# ---- import says what was taken, and names what was not ----
expect 0 '21 nodes taken in 1 program, 18 folded, 0 left as they are, 0 unsupported' "$MICA" import $models/attention.onnx
expect 0 '"cell" \(RecurrentCell\): there is no operator of this name' "$MICA" import $models/unsupported.onnx
expect 0 '"conv1" \(Conv\): windows of 3 with a step of 1 and padding' "$MICA" import onnx $models/conv_net.onnx
expect 2 'no value: `batch`' "$MICA" import $models/gated_mlp.onnx
expect 2 'set batch=1' "$MICA" import $models/gated_mlp.onnx
expect 2 'extents that can be set: batch' "$MICA" import $models/gated_mlp.onnx --set batch=2 --set rows=3
expect 2 'no extent `rows`' "$MICA" import $models/gated_mlp.onnx --set batch=2 --set rows=3
expect 2 'dtype' "$MICA" import $models/norm.onnx --dtype f16
expect 3 'cannot open' "$MICA" import "$work/absent.onnx"
expect 2 'cannot be compared with a program' "$MICA" import $models/norm.onnx examples/softmax.mica
expect 2 'no format' "$MICA" import tflite $models/norm.onnx examples/softmax.mica
printf 'nothing' >"$work/bad.onnx"
expect 2 'bad-onnx' "$MICA" import "$work/bad.onnx"
: >"$work/empty.onnx"
expect 2 'holds no graph' "$MICA" import "$work/empty.onnx"
expect 0 '1 kernel' "$MICA" import tests/fuzz/seeds/mirage/norm.json # a list is Mirage's

# ---- the folder ----
expect 0 'manifest.json' "$MICA" import $models/two_programs.onnx --out "$work/two"
expect 0 'relu' "$MICA" show "$work/two/two_programs_1.mica" --text
expect 0 '"from": "two_programs_1"' cat "$work/two/manifest.json"
expect 0 '"why": "Mica does not round"' cat "$work/two/manifest.json"
expect 0 '"value": "where_' "$MICA" import $models/grouped.onnx --out "$work/grouped" --json - # the mask that was folded
[ -s "$work/grouped/constant_1.npy" ] || complain 'no constant_1.npy'

# ---- run: the interpreter, compiled, the folder; the same numbers ----
mean() { sed -n 's/^y *mean \([-0-9.e]*\).*/\1/p' "$work/out"; }
expect 0 '^y  mean' "$MICA" run $models/two_programs.onnx
first=$(mean)
expect 0 '^y  mean' "$MICA" run $models/two_programs.onnx --engine cpu
[ "$(mean)" = "$first" ] || complain "compiled: $(mean), not $first"
expect 0 '^y  mean' "$MICA" run "$work/two" --engine f32
[ "$(mean)" = "$first" ] || complain "folder: $(mean), not $first"

# ---- a second run compiles nothing ----
cat >"$work/cc" <<SCRIPT
#!/bin/sh
echo "\$@" >>"$work/compiled"
exec cc "\$@"
SCRIPT
chmod +x "$work/cc"
for run in first second; do
  expect 0 '^y  mean' env CC="$work/cc" MICA_DB="$work/kept.db" "$MICA" run $models/two_programs.onnx --engine cpu
  [ "$(mean)" = "$first" ] || complain "compiled and kept: $(mean), not $first"
  [ "$(grep -c -e -shared "$work/compiled")" = "${programs:=$(grep -c -e -shared "$work/compiled")}" ] || complain "the $run run compiled again"
done
[ "$programs" -gt 0 ] || complain "nothing was compiled"
expect 2 'node "cell" \(RecurrentCell\) cannot be run' "$MICA" run $models/unsupported.onnx

# ---- indices that are inputs: what a table lacks is refused, by both engines ----
printf '\223NUMPY\001\000v\000{\047descr\047: \047<i8\047, \047fortran_order\047: False, \047shape\047: (2, 3), }%58s\n' "" >"$work/i.npy"
printf '\003\000\000\000\000\000\000\000\374\377\377\377\377\377\377\377\000\000\000\000\000\000\000\000' >>"$work/i.npy"
cp "$work/i.npy" "$work/far.npy"
printf '%024d' 0 | tr 0 '\000' >>"$work/i.npy"
printf '\004\000\000\000\000\000\000\000' >>"$work/far.npy"
printf '%016d' 0 | tr 0 '\000' >>"$work/far.npy"
for engine in f64 cpu; do
  expect 0 'rows .*mean' "$MICA" run $models/choices.onnx i="$work/i.npy" --engine $engine
  expect 2 'i\[3\] is 4, limit 4 \[index-range\]' "$MICA" run $models/choices.onnx i="$work/far.npy" --engine $engine
done
expect 2 'gives no input' "$MICA" run $models/norm.onnx z=z.npy
expect 2 'engine' "$MICA" run $models/norm.onnx --engine field
expect 2 'has its settings' "$MICA" run "$work/two" --set n=1
expect 0 '' "$MICA" run $models/movement.onnx --out "$work/moved" --quiet
[ -s "$work/moved/backwards.npy" ] || complain 'no backwards.npy'
expect 2 'i is int64, and .* holds float64|input i is int64' "$MICA" run $models/movement.onnx "i=$work/moved/backwards.npy"

# ---- optimize, and run what was found ----
expect 0 'program norm' "$MICA" optimize $models/norm.onnx --out "$work/norm" --measure 1 --threads 2
[ -s "$work/norm/norm/graph.mica" ] || complain 'no graph.mica'
expect 0 '^y  mean' "$MICA" run "$work/norm"
first=$(mean)
expect 0 '^y  mean' "$MICA" run $models/norm.onnx
[ "$(mean)" = "$first" ] || complain "optimized: $first, not $(mean)"

# ---- where the time is short, of several subprograms those that were not reached run operator by operator, and all programs are there ----
# A busy machine needs more time until there is a result at all, so the time is doubled until there is one.
for time in 4 8 16 32 64 128 256; do
  "$MICA" optimize $models/llama_script.onnx --out "$work/llama" --measure 1 --threads 2 --time $time --quiet --json - \
    >"$work/short.json" 2>"$work/short.txt"
  short=$?
  [ $short = 3 ] && grep -Eq 'was over|was reached' "$work/short.txt" || break
done
[ $short = 0 ] || complain "in $time seconds: status $short: $(cat "$work/short.txt")"
grep -Eq '"left": "[^"]+' "$work/short.json" || complain "in $time seconds nothing was left"
[ -s "$work/llama/main_graph/graph.mica" ] || complain "no main_graph/graph.mica"
expect 0 '^y  mean' "$MICA" run "$work/llama"
first=$(mean)
expect 0 '^y  mean' "$MICA" run $models/llama_script.onnx
[ "$(mean)" = "$first" ] || complain "in little time: $first, not $(mean)"

# ---- onnxruntime ----
python=${PYTHON:-python3}
if "$python" -c 'import onnx, onnxruntime, numpy' 2>/dev/null; then
  expect 0 'agrees  two_programs' "$python" tests/onnx/compare.py "$MICA" "$work/compare"
  expect 0 'agrees  bert_large' "$python" tests/onnx/compare.py "$MICA" "$work/compare" --large --engine cpu
else
  echo "skipped: onnx and onnxruntime are not there, so models are held against their saved answers only"
fi
finish
