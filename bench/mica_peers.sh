#!/usr/bin/env bash
# Mica's programs for the workloads of bench/peers.py, one folder each in OUTDIR, and then Mica against what a user would pick today:
#
#   bench/mica_peers.sh OUTDIR [REGEX]
#   python3 bench/peers.py --mica OUTDIR --only REGEX
#
# The second needs torch and a GPU; the first measures where there is a GPU and asks the model where there is none. $MICA is the
# command (build/mica unless set), $LIMIT the seconds that one program may take (300), $BUDGET those of all of them (no end).
# Results are kept in $MICA_DB (OUTDIR/mica.db unless set), so that a second call goes on where the first was ended.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
[ -n "${MICA:-}" ] || make --no-print-directory build
export MICA_DB="${MICA_DB:-$out/mica.db}"
exec python3 bench/peers.py --make "$out" --mica-binary "${MICA:-build/mica}" --only "${2:-}" --limit-s "${LIMIT:-300}" --budget-s "${BUDGET:-1e9}"
