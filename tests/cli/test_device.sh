#!/usr/bin/env bash
# Targets and the GPU that is there, with a driver that has none behind it (tests/cuda/fake.h), whose kernels copy the first buffer to
# the second: a target that the GPU does not run is refused, but only where something would run; kernels of one that lacks something are measured
# on it, and what is saved is for the target.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db
printf 'program same(n = 64) {\n  X: f16[4, n]\n  return X * 1\n}\n' >"$work/same.mica"
${CC:-cc} -std=gnu17 -shared -fPIC -Isrc -Iinclude -Itests/cuda tests/cuda/fake.c -o "$work/libcuda.so.1" || complain "no driver"
export LD_LIBRARY_PATH="$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
same=$work/same.mica

FAKE_ARCH=86 expect 2 'sm_90a cannot run on this machine.s a fake: compute capability 8.6 has no fp8, ' "$MICA" optimize "$same" --target sm_90a --quiet
FAKE_ARCH=86 expect 2 'it runs kernels for sm_80, sm_86, sm_87' "$MICA" optimize "$same" --target sm_89 --quiet
FAKE_ARCH=110 expect 2 'there is no target for this machine.s a fake: its compute capability is 11.0' "$MICA" optimize "$same" --target sm_90a --quiet
FAKE_ARCH=86 expect 0 '' "$MICA" search "$same" --target sm_90a --quiet
FAKE_ARCH=86 expect 0 'target sm_90a' "$MICA" lower "$same" --target sm_90a

FAKE_ARCH=90 FAKE_BYTES=512 "$MICA" optimize "$same" --target sm_80 --tune 1 --out "$work/out80" --json "$work/out80.json" >"$work/out" 2>"$work/err"
status=$?
cat "$work/out" "$work/err" >"$work/both"
if [ $status = 3 ] && grep -q libnvrtc "$work/both"; then
  echo "without NVRTC: nothing was measured"
else
  [ $status = 0 ] || complain "an older target on a newer GPU: status $status"
  grep -q 'on another GPU, compiled for its compute capability 9.0; the files are for sm_80' "$work/out80/report.txt" || complain "the report does not say where it was measured"
  grep -qE '^same on sm_80: a fake' "$work/out80/report.txt" || complain "the report does not name target and device"
  grep -q '"arch": 80' "$work/out80/report.json" && grep -q '"runs_on": 90' "$work/out80/report.json" || complain "no architectures in report.json"
  grep -q '"arch": "sm_80"' "$work/out80/program.json" || complain "the package is not for sm_80"
  for f in "$work"/out80/*.cubin; do # the architecture is in the flags of the ELF header: 0x50 is 80
    flags=$(od -An -tx1 -j48 -N4 "$f" | tr -d ' \n')
    case $flags in *50*) ;; *) complain "$f is machine code with flags $flags" ;; esac
  done

  # Waiting for others takes none of the time: the command goes on after far more than that, and is not ended. It waits 25 s: in the long tier.
  if [ -n "${MICA_ALL:-}" ]; then
    flock "$work/lock" sleep 25 &
    sleep 0.3
    MICA_GPU_LOCK=$work/lock FAKE_ARCH=90 FAKE_BYTES=512 expect 0 'op-by-op +[0-9.]+ ms' "$MICA" optimize "$same" --target sm_80 --tune 1 --time 2 --no-db
    wait
  fi
fi
finish
