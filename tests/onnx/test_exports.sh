#!/usr/bin/env bash
# Small models of both of torch's exporters, imported, run by the interpreter and by optimized kernels, against onnxruntime.
# PYTHON names an interpreter with torch, onnxscript, onnx and onnxruntime. test: check-all
# test: timeout 1500
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db
python=${PYTHON:-python3}
if ! "$python" -c 'import torch, onnxscript, onnx, onnxruntime' 2>/dev/null; then
  echo "skipped: torch, onnxscript, onnx and onnxruntime are not all there (PYTHON names an interpreter that has them)"
  exit 77
fi

# ---- all of them, by the interpreter ----
expect 0 'agrees  llama_half_dynamo23' "$python" tests/onnx/compare.py "$MICA" "$work/exports" --torch

# ---- some, optimized and compiled ----
for one in gated_dynamo bert_script llama_dynamo23; do
  expect 0 "agrees  $one" "$python" tests/onnx/compare.py "$MICA" "$work/optimized" --torch --only $one --optimize 600 --engine cpu
done
finish
