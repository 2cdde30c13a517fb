#!/usr/bin/env bash
# The command line from outside: good input gives the answer and status 0, bad input a message that says what to do and
# the right status, and nothing is left half-written.
# test: timeout 300
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db

program() { printf '%s\n' "$2" >"$work/$1"; }

program soft.mica 'program soft(n = 64) {
  X: f32[32, n]
  E = exp(X)
  return E / sum(E, dim=1)
}'
program other.mica 'program soft(n = 64) {
  X: f32[32, n]
  return softmax(X, dim=1)
}'
program wrong.mica 'program soft(n = 64) {
  X: f32[32, n]
  E = exp(X)
  return E / sum(E, dim=0)
}'
program function.mica 'program p() {
  X: f32[4, 4]
  return sofmax(X, dim=1)
}'
program shapes.mica 'program p() {
  X: f32[4, 5]
  Y: f32[6, 7]
  return matmul(X, Y)
}'
program two.mica 'program p() {
  X: f32[4]; Y: f32[4]
  return X + Y
}'
program zero.mica 'program p(n = 0) {
  X: f32[4, n]
  return exp(X)
}'

program layers.mica 'program layers() {
  X: f32[8, 16]
  S: f32[8, 8]; W: f32[16, 16]
  A = X + matmul(S, relu(matmul(X, W)))
  B = A + matmul(S, relu(matmul(A, W)))
  return B + matmul(S, relu(matmul(B, W)))
}'

# ---- help and tables ----
expect 0 'superoptimizer' "$MICA"
expect 0 'optimize' "$MICA" help
for command in optimize search run verify show bench ops targets version mega; do
  expect 0 'examples' "$MICA" help "$command"
  expect 0 'examples' "$MICA" "$command" --help
done
expect 0 'rms_norm' "$MICA" ops
expect 0 'dim' "$MICA" ops softmax
expect 0 '"operators"' "$MICA" ops --json -
expect 0 'mica [0-9]' "$MICA" version

# ---- options ----
expect 2 'optimize' "$MICA" optimise x
expect 2 'did you mean --threads' "$MICA" optimize "$work/soft.mica" --thread 2
expect 2 'it is one of `mica tile`, `mica lower`; `mica help optimize`' "$MICA" optimize "$work/soft.mica" --against x
expect 2 'did you mean --help' "$MICA" --hlep
expect 2 'did you mean search' "$MICA" help serch
for command in '' optimize lower tile import; do # in lines that fit a window
  "$MICA" help $command | awk -v c="$command" '/^examples/ { exit } NR > 1 && length > 100 { print c ": " $0; bad = 1 } END { exit bad }' || complain 'a long line of help'
done
expect 2 'needs a value: --seed N' "$MICA" optimize "$work/soft.mica" --seed
expect 2 'mica help optimize. lists the options' "$MICA" optimize "$work/soft.mica" --html
expect 2 'integer' "$MICA" optimize "$work/soft.mica" --threads many
expect 2 'integer' "$MICA" optimize "$work/soft.mica" --threads 0
expect 2 'takes FILE' "$MICA" optimize
expect 2 'pruning rule' "$MICA" optimize "$work/soft.mica" --off nothing
expect 2 'softmax' "$MICA" ops sofmax
expect 2 'name=integer' "$MICA" show "$work/soft.mica" --set n
expect 2 'k' "$MICA" show "$work/soft.mica" --set k=3
expect 2 'target' "$MICA" optimize "$work/soft.mica" --target abacus
expect 2 'dtype' "$MICA" optimize "$work/soft.mica" --dtype f99

# ---- programs ----
expect 3 'cannot open' "$MICA" show "$work/absent.mica"
expect 2 'function.mica:3:' "$MICA" show "$work/function.mica"
expect 2 'softmax' "$MICA" show "$work/function.mica"
expect 2 '^  3 \|   return sofmax\(X, dim=1\)$' "$MICA" show "$work/function.mica"
expect 2 '^    \|          \^$' "$MICA" optimize "$work/function.mica" --no-db
expect 2 '\[4, 5\].*\[6, 7\]' "$MICA" show "$work/shapes.mica"
expect 2 'hint' "$MICA" show "$work/zero.mica"
expect 0 'softmax' "$MICA" show "$work/other.mica" --text
expect 0 'exp' "$MICA" show "$work/other.mica" --expand
expect 0 'exp' "$MICA" show "$work/soft.mica" --abstract

expect 0 'cut after add `B`' "$MICA" search "$work/layers.mica" --parts --max-part-ops 4
expect 0 'the same as subprogram 1' "$MICA" search "$work/layers.mica" --parts --max-part-ops 4
expect 0 '' "$MICA" search "$work/layers.mica" --max-part-ops 4 --json "$work/layers.json" --quiet
[ "$(grep -c '"same_as": 1' "$work/layers.json")" = 2 ] || complain "identical layers are not the same subprogram"

# ---- graphs as JSON ----
expect 0 '' "$MICA" show "$work/soft.mica" --json "$work/soft.json" --quiet
expect 0 'exp' "$MICA" show "$work/soft.json" --text
head -c 200 "$work/soft.json" >"$work/cut.json"
expect 2 'cut.json' "$MICA" show "$work/cut.json"
: >"$work/empty.mica"
expect 2 'empty.mica' "$MICA" show "$work/empty.mica"
head -c 4096 /dev/urandom >"$work/noise.mica"
expect 2 'noise.mica' "$MICA" show "$work/noise.mica"

# ---- run ----
expect 0 'hash' "$MICA" run "$work/soft.mica"
expect 0 'hash' "$MICA" run "$work/soft.mica" --engine field
expect 2 'engines' "$MICA" run "$work/soft.mica" --engine f65
expect 0 '' "$MICA" run "$work/soft.mica" --out "$work/arrays" --json "$work/run.json" --quiet
[ -n "$(ls "$work"/arrays/*.npy 2>/dev/null)" ] || complain "no array was written"
expect 0 'hash' "$MICA" run "$work/soft.mica" "X=$(echo "$work"/arrays/*.npy)"
expect 2 'no input' "$MICA" run "$work/soft.mica" "Z=$work/run.json"
expect 2 'hint: its input is X$' "$MICA" run "$work/soft.mica" "Z=$work/run.json"
expect 2 'hint: its inputs are X, Y$' "$MICA" run "$work/two.mica" "Z=$work/run.json"
expect 2 'numpy' "$MICA" run "$work/soft.mica" "X=$work/run.json"

# ---- a pipe that nobody reads, and a terminal ----
for command in "ops" "show $work/soft.mica --json -" "help"; do
  "$MICA" $command 2>"$work/err" | true
  [ "${PIPESTATUS[0]}" = 0 ] && [ ! -s "$work/err" ] || complain "a closed pipe is no error: $command"
done
if command -v script >/dev/null; then
  on_terminal() { script -qec "stty cols 64; env TERM=xterm $1" /dev/null </dev/null >"$work/out" 2>"$work/err"; }
  on_terminal "$MICA show $work/function.mica"
  grep -q $'\033\\[1;31merror:' "$work/out" || complain "no colours on a terminal"
  on_terminal "NO_COLOR=1 $MICA show $work/function.mica"
  ! grep -q $'\033' "$work/out" || complain "colours in spite of NO_COLOR"
  on_terminal "NO_COLOR=1 $MICA help lower"
  awk '/^examples/ { exit } { sub(/\r$/, "") } length > 64 { bad = 1 } END { exit bad }' "$work/out" || complain "help is wider than the terminal"
  on_terminal "$MICA optimize $work/soft.mica --no-db --measure 2"
  lines=$(tr '\r' '\n' <"$work/out" | sed -n $'s/^\033\\[K//p' | grep -v ' on cpu: ')
  [ -n "$lines" ] && ! awk 'length > 63' <<<"$lines" | grep . || complain "progress is wider than the terminal"
fi
"$MICA" show "$work/function.mica" 2>&1 | grep -q $'\033' && complain "colours in a pipe"

# ---- verify ----
expect 0 'equal' "$MICA" verify "$work/soft.mica" "$work/other.mica"
expect 1 'not equal' "$MICA" verify "$work/soft.mica" "$work/wrong.mica"
expect 2 '' "$MICA" verify "$work/soft.mica" "$work/shapes.mica"

# ---- the machine ----
expect 3 'folder|directory' "$MICA" optimize "$work/soft.mica" --out /dev/null/there
expect 3 'write' "$MICA" show "$work/soft.mica" --json /dev/full
# before the work: the compiler that is missing would be told else
for json in "$work/no/such/report.json" "$work"; do
  expect 3 'cannot write .*'"${json##*/}" env CC=/nonexistent "$MICA" optimize "$work/soft.mica" --no-db --json "$json"
done
expect 3 'database' env CC=/nonexistent "$MICA" optimize "$work/soft.mica" --db /sys/mica.db
expect 2 'time takes an integer' "$MICA" optimize "$work/soft.mica" --time 0
expect 3 'write' bash -c "'$MICA' ops >/dev/full"
expect 3 'compiler|CC' env CC=/nonexistent "$MICA" optimize "$work/soft.mica" --no-db
(ulimit -f 0; "$MICA" show "$work/soft.mica" --json "$work/full.json") >"$work/out" 2>"$work/err"
[ $? = 3 ] || complain "a full disk is not status 3"
[ ! -e "$work/full.json" ] && [ -z "$(ls "$work"/*.tmp 2>/dev/null)" ] || complain "a full disk left a file"
head -c 8192 /dev/urandom >"$work/bad.db"
expect 3 'database' "$MICA" optimize "$work/soft.mica" --db "$work/bad.db"

# ---- hints that fit ----
expect 2 '`mica help run` lists the options' "$MICA" run "$work/soft.mica" x.npy
expect 2 '`mica help run` lists the options' "$MICA" run "$work/soft.mica" --seed -5
expect 2 'the integer is too large' "$MICA" show "$work/soft.mica" --set m=99999999999999999999
expect 2 '[-]-context takes an integer from 0 to 16777216' "$MICA" mega plan examples/mega/tiny_llama.json --context 99999999999
expect 3 'it is a folder: name a file in it' "$MICA" run tests
if unshare -rm true 2>/dev/null; then # a disk on which the source has room, and nothing else
  mkdir "$work/disk"
  expect 3 'cannot compile: the disk of .* is full' unshare -rm sh -c 'mount -t tmpfs -o size=64k none "$1" && TMPDIR=$1 "$2" run "$3" --engine cpu' \
    sh "$work/disk" "$MICA" "$work/soft.mica"
fi

# ---- optimize, and again from the database ----
expect 0 'op-by-op' "$MICA" optimize "$work/soft.mica" --out "$work/result" --json "$work/report.json"
for file in program.mica graph.mica graph.json kernel.c kernel.h report.txt report.json; do
  [ -s "$work/result/$file" ] || complain "$file is missing"
done
for key in program target search seconds states pruned verified baseline best us kernels speedup certificate delta proved \
  proof tests seed max_rel_err; do
  grep -q "\"$key\"" "$work/report.json" || complain "the report has no $key"
done
expect 0 'proved by normal forms' "$MICA" verify "$work/soft.mica" "$work/result/graph.mica"
expect 0 'equal' "$MICA" verify "$work/soft.mica" "$work/result/graph.json"
expect 3 'it is a saved folder: its graph is in .*/graph.mica' "$MICA" run "$work/result"
cc -std=gnu11 -O1 -fopenmp -march=native -c "$work/result/kernel.c" -o "$work/kernel.o" 2>"$work/err" || complain "kernel.c does not compile"
start=$(date +%s%N)
expect 0 'recalled' "$MICA" optimize "$work/soft.mica" --disturbed
took=$((($(date +%s%N) - start) / 1000000))
[ -n "${MICA_SANITIZED:-}" ] || [ "$took" -lt 200 ] || complain "recalling took $took ms"

# ---- a stop keeps what was found ----
if [ -z "${MICA_SANITIZED:-}" ]; then
  "$MICA" optimize examples/m_gqa.mica --dtype f32 >"$work/out" 2>"$work/err" &
  pid=$!
  sleep 1
  kill -INT $pid
  wait $pid
  status=$?
  [ $status = 3 ] || complain "status $status after a stop, not 3"
  grep -q stopped "$work/err" || complain "a stop is not reported"
fi

finish
