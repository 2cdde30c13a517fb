#!/usr/bin/env bash
# All node tests of the package onnx: each passes or is refused with a reason, none is silently wrong. The refused ones are printed.
# PYTHON names an interpreter that has onnx. test: check-all
# test: release
# test: timeout 900
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db
python=${PYTHON:-build/venv/bin/python}
if ! "$python" -c 'import onnx, numpy' 2>/dev/null; then
  echo "skipped: onnx is not there ($python; PYTHON names an interpreter that has it)"
  exit 77
fi
expect 0 ' 0 crashed, 0 silently wrong' "$python" bench/suites/onnx_nodes.py "$MICA" "$work/nodes" --refused
cat "$work/out"
finish
