#!/usr/bin/env bash
# Plans: what won once is used without a search by another user, from a folder of files or from an import; a plan that was tampered with is
# refused with the reason, and the job searches; options that ask for a search get one.
# test: release
# test: timeout 400
set -u
. tests/shell.sh
unset MICA_DB
export MICA_PLANS=
for user in one two; do mkdir -m 700 "$work/$user"; done
of() { local user=$1; shift; env HOME="$work/$user" XDG_CACHE_HOME="$work/$user" "$@"; }
optimize() { # user, name of the report, more words
  local user=$1 report=$2
  shift 2
  rm -rf "$work/$user/mica"
  expect 0 'optimized' of "$user" "$MICA" optimize "$work/soft.mica" --target sm_90a --threads 1 --measure 1 --json "$work/$report.json" "$@"
}
states() { # how many the report has, and whether a plan stood for the search
  python3 - "$work/$1.json" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
print(r["search"]["states"] > 0, "plan" in r["parts"][0], r["certificate"]["scope"], sep=" ")
PYTHON
}
is() { [ "$(states "$1")" = "$2" ] || complain "$1: $(states "$1"), not $2"; }

printf 'program soft() {\n  X: f16[16, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n' >"$work/soft.mica"
optimize one first
is first 'True False proved'
mkdir "$work/plans"
expect 0 '1 plan is in' of one "$MICA" db export "$work/plans/sm_90a.jsonl" --portable
[ "$(head -1 "$work/plans/sm_90a.jsonl")" = '{"mica plans":1}' ] || complain "the head"

# Another user and other names: no search, and the same kernels.
printf 'program other() {\n  rows: f16[16, 64]\n  e = exp(rows)\n  return e / sum(e, dim=1)\n}\n' >"$work/soft.mica"
MICA_PLANS=$work/plans optimize two planned
is planned 'False True proved'
grep -q 'sm_90a.jsonl:2' "$work/out" || complain "the report does not name the plan"
python3 - "$work/first.json" "$work/planned.json" <<'PYTHON' || complain "the kernels differ"
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert [x["how"] for x in a["gpu"]["launches"]] == [x["how"] for x in b["gpu"]["launches"]]
assert b["program"] == "other" and "rows" in json.dumps(b["graph"])
PYTHON

# A search is made where one is asked for, and for other sizes.
MICA_PLANS=$work/plans optimize two fresh --fresh
is fresh 'True False proved'
MICA_PLANS=$work/plans optimize two limited --max-kernel-ops 3
is limited 'True False proved'
sed -i 's/64/128/' "$work/soft.mica"
MICA_PLANS=$work/plans optimize two larger
is larger 'True False proved'
sed -i 's/128/64/' "$work/soft.mica"
for pass in split search stable; do # these end ahead of what proves a plan
  expect 0 "^# $pass" env MICA_PLANS="$work/plans" HOME="$work/two" "$MICA" optimize "$work/soft.mica" --target sm_90a --db "$work/two/s.db" --stop-after $pass
done

# An import comes first, and it can be exported again.
rm -rf "$work/two/mica"
expect 0 '1 plan imported' of two "$MICA" db import "$work/plans/sm_90a.jsonl"
expect 0 'plan +of the database' of two "$MICA" optimize "$work/soft.mica" --target sm_90a --threads 1 --measure 1
expect 0 '1 plan is in' of two "$MICA" db export "$work/again" --portable
cmp -s "$work/again" "$work/plans/sm_90a.jsonl" || complain "a plan changes on its way"

# An import keeps what the format has, in its order.
python3 - "$work/plans/sm_90a.jsonl" "$work/mixed" <<'PYTHON'
import json, sys
head, line = open(sys.argv[1]).read().splitlines()
p = dict(reversed(json.loads(line).items()), more=["members"])
open(sys.argv[2], "w").write(head + "\n" + json.dumps(p) + "\n")
PYTHON
rm -rf "$work/two/mica"
expect 0 '1 plan imported' of two "$MICA" db import "$work/mixed"
expect 0 '1 plan is in' of two "$MICA" db export "$work/again" --portable
cmp -s "$work/again" "$work/plans/sm_90a.jsonl" || complain "an import keeps what the format does not have"

# A plan that was tampered with is refused by name, and the job searches.
change() { # name, what of the plan becomes something else (Python, of p)
  mkdir "$work/$1"
  python3 - "$work/plans/sm_90a.jsonl" "$work/$1/sm_90a.jsonl" "$2" <<'PYTHON'
import json, sys
head, line = open(sys.argv[1]).read().splitlines()
p = json.loads(line)
exec(sys.argv[3])
open(sys.argv[2], "w").write(head + "\n" + json.dumps(p, separators=(",", ":")) + "\n")
PYTHON
}
refused() { # name, words of the reason
  MICA_PLANS=$work/$1 optimize two "$1"
  is "$1" 'True False proved'
  grep -Eq "plan of .*/$1/sm_90a.jsonl:2 is not used: .*$2" "$work/out" "$work/err" || complain "$1: no word why"
}
change unequal 'p["graph"] = p["graph"].replace("exp(x)", "exp(x + x)")'
refused unequal 'not equal'
change unfit 'p["graph"] = p["graph"].replace("16, 64", "16, 128")'
refused unfit 'inputs and outputs'
change noise 'p["graph"] = "graph {{{ \\u0000"'
refused noise 'expected .*name, found'
change deep 'p["graph"] = "graph g { X: f16[16, 64]\n return " + "(" * 100000'
refused deep 'nested more than'
change knobs 'p["how"] = [h.split()[0] + " vec=123456789 across=-7" for h in p["how"]]'
refused knobs 'schemes or knobs that this build does not have'
for value in -1 268435456 8x; do
  change "knob$value" "p['how'] = [h.split()[0] + ' vec=$value' for h in p['how']]"
  refused "knob$value" 'schemes or knobs that this build does not have'
done
change scheme 'p["how"] = ["no_such_scheme x=1"]'
refused scheme 'schemes or knobs that this build does not have'
change written 'p["graph"] = "program p() { X: f16[16, 64]\n E = exp(X)\n return E / sum(E, dim=1)\n}"; p["how"] = ["no_such_scheme"]'
refused written 'schemes or knobs that this build does not have'
change many 'p["how"] = p["how"] * 3'
refused many 'schemes or knobs that this build does not have'
change none 'del p["how"]'
refused none 'how its kernels are made'

# Files that cannot be used: another format, one that others can write, one that is cut.
mkdir "$work/format" "$work/open" "$work/cut"
sed '1s/1/999/' "$work/plans/sm_90a.jsonl" >"$work/format/sm_90a.jsonl"
MICA_PLANS=$work/format optimize two format
is format 'True False proved'
grep -q 'has the format 999' "$work/out" "$work/err" || complain "the format is not named"
expect 2 'the format 999, and this build reads 1' of two "$MICA" db import "$work/format/sm_90a.jsonl"
cp "$work/plans/sm_90a.jsonl" "$work/open/"
chmod 666 "$work/open/sm_90a.jsonl"
MICA_PLANS=$work/open optimize two open
is open 'True False proved'
grep -q 'no installed plan is used' "$work/out" "$work/err" || complain "a file that others can write is used"
head -c 200 "$work/plans/sm_90a.jsonl" >"$work/cut/sm_90a.jsonl"
MICA_PLANS=$work/cut optimize two cut
is cut 'True False proved'
expect 2 'this is not a row' of two "$MICA" db import "$work/cut/sm_90a.jsonl"
finish
