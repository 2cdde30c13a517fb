# Emitted kernels on a CPU: for the tests of this folder, which source tests/shell.sh before.
command -v g++ >/dev/null || { echo "skipped: g++ is not there"; exit 77; }

deadline=300 # of a wait, ms of the process
quick=-O0 # small models compile longer than they run
hang=yes   # `same` plants a mistake, which costs the deadline and another run
# compile NAME OPTION...: $work/NAME of $work/NAME.cu by g++, with the library's headers compiled before; a text is compiled once (tests/once.sh)
compile() {
  local name=$1 headers=$work/headers$quick.h
  shift
  [ -f "$headers" ] || {
    printf '#include <%s>\n' algorithm cmath cstdio cstdlib cstring functional memory vector setjmp.h time.h ucontext.h >"$headers"
    bash tests/once.sh "$headers.gch" "$headers" -- g++ "$quick" -U_FORTIFY_SOURCE -std=c++17 -x c++-header -o "$headers.gch" "$headers"
  }
  expect 0 '' bash tests/once.sh "$work/$name" "$headers" "$work/$name.cu" "$work/mega_shim.h" -- \
    g++ "$quick" -U_FORTIFY_SOURCE -std=c++17 -DMEGA_SHIM -include "$headers" "$@" -x c++ -o "$work/$name" "$work/$name.cu"
}
# same FILE STEPS OPTION...: a model with these options
same() {
  local name file=$1 steps=$2 found='tokens agree' planted=()
  [ "$hang" = no ] || found='planted: found, and the next run is right' planted=(--hang --deadline "$deadline")
  name=$(basename "${file%.*}")
  shift 2
  set -- --steps "$steps" "$@"
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  expect 0 'equal to the reference' run "$file" "$@" --deadline 60
  grep '^row' "$work/out" >"$work/want"
  under=()
  compile "$name" -Wall -Wno-unknown-pragmas -DMEGA_GRAPH
  [ -s "$work/out" ] || [ -s "$work/err" ] && complain "warnings of $name.cu"
  expect 0 "$found" "$work/$name" --steps "$steps" --plain 2 --graph 1 "${planted[@]}"
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $name $*"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree' "$work/out" || complain "the plain model of $name $*"
  grep -q '^graph: .* the tokens are the same$' "$work/out" || complain "a launch for each node of $name $*"
  [ "$hang" = no ] || grep -Eq '^hung: .*in step [0-9]+ at .* waited for event .*: saw [0-9]+, wanted [0-9]+$' "$work/out" || complain "the record of $name $*"
}
# fibers FILE NAME OPTION...: NAME.cu, which is emitted of FILE with these options, compiled as $work/NAME; `under` is empty after it
fibers() {
  local file=$1 name=$2
  shift 2
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  under=()
  compile "$name" -w
}
long() { [ -z "${MICA_ALL:-}" ] || same "$@"; } # in the long tier
