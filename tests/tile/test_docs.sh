# Every row of the tables that a tile program can name is in the reference, docs/tile.md; of a family the part that is named.
# tests/cli/test_docs.sh runs the examples of the page.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }

rows() { sed -n "s/^$1(\([A-Z0-9]*, \)*\"\([^\"]*\)\".*/\2/p" "src/tile/$2" | sort -u; }
types() { sed -n 's/.*\.name = "\([a-z0-9]*\)".*/\1/p; s/^W[A-Z]*([A-Z0-9]*, "\([a-z0-9]*\)".*/\1/p' src/base/dtype.def; }
elementwise() { sed -n 's/^\(UNARY\|SHAPED\)([A-Z0-9_]*, \([a-z0-9_]*\),.*/\2/p' src/ir/op.def; }
named=0
for row in $(rows EVENT instr.def) $(types) $(rows SPEC spec.def) $(rows UNARY_OP pointwise.def) $(elementwise) \
  $(rows BINARY_OP pointwise.def | grep '[a-z]'); do
  word=$row
  until grep -qF "\`$word\`" docs/tile.md || grep -qF "\`$word, " docs/tile.md; do
    case $word in *.*.* | barrier.*) word=${word%.*} ;; *) fail "docs/tile.md does not name $row" ;; esac
  done
  named=$((named + 1))
done
[ "$named" -ge 60 ] || fail "only $named rows were read"
echo "$named rows"
