#!/usr/bin/env bash
# Whole numbers, gathers, updates and topk: compiled C makes the same whole numbers as the interpreter in float64, bit by bit, and reals
# close to its. Inputs outside their range and repeated indices are refused with the words of docs/language.md.
set -u
. tests/shell.sh

cat > "$work/integers.mica" <<'M'
program integers(m = 7, n = 37) {
  X: f32[m, n]
  a: i32[m, n] < 100
  b: i64[m, 1] >= -9 <= 9
  c: bool[m, n]
  v, i = topk(X, k=5, dim=1)
  w, j = topk(X, k=2, dim=0)
  s = a + b
  return i, j, argmax(X, dim=1), one_hot(argmax(X, dim=0), m), s // 7, s % 7, (a > 50 and not a < 60) or c, cumsum(a, dim=1), where(c, s, 3),
    abs(b) * 3 - a, sum(a, dim=1), max(s, dim=0), clamp(s, 0, 20), a[:, b[:, 0] + 9], a[2], a[1:3, 4:], minimum(a, s), a == s, a != 5
}
M
cat > "$work/moves.mica" <<'M'
program moves(b = 3, n = 20, d = 12, h = 4) {
  t: i32[b, 2] < n
  at: i64[b] >= -1 < n, distinct
  r: i32[b] < h
  E: f16[n, d]
  y: f16[b, d]
  z: f32[h, b, d]
  K: f16[n, d] state
  L: f32[h, n, d] state
  before = sum(K, dim=1)
  K[at] = y
  L[:, at] = z
  L[r[0], 0:2] = E[1:3] * 2
  u = update(E, iota([b]), y, 0)
  return E[t], transpose(E)[:, t[0]], before, sum(L, dim=2), u, L[r, t[:, 1]], E[t[:, 0]][1] + K[19]
}
M
sed -i 's/  L\[r\[0\], 0:2\] = E\[1:3\] \* 2/  L[1, 0:2] = E[1:3] * 2/' "$work/moves.mica"
for p in integers moves; do
  for engine in f64 cpu; do
    "$MICA" run "$work/$p.mica" --engine $engine --seed 3 --threads 2 --out "$work/$p.$engine" > "$work/$p.$engine.txt" 2>&1 ||
      { cat "$work/$p.$engine.txt"; complain "$p on $engine"; }
  done
done
cmp -s "$work/integers.f64.txt" "$work/integers.cpu.txt" || { diff "$work/integers.f64.txt" "$work/integers.cpu.txt"; complain "whole numbers differ"; }
# means and norms agree to four digits: nothing was moved to a wrong place in a way that sums would show
awk 'FNR == NR { for (i = 1; i <= NF; i++) if ($i == "rms") a[FNR] = $(i + 1); next } { for (i = 1; i <= NF; i++) if ($i == "rms") { x = a[FNR]; y = $(i + 1)
  d = x - y; if (d < 0) d = -d; if (d > 1e-3 * (x + 1e-9)) { print "output " FNR ": " x " and " y; bad = 1 } } } END { exit bad }' \
  "$work/moves.f64.txt" "$work/moves.cpu.txt" || complain "moves differ"

# Norms of f16: squares of inputs above 256 exceed its largest number. The mean square of a norm is 1, operator by operator too.
cat > "$work/large.mica" <<'M'
program large(m = 2, k = 512) {
  X: f16[m, k]
  return mean(square(rms_norm(X * 1000, eps=1e-6)), dim=1), mean(square(layer_norm(X * 1000)), dim=1), f16(mean(square(f32(X * 1000)), dim=1) / 1e6)
}
M
"$MICA" run "$work/large.mica" --engine cpu > "$work/large.txt" 2>&1 || complain "norms of large numbers"
[ "$(grep -cE 'mean (0[.]99|1[.]00)[0-9]*  rms (0[.]99|1[.]00)' "$work/large.txt")" = 2 ] || { cat "$work/large.txt"; complain "norms of large numbers in f16"; }
grep -qE 'mean (0[.][89]|1[.][01])' "$work/large.txt" || { cat "$work/large.txt"; complain "casts"; }

# Sequences: the text that is printed reads back as the same program.
for p in integers moves; do
  "$MICA" show "$work/$p.mica" --json "$work/$p.json" > /dev/null && "$MICA" verify "$work/$p.mica" "$work/$p.json" > "$work/said" 2>&1
  [ $? = 0 ] || { cat "$work/said"; complain "$p from JSON"; }
done

says() { # words, program lines...
  local words=$1
  shift
  { echo 'program p(b = 3, n = 20, d = 4) {'; printf '  %s\n' "$@"; echo '}'; } > "$work/wrong.mica"
  "$MICA" show "$work/wrong.mica" > "$work/said" 2>&1
  [ $? = 2 ] && grep -qF "$words" "$work/said" || { cat "$work/said"; complain "$words is not said"; }
}
says '[index-range]' 't: i32[b] <= n' 'E: f32[n, d]' 'return E[t]'
says '[index-range]' 't: i32[b] < n' 'E: f32[n, d]' 'return E[t + 1]'
says '[index-range]' 't: i32[b] >= -1 < n' 'E: f32[n, d]' 'return E[t]'
says '[index-range]' 'E: f32[n, d]' 'return E[20]'
says '[repeated-index]' 't: i32[b] < n' 'y: f32[b, d]' 'K: f32[n, d] state' 'K[t] = y' 'return y'
says '[repeated-index]' 't: i32[b] < n, distinct' 'y: f32[b, d]' 'K: f32[n, d] state' 'K[t // 2] = y' 'return y'
says '[integer-range]' 't: i32[b]' 'return t + 1'
says '[integer-range]' 't: i32[b] < n' 'return t // (t - 1)'
says '[integer-range]' 't: i32[b] < 2, distinct' 'return t'
says '[integer-range]' 't: i32[b] < 0' 'return t'
says '[state-shape]' 't: i32[b] < n, distinct' 'y: f32[d, b]' 'K: f32[n, d] state' 'K[t] = y' 'return y'
says '[not-a-state]' 't: i32[b] < n, distinct' 'y: f32[b, d]' 'K: f32[n, d]' 'K[t] = y' 'return y'
says '[state-copy]' 'y: f32[b, d]' 'K: f32[n, d] state' 'K[0:3] = y' 'return K'
says '[state-copy]' 'y: f32[b, d]' 'K: f32[n, d] state' 'V = transpose(K)' 'K[0:3] = y' 'return exp(V)'
says '[bad-dtype]' 'x: f32[b]' 'E: f32[n, d]' 'return E[x]'
says '[bad-dtype]' 'x: f32[b] < 3' 'return x'
says '[syntax]' 'and: f32[b]' 'return exp(and)'
finish
