# mica tile check and print on the command line.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$MICA" tile check kernels/*.tile tests/tile/notes/*.tile > "$folder/ok" || fail "a kernel of the tree is not read"
grep -q "^kernels/copy.tile: copy: ok, 3 specs, 2 of them instructions, 0 bytes of shared memory$" "$folder/ok" || fail "check says something else"

"$MICA" tile print kernels/gemm_sm80.tile --set BM=64 > "$folder/once.tile"
grep -q "ceil\|(M + 63) / 64" "$folder/once.tile" || fail "--set BM=64 has no effect"
"$MICA" tile print "$folder/once.tile" > "$folder/twice.tile"
cmp "$folder/once.tile" "$folder/twice.tile" || fail "printing is not stable"

says() { # STATUS WORDS ARGUMENTS...
  status=$1 words=$2
  shift 2
  got=0
  "$MICA" tile "$@" > "$folder/out" 2> "$folder/err" || got=$?
  [ "$got" = "$status" ] || fail "mica tile $*: status $got, not $status"
  grep -qF -- "$words" "$folder/err" || { cat "$folder/err" >&2; fail "mica tile $*: does not say $words"; }
}
printf 'order row\n%%x:[4].fp99.GL\n' > "$folder/bad.tile"
says 2 "bad.tile:2:8: error: \`fp99\` is no element type" check "$folder/bad.tile"
says 2 "it needs clusters, which sm_80 does not have" check kernels/gemm_sm90.tile --arch sm_80
says 2 "did you mean check?" chekc kernels/copy.tile
says 2 "takes FILE..." check
says 2 "no kernel has a constant or parameter \`Q\`" print kernels/copy.tile --set Q=1
says 2 "NAME=VALUE" print kernels/copy.tile --set T=x
says 2 "there is no option --json" check kernels/copy.tile --json -
says 3 "nowhere.tile" check "$folder/nowhere.tile"
printf 'kernel \0' > "$folder/zero.tile"
says 2 "not a text file" check "$folder/zero.tile"
