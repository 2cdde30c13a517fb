" Vim syntax file, written by editors/generate.py.
if exists("b:current_syntax")
  finish
endif
syntax match tileComment /\/\/.*$/
highlight default link tileComment Comment
syntax keyword tileKeyword cluster const else for if in kernel multiple order param rolled target unroll
highlight default link tileKeyword Keyword
syntax keyword tileType GL RF SH bf16 bool fp16 fp32 fp64 fp8e4m3 fp8e5m2 i32 i64 mbar u32
highlight default link tileType Type
syntax keyword tileFunction Allocate BinaryPointwise Init MatMul Move Reduction Shfl Spec Sync UnaryPointwise
highlight default link tileFunction Function
let b:current_syntax = "tile"
