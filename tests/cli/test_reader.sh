#!/usr/bin/env bash
# program.json and machine code as bench/peers/mica.py reads them, with a driver that only writes down; bench/mica_peers.sh, which
# makes them. Without NVRTC there is no machine code to read.
# test: quick release
# test: timeout 300
set -u
. tests/shell.sh
export MICA_DB="$work/test.db"

# read FOLDER PATTERN: program.json has the pattern, and its reader is right
read_saved() {
  grep -q "$2" "$1/program.json" || complain "$1/program.json has nothing like '$2'"
  python3 tests/cli/reader.py "$1" >"$work/out" 2>"$work/err" || complain "the reader of $1"
}

if ! command -v python3 >/dev/null; then
  echo "skipped: no python3"
  exit 77
fi
cat >"$work/batched.mica" <<'P'
program batched() {
  Q: f16[3, 8, 64]
  K: f16[3, 40, 64]
  return relu(matmul(Q, transpose(K)))
}
P
cat >"$work/gemm.mica" <<'P'
program gemm() {
  A: f16[1024, 256]
  B: f16[256, 512]
  c: f16[512]
  return relu(matmul(A, B) + c), sum(A, dim=1)
}
P
for name in batched gemm; do
  "$MICA" optimize "$work/$name.mica" --target sm_90a --out "$work/$name" >"$work/out" 2>"$work/err" || complain "status $?: $name"
  if grep -q '"missing": null' "$work/$name/program.json"; then read_saved "$work/$name" '"args"'; fi
done

under=(env "MICA=$MICA" LIMIT=60)
expect 0 '^misc/lstm_h128 .* by the model' bench/mica_peers.sh "$work/peers" misc/lstm_h128
[ -s "$work/peers/misc_lstm_h128/program.json" ] || complain "misc/lstm_h128 has no program"
expect 0 'by the model' bench/mica_peers.sh "$work/peers" misc/lstm_h128
expect 1 'no time for: misc/lstm_h128' env BUDGET=1 bench/mica_peers.sh "$work/peers" misc/lstm_h128
expect 1 'misc/lstm_h128 .* exit status 1' env MICA=false bench/mica_peers.sh "$work/peers" misc/lstm_h128
[ ! -e "$work/peers/misc_lstm_h128/program.json" ] || complain "a program is left that is of an earlier run"
expect 2 'OUTDIR' bench/mica_peers.sh

finish
