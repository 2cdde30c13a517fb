#!/usr/bin/env bash
# Formats the C files with clang-format 14, whose output other versions do not repeat.
#
#   scripts/format.sh [--check]     --check: change nothing; name the files that differ, exit status 1
set -euo pipefail
cd "$(dirname "$0")/.."

find_tool() {
  for tool in clang-format-14 clang-format; do
    ! "$tool" --version 2>/dev/null | grep -q 'version 14\.' || { echo "$tool"; return; }
  done
}

tool=$(find_tool)
[ -n "$tool" ] || { echo "format: clang-format 14 is missing; scripts/setup.sh installs it where the system has it" >&2; exit 3; }
files=()
while IFS= read -r f; do files+=("$f"); done < <(git ls-files '*.c' '*.h')
if [ "${1:-}" != --check ]; then
  "$tool" -i "${files[@]}"
  exit 0
fi
"$tool" --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):\([0-9]*\):.*warning.*/\1/p' | sort | uniq -c |
  { ! grep . || { echo "format: the files above differ; \`make format\` formats them" >&2; exit 1; }; }
