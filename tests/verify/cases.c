// The pairs of cases.h.
#include "cases.h"

#include "base/base.h"

#define ATTENTION                                                           \
  "program attention { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n" \
  "  E = exp(matmul(Q, K)); return matmul(E / sum(E, dim=2), V) }"
#define RMS "program rms { X: f16[6, 8]; W: f16[8, 10]; return matmul(rms_norm(X), W) }"

const struct equal_case equal_cases[] = {
    {"flash attention", ATTENTION,
     "graph flash { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n"
     "  O = block(x=2, y=3; i=4) {\n"
     "    q = iter(Q, imap={x:0, y:1}); k = iter(K, imap={x:0}, fmap={i:2}); v = iter(V, imap={x:0}, fmap={i:1})\n"
     "    e = exp(matmul(q, k))\n"
     "    save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1})\n"
     "  }\n"
     "  return O }"},
    {"stable flash attention", ATTENTION,
     "graph stable { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n"
     "  O = block(x=2, y=3; i=4) {\n"
     "    q = iter(Q, imap={x:0, y:1}); k = iter(K, imap={x:0}, fmap={i:2}); v = iter(V, imap={x:0}, fmap={i:1})\n"
     "    s = matmul(q, k)\n"
     "    m, change = accum_max(max(s, dim=2))\n"
     "    f = exp(change); e = exp(s - m)\n"
     "    save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=2), omap={x:0, y:1})\n"
     "  }\n"
     "  return O }"},
    {"split attention, joined by library operators", ATTENTION,
     "graph split { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n"
     "  A, B = block(x=2, y=4; i=2) {\n"
     "    q = iter(Q, imap={x:0}); k = iter(K, imap={x:0, y:2}, fmap={i:2}); v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"
     "    e = exp(matmul(q, k))\n"
     "    save(accum(matmul(e, v)), omap={x:0, y:1}); save(accum_sum(e, dim=2), omap={x:0, y:1})\n"
     "  }\n"
     "  n = sum(reshape(A, [2, 4, 6, 5]), dim=1); d = sum(reshape(B, [2, 4, 6, 1]), dim=1)\n"
     "  return reshape(n / d, [2, 6, 5]) }"},
    {"split attention, joined by a block", ATTENTION,
     "graph split_block { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n"
     "  A, B = block(x=2, y=2; i=2) {\n"
     "    q = iter(Q, imap={x:0}); k = iter(K, imap={x:0, y:2}, fmap={i:2}); v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"
     "    e = exp(matmul(q, k))\n"
     "    save(accum(matmul(e, v)), omap={x:0, y:2}); save(accum_sum(e, dim=2), omap={x:0, y:2})\n"
     "  }\n"
     "  O = block(x=2, y=2) {\n"
     "    a = iter(A, imap={x:0, y:1}); b = iter(B, imap={x:0, y:1})\n"
     "    l, r = split(a, dim=2, parts=2)\n"
     "    save((l + r) / sum(b, dim=2), omap={x:0, y:1})\n"
     "  }\n"
     "  return O }"},
    {"grouped queries as rows of a block",
     "program grouped { q: f16[1, 8, 1, 3]; k: f16[1, 2, 4, 3]; v: f16[1, 2, 4, 3]\n"
     "  p = softmax(matmul(q, transpose(repeat(k, dim=1, times=4))) / sqrt(3), dim=3)\n"
     "  return matmul(p, repeat(v, dim=1, times=4)) }",
     "graph grouped_rows { q: f16[1, 8, 1, 3]; k: f16[1, 2, 4, 3]; v: f16[1, 2, 4, 3]\n"
     "  Q = reshape(q, [1, 2, 4, 1, 3]); T = transpose(k)\n"
     "  O = block(x=2; i=2) {\n"
     "    a = reshape(iter(Q, imap={x:1}), [1, 1, 4, 3])\n"
     "    b = iter(T, imap={x:1}, fmap={i:3}); c = iter(v, imap={x:1}, fmap={i:2})\n"
     "    e = exp(matmul(a, b) / sqrt(3))\n"
     "    save(reshape(accum(matmul(e, c)) / accum_sum(e, dim=3), [1, 4, 1, 3]), omap={x:1})\n"
     "  }\n"
     "  return O }"},
    {"rms and product in one loop", RMS,
     "graph rms_fused { X: f16[6, 8]; W: f16[8, 10]\n"
     "  Y = block(x=5, y=2; i=4) {\n"
     "    x = iter(X, imap={y:0}, fmap={i:1}); w = iter(W, imap={x:1}, fmap={i:0})\n"
     "    save(accum(matmul(x, w)) / accum_rms(x, dim=1), omap={x:1, y:0})\n"
     "  }\n"
     "  return Y }"},
    {"rms by a sum and a constant", RMS,
     "graph rms_constant { X: f16[6, 8]; W: f16[8, 10]\n"
     "  Y = block(x=5; i=4) {\n"
     "    x = iter(X, fmap={i:1}); w = iter(W, imap={x:1}, fmap={i:0})\n"
     "    s = thread(x=6) { t = iter(x, imap={x:0}); save(sum(square(t), dim=1), omap={x:0}) }\n"
     "    save(accum(matmul(x, w)) / sqrt(accum(s) / 8), omap={x:1})\n"
     "  }\n"
     "  return Y }"},
    {"low-rank adaptation as one product",
     "program lora { X: f16[4, 6]; W: f16[6, 8]; A: f16[6, 2]; B: f16[2, 8]\n"
     "  return matmul(X, W) + matmul(matmul(X, A), B) }",
     "graph lora_fused { X: f16[4, 6]; W: f16[6, 8]; A: f16[6, 2]; B: f16[2, 8]\n"
     "  T = block(x=2; i=3) { x = iter(X, imap={x:0}, fmap={i:1}); a = iter(A, fmap={i:0})\n"
     "    save(accum(matmul(x, a)), omap={x:0}) }\n"
     "  O = block(x=4, y=2) {\n"
     "    x = iter(X, imap={y:0}); w = iter(W, imap={x:1}); t = iter(T, imap={y:0}); b = iter(B, imap={x:1})\n"
     "    save(concat_matmul(x, t, w, b), omap={x:1, y:0})\n"
     "  }\n"
     "  return O }"},
    {"gated layer", "program gated { X: f16[4, 6]; U: f16[6, 8]; V: f16[6, 8]; return silu(matmul(X, U)) * matmul(X, V) }",
     "graph gated_fused { X: f16[4, 6]; U: f16[6, 8]; V: f16[6, 8]\n"
     "  O = block(x=4; i=3) {\n"
     "    x = iter(X, fmap={i:1}); u = iter(U, imap={x:1}, fmap={i:0}); v = iter(V, imap={x:1}, fmap={i:0})\n"
     "    save(silu(accum(matmul(x, u))) * accum(matmul(x, v)), omap={x:1})\n"
     "  }\n"
     "  return O }"},
    {"layer norm from two sums", "program norm { X: f16[4, 8]; w: f16[8]; b: f16[8]; return layer_norm(X, w, b) }",
     "graph norm_sums { X: f16[4, 8]; w: f16[8]; b: f16[8]\n"
     "  S, D = block(x=2; i=2) {\n"
     "    x = iter(X, imap={x:0}, fmap={i:1})\n"
     "    m = accum_mean(x, dim=1); v = accum_mean(square(x), dim=1) - square(m) + 0.00001\n"
     "    save(m, omap={x:0}); save(sqrt(v), omap={x:0})\n"
     "  }\n"
     "  return (X - S) / D * w + b }"},
    {"softmax in two kernels", "program soft { X: f16[4, 6]; return softmax(X, dim=1) }",
     "graph soft_parts { X: f16[4, 6]\n"
     "  E, S = block(x=2, y=3) {\n"
     "    e = exp(iter(X, imap={x:0, y:1}))\n"
     "    save(e, omap={x:0, y:1}); save(sum(e, dim=1), omap={x:0, y:1})\n"
     "  }\n"
     "  O = block(x=2) { e = iter(E, imap={x:0}); s = iter(S, imap={x:0}); save(e / sum(s, dim=1), omap={x:0}) }\n"
     "  return O }"},
    {"a product in another order", "program left { X: f16[3, 4]; A: f16[4, 5]; B: f16[5, 6]; return matmul(matmul(X, A), B) }",
     "graph right { X: f16[3, 4]; A: f16[4, 5]; B: f16[5, 6]; return matmul(X, matmul(A, B)) }"},
    {"pieces joined", "program whole { X: f16[4, 6]; W: f16[6, 4]; return relu(matmul(X, W)) * 2 - 1 }",
     "graph pieces { X: f16[4, 6]; W: f16[6, 4]\n"
     "  L, R = split(W, dim=1, parts=2)\n"
     "  return relu(concat(matmul(X, L), matmul(X, R), dim=1)) * 2 - 1 }"},
};
const int equal_count = COUNT(equal_cases);
