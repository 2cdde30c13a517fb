#!/usr/bin/env bash
# Attacks the verifier with N generated pairs of a seed: scripts/attack.sh [N] [SEED] [JOBS]. The default is 25,000 pairs: 20,000 unequal
# and 5,000 equal (tests/verify/pairs.h). Finished pieces lie in build/attack/SEED and are not done again, so a run that was stopped goes
# on where it was; remove the folder after the verifier has changed. The exit status is 1 where a pair was judged wrongly.
set -euo pipefail
cd "$(dirname "$0")/.."
export all=${1:-25000} seed=${2:-1} piece=250
jobs=${3:-1}
export folder=build/attack/$seed program=build/tests/verify_test_pairs
[ -x "$program" ] || { echo "attack: $program is missing" >&2; echo "  hint: make" >&2; exit 3; }
mkdir -p "$folder"

run() { # pairs from $1 on
  local out=$folder/$1.txt count=$piece status=0
  [ $(($1 + count)) -le "$all" ] || count=$((all - $1))
  out=${out%.txt}-$count.txt
  [ -f "$out" ] && return
  nice "$program" --pairs "$count" --from "$1" --seed "$seed" --heavy 2 >"$out.part" || status=$?
  [ "$status" -le 1 ] || { echo "attack: pairs from $1 on ended with status $status; see $out.part" >&2; return 255; }
  mv "$out.part" "$out"
  echo "attack: $(find "$folder" -name '*.txt' | wc -l) of $(((all + piece - 1) / piece)) pieces" >&2
}
export -f run
seq 0 $piece $((all - 1)) | xargs -P "$jobs" -I{} bash -c 'run {}'

for ((i = 0; i < all; i += piece)); do
  cat "$folder/$i-$((i + piece <= all ? piece : all - i)).txt"
done | awk '
  /^kind / { head = $0; reading = 1; next }
  /^#/ { reading = 0 }
  reading && NF == 10 { if (!($1 in seen)) { seen[$1] = 1; name[++n] = $1 } for (i = 2; i <= 10; i++) sum[$1, i] += $i }
  END {
    print head
    for (k = 1; k <= n; k++) { printf "%-15s %7d", name[k], sum[name[k], 2]
      for (i = 3; i <= 8; i++) printf " %9d", sum[name[k], i]
      printf " %7d %7d\n", sum[name[k], 9], sum[name[k], 10]; wrong += sum[name[k], 9]; pairs += sum[name[k], 2] }
    printf "%d pairs, %d judged wrongly\n", pairs, wrong
    exit wrong > 0 }'
