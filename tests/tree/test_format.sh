#!/usr/bin/env bash
# The C files are as clang-format 14 writes them. Not run where it is missing.
# test: release
set -euo pipefail
command -v git >/dev/null && git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77
status=0
scripts/format.sh --check || status=$?
[ "$status" != 3 ] || exit 77
exit "$status"
