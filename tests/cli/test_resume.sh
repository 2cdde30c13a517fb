#!/usr/bin/env bash
# A search that is killed with SIGKILL, more than once, goes on from what it had finished, and ends in the answer of one
# that was left alone. Only counters are compared; how long it takes is nobody's promise.
# test: release
# test: timeout 300
set -u
. tests/cli/searches.sh

program=examples/m_qknorm.mica # about one and a half seconds
# In a subshell, or in the background: the process that is killed is the search itself.
search() { exec "$MICA" search "$program" --dtype f32 --threads 2 --top 2 --quiet --db "$1" --json "$2"; }
number() { grep -o "\"$1\": *[0-9.e-]*" "$2" | head -1 | sed 's/.*: *//'; }

(search "$work/alone.db" "$work/alone.json") || complain "the search alone failed"
[ "$(number resumed "$work/alone.json")" = 0 ] || complain "a first search took something over"
seconds=$(number seconds "$work/alone.json")

RANDOM=4
for part in 50 40; do
  pause=$(awk -v s="$seconds" -v p=$((part + RANDOM % 20)) 'BEGIN { print s * p / 100 }')
  search "$work/killed.db" "$work/killed.json" &
  pid=$!
  sleep "$pause"
  kill -KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ ! -e "$work/killed.json" ] || break # it was quicker this time
done
(search "$work/killed.db" "$work/end.json") || complain "the search that goes on failed"
[ -e "$work/killed.json" ] || [ "$(number resumed "$work/end.json")" -gt 0 ] || complain "nothing was taken over"
cmp -s <(answer "$work/alone.json") <(answer "$work/end.json") || {
  complain "the answer is another one"
  diff <(answer "$work/alone.json") <(answer "$work/end.json") | head -20
}

finish
