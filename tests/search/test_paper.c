// The structures that the paper found and that ours must find, written by hand: each is equal to its program by normal forms, and in the
// space that is searched with default options. Structure is compared, not sizes or names.
// test: timeout 300
// test: quick sanitized
#include "examples.h"
#include "graphs.h"

#define QKV_GQA "graph g { Q: f32[2, 256, 64]\n K: f32[2, 64, 4096]\n V: f32[2, 4096, 64]\n"
#define SPLIT_LAST "a = iter(A, imap={x:0})\n b = iter(B, imap={x:0})\n"

static const struct {
  const char *what, *program, *graph;
} rows[] = {
    {"FlashAttention: scores never leave the block", "m_gqa",
     QKV_GQA "O = block(x=2, y=4; i=32) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
             "e = exp(matmul(q, k))\n save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1}) }\n return O }"},
    {"FlashDecoding: keys split over blocks, a second kernel sums and divides", "m_gqa",
     QKV_GQA "A, B = block(x=2, y=16) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:2})\n v = iter(V, imap={x:0, y:1})\n"
             "e = exp(matmul(q, k))\n save(matmul(e, v), omap={x:0, y:2})\n save(sum(e, dim=2), omap={x:0, y:2}) }\n"
             "O = block(x=2) { " SPLIT_LAST "save(sum_to(a, dim=2, extent=64) / sum(b, dim=2), omap={x:0}) }\n return O }"},
    {"the same with a loop in the first kernel", "m_gqa",
     QKV_GQA
     "A, B = block(x=2, y=16; i=4) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:2}, fmap={i:2})\n v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"
     "e = exp(matmul(q, k))\n save(accum(matmul(e, v)), omap={x:0, y:2})\n save(accum_sum(e, dim=2), omap={x:0, y:2}) }\n"
     "O = block(x=2) { " SPLIT_LAST "save(sum_to(a, dim=2, extent=64) / sum(b, dim=2), omap={x:0}) }\n return O }"},
    {"Figure 4c: the query heads of a kv head are rows of one product, keys split over blocks", "gqa_dec",
     "graph g { q: f32[1, 16, 1, 128]\n k: f32[1, 2, 4096, 128]\n v: f32[1, 2, 4096, 128]\n"
     "A, B = block(x=2, y=16) { heads = iter(q, imap={x:1})\n keys = iter(k, imap={x:1, y:2})\n values = iter(v, imap={x:1, y:2})\n"
     "e = exp(matmul(reshape(heads, [1, 1, 8, 128]), transpose(keys)) / sqrt(128))\n"
     "save(reshape(matmul(e, values), [1, 8, 1, 128]), omap={x:1, y:3})\n save(reshape(sum(e, dim=3), [1, 8, 1, 1]), omap={x:1, y:3}) }\n"
     "O = block(x=2) { a = iter(A, imap={x:1})\n b = iter(B, imap={x:1})\n save(sum_to(a, dim=3, extent=128) / sum(b, dim=3), omap={x:1}) }\n return "
     "O }"},
    {"Figure 8b: heads, queries and keys split at once", "mha_spec",
     "graph g { q: f32[1, 32, 32, 128]\n k: f32[1, 32, 4096, 128]\n v: f32[1, 32, 4096, 128]\n"
     "A, B = block(x=32, y=2, z=16) { queries = iter(q, imap={x:1, y:2})\n keys = iter(k, imap={x:1, z:2})\n values = iter(v, imap={x:1, z:2})\n"
     "e = exp(matmul(queries, transpose(keys)) / sqrt(128))\n save(matmul(e, values), omap={x:1, y:2, z:3})\n save(sum(e, dim=3), omap={x:1, y:2, "
     "z:3}) }\n"
     "O = block(x=32, y=2) { a = iter(A, imap={x:1, y:2})\n b = iter(B, imap={x:1, y:2})\n"
     "save(sum_to(a, dim=3, extent=128) / sum(b, dim=3), omap={x:1, y:2}) }\n return O }"},
    {"lora in one kernel: X A is never stored", "lora",
     "graph g { X: f32[16, 4096]\n W: f32[4096, 4096]\n A: f32[4096, 16]\n B: f32[16, 4096]\n"
     "O = block(x=32; i=16) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O }"},
    {"mlp: partial sums, then the rest", "mlp",
     "graph g { X: f32[8, 4096]\n W1: f32[4096, 16]\n W2: f32[16, 4096]\n"
     "P = block(x=64) { x = iter(X, imap={x:1})\n w = iter(W1, imap={x:0})\n save(matmul(x, w), omap={x:1}) }\n"
     "O = block(x=32) { p = iter(P)\n x = iter(X, imap={x:1})\n w = iter(W2, imap={x:1})\n"
     "save(x + matmul(relu(sum_to(p, dim=1, extent=16)), w), omap={x:1}) }\n return O }"},
    {"m_rms: X is loaded once for the norm and the product", "m_rms",
     "graph g { X: f32[16, 4096]\n W: f32[4096, 6144]\n O = block(x=48; i=16) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / accum_rms(x, dim=1), omap={x:1}) }\n return O }"},
    {"m_gated: two products, one load of X", "m_gated",
     "graph g { X: f32[8, 4096]\n W: f32[4096, 4096]\n V: f32[4096, 4096]\n"
     "O = block(x=32; i=16) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n v = iter(V, imap={x:1}, fmap={i:0})\n"
     "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }"},
    {"m_ntrans in one kernel", "m_ntrans",
     "graph g { X: f32[64, 4096]\n H: f32[64, 4096]\n A: f32[64, 4096]\n"
     "O = block(x=8) { x = iter(X, imap={x:0})\n h = iter(H, imap={x:0})\n a = iter(A, imap={x:0})\n"
     "y = x + a * (h / sqrt(mean(square(h), dim=1)) + x)\n save(y / sqrt(mean(square(y), dim=1)), omap={x:0}) }\n return O }"},
    {"g_norm in one kernel", "g_norm",
     "graph g { X: f32[4096, 1024]\n S: f32[1024]\n T: f32[1024]\n"
     "O = block(x=64) { x = iter(X, imap={x:0})\n s = iter(S)\n t = iter(T)\n c = x - mean(x, dim=1)\n"
     "save(c / sqrt(mean(square(c), dim=1) + 1e-5) * s + t, omap={x:0}) }\n return O }"},
    {"softmax in one kernel", "softmax",
     "graph g { X: f32[4096, 4096]\n O = block(x=64) { x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0}) }\n return O }"},
    {"m_qknorm: both norms inside the first kernel", "m_qknorm",
     QKV_GQA "O = block(x=2, y=4; i=32) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
             "e = exp(matmul(q / sqrt(mean(square(q), dim=2)), k))\n"
             "save(accum(matmul(e, v / sqrt(mean(square(v), dim=2)))) / accum_sum(e, dim=2), omap={x:0, y:1}) }\n return O }"},
    {"qknorm_qk: the same with norms on queries and keys", "qknorm_qk",
     QKV_GQA "O = block(x=2, y=4; i=32) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
             "e = exp(matmul(q / sqrt(mean(square(q), dim=2)), k / sqrt(mean(square(k), dim=1))) / sqrt(64))\n"
             "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1}) }\n return O }"},
    {"m_moe: exp as the epilogue of the first product", "m_moe",
     "graph g { X: f32[8, 8, 4096]\n A: f32[8, 4096, 4096]\n B: f32[8, 4096, 4096]\n"
     "E = block(x=8, y=32; i=16) { x = iter(X, imap={x:0}, fmap={i:2})\n a = iter(A, imap={x:0, y:2}, fmap={i:1})\n"
     "save(exp(accum(matmul(x, a))), omap={x:0, y:2}) }\n return matmul(E, B) }"},
    {"g_lstm: both products in one kernel", "g_lstm",
     "graph g { x: f32[1024, 128]\n h: f32[1024, 128]\n W: f32[128, 128]\n U: f32[128, 128]\n bias: f32[128]\n"
     "O = block(x=16, y=2) { a = iter(x, imap={x:0})\n b = iter(h, imap={x:0})\n w = iter(W, imap={y:1})\n u = iter(U, imap={y:1})\n c = iter(bias, "
     "imap={y:0})\n"
     "save(relu(matmul(a, w) + matmul(b, u) + c), omap={x:0, y:1}) }\n return O }"},
    {"g_fmha: attention with the mask inside", "g_fmha_mask",
     "graph g { q: f32[32, 16, 384, 64]\n k: f32[32, 16, 384, 64]\n v: f32[32, 16, 384, 64]\n m: f32[32, 1, 1, 384]\n"
     "O = block(x=32, y=16; i=3) { a = iter(q, imap={x:0, y:1})\n b = iter(k, imap={x:0, y:1}, fmap={i:2})\n c = iter(v, imap={x:0, y:1}, "
     "fmap={i:2})\n"
     "mask = iter(m, imap={x:0}, fmap={i:3})\n e = exp(matmul(a, transpose(b)) / sqrt(64) + mask)\n"
     "save(accum(matmul(e, c)) / accum_sum(e, dim=3), omap={x:0, y:1}) }\n return O }"},
    {"g_gemm: bias and relu as epilogue", "g_gemm",
     "graph g { A: f32[5376, 2048]\n B: f32[2048, 5376]\n bias: f32[5376]\n"
     "O = block(x=42, y=42; i=16) { a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, imap={y:1}, fmap={i:0})\n c = iter(bias, imap={y:0})\n"
     "save(relu(accum(matmul(a, b)) + c), omap={x:0, y:1}) }\n return O }"},
};

static void test_structures(void **state)
{
  (void)state;
  int missing = 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct graph *p = load(&mem, rows[i].program, 0, NULL), *g = graph_of(&mem, rows[i].graph);
    struct search_opts o = {.threads = 2, .seed = 7};
    struct cover c;
    struct err e = {0};
    char why[160];
    if (!verify_filter(p, g, 1)) fail_msg("%s: not equal to %s", rows[i].what, rows[i].program);
    if (!verify_prove(p, g, why)) fail_msg("%s: not proved: %s", rows[i].what, why);
    assert_int_equal(search_covers(&mem, p, &machine, &o, 1, &g, &c, &e), OK);
    if (!c.held) missing++, print_message("%s: %s\n", rows[i].what, c.why);
    arena_close(&mem);
  }
  assert_int_equal(missing, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_structures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
