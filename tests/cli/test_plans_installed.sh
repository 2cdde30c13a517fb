#!/usr/bin/env bash
# The plans that are installed (plans/*.jsonl): small, of this format, one row a plan, and programs of examples/ use them without a search.
# Their time is one that only hangs reach.
# test: release
# test: timeout 1500
set -u
. tests/shell.sh
unset MICA_DB
ls plans/*.jsonl >/dev/null 2>&1 || { echo "skipped: there are no plans in this tree (scripts/plans.sh)"; exit 77; }
mkdir -m 700 "$work/cache"
export HOME=$work XDG_CACHE_HOME=$work/cache MICA_PLANS=$PWD/plans

python3 - plans/*.jsonl <<'PYTHON' >"$work/out" 2>&1 || complain "the files"
import json, os, sys
for name in sys.argv[1:]:
    assert os.path.getsize(name) < 1 << 20, "larger than 1 MiB"
    head, *rows = open(name).read().splitlines()
    assert json.loads(head) == {"mica plans": 1}
    plans = [json.loads(r) for r in rows]
    target = os.path.basename(name)[:-len(".jsonl")]
    assert all(p["target"] == target and p["us"] > 0 and p["how"] and r.startswith('{"key":"%s",' % p["key"]) for p, r in zip(plans, rows))
    seen = [(p["key"], p["gpu"]) for p in plans]
    assert len(set(seen)) == len(seen), "two plans of one program"
PYTHON

for program in g_norm lora gqa_dec m_gated; do
  expect 0 'plan +of ' "$MICA" optimize "examples/$program.mica" --target sm_90a --json "$work/report.json" --time 300
  grep -q 'is not used' "$work/out" "$work/err" && complain "$program: its plan is not used"
  python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["search"]["states"] > 0)' "$work/report.json" || complain "$program: a search"
done
finish
