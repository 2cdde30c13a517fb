#!/usr/bin/env bash
# One SIGINT or SIGTERM ends a command in any state: while the compiler hangs, while a pipe has nobody at its other end, while the
# database is locked. So does the end of --time. Nothing is left: no process, no folder.
# The limit here is wider than the two seconds that hold on an idle machine (docs/first-command.md).
# test: release
# test: timeout 300
set -u
. tests/cli/searches.sh

MOST=8 # seconds; a command that heeds nothing would wait for ever
tmp=$work/tmp
mkdir "$tmp"
export TMPDIR=$tmp
mkfifo "$work/pipe.mica" "$work/pipe.onnx" "$work/pipe.npy" "$work/pipe.json"

# A compiler that hangs, with a child of its own as gcc has.
cat > "$work/slow" <<'END'
#!/bin/sh
[ "$1" = --version ] && { echo slow; exit 0; }
echo $$ > "$PIDS/$$"
sleep 1000 &
echo $! > "$PIDS/$!"
wait
END
sed 's/^\[.*//' "$work/slow" > "$work/slower" # even when it is asked who it is
chmod +x "$work/slow" "$work/slower"
export PIDS=$work/pids
mkdir "$PIDS"

left() { # processes of the compiler that are still there
  local pid n=0
  for pid in $(cat "$PIDS"/* 2>/dev/null); do
    while kill -0 "$pid" 2>/dev/null && ! grep -q 'State:.Z' "/proc/$pid/status" 2>/dev/null && [ $((n += 1)) -lt 50 ]; do sleep 0.1; done
    [ $n -lt 50 ] || echo "$pid"
  done
  rm -f "$PIDS"/*
}

# ends SIGNAL COMMAND...: it is sent when the command has had time to get stuck; "-" sends none
ends() {
  local signal=$1 status start
  shift
  timeout --foreground -s KILL $((MOST + 4)) "$@" > "$work/out" 2> "$work/err" < /dev/null &
  local pid=$!
  [ "$signal" = - ] || { sleep 0.7; kill "-$signal" $pid 2>/dev/null || complain "it ended by itself: $*"; }
  start=$SECONDS
  wait $pid 2>/dev/null
  status=$?
  [ $status = 3 ] || complain "after $signal: status $status: $*"
  grep -q 'error: ' "$work/err" || complain "after $signal: no message: $*"
  [ $((SECONDS - start)) -le $MOST ] || complain "after $signal: it took $((SECONDS - start)) seconds: $*"
  [ -z "$(left)" ] || complain "after $signal: children are left: $*"
  [ -z "$(ls "$tmp")" ] || complain "after $signal: $(ls "$tmp") is left: $*"
}

optimize=("$MICA" optimize examples/softmax.mica --set m=8 --set n=16 --dtype f32 --no-db --quiet)
CC=$work/slow ends INT "${optimize[@]}"
ends TERM "$MICA" show "$work/pipe.mica"
CC=$work/slow ends - "${optimize[@]}" --time 1
more() { # in the long tier (make check-all)
CC=$work/slow ends INT "$MICA" run examples/softmax.mica --set m=8 --set n=16 --engine cpu
CC=$work/slow ends TERM "$MICA" tile run kernels/copy.tile --set N=512 --cpu
expect 3 "no regular file" "$MICA" import onnx "$work/pipe.onnx"
ends TERM "$MICA" run examples/softmax.mica --set m=8 --set n=16 "X=$work/pipe.npy"
ends INT "$MICA" run examples/softmax.mica --set m=8 --set n=16 --json "$work/pipe.json"
ends TERM "${optimize[@]}" --html "$work/pipe.json"
ends INT "$MICA" run examples/g_gemm.mica --engine f64
CC=$work/slow ends TERM "${optimize[@]}"
ends INT "$MICA" show "$work/pipe.mica"
CC=$work/slower ends TERM "${optimize[@]}"
CC=$work/slower ends - "${optimize[@]}" --time 1
ends - "$MICA" optimize "$work/pipe.mica" --time 1
}
[ -z "${MICA_ALL:-}" ] || more

# A database that another process has locked.
if command -v python3 > /dev/null; then
  "$MICA" search examples/softmax.mica --set m=8 --set n=16 --db "$work/locked.db" --quiet || complain 'no database'
  python3 -c 'import sqlite3, sys, time
d = sqlite3.connect(sys.argv[1], isolation_level=None)
d.execute("PRAGMA locking_mode = EXCLUSIVE"); d.execute("BEGIN EXCLUSIVE"); print(flush=True); time.sleep(60)' "$work/locked.db" > "$work/ready" &
  locker=$!
  while [ ! -s "$work/ready" ]; do sleep 0.05; done
  ends INT "$MICA" optimize examples/softmax.mica --set m=8 --set n=24 --dtype f32 --quiet --db "$work/locked.db"
  kill $locker
  wait $locker 2>/dev/null
fi

# SIGKILL leaves a folder, and the next start removes it; what other users or programs have stays.
CC=$work/slow "${optimize[@]}" 2> /dev/null &
pid=$!
while ! ls "$PIDS"/* > /dev/null 2>&1; do sleep 0.05; done
sleep 0.2
kill -KILL $pid
wait $pid 2>/dev/null
[ -z "$(left)" ] || complain 'children outlive SIGKILL'
mkdir "$tmp/mica-own" "$tmp/mica-1-2-notours"
"$MICA" version > /dev/null
[ "$(ls "$tmp" | tr '\n' ' ')" = 'mica-1-2-notours mica-own ' ] || complain "the next start leaves $(ls "$tmp")"

finish
