#!/usr/bin/env bash
# Rooms use what src/rooms.def lists, in no circle; files include each other in no circle, and call each other in none of more than three.
# Names of files and tags of structs, unions and enums stand once.
# test: release
set -euo pipefail
python3 tests/house/rooms.py
