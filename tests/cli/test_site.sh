# The pages that docs/generate.py makes of the tables: no row is missing, what they show is true. If `make docs` has installed its
# tools the site is built too, and warnings are errors.
# test: release
# test: timeout 300
set -eu
command -v python3 > /dev/null || { echo "skipped: python3 is not there"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in examples kernels tests bench include src; do ln -s "$PWD/$name" "$folder/$name"; done
MICA_LIBRARY="$(dirname "$MICA")/libmica.a"
export MICA MICA_LIBRARY
python3 docs/generate.py "$folder/docs"
cp docs/error-examples.md "$folder/docs"
has() { grep -qE "$1" "$folder/docs/$2" || fail "$2 lacks $1"; }
for op in $(sed -n 's/^\(OP\|UNARY\|SHAPED\)([A-Z_]*, \([a-z_]*\),.*/\2/p' src/ir/op.def); do has "^### $op\$" operators.md; done
for row in $(sed -n 's/^ERR([A-Z_]*, [A-Z]*, "\([a-z-]*\)",.*/\1/p' src/base/err.def | grep -v '^none$'); do has "^## $row\$" errors.md; done
for row in $(sed -n 's/^OPT([A-Z_]*, \([a-z-]*\),.*/\1/p' src/cli/opt.def); do has "^\| .--$row[ \`]" command.md; done
for row in $(sed -n 's/^PRUNE([A-Z_]*, \([a-z]*\),.*/\1/p' src/search/prune.def); do has "^\| .$row. " pruning.md; done
for row in $(sed -n 's/^GPU("\([a-z0-9_]*\)",.*/\1/p' src/target/gpu.def); do has "^\| .$row. " targets.md; done
has '`mma.m16n8k16.fp32.fp16`' instructions.md
(cd "$folder" && python3 "$OLDPWD/tests/cli/docs.py" "$folder" docs/operators.md docs/errors.md docs/command.md docs/pruning.md \
  docs/instructions.md docs/targets.md)
status=0
bash scripts/site.sh --no-install || status=$?
[ "$status" = 0 ] || [ "$status" = 77 ] || fail "scripts/site.sh: status $status"
