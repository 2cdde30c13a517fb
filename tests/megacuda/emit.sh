# Emitted kernels on a CPU: for the tests of this folder, which source tests/shell.sh before.
command -v g++ >/dev/null || { echo "skipped: g++ is not there"; exit 77; }

deadline=300 # of a wait, ms of the process
quick=-O0 # small models compile longer than they run
# same FILE STEPS OPTION...: a model with these options
same() {
  local name file=$1 steps=$2
  name=$(basename "${file%.*}")
  shift 2
  set -- --steps "$steps" "$@"
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  expect 0 'equal to the reference' run "$file" "$@" --deadline 60
  grep '^row' "$work/out" >"$work/want"
  under=()
  expect 0 '' g++ "$quick" -std=c++17 -Wall -Wno-unknown-pragmas -DMEGA_SHIM -DMEGA_GRAPH -x c++ -o "$work/$name" "$work/$name.cu"
  [ -s "$work/out" ] || [ -s "$work/err" ] && complain "warnings of $name.cu"
  expect 0 'planted: found, and the next run is right' "$work/$name" --steps "$steps" --plain 2 --hang --graph 1 --deadline "$deadline"
  grep '^row' "$work/out" | cmp -s - "$work/want" || complain "tokens of $name $*"
  grep -Eq '^plain: ([0-9]+) of \1 tokens agree' "$work/out" || complain "the plain model of $name $*"
  grep -q '^graph: .* the tokens are the same$' "$work/out" || complain "a launch for each node of $name $*"
  grep -Eq '^hung: .*in step [0-9]+ at .* waited for event .*: saw [0-9]+, wanted [0-9]+$' "$work/out" || complain "the record of $name $*"
}
# fibers FILE NAME OPTION...: NAME.cu, which is emitted of FILE with these options, compiled as $work/NAME; `under` is empty after it
fibers() {
  local file=$1 name=$2
  shift 2
  under=("$MICA" mega)
  expect 0 'proved; ' emit "$file" "$@" --out "$work"
  under=()
  expect 0 '' g++ "$quick" -std=c++17 -w -DMEGA_SHIM -x c++ -o "$work/$name" "$work/$name.cu"
}
long() { [ -z "${MICA_ALL:-}" ] || same "$@"; } # in the long tier
