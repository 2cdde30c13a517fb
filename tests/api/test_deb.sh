#!/usr/bin/env bash
# The Debian packages of `make deb`, unpacked where nothing else of Mica is, serve those who install them (users.sh): each has what it is for,
# says what it depends on, and needs no processor but the architecture's. `make deb-check` makes them and runs this.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
debs=$(cd "$(dirname "$MICA")/../build-deb" 2>/dev/null && pwd)
[ -n "$debs" ] && ls "$debs"/libmica-dev_*.deb >/dev/null 2>&1 || { echo "skipped: no packages are built; \`make deb-check\` does"; exit 77; }
export MICA_DB=$work/mica.db

version=$(sed -n 's/^project(mica VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
abi=$(sed -n 's/^#define MICA_ABI_VERSION \([0-9]*\).*/\1/p' include/mica.h)
package() { # NAME PATTERN-OF-DEPENDS FILES...
  local name=$1 depends=$2 file
  shift 2
  file=$(ls "$debs/${name}_$version"*.deb 2>/dev/null | head -1)
  [ -n "$file" ] || { complain "there is no package $name of version $version"; return; }
  expect 0 "$depends" dpkg-deb -f "$file" Depends
  expect 0 "^$name$" dpkg-deb -f "$file" Package
  dpkg -x "$file" "$work/unpacked"
  for f in "$@"; do [ -e "$work/unpacked/usr/"$f ] || complain "$name has no $f"; done
  [ -e "$work/unpacked/usr/share/doc/$name/copyright" ] || complain "$name has no copyright"
}
package "libmica$abi" 'libc6.*libjansson4.*libsqlite3-0' "lib/*/libmica.so.$abi"
package libmica-dev "libmica$abi \(= $version\)" include/mica.h 'lib/*/libmica.a' 'lib/*/libmica.so' 'lib/*/pkgconfig/mica.pc' 'lib/*/cmake/mica/micaConfig.cmake'
package mica libc6 bin/mica share/man/man1/mica.1.gz share/man/man1/mica-optimize.1.gz share/bash-completion/completions/mica
prefix=$work/unpacked/usr lib=$(dirname "$(find "$work/unpacked" -name libmica.a)")
objdump -d --no-show-raw-insn "$lib/libmica.a" | awk '/file format/ { name = $1 } /%[yz]mm/ { print name }' | sort -u >"$work/wide"
grep -vE '^rates_avx(2|512)\.c\.o:$' "$work/wide" >"$work/out" && complain "code that not every processor of the architecture runs"
[ "$(wc -l <"$work/wide")" = 2 ] || [ "$(uname -m)" != x86_64 ] || complain "the rates of wide vectors are not there"

expect 0 'mica' "$prefix/bin/mica" help
expect 0 'sum' "$prefix/bin/mica" ops sum
. tests/api/users.sh
finish
