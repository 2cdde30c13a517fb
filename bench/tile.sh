#!/usr/bin/env bash
# Times tile kernels on this machine's GPU at the sizes of bench/tile_time.list, each held against its program in float64
# first, and writes a line each:  bench/tile.sh [FILE.csv]
# Inputs rotate through more than twice the L2 cache; a time is the median over replays of a CUDA graph, by launch.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/tile.csv}
tool=${TILE_GPU:-build/tile_gpu} # built elsewhere, where this machine has no compiler
[ -n "${TILE_GPU:-}" ] || make --no-print-directory tile_gpu
printf 'kernel,sizes,us median,us least,us most,bytes,GB/s,TFLOP/s\n' >"$out"
status=0
"$tool" --time --no-check --csv "$out" bench/tile_time.list || status=$?
[ "$status" -eq 3 ] || cat "$out"
exit "$status"
