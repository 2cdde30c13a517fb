#!/usr/bin/env bash
# Configures a build folder where that was not done with these options, and builds targets in it (all of them unless named). A second call
# for the same folder waits for the first: cmake and ninja would destroy each other's files.
#
#   scripts/build.sh FOLDER [-DOPTION=VALUE]... [TARGET]...
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?which folder?}
shift
options=() targets=()
for word; do if [[ $word == -D* ]]; then options+=("$word"); else targets+=("$word"); fi; done
for tool in cmake ninja; do
  command -v $tool >/dev/null || { echo "$tool is missing; \`make setup\` installs what Mica needs" >&2; exit 3; }
done
mkdir -p "$folder"
if command -v flock >/dev/null; then
  exec 9>"$folder/.lock"
  flock -n 9 || { echo "$folder: waiting for another build in it" >&2; flock 9; }
fi
as_told() { # whether the folder is configured with these options
  [ -f "$folder/build.ninja" ] || return
  local option
  for option in "${options[@]}"; do grep -Eq "^${option%%=*}:[A-Z]+=${option#*=}\$" <(sed 's/^/-D/' "$folder/CMakeCache.txt") || return; done
}
as_told || cmake -S . -B "$folder" -G Ninja "${options[@]}" 9>&- >/dev/null
cmake --build "$folder" -j "${JOBS:-$(nproc 2>/dev/null || echo 2)}" ${targets[@]:+--target "${targets[@]}"} 9>&-
