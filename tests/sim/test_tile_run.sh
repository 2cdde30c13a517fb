#!/usr/bin/env bash
# mica tile run from outside: statuses, reports, arrays in and out.
set -u
. tests/shell.sh
under=("$MICA" tile run)

good=tests/sim/good broken=tests/sim/broken
expect 0 '^0 errors$' $good/transpose.tile --set M=50 --set N=70
expect 0 'bank conflicts +0$' $good/transpose.tile --set M=50 --set N=70
expect 0 'mma.m16n8k16.fp32.fp16 +2$' $good/mma.tile --seed 5
expect 1 'race_03_warps.tile:[0-9]+:[0-9]+: race: block 0, thread 0 ' $broken/race_03_warps.tile
expect 1 'missing-fence: .*fence.async' $broken/missing-fence_01_wgmma.tile
expect 1 'deadlock: .*nothing can go on: warp' $broken/deadlock_01_tma.tile
expect 2 'needs the size N' $good/transpose.tile --set M=50
expect 2 'N = 12345: .*multiples of 8' kernels/copy.tile --set N=12345
expect 2 'NAME=FILE.npy' $good/mma.tile D=zero

# what is written can be read again: C of a product with zeros is zero, and an output may be given as it is before the run
expect 0 '^0 errors$' $good/mma.tile B=zero --out "$work"
expect 0 '^0 errors$' $good/mma.tile C="$work/C.npy"
expect 2 '%A has 512 elements, and 128 are given' $good/mma.tile A="$work/C.npy"
expect 3 'none.npy' $good/mma.tile A="$work/none.npy"

finish
