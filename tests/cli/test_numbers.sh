#!/usr/bin/env bash
# Numbers that float does not hold, in programs and options: errors of the user, with a place and a hint; and numbers that it just holds.
# test: quick release
set -u
. tests/shell.sh

write() { printf 'program p() {\n  X: %s[4, 8]\n  return %s\n}\n' "${2:-f32}" "$1" > "$work/p.mica"; }
for bad in 'X * 1e39' 'X + 1e39' 'X * 1e-42' 'X / 1e39' 'X * inf' 'X - inf' 'maximum(X, -inf)' 'rms_norm(X, eps=inf)' 'const(scalar=inf)' 'X * (1e30 * 1e30)'; do
  write "$bad"
  expect 2 'p.mica:3:[0-9]+: error: .* is .*(too large|too small|no finite)' "$MICA" show "$work/p.mica"
  expect 2 'hint: ' "$MICA" run "$work/p.mica"
done
write 'X * nan'
expect 2 'p.mica:3' "$MICA" show "$work/p.mica"
for good in 'X * 1e38' 'X * 1.2e-38' 'X * (1e39 / 1e30)' 'clamp(X, lo=-inf, hi=inf)' 'X * 0'; do
  write "$good"
  expect 0 '' "$MICA" run "$work/p.mica"
done
write 'X * 1e6 * 1e-6' f16
for engine in f64 f32 cpu; do expect 0 '' "$MICA" run "$work/p.mica" --engine $engine; done
write 'X + 1e6' f16
expect 1 'too large for its dtype' "$MICA" optimize "$work/p.mica" --no-db

write 'X * 2'
"$MICA" show "$work/p.mica" --json - > "$work/p.json"
sed 's/"scalar": *2[.0]*/"scalar": "inf"/' "$work/p.json" > "$work/bad.json"
expect 2 'no finite' "$MICA" show "$work/bad.json"

for option in threads search-threads measure tune time max-values max-block-ops; do
  for value in -1 0 NaN nan inf 1e400 1e3 99999999999999999999; do
    expect 2 "$option takes an integer" "$MICA" optimize examples/softmax.mica --$option=$value
  done
done
for value in -1 NaN inf; do expect 2 'takes an integer' "$MICA" optimize examples/softmax.mica --seed=$value; done

# Arrays of bfloat16, which numpy calls raw bytes: 1, 2, -0.5 and 0 from their bits.
printf 'program p() {\n  X: bf16[4]\n  return X * 1\n}\n' > "$work/half.mica"
for descr in '<V2' '|V2'; do
  printf "\x93NUMPY\1\0\166\0%-117s\n\x80\x3f\0\x40\0\xbf\0\0" "{'descr': '$descr', 'fortran_order': False, 'shape': (4,), }" > "$work/half.npy"
  expect 0 '\[4\] +mean 0.625 .*least -0.5 +most 2$' "$MICA" run "$work/half.mica" "X=$work/half.npy"
done
sed 's/V2/V3/' "$work/half.npy" > "$work/odd.npy"
expect 2 'holds no floating-point numbers' "$MICA" run "$work/half.mica" "X=$work/odd.npy"
for shape in '9999999999, 9999999999' '1099511627776, 16777216' '4294967296, 4294967296, 0'; do # products beyond 64 bits
  printf "\x93NUMPY\1\0\166\0%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': ($shape), }" > "$work/far.npy"
  expect 2 'has a shape that cannot be read' "$MICA" run "$work/half.mica" "X=$work/far.npy"
done

# More threads than can run are fewer threads, and a line.
expect 0 '256 threads can be used here, not 1000000|[0-9]+ threads' "$MICA" run examples/softmax.mica --set m=8 --set n=16 --engine cpu --threads 1000000
expect 0 'warning: [0-9]+ threads can be used here, not 1000000' "$MICA" verify examples/softmax.mica examples/softmax.mica --threads 1000000

# A small stack is enough for deep programs.
{ echo 'program deep() {'; echo '  X: f32[4, 8]'; echo '  a0 = X'; for ((i = 1; i < 4000; i++)); do echo "  a$i = tanh(a$((i - 1)))"; done; echo '  return a3999'; echo '}'; } > "$work/deep.mica"
for command in "show" "run" "verify $work/deep.mica"; do
  [ -n "${MICA_SANITIZED:-}" ] || (ulimit -s 64; "$MICA" $command "$work/deep.mica" > "$work/out" 2> "$work/err") || complain "a small stack: $command"
done

# Names and files cannot turn text around, or speak to the terminal.
printf 'x' > "$work/$(printf 'a\xe2\x80\xaeb\x1b[31m.mica')"
expect 2 'a\\u\{202e\}b\\u\{1b\}' "$MICA" show "$work/$(printf 'a\xe2\x80\xaeb\x1b[31m.mica')"

finish
