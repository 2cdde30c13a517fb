#!/usr/bin/env bash
# mica layout from outside: layouts and operations on them, what is refused and with which status.
set -u
. tests/shell.sh
under=("$MICA" layout)

# prints TEXT ARGUMENT...: exactly
prints() {
  local text=$1
  shift
  "$MICA" layout "$@" >"$work/out" 2>"$work/err" || complain "status $?: $*"
  [ "$(cat "$work/out")" = "$text" ] || complain "not '$text': $*"
}

# ---- one layout ----
prints 'layout     (4,(2,4)):(2,(1,8))
size       32
cosize     32
injective  yes
compact    yes

 0  1  8  9 16 17 24 25
 2  3 10 11 18 19 26 27
 4  5 12 13 20 21 28 29
 6  7 14 15 22 23 30 31' '4,(2,4):2,(1,8)'
prints 'layout     (2,4):(4,1)
size       8
cosize     8
injective  yes
compact    yes
swizzle    1,0,2

0 1 2 3
5 4 7 6' '2,4' --order row --swizzle 1,0,2
prints 'layout     (M,K):(K,1)
size       M * K
cosize     M * K' 'M,K' --order row
expect 0 'injective  no' '4,2:1,2'
expect 0 'compact    no' '4:2'
expect 0 'too many offsets for a table' '128,128'
expect 0 '^layout     \(64,8\)' 'M,8' --set M=64

# ---- operations ----
expect 0 'compose .*A\(B\(i\)\)'
expect 0 '^layout     \(\(2,2\),3\):\(\(24,2\),8\)' compose '(6,2):(8,2)' '(4,3):(3,1)'
expect 0 '^layout     12:1' coalesce '(2,(1,6)):(1,(6,2))'
expect 0 '^layout     \(2,3\):\(1,8\)' complement 4:2 24
expect 0 '^layout     \(\(2,2\),\(2,3\)\):\(\(4,1\),\(2,8\)\)' divide '(4,2,3):(2,1,8)' 4:2
expect 0 '^layout     \(\(2,4\),\(2,2\)\):\(\(1,4\),\(2,16\)\)' zipped-divide 4,8 2,4:1,1
expect 0 '^layout     \(\(2,2\),\(2,3\)\):\(\(4,1\),\(2,8\)\)' product '(2,2):(4,1)' 6:1
expect 0 '^layout     \(2,2\):\(16,8\)' reshape 4:8 2,2 --order row
expect 0 '^layout     \(8,4\):\(4,1\)' inverse '(4,8):(8,1)'
expect 0 '^layout     \(8,4\):\(4,1\)' right-inverse '(4,8):(8,1)'
expect 0 '^layout     ' left-inverse '(4,2):(2,16)'
expect 0 '^tiles      \(2,2\):\(1,8\)' tile '4,8:1,4' '2,(2,2):2,(1,4)'
expect 0 '^elements   \(2,\(2,2\)\):\(2,\(4,16\)\)' tile '4,8:1,4' '2,(2,2):2,(1,4)'
expect 0 '^partial    none' tile '4,8:1,4' '2,(2,2):2,(1,4)'
expect 0 '^partial    0$' tile M,K 128,_ --order row
expect 0 '^tiles      \(\(M \+ 127\) / 128,1\):\(K \* 128,0\)' tile M,K 128,_ --order row
expect 0 '^partial    none' tile M,K 128,_ --order row --set M=256

# ---- JSON ----
expect 0 '"offsets": \[0, 2, 1, 3\]' '2,2' --order row --json -
expect 0 '"partial": \[true, false\]' tile M,K 128,_ --json -
expect 0 '"size": "M \* K"' M,K --json -

# ---- no such layout: status 1 and the two numbers ----
expect 1 '2:3 and 2:2' compose '(4,2):(1,100)' '(2,2):(3,2)'
expect 1 'stride 3 is not a multiple of 2' complement '(2,2):(1,3)' 24
expect 1 'stride 0' left-inverse 4:0
expect 1 'right-inverse is 1:0' inverse '(4,8):(8,2)'
expect 1 '8 elements cannot be reshaped to 6' reshape 8 2,3
expect 1 '1 dimensions for a tensor of 2' tile 8,8 2

# ---- wrong input: status 2 ----
expect 2 'column 2' 4x
expect 2 'same form' '(4,8):(1)'
expect 2 '62 bits' '1000000000000,1000000000000:1,1'
expect 2 'did you mean compose' compos 4 4
expect 2 'takes A B' compose 4
expect 2 'takes A,' coalesce 4 4
expect 2 'row or column' 4 --order up
expect 2 'B,M,S' 4 --swizzle 3,3,1
expect 2 'B,M,S' 4 --swizzle 3,3
expect 2 'name=integer' M --set M
expect 2 'name=integer' M --set M=0
expect 2 'positive' 0:1
expect 0 'examples' --help

finish
