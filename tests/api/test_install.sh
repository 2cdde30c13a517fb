#!/usr/bin/env bash
# Files of `make install` serve programs that know no more than its prefix (users.sh). The folder may be moved; DESTDIR holds.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
build=$(cd "$(dirname "$MICA")" && pwd)
[ -e "$build/libmica.so" ] && [ -e "$build/libmica.a" ] || { echo "skipped: the libraries are not built in $build"; exit 77; }
export MICA_DB=$work/mica.db
unset DESTDIR

expect 0 'mica.pc' cmake --install "$build" --prefix "$work/first"
DESTDIR=$work/staged expect 0 'mica.h' cmake --install "$build" --prefix /opt/mica
[ -x "$work/staged/opt/mica/bin/mica" ] || complain "DESTDIR is not respected"
mv "$work/first" "$work/prefix"
prefix=$work/prefix lib=$(dirname "$(find "$work/prefix" -name libmica.a)")
expect 0 'mica' "$work/prefix/bin/mica" help
[ -s "$work/prefix/include/mica.hpp" ] || complain "no header of C++"
for page in mica mica-optimize mica-doctor; do [ -s "$work/prefix/share/man/man1/$page.1" ] || complain "no manual page $page"; done
for script in bash-completion/completions/mica zsh/site-functions/_mica fish/vendor_completions.d/mica.fish; do
  [ -s "$work/prefix/share/$script" ] || complain "no $script"
done

. tests/api/users.sh
sed 's/find_package(mica REQUIRED)/find_package(mica 99.0 REQUIRED)/' -i CMakeLists.txt
expect 1 'mica' cmake -S . -B newer -DCMAKE_PREFIX_PATH="$work/prefix"
finish
