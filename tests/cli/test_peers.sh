#!/usr/bin/env bash
# `mica optimize --peers`: the lines of python3 -m mica.peers stand before the report; where that fails, the report is there all the same.
# A stand-in is python3 here; tests/python/test_torch_peers.py runs the real one. test: release
set -u
. tests/shell.sh
export MICA_DB=$work/mica.db
printf 'program twice(n = 64) {\n  X: f32[4, n]\n  return X * 2\n}\n' >"$work/twice.mica"
mkdir "$work/bin"
cat >"$work/bin/python3" <<'PYTHON'
#!/usr/bin/env bash
[ "$1 $2" = "-m mica.peers" ] && [ -e "$3/program.json" ] && [ -e "$3/report.json" ] || exit 9
sleep "${PEERS_SECONDS:-0}"
echo "twice: 2.00 times as fast as the best peer, a stand-in"
exit "${PEERS_STATUS:-0}"
PYTHON
chmod +x "$work/bin/python3"
export PATH=$work/bin:$PATH
optimize=("$MICA" optimize "$work/twice.mica" --measure 1 --max-block-ops 3 --peers)

expect 0 '^twice: 2.00 times as fast as the best peer' "${optimize[@]}"
[ "$(head -1 "$work/out")" = "twice: 2.00 times as fast as the best peer, a stand-in" ] || complain "the first line is not the ratio to the best peer"
grep -q '^twice on cpu' "$work/out" || complain "there is no report behind it"
expect 0 '"program": "twice"' "${optimize[@]}" --json -
[ "$(head -c 1 "$work/out")" = "{" ] && grep -q 'best peer' "$work/err" || complain "with --json - the peers do not go to standard error"
PEERS_STATUS=3 expect 0 'warning: nothing was compared with peers' "${optimize[@]}"
grep -q '^twice on cpu' "$work/out" || complain "no report where the peers failed"
# the result is recalled; the time is the job's, and not that of the peers
PEERS_SECONDS=5 expect 0 '^twice: 2.00 times' "${optimize[@]}" --time 2
grep -q '^twice on cpu' "$work/out" || complain "no report behind peers that took longer than --time"
finish
