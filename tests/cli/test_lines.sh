#!/usr/bin/env bash
# Lines: lines.json of a saved folder leads from kernel.cu by way of the tile program to nodes of the graph; with MICA_LINE_INFO the source has
# line directives, and the machine code the name of the tile program.
# test: release
set -u
. tests/shell.sh
export MICA_PLANS=
printf 'program soft() {\n  X: f16[64, 256]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n' >"$work/soft.mica"
save() { expect 0 '' "$MICA" optimize "$work/soft.mica" --target sm_90a --no-db --threads 1 --quiet --out "$1"; }
save "$work/plain"
MICA_LINE_INFO=1 save "$work/lines"

python3 - "$work/plain" "$work/lines" <<'PYTHON' >"$work/out" 2>&1 || complain "the table of lines"
import json, re, sys
plain, lines = sys.argv[1:]

def text(folder, name):
    return open("%s/%s" % (folder, name)).read().split("\n")

table, cuda = json.load(open(plain + "/lines.json")), text(plain, "kernel.cu")
assert table["lines"] == 1 and table["kernels"]
for k in table["kernels"]:
    tile, end = text(plain, k["tile"]), 0
    assert k["cuda"] and k["graph"]
    for first, last, at in k["cuda"]:
        assert end < first <= last <= len(cuda) and 1 <= at <= len(tile), (first, last, at)
        end = last
        if cuda[first - 1].lstrip().startswith("// "):  # the comment before an instruction is the statement itself
            statement = cuda[first - 1].strip()[3:]
            assert tile[at - 1].strip().startswith(re.split(r"[\[( ]", statement)[0]), (statement, tile[at - 1])
    end = 0
    for first, last, words in k["graph"]:
        assert end < first <= last <= len(tile) and words
        end = last
assert any("exp" in words for k in table["kernels"] for _, _, words in k["graph"])
assert any("sum" in words for k in table["kernels"] for _, _, words in k["graph"])

directive = re.compile(r'#line (\d+) "(.*)"')
marked, tile = text(lines, "kernel.cu"), table["kernels"][0]["tile"]
assert not any(directive.match(x) for x in cuda)
found = [directive.match(x).groups() for x in marked if directive.match(x)]
assert any(name == tile for _, name in found) and found[-1][1] == "kernel.cu"
assert all(int(n) <= len(text(lines, name)) for n, name in found if name == tile)
assert [x for x in marked if not directive.match(x)] == cuda, "nothing but directives is added"
PYTHON

# A kernel in a file of a user's own.
expect 0 '' env MICA_LINE_INFO=1 "$MICA" tile emit kernels/gemm_sm80.tile --arch sm_80 --out "$work/gemm.cu"
grep -q '^#line [0-9]* "kernels/gemm_sm80.tile"' "$work/gemm.cu" || complain "the user's file is not named"

# A name that a directive cannot have as it is: the kernel's stands for it.
odd="$work/a\"
#error b.tile"
cp kernels/gemm_sm80.tile "$odd"
expect 0 '' env MICA_LINE_INFO=1 "$MICA" tile emit "$odd" --arch sm_80 --out "$work/odd.cu"
grep -q '^#line [0-9]* "[a-z0-9_]*\.tile"$' "$work/odd.cu" || complain "the kernel does not stand for the file"
! grep -q '^#error' "$work/odd.cu" || complain "a file's name became a directive"

cubin=$(ls "$work"/lines/*.cubin 2>/dev/null)
if [ -n "$cubin" ]; then
  grep -aq 'soft_1\.tile' "$cubin" || complain "machine code without a line table"
  plain=$work/plain/$(basename "$cubin")
  [ -f "$plain" ] && ! grep -aq 'soft_1\.tile' "$plain" || complain "a line table that nobody asked for"
fi
finish
