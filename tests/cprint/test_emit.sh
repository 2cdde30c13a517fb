# mica tile emit --arch c and run --cpu on the command line: C that compilers accept without a warning, with and without OpenMP
# and vectors, and that other C can call.
# test: timeout 300
# test: quick sanitized
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
strict="-std=c17 -Wall -Wextra -Wpedantic -Wno-overlength-strings -Wno-unknown-pragmas -Werror"

says() { # STATUS WORDS ARGUMENTS...
  status=$1 words=$2
  shift 2
  got=0
  "$MICA" tile "$@" > "$folder/out" 2>&1 || got=$?
  [ "$got" = "$status" ] || { cat "$folder/out" >&2; fail "mica tile $*: status $got, not $status"; }
  grep -qF -- "$words" "$folder/out" || { cat "$folder/out" >&2; fail "mica tile $*: does not say $words"; }
}

# No warnings. Without -O: the code is read, not made fast.
for kernel in copy softmax gemm_sm80 fmha_sm80; do
  "$MICA" tile emit kernels/$kernel.tile --arch c --out "$folder/$kernel.c"
  cc $strict -march=native -c "$folder/$kernel.c" -o "$folder/$kernel.o" || fail "$kernel: warnings"
done
if command -v clang > "$folder/out"; then
  clang $strict -Wno-unused-command-line-argument -march=native -c "$folder/gemm_sm80.c" -o "$folder/other.o" || fail "clang warns"
fi

# A program that calls the function.
cat > "$folder/main.c" << 'END'
#include <stdint.h>
#include <stdio.h>
int copy(const uint16_t *restrict x, uint16_t *restrict y, int64_t N);
int main(void)
{
  enum { N = 4104 };
  static uint16_t x[N], y[N + 1];
  for (int i = 0; i < N; i++) x[i] = (uint16_t)(i * 7 + 1);
  y[N] = 5;
  if (copy(x, y, 4103) != 2 || copy(x, y, 0) != 2) return puts("a wrong size is taken"), 1;
  if (copy(x, y, N)) return puts("fails"), 1;
  for (int i = 0; i < N; i++)
    if (x[i] != y[i]) return printf("element %d\n", i), 1;
  return y[N] == 5 ? 0 : 1;
}
END
cc -std=c17 -O1 "$folder/main.c" "$folder/copy.c" -o "$folder/main" && "$folder/main" || fail "copy without OpenMP"
cc -std=c17 -O1 -fopenmp "$folder/main.c" "$folder/copy.c" -o "$folder/main" && "$folder/main" || fail "copy with OpenMP"

# Without vectors of x86 the same bits.
echo '#undef __AVX2__' > "$folder/plain.h"
CC="cc -include $folder/plain.h" says 0 "%C: as C 0 of 5040 elements differ" run kernels/gemm_sm80.tile --cpu --set M=70 --set N=72 --set K=40
says 0 "%C: as C 0 of 5040 elements differ" run kernels/gemm_sm80.tile --cpu --set M=70 --set N=72 --set K=40

says 2 "Sync<mbar.init, 1>" emit kernels/gemm_sm90.tile --arch c
says 2 "C for the CPU" run kernels/gemm_sm90.tile --cpu --set M=8 --set N=8 --set K=8
says 2 "--cubin" emit kernels/copy.tile --arch c --cubin "$folder/x"
says 0 "int copy(" emit kernels/copy.tile --arch c
