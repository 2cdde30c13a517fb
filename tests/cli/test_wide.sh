#!/usr/bin/env bash
# A softmax over the vocabulary of a language model: optimized, checked against float64 and run on the CPU.
# test: release
set -u
. tests/shell.sh
export HOME=$work/home TMPDIR=$work
mkdir "$HOME"
cat >"$work/wide.mica" <<'MICA'
program wide {
  X: f32[2, 128256]
  return softmax(X, dim=1)
}
MICA
expect 0 'proof +proved equal' "$MICA" optimize "$work/wide.mica" --target cpu --time 4 --no-db --out "$work/wide"
expect 0 '' "$MICA" run "$work/wide.mica" --engine cpu --quiet
finish
