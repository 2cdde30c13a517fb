#!/usr/bin/env bash
# A machine that lacks descriptors, memory, room on a disk or a folder: optimize ends with status 3 and a hint about that, and not about gcc. It leaves
# no result that is half written. A home that cannot be written costs the database alone.
# test: release
set -u
. tests/shell.sh
unset CC # the compiler itself, in each run
cat >"$work/a.mica" <<'END'
program a() {
  X: f32[8, 16]
  W: f32[16, 16]
  return exp(matmul(X, W))
}
END
optimize=("$MICA" optimize "$work/a.mica" --target cpu --dtype f32 --time 30 --measure 1 --max-block-ops 1 --no-db --out "$work/result")

# PATTERN LIMITS...: the status is 3, and so is the hint; or all went well
limited() {
  local pattern=$1 got
  shift
  rm -rf "$work/result"
  (ulimit "$@" && exec "${optimize[@]}") >"$work/out" 2>"$work/err" </dev/null
  got=$?
  [ $got = 0 ] || [ $got = 3 ] || complain "status $got with ulimit $*"
  [ $got = 0 ] || grep -Eq -- "hint: .*$pattern" "$work/err" || complain "no hint like '$pattern' with ulimit $*"
  ! grep -q "install gcc" "$work/err" || complain "a hint about gcc with ulimit $*"
  if [ $got = 0 ]; then [ -s "$work/result/SHA256SUMS" ] || complain "no result with ulimit $*"; else [ ! -e "$work/result" ] || complain "half a result with ulimit $*"; fi
  [ -z "$(find "$work" -name '*.tmp' -o -name '.result*')" ] || complain "a file is left with ulimit $*"
  [ $got = 0 ] || ended=$((ended + 1))
}
ended=0
for n in 5 6 8 10 12 16 20; do limited 'ulimit -n' -n $n; done
[ $ended -ge 4 ] || complain "$ended limits of files ended the command"
ended=0
for kib in 50000 100000 300000; do limited 'ulimit -v' -v $kib; done
[ $ended = 3 ] || complain "$ended limits of memory ended the command"
ended=0
for blocks in 4 8; do limited 'ulimit -f' -f $blocks; done
[ $ended = 2 ] || complain "$ended limits of sizes ended the command"

rm -rf "$work/result"
expect 3 'hint: TMPDIR names the folder' env TMPDIR="$work/no/where" "${optimize[@]}"
[ ! -e "$work/result" ] && [ ! -e "$work/no" ] || complain "a missing TMPDIR leaves something"
if unshare -rm true 2>/dev/null; then
  mkdir "$work/disk" "$work/home"
  expect 3 'hint: .*name a folder whose parent you can write to' unshare -rm sh -c 'mount -t tmpfs -o ro none "$1" && shift && exec "$@" --out "$0/result"' "$work/disk" "$work/disk" "${optimize[@]}"
  expect 3 'hint: the disk is full' unshare -rm sh -c 'mount -t tmpfs -o size=16k none "$1" && shift && "$@" --out "$0/result"; s=$?; ls -A "$0"; exit $s' \
    "$work/disk" "$work/disk" "${optimize[@]}"
  ! grep -q result "$work/out" || complain "a full disk has half a result"
  expect 0 'warning: no database is used: .*Read-only file system' unshare -rm sh -c 'mount -t tmpfs -o ro none "$1" && unset MICA_DB && HOME=$1 XDG_CACHE_HOME= exec "$2" optimize "$3" --time 30 --measure 1 --max-block-ops 1' \
    sh "$work/home" "$MICA" "$work/a.mica"
fi
finish
