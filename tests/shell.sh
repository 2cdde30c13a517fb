# Shared by the shell tests: a folder that is removed, complaints that are counted, a command with the status and the words
# that are expected of it. `under` is what every command of `expect` begins with.
: "${MICA:?set MICA to the command}"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
failures=0
under=()

complain() {
  echo "FAILED: $1"
  sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null | head -20
  failures=$((failures + 1))
}

# expect STATUS PATTERN COMMAND...: PATTERN (extended, in what is printed to either stream)
expect() {
  local status=$1 pattern=$2 got
  shift 2
  "${under[@]}" "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$status" ] || complain "status $got, not $status: $*"
  [ -z "$pattern" ] || grep -Eq -- "$pattern" "$work/out" "$work/err" || complain "nothing like '$pattern': $*"
}

finish() {
  [ $failures = 0 ] || { echo "$failures failed"; exit 1; }
  echo "all passed"
}
