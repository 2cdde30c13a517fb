#!/usr/bin/env bash
# The picture of README.md shows the figures of its table.
# test: release
command -v python3 > /dev/null || { echo "skipped: python3 is not there"; exit 77; }
exec python3 scripts/figure.py --check
