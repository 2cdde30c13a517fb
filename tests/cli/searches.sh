# What the shell tests of searches share: a folder, complaints, and an answer without what depends on the clock or on who
# did the work.
: "${MICA:?set MICA to the command}"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
failures=0
complain() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}
answer() { sed -E 's/"(seconds|first_seconds|resumed)": *[^,}]*//g' "$1"; }
finish() {
  [ $failures = 0 ] || { echo "$failures failed"; exit 1; }
  echo "all passed"
}
