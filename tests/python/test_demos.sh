#!/usr/bin/env bash
# The demos of Mirage's programs, small: each holds its numbers against numpy's. test: check-all test: release test: timeout 1200
set -euo pipefail
. tests/python/environment.sh
for f in examples/python/mirage_*.py; do
  [ "$f" = examples/python/mirage_common.py ] || "$python" "$f" --scale 16 --target cpu --time 100
done
