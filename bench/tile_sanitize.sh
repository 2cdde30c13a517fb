#!/usr/bin/env bash
# Runs NVIDIA's compute-sanitizer on the interpreter's test kernels (tests/sim/good, tests/sim/broken), on a GPU: good ones
# under memcheck and racecheck, broken ones under the tool for their class. Kernels that would never end are left out. Prints a
# line each: file, class, tool, errors it reports; and writes CSV to $1.  Needs compute-sanitizer and build/tile_gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/tile_sanitize.csv}
export TILE_GPU=${TILE_GPU:-build/tile_gpu}
one() {
  local file=$1 class=$2 tool=$3 sizes log errors
  sizes=$(sed -n 's,^// set: ,\,,p' "$file" | tr -d ' ')
  log=$(timeout 60 compute-sanitizer --tool "$tool" "$TILE_GPU" --no-check "$file$sizes" 2>&1) || true
  errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' <<<"$log" | tail -1)
  printf '%s,%s,%s,%s\n' "$(basename "$file" .tile)" "$class" "$tool" "${errors:-did not run}"
}
export -f one
{
  for file in tests/sim/good/*.tile; do printf '%s good memcheck\n%s good racecheck\n' "$file" "$file"; done
  for file in tests/sim/broken/*.tile; do
    class=$(sed -n 's,^// expect: \([a-z-]*\).*,\1,p' "$file" | head -1)
    case $class in
    bounds | misaligned) tool=memcheck ;;
    uninitialized) tool=initcheck ;;
    race | missing-wait | missing-fence) tool=racecheck ;;
    divergent | barrier) tool=synccheck ;;
    *) continue ;;
    esac
    printf '%s %s %s\n' "$file" "$class" "$tool"
  done
} | xargs -P "${JOBS:-6}" -L 1 bash -c 'one "$0" "$1" "$2"' | sort -t, -k2,2 -k1,1 | tee "$out"
