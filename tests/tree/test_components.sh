#!/usr/bin/env bash
# Components use what src/components.def lists. There is no cycle between components, none of includes, and none of calls between more than three
# files.
# Names of files and tags of structs, unions and enums are defined once. Files that headers list exist.
# test: release
set -euo pipefail
python3 tests/tree/components.py
