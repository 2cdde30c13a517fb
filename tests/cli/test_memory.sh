#!/usr/bin/env bash
# Commands that find no memory end with status 3 and say what it was wanted for: tensors that no machine has room for, and a process that may
# take little more than it begins with (`ulimit -v`), down to what is too little to begin with.
# test: release
set -u
. tests/shell.sh

expect 3 'no memory for `X`, f16\[1000000, 500000\]: 4000000000000 bytes \[memory\]' "$MICA" run examples/softmax.mica --set m=1000000 --set n=500000
expect 3 'hint: ' "$MICA" run examples/softmax.mica --set m=1000000 --set n=500000 --engine cpu

limited() { # KIB COMMAND...: sets got
  (ulimit -v "$1" && shift && exec "$@") >"$work/out" 2>"$work/err"
  got=$?
}
tried=0 ended=0
for kib in 18000 20000 22000 25000 28000 32000 40000 60000 100000; do
  limited $kib "$MICA" help
  [ $got = 0 ] || continue # the system cannot load it
  for command in "search examples/softmax.mica" "show examples/m_gqa.mica" "verify examples/softmax.mica examples/softmax.mica" "lower examples/g_gemm.mica --target sm_80"; do
    limited $kib "$MICA" $command --quiet
    tried=$((tried + 1))
    [ $got = 3 ] && ended=$((ended + 1))
    [ $got = 0 ] || { [ $got = 3 ] && grep -q '\[memory\]' "$work/err" && grep -q 'hint: ' "$work/err"; } || complain "status $got with $kib KiB: $command"
  done
done
[ $tried -ge 16 ] && [ $ended -ge 4 ] && [ $ended -lt $tried ] || complain "$ended of $tried commands found no memory"
finish
