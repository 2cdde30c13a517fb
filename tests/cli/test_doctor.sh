#!/usr/bin/env bash
# `mica doctor`: what is there, what is missing and what to do; and every place in which libraries of NVIDIA are looked for.
# test: quick release
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db

expect 0 '^ok +C compiler +.*OpenMP' "$MICA" doctor
expect 0 '^ok +database +'"$work/mica.db" "$MICA" doctor
expect 1 '^MISSING +C compiler +the compiler in CC cannot be executed: /nonexistent' env CC=/nonexistent "$MICA" doctor
expect 1 'do: .*set CC' env CC=/nonexistent "$MICA" doctor
mkdir -m 777 "$work/open"
expect 0 '^missing +database .*can be written by other users' env MICA_DB="$work/open/x.db" "$MICA" doctor
expect 0 '^  \$CUDA_HOME/lib64$' "$MICA" doctor
expect 0 '' "$MICA" doctor --quiet --json "$work/doctor.json"
python3 - "$work/doctor.json" <<'PYTHON' || complain "the answer as JSON"
import json, sys
v = json.load(open(sys.argv[1]))
assert len(v["checks"]) >= 9 and all(c["ok"] or c["missing"] and c["do"] and c["without"] for c in v["checks"])
PYTHON

# A library without functions in each place, found as the driver, where this machine has none.
if [ -z "${MICA_SANITIZED:-}" ] && env -u LD_LIBRARY_PATH HOME="$work" "$MICA" doctor | grep -q '^missing *driver'; then
  found() { # PLACE-FOLDER WHAT NAME=VALUE...
    local folder=$1 what=$2
    shift 2
    mkdir -p "$work/$folder"
    cc -shared -o "$work/$folder/libcuda.so.1" -x c /dev/null || complain "cc"
    expect 0 "^ok +driver +$work/$folder/libcuda.so.1 \\($what" env -u LD_LIBRARY_PATH HOME="$work" "$@" doctor
    grep -Eq 'missing  GPUs +the driver has no cu' "$work/out" || complain "no GPUs are missing: $folder"
    rm "$work/$folder/libcuda.so.1"
  }
  found toolkit/lib64 "the toolkit that CUDA_HOME" CUDA_HOME="$work/toolkit" "$MICA"
  found toolkit/lib64 "the toolkit that CUDA_PATH" CUDA_PATH="$work/toolkit" "$MICA"
  found venv/lib/python3.11/site-packages/nvidia/some/lib "pip's packages of the virtual" VIRTUAL_ENV="$work/venv" "$MICA"
  found conda/lib "the conda environment" CONDA_PREFIX="$work/conda" "$MICA"
  found .local/lib/python3.12/site-packages/nvidia/some/lib "pip's packages of the user" "$MICA"
  mkdir -p "$work/site/mica"
  cp "$MICA" "$work/site/mica/mica"
  found site/nvidia/some/lib "pip's packages beside Mica's" "$work/site/mica/mica"
  expect 0 '^missing +driver' env -u LD_LIBRARY_PATH HOME="$work" CUDA_HOME=relative "$MICA" doctor
fi
finish
