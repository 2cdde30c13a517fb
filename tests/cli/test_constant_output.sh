#!/usr/bin/env bash
# Programs whose output is a constant, alone or with others: every command ends in an answer or in a message, never in a crash.
# test: quick release
set -u
. tests/shell.sh

write() { printf 'program %s() {\n  X: f32[4, 8]\n%s\n}\n' "$1" "$2" > "$work/$1.mica"; }
write alone '  C = const(scalar=2.0)
  return C'
write other '  return X * 2, const(scalar=3.0)'
write twice '  C = const(scalar=2.0)
  return C, C, exp(C)'
write viewed '  return reshape(const(scalar=3.0), [1, 1]), X + 1'
printf 'program none() {\n  return const(scalar=2.0)\n}\n' > "$work/none.mica"

# Programs whose kernels are compiled; in the long tier all are.
compiled='other none spread'
[ -z "${MICA_ALL:-}" ] || compiled='alone other twice viewed none spread parts'
is_compiled() { [[ " $compiled " = *" $1 "* ]]; }

for name in alone other twice viewed none; do
  file=$work/$name.mica
  expect 0 '' "$MICA" show "$file"
  for engine in f64 f32 field; do expect 0 '' "$MICA" run "$file" --engine $engine; done
  expect 0 'equal' "$MICA" verify "$file" "$file"
  if [ $name = other ] || [ $name = viewed ]; then # one kernel makes both outputs
    expect 0 'proved equal' "$MICA" optimize "$file" --no-db --target sm_90a
  else
    expect 2 'a constant is an output|constants alone' "$MICA" optimize "$file" --no-db --target sm_90a
  fi
  expect 2 'a constant is an output|constants alone' "$MICA" lower "$file"
  is_compiled $name || continue
  expect 0 '' "$MICA" run "$file" --engine cpu
  expect 0 '' "$MICA" search "$file" --no-db
  expect 0 '' "$MICA" optimize "$file" --no-db --measure 1 --out "$work/$name" --html "$work/$name.html"
  ${CC:-cc} -w -c "$work/$name/kernel.c" -o "$work/kernel.o" || complain "the kernel of $name does not compile"
done

# Views of constants, and what is made of them.
write spread '  c = repeat(reshape(const(scalar=2.0), [1, 1]), dim=1, times=8)
  return X * c, transpose(c), relu(X - c)'
write parts '  a, b = split(repeat(reshape(const(scalar=2.0), [1, 1]), dim=1, times=8), parts=2, dim=1)
  return a, matmul(X, transpose(X)) * chunk(repeat(a, dim=0, times=4), index=0, parts=4, dim=1)'
for name in spread parts; do
  "$MICA" run "$work/$name.mica" --engine f64 > "$work/f64.txt" || complain "$name in float64"
  expect 0 '' "$MICA" run "$work/$name.mica" --engine cpu
  is_compiled $name || continue
  expect 0 '' "$MICA" optimize "$work/$name.mica" --no-db --threads 2
  expect 0 'equal' "$MICA" verify "$work/$name.mica" "$work/$name.mica"
done
# A computation with a constant alone is refused with its place.
write folded '  return sum(repeat(reshape(const(scalar=2.0), [1, 1]), dim=1, times=8), dim=1), X + 1'
expect 2 'folded.mica:3:.*sum of a constant' "$MICA" optimize "$work/folded.mica" --no-db

printf 'program k() {\n  return const(scalar=2.0)\n}\n' > "$work/two.mica"
printf 'program k() {\n  return const(scalar=3.0)\n}\n' > "$work/three.mica"
expect 1 "not equal" "$MICA" verify "$work/two.mica" "$work/three.mica"

finish
