#!/usr/bin/env bash
# Prints the table of op-by-op against optimized on this machine, f32, and keeps it in bench/cpu.csv with machine,
# commit and spread. Arguments go to `mica bench`, for example programs in place of the list.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory build
programs=("$@")
[ $# -gt 0 ] || programs=(bench/cpu.list --csv bench/cpu.csv)
exec build/mica bench --dtype f32 "${programs[@]}"
