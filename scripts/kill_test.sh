#!/usr/bin/env bash
# kill_test.sh [COUNT]: kills `mica optimize` with SIGKILL at random moments, COUNT times (200), and counts what is left: processes after
# two seconds, folders after the next start, half-written results, other answers than that of an undisturbed run.
# MICA names the command, SEED the moments.
set -u
: "${MICA:=build/mica}"
count=${1:-200}
RANDOM=${SEED:-1}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR=$work/tmp
processes=0 folders=0 answers=0 halves=0 killed=0

optimize() { # DATABASE FOLDER
  "$MICA" optimize examples/softmax.mica --set m=64 --set n=256 --dtype f32 --measure 2 --max-block-ops 6 --fresh --quiet --db "$1" --out "$2"
}
search() { # DATABASE FILE
  "$MICA" search examples/llama_rms_lora.mica --dtype f32 --threads 2 --top 2 --quiet --db "$1" --json "$2"
}
# Without what depends on the clock or on who did the work.
answer() { sed -E 's/"(seconds|first_seconds|resumed)": *[^,}]*//g' "$1"; }

# Whoever works in this test's folder, and is no zombie.
theirs() {
  local p
  for p in /proc/[0-9]*; do
    grep -qsz "^TMPDIR=$work/tmp" "$p/environ" || continue
    case $(readlink "$p/exe") in */bash | */sleep | */grep) ;; *) echo "${p#/proc/}" ;; esac
  done
}

length() { # COMMAND...: seconds
  local start
  start=$(date +%s.%N)
  "$@" || { echo "the undisturbed run failed" >&2; exit 1; }
  awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'
}
optimizing=$(length optimize "$work/alone.db" "$work/alone") || exit 1
searching=$(length search "$work/alone.db" "$work/alone.json") || exit 1
answer "$work/alone.json" > "$work/right"

for ((i = 1; i <= count; i++)); do
  rm -rf "$work/out" "$work/killed.json"
  if [ $((i % 2)) = 1 ]; then work_is=optimize where=$work/out length=$optimizing; else work_is=search where=$work/killed.json length=$searching; fi
  pause=$(awk -v l="$length" -v r=$RANDOM 'BEGIN { print l * r / 32768 }')
  [ $((i % 8)) != 0 ] || rm -f "$work/killed.db"* # else a search goes on
  "$work_is" "$work/killed.db" "$where" 2> "$work/err" &
  pid=$!
  sleep "$pause"
  mica=$(pgrep -P $pid) # the function's shell is its parent
  kill -KILL ${mica:-$pid} 2> /dev/null && killed=$((killed + 1))
  wait $pid 2> /dev/null
  left=
  for ((n = 0; n < 20; n++)); do
    left=$(theirs)
    [ -n "$left" ] || break
    sleep 0.1
  done
  [ -z "$left" ] || { processes=$((processes + 1)); echo "$work_is, after $pause s: processes $left"; kill -KILL $left; }
  "$MICA" version > /dev/null
  [ -z "$(ls "$TMPDIR")" ] || { folders=$((folders + 1)); echo "$work_is, after $pause s: $(ls "$TMPDIR")"; rm -rf "${TMPDIR:?}"/*; }
  for file in "$work"/out/*.json "$work/killed.json"; do
    [ ! -e "$file" ] || tail -c 2 "$file" | grep -q '}' || { halves=$((halves + 1)); echo "$work_is, after $pause s: half of $file"; }
  done
  [ $((i % 4)) = 0 ] || continue
  search "$work/killed.db" "$work/killed.json" && cmp -s <(answer "$work/killed.json") "$work/right" || { answers=$((answers + 1)); echo "after $pause s: another answer"; }
  [ $((i % 20)) = 0 ] || continue
  optimize "$work/killed.db" "$work/out" && grep -q '"program": *"softmax"' "$work/out/report.json" || { answers=$((answers + 1)); echo "after $pause s: no result"; }
done

echo "$count runs of $optimizing and $searching s, $killed killed: $processes left processes, $folders left folders, $halves left half a file, $answers gave another answer"
[ $((processes + folders + halves + answers)) = 0 ]
