#!/usr/bin/env bash
# Makes plans/TARGET.jsonl, the plans that are installed (docs/plans.md), on a machine with the GPU:
#
#   scripts/plans.sh [SECONDS]
#
# Every program of examples/ and of bench/peers is optimized, each for SECONDS at most (60); $MICA is the command (build/mica unless set),
# $TARGET the target (sm_90a), $WORK the folder of the database (build/plans), so that a second call goes on where the first was ended. Plans
# that are there and were not made again stay.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60} target=${TARGET:-sm_90a} work=${WORK:-build/plans}
work=$(mkdir -p "$work" && cd "$work" && pwd)
chmod 700 "$work"
export MICA=${MICA:-build/mica} MICA_PLANS= MICA_DB=$work/mica.db LIMIT=$seconds
[ ! -f "plans/$target.jsonl" ] || "$MICA" db import "plans/$target.jsonl"
for program in examples/*.mica; do
  "$MICA" optimize "$program" --target "$target" --time "$seconds" --quiet || echo "$program: no plan" >&2
done
bench/mica_peers.sh "$work/peers"
mkdir -p plans
"$MICA" db export "plans/$target.jsonl" --portable
