" Vim syntax file, written by editors/generate.py.
if exists("b:current_syntax")
  finish
endif
syntax match micaComment /#.*$/
highlight default link micaComment Comment
syntax keyword micaKeyword and block dim distinct frozen graph model not or program return shard state thread world
highlight default link micaKeyword Keyword
syntax keyword micaType bf16 bool f16 f32 f8e4m3 f8e5m2 i32 i64
highlight default link micaType Type
syntax keyword micaFunction abs accum accum_max accum_mean accum_rescale accum_rms accum_sum accum_sum_rescale accum_sum_to add add_scalar all_gather all_reduce argmax bf16 bf16_high bf16_low bf16_middle block chunk clamp concat concat_matmul const cos cumsum div equal erf exp f16 f32 f8e4m3 f8e5m2 floor floor_div gather gelu gelu_tanh input iota iter keep layer_norm leaky_relu less less_equal log logsumexp mask matmul max maximum mean min minimum mod mul mul_scalar neg one_hot output pow prod reduce_scatter relu repeat reshape rms_norm rsqrt save shard sigmoid silu sin slice softmax softmax_where softplus split sqrt square sub sum sum_to tanh thread topk transpose update where whole
highlight default link micaFunction Function
let b:current_syntax = "mica"
