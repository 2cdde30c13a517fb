#!/usr/bin/env bash
# The passes of `mica optimize`, watched: dumps, --stop-after, lines and traces of times, and the commands that show why a candidate was dropped.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
export MICA_DB=$work/passes.db
export PATH=$(dirname "$MICA"):$PATH
few=(--max-block-ops 3 --measure 1 --threads 2 --no-db)
cat >"$work/chain.mica" <<'END'
program chain() {
  X: f32[64, 64]
  W: f32[64, 64]
  return exp(relu(matmul(X, W)))
}
END

# ---- the rows ----
expect 0 'thread-graphs +candidate +all +kernel graph -> kernel graph' "$MICA" help passes
"$MICA" help passes | sed -nE '/^  [a-z]/{N;s/^  ([a-z-]+) +([a-z]+) +([a-z]+) +(.*)\n +(.*)$/| `\1` | \2 | \3 | \4 | \5 |/p}' >"$work/rows"
[ "$(wc -l <"$work/rows")" -gt 20 ] || complain "only $(wc -l <"$work/rows") passes are listed"
grep -E '^\| `[a-z-]+` \| (job|subprogram|candidate|leader) \|' docs/tour.md | diff "$work/rows" - >"$work/out" || complain "docs/tour.md lists other passes than \`mica help passes\`"

# ---- --stop-after: each row that the target has, but those that take a race ----
for p in parse expand split search pick stable thread-graphs c; do
  expect 0 "^(#|//) $p" "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after $p --check-passes
done
for p in norm chains schedule meta threads layouts choices kern lower memory verify interpret cuda nvrtc race; do
  expect 0 "^(#|//) $p" "$MICA" optimize "$work/chain.mica" --dtype f16 --target sm_90a "${few[@]}" --stop-after $p --check-passes
done
expect 0 'note: pass collectives: no data reached it' "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after collectives
expect 0 '^  return all_reduce\(t2\) \* g \+ X$' "$MICA" optimize tests/ranks/two_sums.mica "${few[@]}" --stop-after collectives --check-passes
expect 0 'note: pass compile: it has no text output' "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after compile
expect 0 'note: pass lower: no data reached it' "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after lower
expect 0 '"finding": "equal"' "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after report --dump verify
"$MICA" optimize "$work/chain.mica" --stop-after split >"$work/split.mica"
expect 0 '' "$MICA" verify "$work/chain.mica" "$work/split.mica"

# ---- dumps in files ----
expect 0 '' "$MICA" optimize "$work/chain.mica" "${few[@]}" --stop-after c --dump all --dump-dir "$work/dump"
for f in 00-parse.mica 03-split.mica 05-pick-candidate01.mica 07-thread-graphs-candidate01.mica 08-c-candidate00.c 08-c-candidate01.c; do
  [ -s "$work/dump/$f" ] || complain "there is no file $f"
done
expect 0 '' "$MICA" verify "$work/chain.mica" "$work/dump/07-thread-graphs-candidate01.mica"
[ -z "$(find "$work/dump" -name '*[~.]')" ] || complain "something half-written is left"

# ---- what is refused ----
expect 2 'did you mean split' "$MICA" optimize "$work/chain.mica" --dump splits
expect 2 'there is no pass  *\[bad-option\]|there is no pass x' "$MICA" optimize "$work/chain.mica" --dump parse,x
expect 2 'did you mean search' "$MICA" optimize "$work/chain.mica" --stop-after serch
expect 2 'standard output' "$MICA" optimize "$work/chain.mica" --dump parse --json -
expect 2 'is for --dump' "$MICA" optimize "$work/chain.mica" --dump-dir "$work/none"
expect 2 'of --candidate' "$MICA" optimize "$work/chain.mica" --knobs rows
expect 3 '' "$MICA" optimize "$work/chain.mica" --dump parse --dump-dir "$work/chain.mica/dir"
expect 2 'MICA_TRACE is yes' env MICA_TRACE=yes "$MICA" optimize "$work/chain.mica"
expect 3 'cannot write' env MICA_TRACE="$work/none/t.json" "$MICA" optimize "$work/chain.mica"
: >"$work/model.onnx"
expect 2 'one program at a time' "$MICA" optimize "$work/model.onnx" --dump all
expect 2 'inputs and outputs' "$MICA" optimize examples/softmax.mica --candidate "$work/chain.mica"

# ---- times ----
expect 0 '^pass search .* values  subprogram 1$' env MICA_TRACE=1 "$MICA" optimize "$work/chain.mica" "${few[@]}" --quiet --stop-after c
MICA_TRACE=$work/job.json "$MICA" optimize "$work/chain.mica" --dtype f16 --target sm_90a "${few[@]}" --quiet 2>"$work/err" || complain "no trace is made"
python3 - "$work/job.json" >"$work/out" 2>&1 <<'END' || complain "the trace is not well-formed"
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
slack = 0.002
end = lambda e: e["ts"] + e["dur"]
jobs = [e for e in events if e["cat"] == "job"]
assert len(jobs) == 1 and jobs[0]["name"] == "chain" and jobs[0]["tid"] == 0, jobs
for a in events:
    assert a["dur"] >= 0 and a["ts"] >= jobs[0]["ts"] - slack and end(a) <= end(jobs[0]) + slack, a
    for b in events:
        if a["tid"] == b["tid"]:
            apart = end(a) <= b["ts"] + slack or end(b) <= a["ts"] + slack
            inside = (a["ts"] >= b["ts"] - slack and end(a) <= end(b) + slack) or (b["ts"] >= a["ts"] - slack and end(b) <= end(a) + slack)
            assert apart or inside, (a, b)
names = {e["name"] for e in events if e["cat"] == "pass"}
assert names >= {"expand", "split", "search", "pick", "stable", "norm", "lower", "verify", "race", "join", "whole", "report"}, names
assert any("candidate 1" in e.get("args", {}).get("note", "") for e in events)
top = [e for e in events if e["tid"] == 0 and (e["cat"] == "part" or e["name"] in ("expand", "split", "join", "whole", "report"))]
assert sum(e["dur"] for e in top) > 0.5 * jobs[0]["dur"], "the passes do not cover the job"
END

# ---- candidates that are dropped: the command shows the same reason, as the pass that dropped it ----
again() { # NAME PASS REASON
  [ -s "$work/$1/dropped.sh" ] || { complain "$1: nothing is kept"; return; }
  grep -m1 -A1 ": $2: " "$work/$1/dropped.sh" >"$work/one.sh" || { complain "$1: nothing was dropped by $2"; return; }
  local reason
  reason=$(sed -n "1s/^# [^:]*: $2: //p" "$work/one.sh")
  [[ $reason =~ $3 ]] || complain "$1: $reason"
  sh "$work/one.sh" >"$work/out" 2>"$work/err"
  [ $? = 1 ] || complain "$1: the command does not end with 1"
  grep -qF "the pass $2 drops the candidate: $reason" "$work/err" || complain "$1: the command has another reason than: $reason"
}
dropped() { # NAME PROGRAM CANDIDATE PASS REASON [OPTION...]
  printf '%s\n' "$2" >"$work/it's $1.mica"
  printf '%s\n' "$3" >"$work/$1_candidate.mica"
  expect 1 "the pass $4 drops the candidate: .*$5" "$MICA" optimize "$work/it's $1.mica" --candidate "$work/$1_candidate.mica" \
    --keep-dropped "$work/$1" --quiet "${@:6}"
  again "$1" "$4" "$5"
}
dropped stable 'program soft() { X: f32[16, 64]; return softmax(X, dim=1) }' \
  'graph soft { X: f32[16, 64]; e = exp(X); h = sqrt(sum(e, dim=1)); return div(div(e, h), h) }' stable 'could overflow'
dropped verify "$(cat "$work/chain.mica")" \
  'graph chain { X: f32[64, 64]; W: f32[64, 64]; return relu(matmul(X, W)) }' verify 'not equal to the program'
dropped numbers 'program large() { X: f16[32, 32]; W: f16[32, 32]; return matmul(X, W) }' \
  'graph large { X: f16[32, 32]; W: f16[32, 32]; a = X * 32768; b = W * 0.000030517578125; return matmul(a, b) }' numbers 'is -?inf, and'
dropped lower 'program p() { A: f16[16, 101]; B: f16[101, 32]; return matmul(A, B) }' 'graph p { A: f16[16, 101]; B: f16[101, 32]
  O = block(; i=101) { a = iter(A, fmap={i:1}); b = iter(B, fmap={i:0}); save(accum(exp(matmul(a, b)))) }
  return O }' lower 'no GPU kernel can be made' --target sm_90a
# Without a GPU: what no scheme makes with these knobs, and what is made and is another program. The command has the target and the knobs.
half=$(sed s/f32/f16/ "$work/chain.mica")
tiled() { # BODY: one kernel that ends with it
  echo "graph chain { X: f16[64, 64]; W: f16[64, 64]
    O = block(x=4) { x = iter(X, imap={x:0}); w = iter(W); save($1, omap={x:0}) }
    return O }"
}
dropped gpu_lower "$half" "$(tiled 'exp(relu(matmul(x, w)))')" lower 'knobs out of range' --target sm_90a --knobs 'mma wm=2'
grep -qF -- "--target sm_90a --knobs 'mma wm=2' --stop-after lower" "$work/gpu_lower/dropped.sh" || complain "the command has other knobs"
dropped gpu_scheme "$half" "$(tiled 'exp(relu(matmul(x, w)))')" choices 'one for each launch' --target sm_90a --knobs 'rows; mma'
dropped gpu_verify "$half" "$(tiled 'relu(matmul(x, w))')" verify 'not equal to the program' --target sm_90a
grep -qE -- "--target sm_90a --knobs '[a-z]+ [a-z]+=.*' --stop-after verify" "$work/gpu_verify/dropped.sh" || complain "the command has no knobs"
dropped gpu_own_knobs "$half" "$(tiled 'relu(matmul(x, w))')" verify 'not equal to the program' --target sm_90a --knobs 'mma wm=1 wn=2'
grep -qE -- "--knobs 'mma wm=1 wn=2 .*' --stop-after verify" "$work/gpu_own_knobs/dropped.sh" || complain "the command has other knobs than were given"
# The interpreter's answer: equal over the reals, and infinite in fp32.
dropped gpu_interpret 'program times() { X: f32[64, 64]; Y: f32[64, 64]; return X * Y }' 'graph times { X: f32[64, 64]; Y: f32[64, 64]
  O = block(x=4) { x = iter(X, imap={x:0}); y = iter(Y, imap={x:0}); p = (x * 1099511627776 * 33554432) * (y * 1099511627776 * 33554432)
    q = p * 0.0000000000009094947017729282 * 0.0000000000009094947017729282; save(q * 0.0000000000009094947017729282 * 0.0009765625, omap={x:0}) }
  return O }' interpret 'interpreter: times_1 .*: relative error inf' --target sm_90a
grep -qE -- "--knobs 'rows vec=.*' --stop-after interpret" "$work/gpu_interpret/dropped.sh" || complain "the command has no knobs"
# The compiler's, of a compiler that takes nothing.
cat >"$work/nvrtc.c" <<'END'
int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0; }
int nvrtcCreateProgram(void **p) { return *p = 0, 0; }
int nvrtcDestroyProgram(void) { return 0; }
int nvrtcCompileProgram(void) { return 6; }
int nvrtcGetProgramLogSize(void *p, unsigned long *n) { return (void)p, *n = 9, 0; }
int nvrtcGetProgramLog(void *p, char *log) { return (void)p, __builtin_strcpy(log, "too bad!"), 0; }
int nvrtcGetPTXSize(void) { return 6; }
int nvrtcGetPTX(void) { return 6; }
int nvrtcGetCUBINSize(void) { return 6; }
int nvrtcGetCUBIN(void) { return 6; }
const char *nvrtcGetErrorString(int e) { return (void)e, "NVRTC_ERROR_COMPILATION"; }
END
mkdir "$work/bad"
cc -shared -fPIC -o "$work/bad/libnvrtc.so.13" "$work/nvrtc.c" || complain "the stand-in for NVRTC cannot be built"
LD_LIBRARY_PATH="$work/bad" dropped gpu_nvrtc "$half" "$(tiled 'exp(relu(matmul(x, w)))')" nvrtc 'compiler: NVRTC does not compile chain_[0-9a-f]* for sm_90a' --target sm_90a
sed s/f32/f16/ "$work/dump/03-split.mica" >"$work/half.mica"
expect 1 'the pass choices drops the candidate' "$MICA" optimize "$work/chain.mica" --dtype f16 --target sm_90a --quiet \
  --candidate "$work/half.mica" --knobs 'rows; nothing=1'

# ---- a saved graph is a candidate: its exponentials are of differences to maxima, in thread graphs ----
echo 'program a { Q: f16[2, 32, 16]; K: f16[2, 16, 32]; V: f16[2, 32, 16]; return matmul(softmax(matmul(Q, K), dim=2), V) }' >"$work/a.mica"
expect 0 '' "$MICA" optimize "$work/a.mica" --target sm_90a --threads 2 --out "$work/a" --quiet
expect 0 'thread\(' cat "$work/a/graph.mica"
expect 0 '^// lower' "$MICA" optimize "$work/a.mica" --target sm_90a --candidate "$work/a/graph.mica" --stop-after lower

finish
