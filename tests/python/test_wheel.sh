#!/usr/bin/env bash
# From a clean copy of the tree to a speedup, as a newcomer does it: a fresh environment, pip install, the first program, which needs
# nothing else but numpy, which comes with it; the command; and that the extension needs no library but libc's. test: check-all test: release test: timeout 1500
set -euo pipefail
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "skipped: there is no Python 3.11"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" download -q --no-deps -d "$folder" 'scikit-build-core>=0.10' 2>/dev/null || { echo "skipped: no package registry"; exit 77; }
git archive HEAD | tar -x -C "$(mkdir -p "$folder/tree" && echo "$folder/tree")"
"$folder/venv/bin/pip" install -q "$folder/tree"
cd "$folder" # not where the sources are
so=$(venv/bin/python -c 'import mica._mica as m; print(m.__file__)')
[ "$(basename "$so")" = _mica.abi3.so ]
needed=$(readelf -d "$so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -e '^libc\.' -e '^libm\.' -e '^ld-linux' || true)
[ -z "$needed" ] || { echo "the extension needs $needed"; exit 1; }
venv/bin/python -c 'from importlib.metadata import entry_points, files
(e,) = entry_points(group="torch_dynamo_backends", name="mica")
assert e.value == "mica.torch:backend" and any(str(f) == "mica/torch/ops.py" for f in files("mica"))'
venv/bin/python -c 'import numpy' # comes with it
venv/bin/python -m mica version | grep -q '^mica '
venv/bin/mica ops softmax | grep -q softmax
venv/bin/python tree/examples/python/first.py | tee said
grep -q 'times faster than one operator at a time' said
