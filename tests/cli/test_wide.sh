#!/usr/bin/env bash
# A softmax over the vocabulary of a language model: graphs that are proved equal, a result checked against float64, a run on the CPU.
# Which program wins is not asked: that depends on the machine's load.
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
expect 0 'equal \(proved\)' "$MICA" search "$work/wide.mica" --no-db --top 2
expect 0 'numbers +relative error [0-9.]+e-0' "$MICA" optimize "$work/wide.mica" --target cpu --time 10 --no-db --out "$work/wide"
expect 0 '' "$MICA" run "$work/wide.mica" --engine cpu --quiet
finish
