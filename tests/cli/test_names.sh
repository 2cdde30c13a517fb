#!/usr/bin/env bash
# Programs and tensors may have any name: what C, its library, CUDA and Mica's own generated code call something is no exception.
# In the long tier (MICA_ALL) every name is also run, and the code for GPUs is compiled where NVRTC is here.
# test: release
# test: timeout 900
set -u
. tests/shell.sh

names=(exp M_THREAD)
[ -z "${MICA_ALL:-}" ] || names+=(main _Bool open int free template float4 threadIdx blockDim malloc stdin double memcpy size_t uint16_t NULL inputs outputs memory workspace mica errno)
for name in "${names[@]}"; do
  file=$work/$name.mica
  printf 'program %s(b = 4) {\n  %s_: f32[4*b, 64]\n  int: f32[64, 32]\n  exp = matmul(%s_, int)\n  free = exp / 2 + 1\n  return free, exp\n}\n' "$name" "$name" "$name" > "$file"
  expect 0 '' "$MICA" optimize "$file" --no-db --quiet --measure 1 --max-block-ops 4 --out "$work/$name"
  ${CC:-cc} -std=gnu11 -fopenmp -w -c "$work/$name/kernel.c" -o "$work/kernel.o" || complain "kernel.c of $name"
  printf '#include "%s/kernel.h"\nvoid *use = (void *)mica_run_%s;\n' "$work/$name" "$name" > "$work/use.c"
  ${CC:-cc} -Wall -Werror -c "$work/use.c" -o "$work/use.o" || complain "kernel.h of $name"
  expect 0 '' "$MICA" lower "$file" --out "$work/$name.gpu"
  [ -z "${MICA_ALL:-}" ] || ! "$MICA" lower examples/softmax.mica --set m=8 --set n=512 --compile --quiet > /dev/null 2>&1 || expect 0 '' "$MICA" lower "$file" --compile --quiet
done

finish
