#!/usr/bin/env bash
# One thread, two threads and (where `make mpi` was run) two processes, on the same search: the least of several runs in
# turns, because what disturbs one only makes it slower. `scaling` (scaling.c) computes the time with more workers.
#
#   bench/scaling.sh [PROGRAM [RUNS]]
set -euo pipefail
program=${1:-examples/m_qknorm.mica} runs=${2:-3}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

search() { # NAME COMMAND...: keeps the least seconds in best[NAME]
  local name=$1 seconds
  shift
  "$@" search "$program" --dtype f32 --threads 2 --top 1 --no-db --quiet --json "$out" ${extra:-}
  seconds=$(grep -o '"seconds": *[0-9.]*' "$out" | head -1 | sed 's/.*: *//')
  best[$name]=$(printf '%s\n%s\n' "${best[$name]:-$seconds}" "$seconds" | sort -g | head -1)
}

declare -A best
for ((i = 0; i < runs; i++)); do
  extra='--search-threads 1' search one build/mica
  search threads build/mica
  [ ! -x build-mpi/mica ] || search processes mpirun --oversubscribe -n 2 build-mpi/mica
done
for name in one threads processes; do
  [ -z "${best[$name]:-}" ] || awk -v n="$name" -v s="${best[$name]}" -v one="${best[one]}" 'BEGIN { printf "%-10s %6.2f s, %.2f x\n", n, s, one / s }'
done
