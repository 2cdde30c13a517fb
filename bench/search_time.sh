#!/usr/bin/env bash
# Search time and peak memory of every example, two threads, all limits at their defaults: seconds of the search by the
# clock, seconds of processors of the whole command (which do not count what else the machine does), and what it takes
# at most. Prints a table and keeps it in bench/search_time.csv; then what one state, one oracle query and one
# fingerprint cost (bench/search_cost.c). Arguments: programs in place of all. Needs GNU time; $MICA is the command
# (build/mica unless set).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${MICA:-}" ] || make --no-print-directory build
programs=("$@")
[ $# -gt 0 ] || programs=(examples/*.mica)
out=bench/search_time.csv
commit=$(git describe --always --dirty --abbrev=12)
machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
peak=$(mktemp)
trap 'rm -f "$peak"' EXIT
printf 'program,seconds,cpu_seconds,peak_mib,tried,structures,verified,complete,machine,commit\n' >"$out.new"
printf '%-16s %8s %8s %8s %10s %10s %8s %s\n' program seconds cpu MiB tried structures verified whole
for file in "${programs[@]}"; do
  name=$(basename "$file" .mica)
  # a line a subprogram: "0.02 s, 5108 operators tried, 376 values, 16 schedules, 164 structures, 64 verified; not the whole space"
  sums=$(/usr/bin/time -f "%M %U %S" -o "$peak" "${MICA:-build/mica}" search "$file" --dtype f32 --threads 2 --top 1 2>/dev/null |
    awk '/^[0-9.]+ s, / { s += $1; tried += $3; found += $10; good += $12; cut += /not the whole/ }
         END { printf "%.2f %d %d %d %s", s, tried, found, good, cut ? "no" : "yes" }')
  read -r seconds tried structures verified whole <<<"$sums"
  read -r mib cpu <<<"$(tail -1 "$peak" | awk '{ printf "%d %.2f", $1 / 1024, $2 + $3 }')"
  printf '%-16s %8s %8s %8s %10s %10s %8s %s\n' "$name" "$seconds" "$cpu" "$mib" "$tried" "$structures" "$verified" "$whole"
  printf '%s,%s,%s,%s,%s,%s,%s,%s,"%s",%s\n' "$name" "$seconds" "$cpu" "$mib" "$tried" "$structures" "$verified" "$whole" "$machine" "$commit" >>"$out.new"
done
if [ $# -eq 0 ]; then mv "$out.new" "$out"; else rm "$out.new"; fi
echo
build/search_cost examples/{m_gqa,m_gated,m_qknorm,ngpt,moe}.mica
