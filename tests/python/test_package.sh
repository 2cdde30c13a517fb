#!/usr/bin/env bash
# The Python package in the build folder, by pytest. Torch, jax and the like are tested where the environment has them. test: timeout 300
set -euo pipefail
. tests/python/environment.sh
exec "$python" -m pytest -q -p no:cacheprovider tests/python
