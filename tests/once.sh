#!/usr/bin/env bash
# Compilations of tests: OUT is made once. Later runs with the same words, files and program copy it.
#
#   once.sh OUT IN... -- COMMAND...     COMMAND makes OUT of the files IN; it names all of them in the folder of OUT
#
# A header that a file of IN includes with quotes is one of IN; otherwise nothing is kept, because a change of the header would not be seen.
# MICA_OBJECTS is the folder of what is kept (tests/CMakeLists.txt); without it nothing is kept. An object is kept if its command ended with status 0
# and printed nothing. An object that no test read for 30 days is removed.
out=$1 folder=${1%/*} in=()
shift
while [ "$1" != -- ]; do in+=("$1"); shift; done
shift
[ -n "${MICA_OBJECTS:-}" ] && program=$(command -v "$1") || exec "$@"
for file in "${in[@]}"; do [ -f "$file" ] || exec "$@"; done
for header in $(sed -nE 's/^ *# *include *"([^"]*)".*/\1/p' "${in[@]}"); do
  [[ " ${in[*]} " == *"/$header "* ]] || exec "$@"
done
words=("${@//"$folder"/.}")
for ((i = 1; i < ${#words[@]}; i++)); do # a precompiled header is a copy of a header, wherever it is
  [ "${words[i - 1]}" != -include ] || words[i]=${words[i]##*/}
done
key=$({ printf '%s\n' "${words[@]}"; grep -m1 ^flags /proc/cpuinfo; cat "$program" "${in[@]}"; } 2>/dev/null | sha256sum)
kept=$MICA_OBJECTS/${key%% *}
[ ! -f "$kept" ] || exec cp "$kept" "$out"
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status = 0 ] && [ -z "$said" ] && [ -f "$out" ] || exit $status
{ mkdir -p "$MICA_OBJECTS" && cp "$out" "$kept.$$" && mv "$kept.$$" "$kept" && find "$MICA_OBJECTS" -type f -atime +30 -delete; } 2>/dev/null
exit 0
