// Kernels of few rows: every setting of the scheme, run in the interpreter without a complaint, and equal to the block graph
// in float64.
#include "../graphs.h"
#include "sim/tile_host.h"
#include "eval/eval.h"
#include "lower/lower.h"
#include "sim/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct scheme scheme_skinny;

static const struct {
  const char *name, *text;
} graphs[] = {
    {"a product", "X: f16[16, 256]\n W: f16[256, 128]\n"
                  "O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
                  "save(accum(matmul(x, w)), omap={x:1}) }\n return O"},
    {"three rows", "X: f16[3, 256]\n W: f16[256, 64]\n"
                   "O = block(; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w))) }\n return O"},
    {"one row without a loop", "X: f16[1, 256]\n W: f16[256, 64]\n"
                               "O = block() { x = iter(X)\n w = iter(W)\n save(matmul(x, w)) }\n return O"},
    {"32 rows, steps that do not divide",
     "X: f16[32, 352]\n W: f16[352, 64]\n"
     "O = block(; i=11) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w))) }\n return O"},
    {"k by 16", "X: f16[8, 80]\n W: f16[80, 32]\n"
                "O = block(; i=5) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w))) }\n return O"},
    {"rms norm", "X: f16[8, 256]\n W: f16[256, 128]\n"
                 "O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
                 "p = accum(matmul(x, w))\n s = accum_sum(x * x, dim=1)\n save(p / sqrt(s * 0.00390625 + 0.00001), omap={x:1}) }\n return O"},
    {"rms accumulator, one row", "X: f16[1, 256]\n W: f16[256, 128]\n"
                                 "O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
                                 "p = accum(matmul(x, w))\n s = accum_rms(x, dim=1)\n save(p / s, omap={x:1}) }\n return O"},
    {"gated", "X: f16[5, 128]\n W: f16[128, 128]\n V: f16[128, 128]\n"
              "O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n v = iter(V, imap={x:1}, fmap={i:0})\n"
              "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O"},
    {"low rank",
     "X: f16[16, 128]\n W: f16[128, 128]\n A: f16[128, 16]\n B: f16[16, 128]\n"
     "O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O"},
    {"low rank inside the loop", "X: f16[4, 128]\n W: f16[128, 64]\n A: f16[128, 16]\n B: f16[16, 64]\n"
                                 "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B)\n"
                                 "save(accum(matmul(x, w) + matmul(matmul(x, a), b))) }\n return O"},
    {"low rank joined", "X: f16[4, 128]\n W: f16[128, 64]\n A: f16[128, 16]\n B: f16[16, 64]\n"
                        "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B)\n"
                        "save(accum(concat_matmul(x, matmul(x, a), w, b))) }\n return O"},
    {"adapter", "X: f16[8, 128]\n A: f16[128, 16]\n B: f16[16, 128]\n"
                "O = block(x=1; i=2) { x = iter(X, fmap={i:1})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n r = iter(X, imap={x:1})\n"
                "save(r + matmul(relu(accum(matmul(x, a))), b), omap={x:1}) }\n return O"},
    {"experts", "X: f16[2, 8, 64]\n W: f16[2, 64, 64]\n"
                "O = block(x=2, y=2; i=2) { x = iter(X, imap={x:0}, fmap={i:2})\n w = iter(W, imap={x:0, y:2}, fmap={i:1})\n"
                "save(exp(accum(matmul(x, w)) * 0.125), omap={x:0, y:2}) }\n return O"},
    {"low rank added to the weights",
     "X: f16[4, 64]\n W: f16[64, 128]\n A: f16[64, 16]\n B: f16[16, 128]\n"
     "O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n b = iter(B, imap={x:1})\n a = iter(A, fmap={i:0})\n"
     "save(accum(matmul(x, matmul(a, b) + w)), omap={x:1}) }\n return O"},
    {"the same without a loop", "X: f16[4, 64]\n W: f16[64, 128]\n A: f16[64, 16]\n B: f16[16, 128]\n"
                                "O = block(x=2) { x = iter(X)\n w = iter(W, imap={x:1})\n b = iter(B, imap={x:1})\n a = iter(A)\n"
                                "save(matmul(x, matmul(a, b) + w), omap={x:1}) }\n return O"},
    {"relu between, without a loop",
     "X: f16[4, 64]\n A: f16[64, 16]\n B: f16[16, 128]\n"
     "O = block(x=2) { x = iter(X)\n b = iter(B, imap={x:1})\n a = iter(A)\n save(matmul(relu(matmul(x, a)), b), omap={x:1}) }\n return O"},
    {"several experts in a block", "X: f16[4, 8, 64]\n W: f16[4, 64, 64]\n"
                                   "O = block(x=2; i=2) { x = iter(X, imap={x:0}, fmap={i:2})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
                                   "save(exp(accum(matmul(x, w)) * 0.125), omap={x:0}) }\n return O"},
    {"experts as columns",
     "X: f16[1, 64]\n W: f16[4, 64, 96]\n"
     "O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
     "save(reshape(accum(matmul(reshape(transpose(w, perm=[0, 2, 1]), [192, 32]), reshape(x, [32, 1]))), [2, 96, 1]), omap={x:0}) }\n return O"},
    {"bf16, rows of fp32", "X: f32[4, 128]\n W: bf16[128, 64]\n"
                           "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x * 0.5, w))) }\n return O"},
    {"all bf16, rms norm",
     "X: bf16[4, 128]\n W: bf16[128, 64]\n"
     "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w)) / accum_rms(x, dim=1)) }\n return O"},
    {"contiguous along k",
     "X: f16[9, 128]\n W: f16[64, 128]\n"
     "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:1})\n save(accum(matmul(x, transpose(w)))) }\n return O"},
    {"turned", "X: f16[8, 128]\n W: f16[64, 128]\n"
               "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:1})\n save(accum(matmul(w, transpose(x)))) }\n return O"},
    {"scaled before the product", "X: f16[4, 128]\n W: f16[128, 64]\n G: f16[1, 128]\n S: f32[4, 1]\n"
                                  "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n g = iter(G, fmap={i:1})\n s = iter(S)\n "
                                  "save(accum(matmul(s * (x * g), w))) }\n return O"},
    {"bias and residual", "X: f16[4, 128]\n W: f16[128, 64]\n B: f16[64]\n R: f16[4, 64]\n"
                          "O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n b = iter(B)\n r = iter(R)\n "
                          "save(relu(accum(matmul(x, w)) + b) + r) }\n return O"},
    {"parts of k", "X: f16[4, 128]\n W: f16[128, 64]\n"
                   "O, Q = block(x=2; i=2) { x = iter(X, imap={x:1}, fmap={i:1})\n w = iter(W, imap={x:0}, fmap={i:0})\n"
                   "save(accum(matmul(x, w)), omap={x:0})\n save(accum_sum(x * x, dim=1), omap={x:0}) }\n return O, Q"},
    {"parts of k summed", "X: f16[4, 256]\n W: f16[256, 128]\n"
                          "P = block(x=2, y=4; i=2) { x = iter(X, imap={y:1}, fmap={i:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n"
                          "save(reshape(accum(matmul(x, w)), [1, 4, 64]), omap={x:2, y:0}) }\n"
                          "O = block(x=4) { p = iter(P, imap={x:2})\n save(reshape(sum(p, dim=0), [4, 32]), omap={x:1}) }\n return O"},
    {"gated parts",
     "X: f16[8, 256]\n W: f16[256, 128]\n V: f16[256, 128]\n"
     "P, Q = block(x=2, y=4; i=2) { x = iter(X, imap={y:1}, fmap={i:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n v = iter(V, imap={x:1, y:0}, "
     "fmap={i:0})\n"
     "save(reshape(accum(matmul(x, w)), [1, 8, 64]), omap={x:2, y:0})\n save(reshape(accum(matmul(x, v)), [1, 8, 64]), omap={x:2, y:0}) }\n"
     "O = block(x=2, y=2) { q = iter(Q, imap={x:1, y:2})\n p = iter(P, imap={x:1, y:2})\n"
     "t = sum(q, dim=0)\n u = sum(p, dim=0)\n save(reshape(t * silu(u), [4, 64]), omap={x:0, y:1}) }\n return O"},
    {"low rank parts", "X: f16[16, 256]\n W: f16[256, 128]\n A: f16[256, 16]\n B: f16[16, 128]\n"
                       "P = block(x=2, y=4; i=2) { b = iter(B, imap={x:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n x = iter(X, imap={y:1}, "
                       "fmap={i:1})\n a = iter(A, imap={y:0}, fmap={i:0})\n"
                       "t = matmul(accum(matmul(x, a)), b)\n save(reshape(t + accum(matmul(x, w)), [1, 16, 64]), omap={x:2, y:0}) }\n"
                       "O = block(x=2, y=4) { p = iter(P, imap={x:1, y:2})\n save(reshape(sum(p, dim=0), [8, 32]), omap={x:0, y:1}) }\n return O"},
    {"adapter in parts, rows apart",
     "X: f16[8, 256]\n A: f16[256, 16]\n B: f16[16, 256]\n"
     "P = block(x=4, y=4) { a = iter(A, imap={y:0})\n x = iter(X, imap={x:0, y:1})\n save(reshape(matmul(x, a), [1, 2, 16]), omap={x:1, y:0}) }\n"
     "O = block(x=2) { x = iter(X, imap={x:1})\n b = iter(B, imap={x:1})\n p = iter(P)\n t = relu(sum(p, dim=0))\n"
     "save(reshape(matmul(t, reshape(b, [1, 16, 128])) + x, [8, 128]), omap={x:1}) }\n return O"},
    {"a tail that scales rows and adds a bias",
     "X: f16[4, 256]\n W: f16[256, 128]\n S: f32[4, 1]\n B: f16[128]\n"
     "P = block(x=2, y=4; i=2) { x = iter(X, imap={y:1}, fmap={i:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n"
     "save(reshape(accum(matmul(x, w)), [1, 4, 64]), omap={x:2, y:0}) }\n"
     "O = block(x=4, y=2) { p = iter(P, imap={x:2, y:1})\n s = iter(S, imap={y:0})\n b = iter(B, imap={x:0})\n"
     "save(reshape(sum(p / s, dim=0), [2, 32]) + b, omap={x:1, y:0}) }\n return O"},
    {"one row, sums of single products",
     "X: f16[1, 256]\n W: f16[256, 128]\n A: f16[256, 16]\n B: f16[16, 128]\n"
     "O = block(x=2; i=2) { b = iter(B, imap={x:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n x = iter(X, fmap={i:1})\n a = iter(A, fmap={i:0})\n"
     "t = reshape(x, [128, 1])\n u = reshape(sum(accum(a * t), dim=0), [16, 1])\n save(sum(u * b, dim=0) + accum(matmul(x, w)), omap={x:1}) }\n "
     "return O"},
    {"the same, all sums in the loop",
     "X: f16[1, 256]\n W: f16[256, 128]\n A: f16[256, 16]\n B: f16[16, 128]\n"
     "O = block(x=2; i=2) { b = iter(B, imap={x:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n x = iter(X, fmap={i:1})\n a = iter(A, fmap={i:0})\n"
     "t = reshape(x, [128, 1])\n u = reshape(sum(t * a, dim=0), [16, 1])\n save(accum(sum(u * b, dim=0)) + accum_sum(t * w, dim=0), omap={x:1}) }\n "
     "return O"},
    {"one row, means of single products",
     "X: f16[256, 1]\n W: f16[256, 64]\n A: f16[256, 16]\n B: f16[16, 64]\n"
     "O = block(; i=2) { b = iter(B)\n w = iter(W, fmap={i:0})\n x = iter(X, fmap={i:0})\n a = iter(A, fmap={i:0})\n"
     "u = reshape(relu(mean(accum(a * x), dim=0)), [16, 1])\n save(mean(u * b, dim=0) + accum_mean(x * w, dim=0)) }\n return O"},
    {"one row, sums of single products in parts",
     "X: f16[1, 256]\n W: f16[256, 128]\n A: f16[256, 16]\n B: f16[16, 128]\n"
     "P = block(x=2, y=4) { b = iter(B, imap={x:1})\n w = iter(W, imap={x:1, y:0})\n x = iter(X, imap={y:1})\n a = iter(A, imap={y:0})\n"
     "u = reshape(sum(a * reshape(x, [64, 1]), dim=0), [16, 1])\n save(reshape(sum(u * b, dim=0) + matmul(x, w), [1, 1, 64]), omap={x:2, y:0}) }\n"
     "O = block(x=4) { p = iter(P, imap={x:2})\n save(reshape(sum(p, dim=0), [1, 32]), omap={x:1}) }\n return O"},
    {"a norm whose sum comes after the loop", "X: f16[4, 256]\n W: f16[256, 64]\n"
                                              "O = block(; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
                                              "s = sum(accum(x * x), dim=1)\n save(accum(matmul(x, w)) / sqrt(s * 0.00390625)) }\n return O"},
    {"a tail without parts",
     "X: f16[4, 256]\n W: f16[256, 128]\n"
     "P = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n save(accum(matmul(x, w)), omap={x:1}) }\n"
     "O = block(x=4) { p = iter(P, imap={x:1})\n save(exp(p * 0.1), omap={x:1}) }\n return O"},
};

struct held {
  struct arena mem;
  struct graph *g;
  struct norm n, tail;
  bool has_tail;
  enum dtype *store;
  double **input, **output;
};

static const struct gpu_limits h200 = {90, 132, 232448, 233472, 65536, 50 << 20, 4.28e12, 1e13, 8e14, 0.7e-6};
static const struct gpu_limits a100 = {80, 108, 166912, 167936, 65536, 40 << 20, 1.9e12, 5e12, 3e14, 0.7e-6};

static void open_graph(struct held *h, const char *name, const char *text)
{
  struct err e = {0};
  char why[160] = "";
  int node = 0;
  *h = (struct held){.g = NULL};
  h->g = graph_of(&h->mem, arena_printf(&h->mem, "graph g {\n %s\n}\n", text));
  while (h->g->nodes[node].op != OP_BLOCK) node++;
  if (norm_make(&h->mem, h->g, node, &h->n, why) != OK) fail_msg("%s: %s", name, why);
  while (++node < h->g->nnodes && h->g->nodes[node].op != OP_BLOCK) {
  }
  h->has_tail = node < h->g->nnodes;
  if (h->has_tail && norm_make(&h->mem, h->g, node, &h->tail, why) != OK) fail_msg("%s: %s", name, why);
  h->store = NEWS(&h->mem, enum dtype, h->g->ntensors);
  for (int t = 0; t < h->g->ntensors; t++) h->store[t] = h->g->tensors[t].dtype;
  h->input = NEWS(&h->mem, double *, h->g->nnodes), h->output = NEWS(&h->mem, double *, h->g->nnodes);
  eval_random(&h->mem, h->g, DOM_F64, NULL, 7, (void **)h->input);
  assert_int_equal(eval_run(&h->mem, h->g, DOM_F64, NULL, (void *const *)h->input, (void **)h->output, NULL, &e), OK);
}

static double number(enum tile_type t, const char *p)
{
  double out[32];
  char lanes[256] = {0};
  memcpy(lanes, p, (size_t)tile_types[t].bytes);
  num_load(t, lanes, out);
  return out[0];
}

// Of the outputs that the kernel wrote; NAN where one was not.
static double difference(const struct held *h, const struct tile_host *host, const struct lower_out *out)
{
  int outputs[16], n = graph_outputs(h->g, outputs);
  double wrong = 0, all = 0;
  for (int i = 0; i < n; i++)
    for (int a = 0, b = 0; b < host->k->nbuffers && a < out->nargs; b++) {
      if (host->k->buffers[b].mem != MEM_GL) continue;
      if (out->arg[a++] != outputs[i]) continue;
      for (int64_t k = 0; k < shape_size(&h->g->tensors[outputs[i]].shape); k++) {
        enum tile_type t = host->k->buffers[b].type;
        double x = number(t, (char *)host->data[b] + k * tile_types[t].bytes), y = h->output[i][k];
        wrong += (x - y) * (x - y), all += y * y;
      }
    }
  return all > 0 ? sqrt(wrong / all) : NAN;
}

static void hold(struct held *h, const char *name, const struct lower_job *j, const struct knobs *k)
{
  struct err e = {0};
  struct lower_out out;
  struct tile_program *p;
  struct tile_host host;
  struct sim_report r;
  struct tile_fill fills[16];
  int inputs[16], n = graph_inputs(h->g, inputs), nfills = 0;
  const char *what =
      arena_printf(&h->mem, "%s warps=%d cols=%d depth=%d split=%d ring=%d ahead=%d", name, k->v[0], k->v[1], k->v[2], k->v[3], k->v[4], k->v[5]);
  if (scheme_skinny.emit(j, k, &out, &e)) fail_msg("%s: %s", what, e.text);
  const char *text = arena_strdup(&h->mem, str_text(&out.text));
  str_free(&out.text);
  if (getenv("MICA_SHOW")) fprintf(stderr, "// %s\n%s", what, text);
  if (tile_parse(&h->mem, name, text, &p, &e) || tile_lower(p, p->kernels[0], j->gpu->arch, &e))
    fail_msg("%s: %d:%d: %s", what, e.at.line, e.at.col, e.text);
  if (tile_host_open(&host, &h->mem, p, p->kernels[0], 0, NULL, &e)) fail_msg("%s: %s", what, e.text);
  for (int a = 0, b = 0; b < host.k->nbuffers; b++) {
    if (host.k->buffers[b].mem != MEM_GL) continue;
    for (int i = 0; i < n; i++)
      if (inputs[i] == out.arg[a])
        fills[nfills++] = (struct tile_fill){host.k->buffers[b].name, 1, h->input[i], shape_size(&h->g->tensors[inputs[i]].shape)};
    a++;
  }
  if (tile_host_fill(&host, 1, nfills, fills, &e) || tile_host_run(&host, &r, NULL, &e)) fail_msg("%s: %s", what, e.text);
  if (r.found) fail_msg("%s: %s", what, r.nerrors ? r.errors[0].text : "errors");
  double d = difference(h, &host, &out);
  if (!(d < (h->store[h->g->nodes[0].out] == F16 ? 2e-3 : 8e-3))) fail_msg("%s: relative difference %g", what, d);
}

// Of a few rings, those that this graph takes.
static int hold_rings(struct held *h, const char *name, const struct lower_job *j)
{
  static const struct knobs rings[] = {{{2, 64, 2, 1, 1, 1}}, {{1, 32, 3, 2, 1}}, {{1, 64, 4, 1, 1}},
                                       {{1, 32, 2, 1, 1, 1}}, {{2, 32, 1, 2, 1}}, {{1, 16, 5, 1, 1}}};
  int n = 0;
  for (size_t i = 0; i < COUNT(rings); i++)
    if (isfinite(scheme_cost(&scheme_skinny, j, &rings[i]))) hold(h, name, j, &rings[i]), n++;
  return n;
}

static void settings(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(graphs); i++)
    for (int gpu = 0; gpu < 2; gpu++) {
      struct held h;
      struct knobs k[CHOICES];
      char why[160] = "";
      if (getenv("MICA_ONLY") && !strstr(graphs[i].name, getenv("MICA_ONLY"))) continue;
      open_graph(&h, graphs[i].name, graphs[i].text);
      struct lower_job j = {.mem = &h.mem,
                            .n = &h.n,
                            .tail = h.has_tail ? &h.tail : NULL,
                            .store = h.store,
                            .gpu = gpu ? &a100 : &h200,
                            .name = "m",
                            .dependent = !gpu};
      int n = scheme_skinny.choices(&j, gpu ? 3 : CHOICES, k, why);
      if (!n) fail_msg("%s: %s", graphs[i].name, why);
      for (int c = 0; c < n; c++) assert_true(isfinite(scheme_cost(&scheme_skinny, &j, &k[c])));
      for (int c = 0; c < n; c += gpu ? 1 : 1 + n / 12) hold(&h, graphs[i].name, &j, &k[c]);
      int rings = hold_rings(&h, graphs[i].name, &j);
      if (!rings) fail_msg("%s: no ring", graphs[i].name);
      arena_close(&h.mem);
    }
}

static const struct {
  const char *text, *why;
} refused[] = {
    {"X: f16[64, 64]\n W: f16[64, 64]\n O = block() { x = iter(X)\n w = iter(W)\n save(matmul(x, w)) }\n return O", "32 rows"},
    {"X: f16[4, 64]\n W: f16[64, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(relu(matmul(x, w)))) }\n return O",
     "relu between"},
    {"X: f16[4, 64]\n W: f16[64, 64]\n O = block() { x = iter(X)\n w = iter(W)\n save(sum(matmul(x, w), dim=1)) }\n return O", "sum after"},
    {"X: f16[1, 64]\n W: f16[64, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(x, w)) + sum(accum(w * exp(w)), dim=0)) }\n return O",
     "not one of rows"},
    {"X: f16[4, 64]\n O = block() { x = iter(X)\n save(exp(x)) }\n return O", "no product"},
    {"X: f16[4, 40]\n W: f16[40, 64]\n O = block() { x = iter(X)\n w = iter(W)\n save(matmul(x, w)) }\n return O", "do not divide"},
    {"X: f16[4, 64]\n W: f16[64, 64]\n P = block(x=2) { x = iter(X, imap={x:1})\n w = iter(W, imap={x:0})\n"
     "save(reshape(exp(matmul(x, w)), [1, 4, 64]), omap={x:0}) }\n O = block() { p = iter(P)\n save(sum(p, dim=0)) }\n return O",
     "do not add up"},
    {"X: f16[4, 64]\n W: f16[64, 64]\n P = block(x=2) { x = iter(X, imap={x:1})\n w = iter(W, imap={x:0})\n"
     "save(reshape(matmul(x, w), [1, 4, 64]), omap={x:0}) }\n O = block() { p = iter(P)\n save(max(p, dim=0)) }\n return O",
     "max after"},
};

static void reasons(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(refused); i++) {
    struct held h;
    struct knobs k[CHOICES];
    char why[160] = "";
    open_graph(&h, refused[i].why, refused[i].text);
    struct lower_job j = {.mem = &h.mem, .n = &h.n, .tail = h.has_tail ? &h.tail : NULL, .store = h.store, .gpu = &h200, .name = "m"};
    assert_int_equal(scheme_skinny.choices(&j, CHOICES, k, why), 0);
    if (!strstr(why, refused[i].why)) fail_msg("%s: %s", refused[i].why, why);
    arena_close(&h.mem);
  }
}

// Blocks of a cluster on an architecture without clusters, and settings that do not divide, are errors, not text.
static void other_settings(void **state)
{
  (void)state;
  static const struct knobs bad[] = {{{8, 64, 1, 2}}, {{8, 48, 1, 1}}, {{0, 64, 1, 1}}, {{64, 64, 1, 1}}, {{8, 64, 0, 1}}};
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct held h;
    struct lower_out out;
    struct err e = {0};
    open_graph(&h, graphs[0].name, graphs[0].text);
    struct lower_job j = {.mem = &h.mem, .n = &h.n, .store = h.store, .gpu = &a100, .name = "m"};
    assert_int_equal(scheme_skinny.emit(&j, &bad[i], &out, &e), USER);
    assert_true(isinf(scheme_cost(&scheme_skinny, &j, &bad[i])));
    arena_close(&h.mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(reasons), cmocka_unit_test(other_settings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
