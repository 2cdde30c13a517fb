# mica tile bench from the command line: what it refuses before it asks for a GPU, what it compiles without one, and what it
# times and prints with a driver that has none behind it (fake.h), whose kernels copy the first buffer to the second.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { cat "$folder/out" >&2; echo "FAILED: $*" >&2; exit 1; }
says() { # STATUS WORDS ARGUMENTS...
  status=$1 words=$2
  shift 2
  got=0
  "$MICA" tile bench "$@" > "$folder/out" 2>&1 || got=$?
  [ "$got" = "$status" ] || fail "mica tile bench $*: status $got, not $status"
  grep -qE -- "$words" "$folder/out" || fail "mica tile bench $*: does not say $words"
}
copy=kernels/copy.tile

says 2 "tile bench takes FILE.tile"
says 2 "needs the size N" $copy
says 2 "no buffer %q" "$copy,N=64,%q=1"
says 2 "no kernel has a constant or parameter .Q." "$copy,N=64,Q=1"
says 2 "N=x is no 32-bit integer" "$copy,N=x"
says 2 "multiples of 8" "$copy,N=9"
says 2 "threads, at most 1024" $copy --set N=64 --set T=4096
says 2 "choose one by --kernel" tests/tile/notes/tilings.tile
says 2 "no kernel other" "$copy,N=64" --kernel other
says 2 "one kernel, and there are 2" "$copy,N=64" "$copy,N=72" --against examples/g_gemm.mica
says 2 "nothing for --csv" $copy --arch sm_80 --csv "$folder/t.csv"
says 2 "no architecture sm_75" $copy --arch sm_75
says 3 "nowhere.tile" nowhere.tile
says 3 "nowhere.list" nowhere.list
says 3 "nowhere.mica" "$copy,N=64" --against nowhere.mica
[ ! -e "$folder/t.csv" ] || fail "a table of nothing"
echo "# nothing" > "$folder/none.list"
says 2 "name no kernel" "$folder/none.list"
echo "$copy,N=64 --twice" > "$folder/odd.list"
says 2 "--twice: a line of a list" "$folder/odd.list"
echo "--against $copy" > "$folder/odd.list"
says 2 "--against: a line of a list" "$folder/odd.list"
"$MICA" help tile | grep -q "mica tile bench" || fail "no help"

"$MICA" tile bench "$copy,N=64" > "$folder/out" 2>&1
status=$?
case $status in
0) grep -q "$copy,N=64" "$folder/out" || fail "no row" ;; # a machine with a GPU
3) grep -qE "\[(gpu|library)\]" "$folder/out" || fail "words about what is missing" ;;
*) fail "status $status" ;;
esac

"$MICA" tile bench $copy kernels/gemm_sm80.tile,M=8 --arch sm_80 > "$folder/out" 2>&1
status=$?
if [ $status = 3 ]; then
  grep -q 'libnvrtc' "$folder/out" || fail "without NVRTC it does not say so"
  echo "without NVRTC: nothing was compiled or timed"
  exit 0
fi
[ $status = 0 ] || fail "--arch gives $status"
grep -qE "^ +[1-9][0-9]* +0 +0  $copy$" "$folder/out" || fail "no registers of copy"
grep -qE "^ +[1-9][0-9]* +0 +98304  kernels/gemm_sm80.tile,M=8$" "$folder/out" || fail "no shared memory of gemm_sm80"
says 2 "^kernels/gemm_sm90.tile: no instruction of sm_80 does .* which sm_80 does not have" kernels/gemm_sm90.tile $copy --arch sm_80
grep -qE "0  $copy$" "$folder/out" || fail "the kernel after a wrong one is left out"

# ---- with a driver ----
${CC:-cc} -std=gnu17 -shared -fPIC -Isrc -Iinclude -Itests/cuda tests/cuda/fake.c -o "$folder/libcuda.so.1" || fail "no driver"
export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
time='[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+'

# 64 KiB of buffers, 34 sets, 68 launches, 1 to 15 ms a replay: 8 ms / 68 in the middle.
says 0 "^ +117.647 +14.706 +220.588 +0.6 +- +- +33 +0  $copy,N=16384$" "$copy,N=16384" --csv "$folder/t.csv"
head -n 1 "$folder/t.csv" | grep -q '^kernel,sizes,us median,us least,us most,bytes,GB/s,TFLOP/s,machine,commit$' || fail "the columns"
sed -n 2p "$folder/t.csv" | grep -qE '^copy,"N=16384",117.647,14.706,220.588,65536,0.6,,a fake,.+' || fail "the row"
[ "$(wc -l < "$folder/t.csv")" = 2 ] || fail "rows"
grep -q "a fake, 4 multiprocessors, L2 of 1048576 bytes" "$folder/out" || fail "the machine"

printf 'program same(n = 64) { x: f16[n]\n return x * 1 }\n' > "$folder/same.mica"
says 0 "^ +$time +- +0 +33 +0  $copy,N=128$" "$copy,N=128" --against "$folder/same.mica,n=128"
says 1 "^$copy,N=64,%x=0: WRONG, not timed$" "$copy,N=64,%x=0" --against "$folder/same.mica"
grep -q "all elements are the same" "$folder/out" || fail "nothing but zeros shows nothing"
says 2 "reads 1 buffers" "$copy,N=64" --against examples/g_gemm.mica,m=8,n=8,k=8

# A list: a row without a program, one that computes something else and is not timed, one that is right.
cat > "$folder/k.list" << EOF
$copy # the size by --set
kernels/gemm_sm80.tile,M=8,N=16,K=8 --against examples/g_gemm.mica,m=8,n=16,k=8
$copy,N=64 --against $folder/same.mica
EOF
says 1 "^kernels/gemm_sm80.tile,M=8,N=16,K=8: WRONG, not timed$" "$folder/k.list" --set N=256 --csv "$folder/t.csv"
grep -qE "^ +$time +- +- +33 +0  $copy$" "$folder/out" || fail "the row before"
grep -qE "^ +$time +- +0 +33 +0  $copy,N=64$" "$folder/out" || fail "the row after"
[ "$(cut -d, -f 1,2,6 "$folder/t.csv" | tail -n +2 | tr '\n' ' ')" = 'copy,"",1024 copy,"N=64",256 ' ] || fail "what is in the table"
"$MICA" tile bench "$copy,N=64" --quiet > "$folder/out" 2>&1 || fail "--quiet"
[ ! -s "$folder/out" ] || fail "--quiet prints"
says 3 "cannot write|No such file" "$copy,N=64" --csv "$folder/no/t.csv"
echo ok
