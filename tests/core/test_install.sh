#!/usr/bin/env bash
# What `make install` installs serves programs that know no more than its prefix: the example of docs/library.md is built by pkg-config
# and by find_package, with the shared and the static library, and does what the page says. The folder may be moved; DESTDIR holds.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
build=$(cd "$(dirname "$MICA")" && pwd)
[ -e "$build/libmica.so" ] && [ -e "$build/libmica.a" ] || { echo "skipped: the libraries are not built in $build"; exit 0; }
export MICA_DB=$work/mica.db
unset DESTDIR

expect 0 'mica.pc' cmake --install "$build" --prefix "$work/first"
DESTDIR=$work/staged expect 0 'mica.h' cmake --install "$build" --prefix /opt/mica
[ -x "$work/staged/opt/mica/bin/mica" ] || complain "DESTDIR is not respected"
mv "$work/first" "$work/prefix"
lib=$(dirname "$(find "$work/prefix" -name libmica.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig
expect 0 '^[0-9.]+$' pkg-config --modversion mica
expect 0 'mica' "$work/prefix/bin/mica" help
[ -e "$work/prefix/share/man/man1/mica.1" ] || complain "no manual page"

# The first blocks of C and of output in the page.
block() { awk -v kind="$1" '$0 == "```" kind { on = 1; next } /^```/ && on { exit } on' docs/library.md; }
mkdir "$work/project"
cd "$work/project" || exit 3
(cd "$OLDPWD" && block c) >example.c
(cd "$OLDPWD" && block output) >expected
[ -s example.c ] && [ -s expected ] || complain "docs/library.md has no example"
runs() { # WHAT COMMAND...
  local what=$1
  shift
  env LD_LIBRARY_PATH="$lib" "$@" >"$work/out" 2>"$work/err" || complain "$what: status $?"
  cmp -s "$work/out" expected || complain "$what prints something else"
}

cc() { ${CC:-gcc} "$@"; }
cc example.c $(pkg-config --cflags --libs mica) -lm -o example
[ -x example ] || complain "pkg-config"
runs pkg-config ./example
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(mica REQUIRED)
add_executable(shared example.c)
target_link_libraries(shared PRIVATE mica::mica m)
add_executable(static example.c)
target_link_libraries(static PRIVATE mica::mica_static)
CMAKE
expect 0 '' cmake -S . -B out -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
expect 0 '' cmake --build out
runs "the static library" ./out/static
ldd out/shared | grep -q "$lib/libmica.so" || complain "the shared library is not the installed one"
ldd out/static | grep -q libmica.so && complain "the static library is shared"
sed 's/find_package(mica REQUIRED)/find_package(mica 99.0 REQUIRED)/' -i CMakeLists.txt
expect 1 'mica' cmake -S . -B newer -DCMAKE_PREFIX_PATH="$work/prefix"
finish
