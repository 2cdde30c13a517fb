#!/usr/bin/env bash
# Run-time extents and entry points by the command: values of extents, choices of entry points, and kernels of GPUs in the interpreter.
# test: release
set -u
. tests/shell.sh
decode=examples/decode_n.mica tiny=examples/models/tiny.mica

expect 0 '\[8, 1, 64\]' "$MICA" run $decode --set most=64 n=17
expect 2 'n is 65 in the command line, at most 64 \[extent-bound\]' "$MICA" run $decode --set most=64 n=65
expect 2 'n is 0 in the command line, at least 1' "$MICA" run $decode --set most=64 n=0
printf 'program rows() {\n  n: dim <= 8\n  X: f32[n, 3]\n  return X * 2, sum(X, dim=0)\n}\n' >"$work/rows.mica"
for engine in f64 f32 cpu; do expect 0 '\[5, 3\]' "$MICA" run "$work/rows.mica" n=5 --engine $engine --out "$work/rows"; done
expect 0 '\[5, 3\]' "$MICA" run "$work/rows.mica" X="$work/rows/out0.npy"
expect 2 'n is 5 in X and 4 in the command line' "$MICA" run "$work/rows.mica" X="$work/rows/out0.npy" n=4
expect 2 'n is 1 in X and 4 in the command line' "$MICA" run "$work/rows.mica" X="$work/rows/out1.npy" n=4
printf '{"mica": "mugraph", "version": 1, "level": "kernel", "nodes": [{"op": "input", "dtype": "i32", "shape": [], "range": [1, 8], "extent": 1},
  {"op": "input", "dtype": "f32", "shape": [8], "runs": [1]}, {"op": "mul_scalar", "in": [1], "scalar": 2}, {"op": "output", "in": [2]}]}' >"$work/unnamed.json"
expect 0 '\[5\]' "$MICA" run "$work/unnamed.json" in0=5
expect 2 'its inputs are in0, in1' "$MICA" run "$work/unnamed.json" n=5

expect 2 'the model tiny has the entry points prefill, step' "$MICA" run $tiny
expect 2 'no entry point `other`' "$MICA" show $tiny --entry other
expect 2 'the text is the program decode_n' "$MICA" show $decode --entry step
for entry in prefill step; do
  expect 0 "program $entry" "$MICA" show $tiny --entry $entry --text
  expect 0 "program $entry" "$MICA" show $tiny --set entry=$entry --text
  expect 0 '\[1, 256\]' "$MICA" run $tiny --entry $entry n=5
  "$MICA" show $tiny --entry $entry --text >"$work/$entry.mica"
  "$MICA" show $tiny --entry $entry --json - >"$work/$entry.json"
  expect 0 "equal: proved" "$MICA" verify "$work/$entry.mica" "$work/$entry.json"
done

# Padding does not matter on GPUs either.
for target in sm_80 sm_90a; do
  for seed in 1 2 3; do expect 0 'an output' "$MICA" lower $decode --set most=64 --set heads=2 --check --seed $seed --target $target; done
  for entry in prefill step; do expect 0 'an output' "$MICA" lower $tiny --entry $entry --set most=16 --set d=32 --set v=32 --check --target $target; done
done
finish
