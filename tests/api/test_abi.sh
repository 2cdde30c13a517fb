#!/usr/bin/env bash
# The interface as others depend on it: what include/mica.h declares is what tests/api/mica.abi lists (a changed or removed line breaks
# programs, and asks for another MICA_ABI_VERSION, unless a struct that has its size grew at its end; a new one is added to the list), libmica.so exports that and nothing else, under
# a name with that version, keeps no writable data and uses no function that acts on the whole process but what is listed here with its
# reason. C++17 takes the header.
# test: release
set -u
. tests/shell.sh
build=$(dirname "$MICA")
so=$build/libmica.so
[ -e "$so" ] || { echo "skipped: $so is not built"; exit 77; }

# Declarations at the outermost level, one a line.
declarations() {
  ${CC:-cc} -E -P -Iinclude include/mica.h | tr '\n\t' '  ' | awk '
    { depth = 0
      for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1); s = s c
        if (c == "{") depth++
        if (c == "}") depth--
        if (depth == 0 && (c == ";" || (c == "}" && s ~ /static inline/))) { gsub(/ +/, " ", s); sub(/^ /, "", s); print s; s = "" }
      } }' | grep -i mica | sed 's/__attribute__((visibility("default"))) //'
}
declarations >"$work/now"
[ "$(wc -l <"$work/now")" -gt 60 ] || complain "only $(wc -l <"$work/now") declarations were found"
diff tests/api/mica.abi "$work/now" >"$work/out" 2>&1 ||
  complain "mica.h is not as tests/api/mica.abi lists it: lines with < were taken away or changed, lines with > are new"

sed -n 's/^[^(]*[ *]\(mica_[a-z_0-9]*\)(.*/\1/p' "$work/now" | grep -v '^mica_options_default$' | sort >"$work/declared"
nm -D --defined-only "$so" | awk '{ print $3 }' | sort >"$work/exported"
diff "$work/declared" "$work/exported" >"$work/out" || complain "declared (<) and exported (>) functions differ"
version=$(sed -n 's/^#define MICA_ABI_VERSION \([0-9]*\).*/\1/p' include/mica.h)
readelf -d "$so" | grep -q "SONAME.*\[libmica.so.$version\]" || complain "the library is not called libmica.so.$version"

cat >"$work/allowed" <<'LIST'
__cpu_features2 of the compiler's run time, set before main (src/target/cpu.c asks which instructions there are)
__cpu_model the same
completed.0 of the C run time's start-up code
learnt rates of the host, measured once (src/target/cpu.c), under a lock
lock of the table of instructions, which is made once (src/tile/instr.c)
table that table
here the guard that each thread is in (src/base/memory.c)
tracing the trace that each thread is in (src/base/trace.c)
range_asked whether a profiler listens, asked once (src/base/range.c)
range_heard the answer
range_core functions of the profiler, set then
range_core2 the same
range_core_at addresses of these, which it asks for
range_core2_at the same
known precompiled headers of the process, under a lock (src/rt/parsed.c)
watched whether forks are watched (src/rt/forked.c)
in_child whether the thread went on in a child of fork, of each thread
turns threads of jobs, and seconds in which they only waited for a GPU, under a lock (src/gpu/turn.c)
text.2 the compiler's version for its caller (src/rt/module.c), of each thread
LIST
readelf -SW "$so" | sed 's/\[ *\([0-9]*\)\]/\1/' | awk '$2 ~ /^\.(data|bss|tbss|tdata)$/ { print $1 }' >"$work/sections"
readelf -sW "$so" | awk 'NR == FNR { writable[$1]; next } ($4 == "OBJECT" || $4 == "TLS") && $3 > 0 && ($7 in writable) { print $8 }' \
  "$work/sections" - | sort >"$work/data"
[ -s "$work/data" ] || complain "no writable data was found, not even what is known"
grep -vxF -f <(cut -d' ' -f1 "$work/allowed") "$work/data" | grep -vE '^(text|completed)\.[0-9]+$' >"$work/out" && complain "writable data that the list of $0 has not"

# Things a library should not do to its process: ending it, printing, signals, its environment and folder.
cat >"$work/allowed" <<'LIST'
_exit of worker processes (src/gpu/), which are the command's
abort of bugs (src/base/err.c)
kill of worker processes that it has started
vfork of such processes (src/base/child.c)
signal between vfork and exec, where the child's signals become the usual ones
sigprocmask the same
stderr of that end
LIST
nm -D --undefined-only "$so" | awk '{ print $2 }' | sed 's/@.*//' | grep -xE \
  '_?exit|_Exit|quick_exit|abort|raise|kill|v?printf|__printf_chk|puts|putchar|perror|stderr|stdout|warnx?|errx?|error|syslog|signal|sigaction|sigprocmask|setlocale|chdir|umask|srand|rand|(set|put|clear)env|system|popen|v?fork|atexit' >"$work/uses"
[ -s "$work/uses" ] || complain "nothing is used, not even what is known"
grep -vxF -f <(cut -d' ' -f1 "$work/allowed") "$work/uses" >"$work/out" && complain "functions that the list of $0 has not"

if command -v g++ >/dev/null; then
  expect 0 '' g++ -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude tests/api/interface.cpp -o "$work/interface" -L"$build" -lmica -pthread
  expect 0 '^fine$' env LD_LIBRARY_PATH="$build" "$work/interface"
  for cxx in g++ clang++ ${MICA_ALL:+clang++-14}; do
    command -v $cxx >/dev/null || continue
    expect 0 '' $cxx -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude tests/api/wrapper.cpp -o "$work/wrapper" -L"$build" -lmica -pthread
    rm -rf "$work/wrapped"
    expect 0 '^fine$' env LD_LIBRARY_PATH="$build" "$work/wrapper" "$work/wrapped"
  done
else
  echo "skipped: C++, as g++ is not there"
fi
finish
