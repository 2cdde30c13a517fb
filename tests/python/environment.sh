# Start of the tests of the Python package: $python, an interpreter with numpy and pytest, which finds the package of this build.
# MICA_PYTHON names another interpreter than that of build/venv (python/venv.sh).
build=$(dirname "$MICA")
python=${MICA_PYTHON:-build/venv/bin/python}
[ -e "$build/python/mica/_mica.abi3.so" ] || { echo "skipped: the Python package was not built (python3-dev is missing)"; exit 77; }
"$python" -c 'import numpy, pytest' 2>/dev/null || { echo "skipped: no Python with numpy and pytest (python/venv.sh build/venv)"; exit 77; }
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
if [ -n "${MICA_SANITIZED:-}" ]; then # the sanitizers come first into the process; what Python itself leaves at its end is not ours
  # (and libstdc++ with them, of which they look for what throws: jax is C++, Python is not)
  export PYTHONMALLOC=malloc LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so) $(${CC:-cc} -print-file-name=libstdc++.so.6)" ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
fi
