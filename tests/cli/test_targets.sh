#!/usr/bin/env bash
# Every GPU of the table, without one: kernels of several programs are right in the interpreter, a scheme that needs what the GPU
# lacks is refused with that reason, and `mica optimize` makes machine code where there is NVRTC. Nothing here names a target.
# test: timeout 300
# test: release
set -u
. tests/shell.sh
under=("$MICA")
export MICA_DB="$work/test.db"
printf 'program scaled(m = 4, n = 64) {\n  X: f16[m, n]\n  return exp(X) * 2\n}\n' >"$work/scaled.mica"
"$MICA" targets --json "$work/targets.json" --quiet
targets=$(sed -n 's/.*"name": "\(sm_[0-9a-z]*\)".*/\1/p' "$work/targets.json")
[ "$(wc -w <<<"$targets")" -ge 5 ] || complain "there are only these GPUs: $targets"

for t in $targets; do
  expect 0 ', 0 errors,' lower examples/softmax.mica --set m=8 --set n=512 --target "$t" --check
  expect 0 'of what is accepted' lower examples/graphs/gqa_stable.mica --target "$t" --check --small
  expect 0 '' lower examples/graphs/gqa_stable.mica --target "$t" --dump choices
  if grep -q "needs wgmma" "$work/out" || ! grep -q 'us  wgmma' "$work/out"; then
    grep -q "wgmma: needs .*wgmma, which $t does not have" "$work/out" || complain "$t: nothing says why there is no kernel with wgmma"
    expect 2 "the scheme wgmma needs .*wgmma, which $t does not have" lower examples/graphs/gqa_stable.mica --target "$t" --knobs 'wgmma groups=2'
  fi
  expect 0 '' optimize "$work/scaled.mica" --target "$t" --out "$work/$t" --quiet
  grep -q "made by Mica for $t" "$work/$t/kernel.cu" || complain "no kernels for $t"
done
finish
