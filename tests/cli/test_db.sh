#!/usr/bin/env bash
# `mica db`: results go to a file and come back; of another user only searches are taken, and what they say is proved anew; nothing is
# believed of a file that is damaged.
# test: timeout 300
# test: quick sanitized
set -u
. tests/shell.sh
unset MICA_DB
for user in one two three; do mkdir -m 700 "$work/$user" "$work/$user/cache"; done
of() { local user=$1; shift; env HOME="$work/$user" XDG_CACHE_HOME="$work/$user/cache" "$@"; }
printf 'program soft() {\n  X: f32[32, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n' >"$work/soft.mica"
fast=(--measure 2 --disturbed --threads 1)

expect 0 'found' of one "$MICA" optimize "$work/soft.mica" "${fast[@]}"
expect 0 'results are in' of one "$MICA" db export "$work/rows.jsonl"
[ "$(wc -l <"$work/rows.jsonl")" -ge 3 ] || complain "too few rows"
python3 - "$work/rows.jsonl" <<'PYTHON' || complain "the rows"
import json, sys
head, *rows = [json.loads(line) for line in open(sys.argv[1])]
assert head["mica database"] == 1 and len(head["sources"]) > 6
assert all(len(r["sum"]) == 64 and json.loads(r["json"]) is not None for r in rows)
assert any(r["key"].startswith("part ") for r in rows) and any(not r["key"].startswith("part ") for r in rows)
PYTHON

# Back to the same user: everything, once.
expect 0 '[0-9]+ results imported, 0 of them new' of one "$MICA" db import "$work/rows.jsonl"
expect 0 'results imported, [1-9][0-9]* of them new' of one "$MICA" db import "$work/rows.jsonl" --db "$work/one/other.db"
expect 0 'recalled from the database' of one "$MICA" optimize "$work/soft.mica" "${fast[@]}" --db "$work/one/other.db"
expect 0 'results imported, [1-9][0-9]* of them new' of one "$MICA" db merge "$work/one/other.db" --db "$work/one/third.db"
expect 0 'recalled from the database' of one "$MICA" optimize "$work/soft.mica" "${fast[@]}" --db "$work/one/third.db"

# Another user has the search and no more.
expect 0 '[1-9][0-9]* of another user were skipped' of two "$MICA" db import "$work/rows.jsonl"
expect 0 'found' of two "$MICA" optimize "$work/soft.mica" "${fast[@]}" --json "$work/two.json"
! grep -q 'recalled from the database' "$work/out" || complain "a certificate of another user counts"

# A search that was changed: graphs that are not equal, and graphs that do not fit the buffers, do not become results.
for how in unequal unfit; do
  python3 - "$work/rows.jsonl" "$work/$how.jsonl" $how <<'PYTHON' || complain "changing rows"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
out = [lines[0]]
for line in lines[1:]:
    row = json.loads(line)
    if row["key"].startswith("part "):
        text = row["json"]
        row["json"] = text.replace('"exp"', '"square"') if sys.argv[3] == "unequal" else text.replace("64", "4096")
        assert row["json"] != text
        out.append(json.dumps(row))
open(sys.argv[2], "w").write("\n".join(out) + "\n")
PYTHON
  rm -rf "$work/three/cache/mica"
  expect 0 '1 result imported, 1 of them new' of three "$MICA" db import "$work/$how.jsonl"
  expect 0 'op-by-op' of three "$MICA" optimize "$work/soft.mica" "${fast[@]}" --out "$work/$how"
  expect 0 'equal' "$MICA" verify "$work/soft.mica" "$work/$how/graph.mica"
done

# Files that are none.
expect 2 'did you mean import' of one "$MICA" db imprt x
expect 3 'cannot open' of one "$MICA" db import "$work/absent"
expect 3 'cannot open' of one "$MICA" db merge "$work/absent.db"
[ ! -e "$work/absent.db" ] || complain "a database was made"
: >"$work/nothing"
expect 2 'this is not a row' of one "$MICA" db import "$work/nothing"
head -c 5000 /dev/urandom >"$work/noise"
expect 2 'this is not a row' of one "$MICA" db import "$work/noise"
{ head -2 "$work/rows.jsonl"; echo '{"key": "part x", "json": 3, "sum": ""}'; } >"$work/cut"
expect 2 'cut:3: error: this is not a row' of one "$MICA" db import "$work/cut"
sed '1s/"sources":"[^"]*"/"sources":"other"/' "$work/rows.jsonl" >"$work/old"
expect 0 'warning: the results are of another build' of one "$MICA" db import "$work/old"
finish
