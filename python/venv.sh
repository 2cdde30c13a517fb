#!/usr/bin/env bash
# A virtual environment with what the tests of the Python package need; quick when it is there. Where it cannot be made (no Python 3.11, no
# network) it says so, and the tests of the package skip with a message.
#
#   python/venv.sh FOLDER
set -uo pipefail
folder=${1:?a folder}

skip() {
  echo "venv: $1; tests of the Python package will be skipped" >&2
  exit 0
}

"$folder/bin/python" -c 'import numpy, pytest' 2>/dev/null && exit 0
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skip "there is no Python 3.11 or later"
echo "venv: making $folder"
python3 -m venv "$folder" || skip "python3 -m venv failed (python3-venv is missing?)"
timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check numpy pytest || skip "numpy and pytest cannot be installed"
timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check onnx || echo "venv: onnx cannot be installed; its node tests will be skipped" >&2
