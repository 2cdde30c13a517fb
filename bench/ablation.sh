#!/usr/bin/env bash
# Search time by the number of block operators, with all rules and with each rule off, as in Table 5 of the Mirage
# paper; one kernel, two threads. Prints a table and keeps it in bench/ablation.csv. A search that takes longer than
# $LIMIT seconds (60 unless set) is stopped, and its time is given as more than that. $MICA is the command (build/mica
# unless set).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${MICA:-}" ] || make --no-print-directory build
programs=("$@")
[ $# -gt 0 ] || programs=(m_rms m_gated m_lora m_gqa mlp)
out=bench/ablation.csv
printf 'program,block_ops,off,seconds,tried,values,verified,complete,commit\n' >"$out.new"
commit=$(git describe --always --dirty --abbrev=12)
printf '%-10s %4s %10s %10s %12s %10s %10s %s\n' program ops off seconds tried values verified whole
for program in "${programs[@]}"; do
  for ops in 4 5 6 7 8 9 10 11; do
    for off in none expr canon finger shape whole square; do
      rule=()
      [ "$off" = none ] || rule=(--off "$off")
      line=$(timeout "${LIMIT:-60}" "${MICA:-build/mica}" search --no-db "examples/$program.mica" --dtype f32 --max-kernel-ops 1 --threads 2 \
        --max-block-ops "$ops" --max-values 20000 --top 1 "${rule[@]}" 2>/dev/null | sed -n 1p) || true
      # "0.02 s, 5108 operators tried, 376 values, 16 schedules, 164 structures, 64 verified; not the whole space"
      read -r seconds _ tried _ _ values _ _ _ _ _ verified _ <<<"${line//,/}"
      whole=yes
      [[ $line != *"not the whole space"* ]] || whole=no
      [ -n "$line" ] || { seconds=">${LIMIT:-60}" tried= values= verified= whole=no; }
      printf '%-10s %4s %10s %10s %12s %10s %10s %s\n' "$program" "$ops" "$off" "$seconds" "$tried" "$values" "$verified" "$whole"
      printf '%s,%s,%s,%s,%s,%s,%s,%s,%s\n' "$program" "$ops" "$off" "$seconds" "$tried" "$values" "$verified" "$whole" "$commit" >>"$out.new"
    done
  done
done
mv "$out.new" "$out"
