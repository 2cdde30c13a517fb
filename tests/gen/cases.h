// Graphs whose generated code is held against the interpreter. One case is one compiled file, so each holds many
// operators; extents are odd, so that every vector loop has a rest.
#ifndef MICA_GEN_CASES_H
#define MICA_GEN_CASES_H

static const struct {
  const char *name, *text;
} cases[] = {
    {"elementwise", "graph g { X: f32[3, 7, 33]\n Y: f32[7, 1]\n Z: f32[3, 7, 33]\n P = abs(X) + 0.5\n"
                    "return exp(X), log(P), sqrt(P), rsqrt(P), square(X), -X, abs(X), silu(X), sigmoid(X), gelu(X), relu(X), tanh(X), "
                    "clamp(X, lo=-0.5, hi=0.25), X * 0.3, X + 1.5, X + Y, Y - X, X * Z, X / P, pow(P, Z), minimum(X, Z), maximum(X, Y), "
                    "2 / P, 1 - X, X, X }"},
    {"reductions", "graph g { X: f32[5, 6, 35]\n Y: f32[40, 128]\n"
                   "return sum(X, dim=0), sum(X, dim=1), sum(X, dim=2), mean(X, dim=0), mean(X, dim=2), max(X, dim=0), max(X, dim=1), "
                   "max(X, dim=2), sum(X, dim=1, group=2), sum(X, dim=2, group=5), sum(Y, dim=0), mean(Y, dim=1), max(Y, dim=1), "
                   "sum(Y, dim=1, group=16), sum(Y, dim=0, group=8) }"},
    {"long_reductions", "graph g { X: f32[300, 1100]\n Y: f32[2, 3000]\n Z: f32[70000]\n"
                        "return sum(X, dim=0), max(X, dim=0), mean(X, dim=1), sum(Y, dim=0), sum(Y, dim=1), exp(Z), Z + Z }"},
    {"folds_of_one", "graph g { X: f32[1, 3, 1, 1]\n return mean(X, dim=3), max(X, dim=0), sum(X, dim=1) }"},
    {"views", "graph g { X: f32[3, 5, 34]\n Y: f32[3, 5, 34]\n W: f32[96, 80]\n A, B = split(X, dim=2, parts=2)\n"
              "return transpose(X), transpose(X, perm=[2, 0, 1]), transpose(X, perm=[1, 0, 2]), transpose(W), reshape(X, [15, 34]), "
              "repeat(X, dim=0, times=2), repeat(X, dim=2, times=3), concat(X, Y, dim=0), concat(X, Y, X, dim=2), A, B, "
              "chunk(X, dim=1, parts=5, index=3), reshape(transpose(W), [40, 192]), exp(reshape(X, [510])) }"},
    {"parts", "graph g { X: f32[3, 5, 34]\n W: f32[34, 37]\n H: f16[9, 40]\n A, B = split(X, dim=2, parts=2)\n"
              "  C = slice(X, dim=2, start=3, end=20)\n E = slice(slice(W, dim=0, start=1, end=18), dim=1, start=2, end=35)\n"
              "  F = block(x=3) { a = iter(A, imap={x:0})\n c = iter(C, imap={x:0})\n"
              "    save(a * c + 1, omap={x:0}) }\n"
              "  return A * B, A + C, sum(B, dim=2), max(C, dim=1), matmul(C, E), matmul(A, E), transpose(C), reshape(C, [15, 17]), "
              "concat(C, A, dim=1), C, slice(H, dim=1, start=5, end=38) * 2, repeat(B, dim=0, times=2), F }"},
    {"products", "graph g { A: f32[3, 9, 20]\n B: f32[3, 20, 17]\n C: f32[20, 33]\n D: f32[3, 17, 20]\n E: f32[20, 9]\n F: f32[2, 3, 9, 20]\n"
                 "return matmul(A, B), matmul(A, C), matmul(A, transpose(D)), matmul(transpose(E), B), matmul(F, B), "
                 "matmul(transpose(B), transpose(A)), matmul(reshape(A, [27, 20]), C) }"},
    {"half", "graph g { X: f16[3, 7, 33]\n Y: f16[33]\n A: bf16[9, 20]\n B: bf16[20, 40]\n C: f16[33, 16]\n"
             "return exp(X * 0.25), X + Y, sum(X, dim=2), sum(X, dim=0), max(X, dim=1), transpose(X), repeat(X, dim=1, times=2), "
             "concat(X, X, dim=2), matmul(A, B), matmul(X, C), relu(A), transpose(B), matmul(A, transpose(reshape(B, [40, 20]))), "
             "matmul(A * 2.0, B) }"},
    {"block_rows", "graph g { X: f32[6, 4, 37]\n S: f32[37]\n"
                   "Y, M, C = block(x=3, y=2) { x = iter(X, imap={x:0, y:1})\n s = iter(S)\n m = mean(x, dim=2)\n c = x - m\n"
                   "  v = mean(square(c), dim=2)\n save(c * rsqrt(v + 0.001) * s, omap={x:0, y:1})\n save(m, omap={x:0, y:1})\n"
                   "  save(max(c, dim=1), omap={x:0, y:1}) }\n"
                   "return Y, M, C }"},
    {"block_softmax", "graph g { X: f32[8, 130]\n"
                      "Y = block(x=4) { x = iter(X, imap={x:0})\n e = exp(x - max(x, dim=1))\n save(e / sum(e, dim=1), omap={x:0}) }\n"
                      "return Y }"},
    {"attention", "graph g { Q: f32[2, 24, 20]\n K: f32[2, 20, 96]\n V: f32[2, 96, 36]\n"
                  "O, M = block(x=2, y=3; i=4) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n"
                  "  v = iter(V, imap={x:0}, fmap={i:1})\n s = matmul(q, k)\n m, change = accum_max(max(s, dim=2))\n f = exp(change)\n"
                  "  e = exp(s - m)\n n = accum_rescale(matmul(e, v), f)\n d = accum_sum_rescale(e, f, dim=2)\n"
                  "  save(n / d, omap={x:0, y:1})\n save(m, omap={x:0, y:1}) }\n"
                  "return O, M }"},
    {"attention_split", "graph g { Q: f32[2, 24, 16]\n K: f32[2, 16, 96]\n V: f32[2, 96, 32]\n"
                        "A, B = block(x=2, y=4; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:2}, fmap={i:2})\n"
                        "  v = iter(V, imap={x:0, y:1}, fmap={i:1})\n e = exp(matmul(q, k) * 0.2)\n"
                        "  save(accum(matmul(e, v)), omap={x:0, y:1})\n save(accum_sum(e, dim=2), omap={x:0, y:1}) }\n"
                        "O = block(x=2, y=2) { a = iter(A, imap={x:0, y:2})\n b = iter(B, imap={x:0})\n"
                        "  n = sum(reshape(a, [1, 4, 24, 16]), dim=1)\n d = sum(reshape(b, [1, 4, 24, 1]), dim=1)\n"
                        "  save(reshape(n / d, [1, 24, 16]), omap={x:0, y:2}) }\n"
                        "return O }"},
    {"keys_transposed", "graph g { Q: f32[3, 8, 32]\n K: f32[3, 64, 32]\n V: f32[3, 64, 32]\n KT = transpose(K)\n"
                        "A, B = block(x=3; i=4) { q = iter(Q, imap={x:0})\n k = iter(KT, imap={x:0}, fmap={i:2})\n"
                        "  v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(matmul(q, k) * 0.2)\n"
                        "  save(accum(matmul(e, v)), omap={x:0})\n save(accum_sum(e, dim=2), omap={x:0}) }\n"
                        "O = block(x=3; i=4) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0}, fmap={i:1})\n"
                        "  save(accum(matmul(q, transpose(k)), fmap={i:2}), omap={x:0}) }\n"
                        "return A / B, O }"},
    {"accumulators", "graph g { X: f32[4, 30, 48]\n"
                     "A, B, C, D, E, F, G, H = block(x=2; i=3) { x = iter(X, imap={x:0}, fmap={i:2})\n"
                     "  save(accum(x), omap={x:0})\n save(accum(x * 2.0, fmap={i:2}), omap={x:0})\n save(accum_sum(x, dim=2), omap={x:0})\n"
                     "  save(accum_mean(x, dim=1), omap={x:0})\n save(accum_rms(x, dim=2), omap={x:0})\n"
                     "  save(accum_sum_to(x, dim=2, extent=4), omap={x:0})\n m, d = accum_max(x)\n save(m, omap={x:0})\n"
                     "  save(accum_rescale(x * 0.5, exp(d)), omap={x:0}) }\n"
                     "return A, B, C, D, E, F, G, H }"},
    {"one_iteration", "graph g { X: f32[4, 30, 48]\n W: f32[4, 48, 20]\n"
                      "A, B, C, D, E, F, G, H, I = block(x=2; i=1) { x = iter(X, imap={x:0}, fmap={i:2})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
                      "  save(accum(x), omap={x:0})\n save(accum(x * 2.0, fmap={i:2}), omap={x:0})\n save(accum_sum(x, dim=2), omap={x:0})\n"
                      "  save(accum_mean(x, dim=1), omap={x:0})\n save(accum_rms(x, dim=2), omap={x:0})\n"
                      "  save(accum_sum_to(x, dim=2, extent=4), omap={x:0})\n m, d = accum_max(x)\n save(m, omap={x:0})\n"
                      "  save(accum_rescale(x * 0.5, exp(d)), omap={x:0})\n y = accum(matmul(x, w))\n save(y / sum(abs(y), dim=2), omap={x:0}) }\n"
                      "return A, B, C, D, E, F, G, H, I }"},
    {"many_loops", "graph g { X: f32[8, 24]\n W: f32[24, 36]\n"
                   "Y, Z = block(x=2, y=1, z=2; i=2, j=3) { x = iter(X, imap={x:0}, fmap={j:1})\n w = iter(W, imap={z:1}, fmap={i:1, j:0})\n"
                   "  save(accum(matmul(x, w), fmap={i:1}), omap={x:0, z:1})\n save(accum_sum(x, dim=1) - accum(matmul(x, w)), omap={x:0, z:1}) }\n"
                   "return Y, Z }"},
    {"block_moves", "graph g { X: f32[4, 6, 20]\n Y: f32[4, 6, 20]\n"
                    "A, B, C, D, E, F = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n l, r = split(x, dim=2, parts=2)\n"
                    "  save(concat(x, y, dim=1), omap={x:0})\n save(exp(transpose(x)) + 1, omap={x:0})\n"
                    "  save(repeat(x, dim=1, times=3), omap={x:0})\n save(l * r, omap={x:0})\n"
                    "  save(sum_to(x, dim=2, extent=5), omap={x:0})\n save(reshape(transpose(y), [2, 120]), omap={x:0}) }\n"
                    "return A, B, C, D, E, F, chunk(A, dim=1, parts=2, index=1) }"},
    {"lora",
     "graph g { X: f32[5, 64]\n W: f32[64, 96]\n A: f32[64, 8]\n B: f32[8, 96]\n"
     "O, P = block(x=3; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "  t = accum(matmul(x, a))\n s = accum(matmul(x, w))\n save(s + matmul(t, b), omap={x:1})\n"
     "  save(silu(s) * matmul(t, b), omap={x:1}) }\n"
     "return O, P }"},
    {"concat_matmul",
     "graph g { A: f32[2, 9, 16]\n B: f32[2, 9, 8]\n C: f32[16, 40]\n D: f32[8, 40]\n"
     "O, P = block(x=2, y=2) { a = iter(A, imap={x:0})\n b = iter(B, imap={x:0})\n c = iter(C, imap={y:1})\n d = iter(D, imap={y:1})\n"
     "  save(concat_matmul(a, b, c, d), omap={x:0, y:2})\n save(matmul(a, c) + 1, omap={x:0, y:2}) }\n"
     "return O, P }"},
    {"stacked_rows", "graph g { Q: f32[4, 3, 1, 32]\n K: f32[4, 1, 32, 80]\n"
                     "O, P = block(x=4; i=5) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0}, fmap={i:3})\n"
                     "  save(accum(exp(matmul(q, k) * 0.1), fmap={i:3}), omap={x:0})\n save(accum_sum(matmul(q, k), dim=3), omap={x:0}) }\n"
                     "return O, P }"},
    {"thread", "graph g { X: f32[16, 50]\n Y: f32[16, 1]\n"
               "A, B, C = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n"
               "  e, s, t = thread(x=8) { a = iter(x, imap={x:0})\n b = iter(y, imap={x:0})\n d = exp((a - b) * 0.3)\n save(d, omap={x:0})\n"
               "    save(sum(d, dim=1), omap={x:0})\n n = sum(square(a), dim=1)\n save(a / sqrt(n), omap={x:0}) }\n"
               "  save(e / s, omap={x:0})\n save(t, omap={x:0})\n p = thread(x=5) { a = iter(x, imap={x:1})\n save(sum(a * a, dim=1), omap={x:1}) }\n"
               "  save(sum(p, dim=1), omap={x:0}) }\n"
               "return A, B, C }"},
    {"mixed", "graph g { X: f32[16, 48]\n W: f32[48, 80]\n U: f32[80, 16]\n H = matmul(X, W)\n"
              "N, S = block(x=4) { h = iter(H, imap={x:0})\n s = sum(square(h), dim=1)\n save(h / sqrt(s), omap={x:0})\n save(s, omap={x:0}) }\n"
              "O = matmul(N, U)\n return relu(O) + S, N, O }"},
    {"half_blocks",
     "graph g { Q: f16[2, 24, 32]\n K: f16[2, 32, 96]\n V: bf16[2, 96, 32]\n R: f16[6, 40]\n"
     "O = block(x=2, y=3; i=4) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n"
     "  v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(matmul(q, k) * 0.1)\n n = accum(matmul(e, v))\n d = accum_sum(e, dim=2)\n"
     "  save(n / d, omap={x:0, y:1}) }\n"
     "P, T = block(x=3) { r = iter(R, imap={x:0})\n e = exp(r)\n save(e / sum(e, dim=1), omap={x:0})\n save(max(r, dim=1), omap={x:0}) }\n"
     "return O, P, T }"},
    {"pairs_of_bf16",
     "graph g { A: bf16[9, 21]\n B: bf16[21, 40]\n C: bf16[35, 21]\n D: bf16[3, 64]\n E: bf16[64, 72]\n F: f16[64, 40]\n G: f32[4, 64]\n"
     "O, P, Q, R, S, T = block(x=1) { a = iter(A)\n b = iter(B)\n c = iter(C)\n d = iter(D)\n e = iter(E)\n f = iter(F)\n g = iter(G)\n"
     "  save(matmul(a, b))\n save(matmul(a, transpose(c)))\n save(matmul(d, e))\n save(matmul(g, f))\n save(matmul(exp(g), e) * 2)\n"
     "  save(matmul(a * 0.5, b)) }\n return O, P, Q, R, S, T }"},
    {"streamed", "graph g { X: f32[16, 512]\n W: f32[512, 1024]\n Z: f32[3, 512]\n"
                 "Y, V = block(x=4; i=8) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n z = iter(Z, fmap={i:1})\n"
                 "  save(accum(matmul(x, w)) / accum_rms(x, dim=1), omap={x:1})\n save(accum(matmul(z, w)), omap={x:1}) }\n"
                 "U = block(x=8) { x = iter(X)\n w = iter(W, imap={x:1})\n save(matmul(x, w), omap={x:1}) }\n"
                 "return Y, V, U }"},
    {"functions", "graph g { X: f32[3, 7, 33]\n Y: f16[3, 33]\n P = X * 20\n"
                  "return sin(P), cos(P), erf(X), softplus(P), leaky_relu(X, slope=0.1), leaky_relu(X, slope=-2), sin(Y), softplus(Y), erf(Y) }"},
    {"more_reductions", "graph g { X: f32[5, 6, 35]\n Y: f32[300, 130]\n Z: f32[3000]\n W: f16[6, 40]\n P = exp(Y * 0.01)\n"
                        "return min(X, dim=0), min(X, dim=1), min(X, dim=2), logsumexp(X * 50, dim=2), logsumexp(X, dim=0), prod(X, dim=0), "
                        "prod(X, dim=1), prod(X, dim=2), prod(P, dim=1), prod(P, dim=0), prod(exp(Z * 0.01), dim=0), logsumexp(Z, dim=0), "
                        "min(Z, dim=0), logsumexp(W, dim=1), prod(W, dim=0), min(W, dim=1) }"},
    {"block_product",
     "graph g { X: f32[6, 4, 37]\n"
     "Y, Z = block(x=3, y=2) { x = iter(X, imap={x:0, y:1})\n p = prod(x, dim=2)\n save(softplus(p) - min(x, dim=2), omap={x:0, y:1})\n"
     "  save(prod(x * 0.5, dim=1), omap={x:0, y:2}) }\n return Y, Z }"},
    {"rows_in_pieces", "graph g { X: f32[1, 300007]\n Y: f32[3, 100003]\n H: f16[2, 150000]\n"
                       "A = block() { x = iter(X)\n e = exp(x - max(x, dim=1))\n save(e / sum(e, dim=1)) }\n"
                       "B, C, D = block() { y = iter(Y)\n z = y - mean(y, dim=1)\n save(sum(z * z, dim=1))\n save(z)\n save(max(y, dim=0)) }\n"
                       "E = block(x=2) { h = iter(H, imap={x:0})\n save(h + mean(h, dim=1), omap={x:0}) }\n"
                       "return A, B, C, D, E, max(X, dim=1), sum(Y, dim=1), mean(H, dim=1), log(sum(exp(Y), dim=1)) }"},
};

#endif
