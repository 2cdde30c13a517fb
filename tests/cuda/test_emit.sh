# mica tile emit and run --gpu from the command line: what they write, and how they fail.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

"$MICA" tile emit tests/tile/notes/gemm.tile >"$folder/gemm.cu" || fail "emit"
grep -q '__hfma(t1\[bid_m \* 128 + tid_m \* 8 + k \* 1024 + m\]' "$folder/gemm.cu" || fail "the notes' index"
# A kernel that may start before the one ahead has ended must not let the compiler read ahead of Sync<grid.wait>.
sed 's/^kernel copy {/&\n  target sm_90a/; s/^    @i = #t.indices()/&\n    Sync<grid.wait><<<#grid, #t>>>()/' kernels/copy.tile >"$folder/late.tile"
"$MICA" tile emit "$folder/late.tile" >"$folder/late.cu" || fail "emit of a dependent kernel"
grep -q 'griddepcontrol.wait' "$folder/late.cu" || fail "no wait"
grep -q '__restrict__' "$folder/late.cu" && fail "what an earlier kernel may write is promised not to change"
"$MICA" tile emit kernels/copy.tile | grep -q '__restrict__' || fail "no promise where nothing is waited for"
"$MICA" tile emit kernels/copy.tile --arch sm_86 --out "$folder/copy.cu" || fail "--out"
grep -q 'made by Mica for sm_86' "$folder/copy.cu" || fail "the architecture"
"$MICA" tile emit kernels/copy.tile --arch sm_75 2>"$folder/said" && fail "sm_75 was taken"
grep -q 'there is no architecture sm_75' "$folder/said" || fail "words about sm_75"
"$MICA" tile emit kernels/gemm_sm90.tile --arch sm_80 2>"$folder/said" && fail "wgmma on sm_80 was taken"
"$MICA" tile emit tests/tile/notes/tilings.tile 2>"$folder/said" && fail "several kernels were taken"
grep -q 'choose one by --kernel' "$folder/said" || fail "words about several kernels"
# A word is half a number of 64 bits.
"$MICA" tile emit tests/cuda/text/words_of_64_bits.tile >"$folder/words.cu" || fail "emit of numbers of 64 bits"
tr -d '\n' <"$folder/words.cu" | grep -q 'st.shared::cluster.v2.b32.*"r"(mica_as<u32>(x\[0\])), "r"((&mica_as<u32>(x\[0\]))\[1\])' || fail "two equal words"
# Registers of wgmma are held until the wait that follows their last use, not to the end of the kernel.
"$MICA" search examples/g_mlp20.mica --target sm_90a --no-db --top 1 --out "$folder/mlp" >/dev/null || fail "search"
"$MICA" lower "$folder"/mlp/part1_01.mica --out "$folder/mlp" >/dev/null || fail "lower"
products=$(grep -c '<- MatMul<wgmma' "$folder"/mlp/g_mlp20_1.cu) held=$(grep -c '  mica_hold(' "$folder"/mlp/g_mlp20_1.cu)
[ "$products" = 20 ] && [ "$held" -ge 40 ] && [ "$held" -le 120 ] || fail "$products products hold $held times"

"$MICA" tile emit kernels/copy.tile --cubin "$folder/copy.cubin" >"$folder/out" 2>"$folder/said"
status=$?
if [ $status = 3 ]; then
  grep -q 'libnvrtc' "$folder/said" || fail "without NVRTC it does not say so"
  echo "without NVRTC: machine code was not looked at"
else
  [ $status = 0 ] || fail "--cubin gives $status"
  [ "$(head -c 4 "$folder/copy.cubin" | tail -c 3)" = ELF ] || fail "no machine code"
  grep -q '0 bytes spilled' "$folder/out" || fail "no figures of the compiler"
fi
"$MICA" tile run kernels/copy.tile --set N=1000 --gpu >"$folder/out" 2>"$folder/said"
status=$?
[ $status = 0 ] || [ $status = 3 ] || fail "--gpu gives $status"
[ $status = 0 ] && { grep -q '0 of 1000 elements differ' "$folder/out" || fail "the GPU's copy differs"; }
echo ok
