# mica tile run --against on the command line; lists of kernels and the check on a GPU.
# test: quick release
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

says() { # STATUS WORDS ARGUMENTS...
  status=$1 words=$2
  shift 2
  got=0
  "$MICA" tile run "$@" > "$folder/out" 2>&1 || got=$?
  [ "$got" = "$status" ] || { cat "$folder/out" >&2; fail "mica tile run $*: status $got, not $status"; }
  grep -qF -- "$words" "$folder/out" || { cat "$folder/out" >&2; fail "mica tile run $*: does not say $words"; }
}
sizes="--set M=70 --set N=72 --set K=40"
program=examples/g_gemm.mica,m=70,n=72,k=40
says 0 "%C: 5040 elements of about" kernels/gemm_sm80.tile $sizes --against $program
says 0 "%Y: 640 elements of about" kernels/mlp_sm90.tile 'W=random*0.217' --set M=5 --against examples/g_mlp20.mica,m=5
says 1 "WRONG" kernels/mlp_sm90.tile 'W=random*100' --set M=5 --against examples/g_mlp20.mica,m=5 # leaves fp16
says 2 "%A of gemm_bias_relu_sm80 has 2800 elements ([70, 40]), and input A of g_gemm has 3360" kernels/gemm_sm80.tile $sizes --against examples/g_gemm.mica,m=70,n=72,k=48
says 2 "reads 3 buffers (%A, %B, %bias), and softmax has 1 inputs" kernels/gemm_sm80.tile $sizes --against examples/softmax.mica
says 2 "q" kernels/gemm_sm80.tile $sizes --against examples/g_gemm.mica,q=1
says 2 "NAME=random*SCALE" kernels/gemm_sm80.tile $sizes 'Q=random*2'
says 2 "not a number" kernels/gemm_sm80.tile $sizes 'A=random*x'
says 3 "nowhere.mica" kernels/gemm_sm80.tile $sizes --against "$folder/nowhere.mica"

# A kernel that computes something else: without its relu.
sed '/UnaryPointwise<relu>/d' kernels/gemm_sm80.tile > "$folder/other.tile"
says 1 "WRONG" "$folder/other.tile" $sizes --against $program
# One that leaves the last column of its last tile unwritten is wrong by few elements.
sed 's/%c\[m \* 8 + @lane \/ 4, n \* 4 + @lane % 4\] <- Move/if (n < WN \/ 8 - 1 || @bn < N \/ BN - 1) {\n &/; /%c\[m \* 8/s/$/\n}/' kernels/gemm_sm80.tile > "$folder/less.tile"
says 1 "WRONG" "$folder/less.tile" --set M=8 --set N=128 --set K=8 --against examples/g_gemm.mica,m=8,n=128,k=8

# Kernels and programs of the lists are there and well-formed at their sizes.
grep -v '^#' bench/tile.list bench/tile_time.list | sed 's/^[^:]*://; s/ --against.*//' | while IFS=, read -r file words; do
  set --
  for word in $(echo "$words" | tr , ' '); do
    case $word in %*) ;; *) set -- "$@" --set "$word" ;; esac
  done
  "$MICA" tile check "$file" "$@" > "$folder/out" || fail "$file $words"
done
