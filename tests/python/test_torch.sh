#!/usr/bin/env bash
# mica.torch with real torch, by pytest; MICA_PYTHON names an interpreter that has it. Searches take minutes. test: check-all
# test: timeout 2700
set -euo pipefail
. tests/python/environment.sh
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: torch is not installed ($python)"; exit 77; }
[ -z "${MICA_SANITIZED:-}" ] || { echo "skipped: torch does not run under the sanitizers"; exit 77; }
exec "$python" -m pytest -q -p no:cacheprovider tests/python/test_torch_*.py
