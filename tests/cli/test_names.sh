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

# Names that a scheme gives its registers and its shared memory: lowering takes them all as names of inputs.
kernels() {
  printf 'program rows(m = 64, n = 2048) {\n  %s: f16[m, n]\n  %s: f16[n]\n  return softmax(%s + %s, dim = 1)\n}\n' "$1" "$2" "$1" "$2" > "$work/rows.mica"
  printf 'program chosen(m = 8, n = 40000) {\n  %s: bf16[m, n]\n  %s, Index = topk(%s, k = 5, dim = 1)\n  return %s, Index\n}\n' "$1" "$2" "$1" "$2" > "$work/chosen.mica"
  printf 'program tensor_cores(m = 256, n = 256, k = 512) {\n  %s: f16[m, k]\n  %s: f16[k, n]\n  return sigmoid(matmul(silu(%s), %s))\n}\n' "$1" "$2" "$1" "$2" > "$work/tensor_cores.mica"
  printf 'program few(m = 2, n = 2048, k = 2048) {\n  %s: f16[m, k]\n  %s: f16[k, n]\n  return sigmoid(matmul(silu(%s), %s))\n}\n' "$1" "$2" "$1" "$2" > "$work/few.mica"
}
for program in rows chosen tensor_cores few; do
  kernels First Second
  "$MICA" lower "$work/$program.mica" --target sm_90a | grep -o '%[a-z][A-Za-z_0-9]*' | tr -d % | sort -u | grep -vx 'm\|n\|k' > "$work/own"
  [ "$(wc -l < "$work/own")" -ge 5 ] || complain "$program has few names of its own"
  while read -r first && read -r second; do
    kernels "$first" "$second"
    expect 0 '^kernel ' "$MICA" lower "$work/$program.mica" --target sm_90a
  done < <(cat "$work/own"; echo last)
done

finish
