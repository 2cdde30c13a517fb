#!/usr/bin/env bash
# The C compiler of tests. It compiles a candidate on the CPU once (once.sh). Other calls go to the compiler as they are. tests/CMakeLists.txt sets CC
# to this script. MICA_TEST_CC names another compiler than cc. A test of compilers sets CC itself, or unsets it.
cc=$(command -v "${MICA_TEST_CC:-cc}") || exit 127
source='' object='' last=''
for word; do
  [[ $word != */kernel.c ]] || source=$word
  [ "$last" != -o ] || object=$word
  last=$word
done
[[ -f $source && $object == "${source%.c}.so" ]] || exec "$cc" "$@"
exec bash "${0%/*}/once.sh" "$object" "$source" -- "$cc" "$@"
