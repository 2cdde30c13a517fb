#!/usr/bin/env bash
# Two builds of one folder at once: the second waits, both end well, and a change of options is configured anew.
# test: release
# test: timeout 300
set -euo pipefail
command -v flock >/dev/null && command -v ninja >/dev/null && command -v cmake >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/scripts"
cp scripts/build.sh "$work/scripts"
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(two NONE)
option(LOUD "" OFF)
add_custom_target(slow COMMAND mkdir busy COMMAND sleep 1 COMMAND rmdir busy)
add_custom_target(say COMMAND echo loud=${LOUD})
CMAKE
cd "$work"
bash scripts/build.sh out -DLOUD=OFF slow >one 2>&1 &
first=$!
bash scripts/build.sh out -DLOUD=OFF slow >two 2>&1 || { cat two; exit 1; }
wait $first || { cat one; exit 1; }
grep -q 'waiting for another build' one two || { echo "neither build waited"; exit 1; }
bash scripts/build.sh out -DLOUD=OFF say | grep 'loud=OFF' >/dev/null || { echo "the option was lost"; exit 1; }
bash scripts/build.sh out -DLOUD=ON say | grep 'loud=ON' >/dev/null || { echo "the option was not changed"; exit 1; }
