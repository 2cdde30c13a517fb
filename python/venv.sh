#!/usr/bin/env bash
# A virtual environment with what tests need from PyPI; quick when it is there. numpy and pytest are for tests of the Python package, onnx for
# its node tests, tvm-ffi for the functions of exported programs, and NVRTC compiles CUDA text without a GPU. If a
# package cannot be installed, this says so, and its tests are skipped.
#
#   python/venv.sh FOLDER
set -uo pipefail
folder=${1:?a folder}
nvrtc=nvidia-cuda-nvrtc-cu12==12.9.86

skip() {
  echo "venv: $1; tests of the Python package will be skipped" >&2
  exit 0
}
install() { timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 "$@"; }

# NVRTC of the CUDA toolkit, or of an earlier run. Tests have FOLDER/nvrtc in their LD_LIBRARY_PATH.
has_nvrtc() {
  [ -e "$folder/nvrtc/libnvrtc.so.12" ] || ls /usr/local/cuda*/lib64/libnvrtc.so.1[23] /opt/cuda/lib64/libnvrtc.so.1[23] >/dev/null 2>&1 ||
    { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -Eq 'libnvrtc\.so\.1[23] '; }
}

add_nvrtc() {
  install "$nvrtc" || { echo "venv: NVRTC is not here and cannot be installed; CUDA text will not be compiled in tests" >&2; return; }
  local library
  library=$(find "$folder/lib" -name libnvrtc.so.12 | head -1)
  [ -n "$library" ] && ln -sfn "$(realpath "$(dirname "$library")")" "$folder/nvrtc"
}

if ! "$folder/bin/python" -c 'import numpy, pytest' 2>/dev/null; then
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skip "there is no Python 3.11 or later"
  echo "venv: making $folder"
  python3 -m venv "$folder" || skip "python3 -m venv failed (python3-venv is missing?)"
  install numpy pytest || skip "numpy and pytest cannot be installed"
  install onnx || echo "venv: onnx cannot be installed; its node tests will be skipped" >&2
fi
"$folder/bin/python" -c 'import tvm_ffi' 2>/dev/null || install apache-tvm-ffi ||
  echo "venv: apache-tvm-ffi cannot be installed; the test of exported programs as functions of tvm-ffi will be skipped" >&2
has_nvrtc || add_nvrtc
