# Shared by test_install.sh and test_deb.sh: programs of those who have Mica installed under $prefix, with its libraries in $lib. The example of
# docs/library.md is built by pkg-config and by find_package, with the shared and the static library, and does what the page says; a C++
# program takes the header.
tree=$PWD
export PKG_CONFIG_PATH=$lib/pkgconfig
expect 0 '^[0-9.]+$' pkg-config --modversion mica

# The first blocks of C and of output in the page.
block() { awk -v kind="$1" '$0 == "```" kind { on = 1; next } /^```/ && on { exit } on' docs/library.md; }
mkdir "$work/project"
cd "$work/project" || exit 3
(cd "$tree" && block c) >example.c
(cd "$tree" && block output) >expected
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
expect 0 '' cmake -S . -B out -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
expect 0 '' cmake --build out
runs "the static library" ./out/static
ldd out/shared | grep -q "$lib/libmica.so" || complain "the shared library is not the installed one"
ldd out/static | grep -q libmica.so && complain "the static library is shared"
if command -v g++ >/dev/null; then
  g++ -std=c++17 "$tree/tests/api/interface.cpp" $(pkg-config --cflags --libs mica) -pthread -o interface >"$work/out" 2>"$work/err" || complain "C++"
  expect 0 '^fine$' env LD_LIBRARY_PATH="$lib" ./interface
fi
