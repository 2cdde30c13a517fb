#!/usr/bin/env bash
# mica lower, and mica optimize for a GPU that is not there: what is printed, refused and saved.
# test: release
# test: timeout 400
set -u
. tests/shell.sh
under=("$MICA")
export MICA_DB="$work/test.db"

cat >"$work/norm.mica" <<'E2'
program norm(m = 8, k = 256, n = 64) {
  X: f16[m, k]
  W: f16[k, n]
  return matmul(rms_norm(X), W)
}
E2
cat >"$work/soft.mica" <<'E2'
graph soft {
  X: f16[512, 256]
  O = block(x=512) {
    x = iter(X, imap={x:0})
    e = exp(x)
    save(e / sum(e, dim=1), omap={x:0})
  }
  return O
}
E2

cat >"$work/ends.mica" <<'E2'
program ends(m = 64) {
  A: f16[m, 128]
  B: f16[128, 192]
  C: f16[m, 192]
  return matmul(A, B) - C
}
E2

# ---- printing ----
expect 0 'kernel soft_1 \{' lower "$work/soft.mica"
expect 0 'soft_1: rows .* modelled; X: input 0, O: writes output 0' lower "$work/soft.mica"
expect 0 '1 times 8 x 64 x 256' lower "$work/norm.mica"
expect 0 'product, 1 times 4 x 64 x 128' lower "$work/norm.mica" --set m=4 --set k=128 --dump norm
expect 0 'iter +t0 = \[1, a:256\] X' lower "$work/soft.mica" --dump norm
expect 0 'us +rows vec=' lower "$work/soft.mica" --dump choices
expect 0 'rows on its own: ' lower "$work/soft.mica" --dump choices
expect 0 'rows vec=8 across=32' lower "$work/soft.mica" --knobs 'rows vec=8 across=32'

# ---- what follows a product, done by the library ----
expect 0 'ends_1: cublaslt epilogue=sum, .* modelled; A: input 0, B: input 1, .*writes output 0, C: input 2' lower "$work/ends.mica"
expect 0 'product, 1 times 64 x 192 x 128, sum of A B \+ -1 C' lower "$work/ends.mica"
expect 0 'us +cublaslt$' lower "$work/ends.mica" --dump choices
expect 0 'us +cublaslt epilogue=sum, sum of A B \+ -1 C' lower "$work/ends.mica" --dump choices
expect 0 'with the kernel that follows, sum of A B' lower "$work/ends.mica" --dump norm
expect 0 'ends_2: rows' lower "$work/ends.mica" --knobs cublaslt
expect 0 'an output: 12288 elements' lower "$work/ends.mica" --knobs 'cublaslt epilogue=sum' --check
expect 0 'an output: 3072 elements' lower "$work/ends.mica" --set m=16 --check --all
expect 2 'no such scheme' lower "$work/ends.mica" --knobs 'cublaslt epilogue=gelu'
expect 0 '' lower "$work/ends.mica" --out "$work/ends"
grep -q 'cublasLtEpilogue_t)1, (float)1, (float)-1,' "$work/ends/kernel.cu" || complain "the exported product has no C"

# ---- the plan ----
expect 0 't3 = exp t2 registers; t5 = div t3 registers, t4 registers' lower "$work/soft.mica" --dump chains
expect 0 'depth 2  t4   sum ' lower "$work/soft.mica" --dump schedule
expect 0 'iter  t0   from X: chunks of 16 bytes along' lower "$work/soft.mica" --dump meta
expect 0 'no products with rows in common' lower "$work/soft.mica" --dump threads
expect 0 '16 warps:  8 along rows, 2 along columns' lower examples/graphs/gqa_split.mica --dump threads
expect 0 'gqa_split_2 reads A: 2097152 bytes at 0' lower examples/graphs/gqa_split.mica --knobs 'mma wn=4' --dump memory
expect 0 'product, 1 times 8 x 64 x 256' lower "$work/norm.mica" --dump chains
expect 0 '' lower examples/graphs/gqa_split.mica --knobs 'mma wn=4' --json "$work/plan.json" --dump norm
python3 - "$work/plan.json" <<'E2' || complain "the plan as JSON"
import json, sys
v = json.load(open(sys.argv[1]))
first = v["kernels"][0]
passes = first["passes"]
assert [c["op"] for c in passes["chains"][2]] == ["matmul", "accum_rescale"], passes["chains"]
assert passes["products"]["oriented"] and passes["products"]["list"][1]["adds_to"] == 13
assert [s["depth"] for s in passes["schedule"]["order"]] == sorted(s["depth"] for s in passes["schedule"]["order"])
assert [c["tensor"] for c in passes["meta"]["copies"] if c["ring"]] == ["K", "V"]
assert passes["threads"][0]["rows"] * passes["threads"][0]["columns"] == 16
assert first["choices"][0]["how"] and v["layouts"]["device"][0]["strides"] == [16384, 64, 1]
assert v["memory"]["workspace"] == 2162688
E2

cat >"$work/turned.mica" <<'E2'
graph turned {
  X: f16[512, 512]
  T = block(x=32) {
    x = iter(X, imap={x:1})
    save(exp(x), omap={x:1})
  }
  O = block(x=128) {
    t = iter(T, imap={x:1})
    save(transpose(t / sum(t, dim=0)), omap={x:0})
  }
  return O
}
E2
expect 0 'tensors between kernels lie as planned: .* row by row' lower "$work/turned.mica" --dump layouts
expect 0 '  T: 1 512' lower "$work/turned.mica" --dump layouts
expect 0 'O, an output: 262144 elements' lower "$work/turned.mica" --check
expect 0 '' lower "$work/turned.mica" --json "$work/plan.json" --dump norm
python3 -c 'import json, sys; t = json.load(open(sys.argv[1]))["layouts"]["device"][1]; sys.exit(t["taken"] != {"strides": [1, 512], "elements": 262144})' \
  "$work/plan.json" || complain "the strides that are taken"
expect 0 'tensors between kernels lie row by row' lower examples/graphs/gqa_split.mica --dump layouts

# ---- tails ----
expect 0 'cluster 16' lower examples/graphs/gqa_split.mica --knobs 'wgmma groups=1 tail'
expect 0 'counters: writes workspace 0' lower examples/graphs/gqa_split.mica --knobs 'mma last=1 tail'
expect 0 'mma [^,]*last=0' lower examples/graphs/gqa_split.mica --knobs 'mma last=0 tail' # 0 is asked for, not left open
expect 0 'workspace: 0 bytes' lower examples/graphs/gqa_split.mica --knobs 'wgmma groups=1 tail' --dump memory

# ---- before the wait for the kernel ahead ----
best=$("$MICA" lower examples/graphs/gqa_split.mica --dump choices | sed -n 's/.*us  \(mma .*\) hold=0$/\1/p' | head -1)
for hold in 0 1; do # the first kernel lets the next one begin before its wait, or behind it
  "$MICA" lower examples/graphs/gqa_split.mica --knobs "$best hold=$hold" | grep -o 'grid\.[tw][a-z]*' | head -2 | paste -sd' ' >"$work/order"
  [[ $(<"$work/order") == $([[ $hold == 1 ]] && echo 'grid.wait grid.trigger' || echo 'grid.trigger grid.wait') ]] || complain "hold=$hold: $(<"$work/order")"
done

# ---- what is wrong ----
expect 0 'swizzled by xor of 3 bits' lower examples/graphs/gqa_split.mica --target sm_90a --dump layouts
expect 2 'there are norm, .*layouts, choices, kern, lower, memory, schemes and rules' lower "$work/soft.mica" --dump all
expect 2 'there is no rule exp3' lower "$work/soft.mica" --off exp2,exp3
expect 2 'did you mean exp2' lower "$work/soft.mica" --off exp3
"$MICA" lower --dump rules > "$work/rules"
for rule in exp2 reciprocal rsqrt constants; do # by all schemes
  grep -q "^| .$rule. | .skinny., .rows., .mma., .wgmma. |" "$work/rules" || complain "rule $rule"
  "$MICA" lower "$work/soft.mica" --off "$rule" --check >"$work/out" 2>&1 || complain "without $rule: $(tail -3 "$work/out")"
done
"$MICA" lower "$work/soft.mica" --dump kern | grep -q '= exp2(' || complain "no exp2"
! "$MICA" lower "$work/soft.mica" --dump kern --off exp2 | grep -q '= exp2(' || complain "exp2 is not off"
expect 2 'did you mean choices' lower "$work/soft.mica" --dump chioces
expect 2 'no such scheme' lower "$work/soft.mica" --knobs 'columns vec=8'
expect 2 'there is no kernel soft_2' lower "$work/soft.mica" --kernel soft_2
expect 2 'cpu is no GPU' lower "$work/soft.mica" --target cpu
expect 2 'there is no target' lower "$work/soft.mica" --target sm_10
printf 'program p() {\n  X: f8e4m3[8, 64]\n  Y: f8e4m3[64, 8]\n  return matmul(X, Y)\n}\n' >"$work/narrow.mica"
expect 2 'narrow.mica:4:.*matmul of f8e4m3: GPUs multiply no such dtype yet' lower "$work/narrow.mica"

expect 2 'takes a file' lower
"$MICA" lower --dump schemes >"$work/schemes" || complain "status $?: --dump schemes"
while read -r row; do
  grep -Fqx -- "$row" docs/lower.md || complain "docs/lower.md does not have the row: $row"
done <"$work/schemes"

# ---- checking ----
expect 0 'O, an output: 131072 elements, relative norm of the difference [0-9.e-]+ \(at most 0.002\)$' lower "$work/soft.mica" --check
expect 0 '^soft_1 .* blocks, .* of what is accepted' lower "$work/soft.mica" --check --small
expect 0 'an output: 512 elements' lower "$work/norm.mica" --check
"$MICA" lower "$work/soft.mica" --check --small --all >"$work/out" 2>"$work/err" || complain "status $?: --all"
[ "$(grep -c 'of what is accepted' "$work/out")" -gt 3 ] || complain "--all checks no more than one choice"
printf 'program soft() {\n  X: f16[512, 256]\n  return softmax(X, dim=1)\n}\n' >"$work/right.mica"
printf 'program soft() {\n  X: f16[512, 256]\n  return softmax(X, dim=0)\n}\n' >"$work/wrong.mica"
expect 0 'an output' lower "$work/soft.mica" --check --against "$work/right.mica"
expect 1 'WRONG' lower "$work/soft.mica" --check --against "$work/wrong.mica"

# ---- files ----
expect 0 '' lower "$work/norm.mica" --out "$work/lowered"
for file in kernel.cu kernel.h README.md norm_1.tile norm_1.cu norm_5.tile; do
  [ -s "$work/lowered/$file" ] || complain "$file is missing"
done
expect 0 'ok' tile check "$work/lowered/norm_1.tile"
expect 0 'not measured' optimize "$work/norm.mica" --target sm_90a --out "$work/best" --json "$work/best.json"
grep -q 'by the model' "$work/out" || complain "no time by the model"
expect 0 'recalled' optimize "$work/norm.mica" --target sm_90a --out "$work/again"
for file in program.mica graph.mica graph.json kernel.cu kernel.h README.md program.json report.txt report.json; do
  [ -s "$work/best/$file" ] || complain "$file is missing"
  [ $file = report.txt ] || cmp -s "$work/best/$file" "$work/again/$file" || complain "$file is another when recalled"
done
for key in model_us gpu unmeasured launches interpreter blocks workspace; do
  grep -q "\"$key\"" "$work/best.json" || complain "the report has no $key"
done
expect 0 'equal' verify "$work/norm.mica" "$work/best/graph.mica"

# ---- data-dependent indices ----
cat >"$work/words.mica" <<'E2'
program words(b = 16, v = 2000000, d = 256) {
  token: i32[b] < v
  E: bf16[v, d]
  w: bf16[d]
  return rms_norm(E[token], w, eps=1e-5)
}
E2
cat >"$work/cache.mica" <<'E2'
program cache(b = 4, most = 100000, d = 64) {
  at: i32[1] < most
  k: f16[b, 1, d]
  K: f16[b, most, d] state
  K[:, at] = k
}
E2
expect 0 'optimized +[0-9.]+ us +1 kernel ' optimize "$work/words.mica" --target sm_90a --no-db --out "$work/words"
grep -q '2 of 2 run in the interpreter with few blocks' "$work/out" || complain "a large table is not interpreted"
grep -q 'cudaMemcpyAsync' "$work/words/kernel.cu" && complain "there is no state to copy"
expect 0 '1 of 1 run in the interpreter with few blocks' optimize "$work/cache.mica" --target sm_90a --no-db --out "$work/cache"
grep -q '"state": 3' "$work/cache/program.json" || complain "no state"
grep -q 'if (outputs\[0\] != inputs\[2\]) {' "$work/cache/kernel.cu" || complain "the state is copied even where it is in its place"
cat >"$work/largest.mica" <<'E2'
program largest() {
  X: f32[6, 40]
  s: f32[6]
  E: f16[40, 16]
  return E[reshape(argmax(X, dim=1), [6])], E[whole(s * 9 + 10, 0, 19)]
}
E2
expect 0 '([0-9]) of \1 run in the interpreter' optimize "$work/largest.mica" --target sm_90a --no-db
printf 'program p() {\n  X: f16[8, 64]\n  v, i = topk(X, k=2, dim=1)\n  return v\n}\n' >"$work/top.mica"
expect 0 'v1 = top i32 i0\[64\] .*< 2\{a1\} v0' lower "$work/top.mica" --dump kern
expect 0 'error 0 of what is accepted' lower "$work/top.mica" --check --small

# ---- products of f32: by parts unless that is forbidden, and results of the two ways are told apart ----
printf 'program f32s() {\n  X: f32[1024, 4096]\n  W: f32[4096, 4096]\n  return relu(matmul(X, W))\n}\n' >"$work/f32s.mica"
for by in bf16x6 ieee; do
  expect 0 'not measured' optimize "$work/f32s.mica" --target sm_90a --db "$work/f32.db" --measure 1 --f32-products $by --out "$work/$by"
  grep -q recalled "$work/out" && complain "$by: a result of another way is recalled"
  expect 0 'recalled' optimize "$work/f32s.mica" --target sm_90a --db "$work/f32.db" --measure 1 --f32-products $by
done
grep -q '"product"' "$work/ieee/program.json" || complain "ieee: no product by the library"
grep -q '"product"' "$work/bf16x6/program.json" && complain "bf16x6: a product by the library"
expect 0 'f32-products ieee' show "$work/ieee/report.json" --html -
expect 2 'bf16x6 or ieee' optimize "$work/f32s.mica" --target sm_90a --f32-products tf32
expect 0 'an operand of a product is kept in fp32' lower "$work/bf16x6/graph.mica" --f32-products ieee --dump choices

# ---- the kernels of a program in parts are saved as they were made: tensors between the parts have the same types ----
cat >"$work/parts.mica" <<'E2'
program parts() {
  X: f16[64, 64]; S: f16[64, 64]; W: f16[64, 64]
  A = X + matmul(S, relu(matmul(X, W)))
  N = rms_norm(A)
  B = A + matmul(S, relu(matmul(N, W)))
  return B + matmul(S, relu(matmul(rms_norm(B), W)))
}
E2
expect 0 '' optimize "$work/parts.mica" --target sm_90a --max-part-ops 4 --time 20 --no-db --out "$work/parts"
grep -q '"stored": \["A", "N", "B"\]' "$work/parts/report.json" || complain "the report does not name the tensors between the parts"
[ "$(grep -m1 -o '"workspace": [0-9]*' "$work/parts/report.json")" = "$(grep -m1 -o '"workspace": [0-9]*' "$work/parts/program.json")" ] ||
  complain "the kernels that were saved have tensors of other types"

# ---- graphs that differ in how they cut grids become the same kernels, which take part once; tails of pieces of rows ----
expect 0 'wgmma .* rows=64|mma .* rows=' optimize examples/mqa_spec.mica --set b=1 --set t=4 --set s=256 --target sm_90a --no-db --json "$work/mqa.json"
grep -q 'another candidate has the same kernels' "$work/mqa.json" || complain "all graphs become different kernels"
for last in 0 1; do
  expect 0 'rows=64 step=32 .*tail\): .* 0\.[0-9]* of what is accepted' lower examples/graphs/gqa_split.mica \
    --knobs "mma wm=4 wn=1 by=0 stages=2 last=$last rows=64 step=32 tail" --check --small
done

# ---- machine code, which program.json names, or why there is none ----
"$MICA" optimize "$work/norm.mica" --target sm_90a --out "$work/again" >"$work/said" 2>"$work/err" || complain "status $?: a third time"
if grep -q '"missing": null' "$work/best/program.json"; then
  sed -n 's/.*"cubin": "\(.*\)",/\1/p' "$work/best/program.json" >"$work/cubins"
  [ -s "$work/cubins" ] || complain "program.json names no machine code"
  while read -r file; do
    kernel=$(grep -A1 "\"$file\"" "$work/best/program.json" | sed -n 's/.*"kernel": "\(.*\)",/\1/p' | head -1)
    grep -aq -- "${kernel:-no kernel}" "$work/best/$file" || complain "$file has no kernel '$kernel'"
    cmp -s "$work/best/$file" "$work/again/$file" || complain "$file is another when recalled"
  done <"$work/cubins"
  expect 0 'registers' lower "$work/norm.mica" --compile --out "$work/loads"
  grep -q '"missing": null' "$work/loads/program.json" || complain "lower --compile leaves no folder that loads"
else
  grep -q 'no \*.cubin: ' "$work/said" || complain "nothing says that there is no machine code"
  ! ls "$work/best/"*.cubin >/dev/null 2>&1 || complain "there is machine code that program.json does not name"
fi

# ---- the exported source is C++ for nvcc, where there is one ----
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -n "$nvcc" ] && "$nvcc" --version >/dev/null 2>&1 && [ -z "${MICA_SANITIZED:-}" ]; then
  expect 0 '' optimize examples/world/sequence_parallel_mlp.mica --set ranks=2 --target sm_90a --no-db --time 5 --out "$work/ranks"
  under=()
  for folder in lowered best ends ranks; do
    expect 0 '' bash tests/once.sh "$work/$folder/kernel.o" "$work/$folder/kernel.cu" "$work/$folder/kernel.h" -- \
      "$nvcc" -gencode arch=compute_90a,code=sm_90a -c "$work/$folder/kernel.cu" -o "$work/$folder/kernel.o"
  done
fi

finish
