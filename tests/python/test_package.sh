#!/usr/bin/env bash
# The Python package in the build folder, by pytest. jax and the like are tested where the environment has them; test_torch.sh tests torch. test: timeout 300
# test: quick release
set -euo pipefail
. tests/python/environment.sh
exec "$python" -m pytest -q -p no:cacheprovider --ignore-glob='*test_torch*' tests/python
