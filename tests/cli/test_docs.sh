# README.md and docs/ are checked: every code block is run, compiled, checked or found in its file (docs.py says how).
# test: release
# test: timeout 600
set -eu
command -v python3 > /dev/null || { echo "skipped: python3 is not there"; exit 77; }
MICA_LIBRARY="$(dirname "$MICA")/libmica.a"
MICA_LIBRARIES="$(pkg-config --libs jansson sqlite3 libxxhash) -lpthread -ldl -lm"
PYTHONPATH="$(dirname "$MICA")/python${PYTHONPATH:+:$PYTHONPATH}" # the package as it lies in the tree
[ -n "${MICA_PYTHON:-}" ] || [ ! -x build/venv/bin/python ] || MICA_PYTHON=$PWD/build/venv/bin/python # with numpy: python/venv.sh
MICA_PYTHON=${MICA_PYTHON:-python3}
export MICA MICA_LIBRARY MICA_LIBRARIES MICA_PYTHON PYTHONPATH

# The check can fail: each of these pages shows something that is not so.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/docs"
for name in examples kernels tests bench include src; do ln -s "$PWD/$name" "$folder/$name"; done
refuse() { # WHAT: a page on standard input that must not pass
  cat > "$folder/docs/page.md"
  ! python3 tests/cli/docs.py "$folder" docs/page.md > "$folder/out" 2>&1 || { echo "FAILED: accepted: $1"; exit 1; }
  grep -q "^FAILED docs/page.md:" "$folder/out" || { echo "FAILED: $1:"; cat "$folder/out"; exit 1; }
}
refuse "a block that says nothing" << 'PAGE'
```
something
```
PAGE
refuse "an indented block" << 'PAGE'
Text.

    mica ops
PAGE
refuse "another output" << 'PAGE'
```console
$ mica ops exp
exp: something else
...
```
PAGE
refuse "output that is left out" << 'PAGE'
```console
$ mica ops exp
exp: e to the power x
```
PAGE
refuse "a command that fails" << 'PAGE'
```console
$ mica ops nothing
```
PAGE
refuse "a program with a mistake" << 'PAGE'
```mica
program p { X: f32[4] return exp(Y) }
```
PAGE
refuse "an excerpt of another file" << 'PAGE'
```mica
# examples/softmax.mica
program softmin(m = 4096, n = 4096) {
```
PAGE
refuse "C that does not compile" << 'PAGE'
```c
int x = mica_nothing();
```
PAGE
refuse "C that prints something else" << 'PAGE'
```c
#include <stdio.h>
int main(void) { puts("1"); }
```

```output
2
```
PAGE
refuse "Python that fails" << 'PAGE'
```python
x = undefined
```
PAGE
refuse "a command in a block of text" << 'PAGE'
```text
mica ops
```
PAGE
refuse "a mark that does not exist" << 'PAGE'
```console skip
$ false
```
PAGE

python3 tests/cli/docs.py .
