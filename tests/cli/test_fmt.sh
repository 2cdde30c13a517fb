#!/usr/bin/env bash
# `mica fmt`: the usual form, with every comment and line break; a second time nothing changes; what does not parse stays as it is.
set -u
. tests/shell.sh

cat >"$work/odd.mica" <<'PROGRAM'


# head
graph   g (b=1,t =  -2+4)   {

  # about X

  X : f16[ 2*b , 64 ] ;Y:f16[2 * b,64] # both


  Z=- X+( -Y )*1e-5   # and this
  W   =   exp( X
   + Y,    # inside
   )
  O = block( x=2*b;i=4 ){
 x=iter(Z,imap={ x : 0 },fmap={i:_})
   y = accum( x,fmap={i:_} )
      save(y,omap={x:0}) }

  return O , (W),-1 * Z
}
PROGRAM
cat >"$work/usual.mica" <<'PROGRAM'
# head
graph g(b = 1, t = -2 + 4) {
  # about X

  X: f16[2*b, 64]; Y: f16[2*b, 64]  # both

  Z = -X + (-Y) * 1e-5  # and this
  W = exp(X
      + Y,  # inside
  )
  O = block(x=2*b; i=4) {
    x = iter(Z, imap={x:0}, fmap={i:_})
    y = accum(x, fmap={i:_})
    save(y, omap={x:0}) }

  return O, (W), -1 * Z
}
PROGRAM
cp "$work/odd.mica" "$work/written.mica"
expect 1 'odd.mica$' "$MICA" fmt --check-only "$work/odd.mica" "$work/usual.mica"
expect 0 'written.mica' "$MICA" fmt "$work/written.mica"
cmp "$work/written.mica" "$work/usual.mica" || complain "not the usual form"
expect 0 '' "$MICA" fmt --check-only "$work/written.mica"
"$MICA" fmt - <"$work/odd.mica" | cmp - "$work/usual.mica" || complain "as a filter"
printf '\xef\xbb\xbfprogram p() {\r\n  X: f32[4]  # \xc3\xa4\r\n  return X}\r\n' >"$work/crlf.mica"
"$MICA" fmt - <"$work/crlf.mica" >"$work/out" && printf 'program p() {\n  X: f32[4]  # \xc3\xa4\n  return X }\n' | cmp - "$work/out" || complain "line ends of Windows"

printf 'program p() {\n  X: f32[4\n}\n' >"$work/wrong.mica"
cp "$work/wrong.mica" "$work/kept.mica"
expect 2 'wrong.mica:3:1: error' "$MICA" fmt "$work/wrong.mica"
cmp "$work/wrong.mica" "$work/kept.mica" || complain "what does not parse was changed"

printf 'program p( ){\n n:dim>=2<=64\nX:f32[n]\n return where(X<=-1 and not(X==2)or X!=(3),X,0)+X[: n]  \n}\n' >"$work/signs.mica"
"$MICA" fmt - <"$work/signs.mica" >"$work/out" && printf 'program p() {\n  n: dim >= 2 <= 64\n  X: f32[n]\n  return where(X <= -1 and not(X == 2) or X != (3), X, 0) + X[:n]\n}\n' | cmp - "$work/out" || complain "comparisons"

# The programs of the tree are in the usual form; mixed up they come back to it, and mean the same.
expect 0 '' "$MICA" fmt --check-only examples/*.mica examples/*/*.mica
programs=(examples/*.mica examples/*/*.mica)
[ -z "${MICA_SANITIZED:-}" ] || programs=(examples/g_mlp20.mica examples/layer.mica examples/moe.mica examples/graphs/*.mica)
for program in "${programs[@]}"; do
  sed -E 's/ *([<>]?=|[+*,]) */  \1/g; s/^ +//' "$program" >"$work/mixed.mica"
  "$MICA" fmt "$work/mixed.mica" >/dev/null || complain "$program is not formatted"
  cmp -s <("$MICA" show "$program" --text) <("$MICA" show "$work/mixed.mica" --text) || complain "$program means something else"
  [ "$(grep -o '#.*' "$program" | wc -l)" = "$(grep -o '#.*' "$work/mixed.mica" | wc -l)" ] || complain "$program: a comment is lost"
  "$MICA" fmt --check-only "$work/mixed.mica" || complain "$program: a second time changes it"
done
finish
