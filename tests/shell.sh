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

# Skips a test that reads the files of the checkout by Python.
needs_checkout() {
  command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 77; }
  command -v git >/dev/null && git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "skipped: this is no git checkout"; exit 77; }
}

finish() {
  [ $failures = 0 ] || { echo "$failures failed"; exit 1; }
  echo "all passed"
}
