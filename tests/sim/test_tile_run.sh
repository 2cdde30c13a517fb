#!/usr/bin/env bash
# mica tile run from outside: statuses, reports, arrays in and out.
set -u
: "${MICA:?set MICA to the command}"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
  echo "FAILED: $1"
  sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null | head -20
  failures=$((failures + 1))
}

# expect STATUS PATTERN ARGUMENT...: PATTERN (extended, in what `mica tile run ARGUMENT...` prints to either stream)
expect() {
  local status=$1 pattern=$2 got
  shift 2
  "$MICA" tile run "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$status" ] || complain "status $got, not $status: $*"
  grep -Eq -- "$pattern" "$work/out" "$work/err" || complain "nothing like '$pattern': $*"
}

good=tests/sim/good broken=tests/sim/broken
expect 0 '^0 errors$' $good/transpose.tile --set M=50 --set N=70
expect 0 'bank conflicts +0$' $good/transpose.tile --set M=50 --set N=70
expect 0 'mma.m16n8k16.fp32.fp16 +2$' $good/mma.tile --seed 5
expect 1 'race_03_warps.tile:[0-9]+:[0-9]+: race: block 0, thread 0 ' $broken/race_03_warps.tile
expect 1 'missing-fence: .*fence.async' $broken/missing-fence_01_wgmma.tile
expect 1 'deadlock: .*nothing can go on: warp' $broken/deadlock_01_tma.tile
expect 2 'has a size N: give it by --set N=' $good/transpose.tile --set M=50
expect 2 'outside the range|not a multiple' kernels/copy.tile --set N=12345
expect 2 'NAME=FILE.npy' $good/mma.tile D=zero

# what is written can be read again: C of a product with zeros is zero, and an output may be given as it is before the run
expect 0 '^0 errors$' $good/mma.tile B=zero --out "$work"
expect 0 '^0 errors$' $good/mma.tile C="$work/C.npy"
expect 2 'C.npy has 128 elements, and %A 512' $good/mma.tile A="$work/C.npy"
expect 3 'none.npy' $good/mma.tile A="$work/none.npy"

[ "$failures" = 0 ]
