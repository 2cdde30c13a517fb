#!/usr/bin/env bash
# `mica optimize` for a GPU that is stopped by a signal: status 3, a whole folder or nothing in it, no process left behind; a second
# signal, of the other kind, ends it at once. If a kernel of this program is compiled, that takes far longer than the pauses.
# test: release
# test: timeout 300
set -u
. tests/cli/searches.sh

start() { # FOLDER
  "$MICA" optimize examples/g_mlp20.mica --set m=4096 --target sm_90a --tune 1 --db "$work/stop.db" --fresh --quiet --out "$1" 2> "$1.txt" &
  pid=$!
}
children() { ps -o pid= --ppid "$pid"; }
gone() { # PID...: a moment is theirs
  local n=0
  for child; do
    while kill -0 "$child" 2>/dev/null && [ $((n += 1)) -lt 300 ]; do sleep 0.1; done
    ! kill -0 "$child" 2>/dev/null || complain "the process $child is left"
  done
}

for pause in 0.05 1 4; do
  out=$work/out_$pause
  start "$out"
  sleep $pause
  theirs=$(children)
  kill -INT $pid 2>/dev/null
  wait $pid
  status=$?
  gone $theirs
  case $status in
  0) ;; # there is no compiler, and it was quicker
  3) grep -q 'error: stopped' "$out.txt" || complain "after $pause s: $(cat "$out.txt")" ;;
  130) [ $pause = 0.05 ] || complain "after $pause s: killed" ;; # before it could listen
  *) complain "after $pause s: status $status, $(cat "$out.txt")" ;;
  esac
  files=$(ls "$out" 2>/dev/null | wc -l)
  [ "$files" -eq 0 ] || [ -s "$out/report.json" -a -s "$out/kernel.cu" -a -s "$out/program.json" ] || complain "after $pause s: half a folder"
  [ $status -ne 3 ] || [ "$files" -eq 0 ] || grep -q '"stopped": true' "$out/report.json" || complain "the report does not tell of the stop"
done

start "$work/twice"
sleep 4
theirs=$(children)
kill -INT $pid 2>/dev/null
sleep 0.3
kill -TERM $pid 2>/dev/null
wait $pid
status=$?
gone $theirs
[ $status -eq 143 ] || [ $status -eq 0 ] || [ $status -eq 3 ] || complain "a second signal: status $status"

finish
