// The scheme rows: block graphs without products become tile kernels that the interpreter finds nothing against, and that
// compute what float64 computes, for the settings that the model likes best and for many others.
#include "../graphs.h"
#include "sim/tile_host.h"
#include "eval/eval.h"
#include "lower/rows.h"
#include "plan/plan.h"
#include "random_block.h"
#include "sim/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

extern const struct scheme scheme_rows;

static const struct gpu_limits H200 = {90, 132, 227 << 10, 228 << 10, 65536, 50 << 20, 4.2e12, 1e13, 8e14, 1e-6};

enum { BEST = 3, SAMPLES = 14, TRIES = 400, RANDOM = 60 };

// clang-format off: the texts are laid out as graphs
#define BLOCK_OF(inputs, axes, body) inputs "\n O = block(" axes ") {\n" body "\n }\n return O"
static const struct {
  const char *name, *text;
} graphs[] = {
    {"copy", BLOCK_OF("X: f16[6, 64]", "x=6", "x = iter(X, imap={x:0})\n save(x, omap={x:0})")},
    {"elementwise", BLOCK_OF("X: f16[33, 24]\n Y: f16[33, 24]", "x=33",
                             "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n"
                             "save(silu(x) * y + exp(x * 0.5) - 3, omap={x:0})")},
    {"bf16 in", BLOCK_OF("X: bf16[8, 40]", "x=4", "x = iter(X, imap={x:0})\n save(gelu(x) + clamp(x, lo=-0.5, hi=0.25), omap={x:0})")},
    {"fp32", BLOCK_OF("X: f32[8, 40]\n Y: f32[8, 40]", "x=4, y=2",
                      "x = iter(X, imap={x:0, y:1})\n y = iter(Y, imap={x:0, y:1})\n"
                      "save(maximum(x, y) / (abs(minimum(x, y)) + 1), omap={x:0, y:1})")},
    {"one element", BLOCK_OF("X: f32[1, 1]", "", "x = iter(X)\n save(exp(x))")},
    {"odd", BLOCK_OF("X: f16[7, 13]", "x=7", "x = iter(X, imap={x:0})\n save(relu(x) * 2, omap={x:0})")},
    {"softmax", BLOCK_OF("X: f16[8, 512]", "x=8", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})")},
    {"softmax of odd rows", BLOCK_OF("X: f16[5, 77]", "x=5", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})")},
    {"softmax of tiles", BLOCK_OF("X: f16[24, 96]", "x=3", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})")},
    {"softmax down", BLOCK_OF("X: f16[48, 40]", "x=2", "x = iter(X, imap={x:1})\n e = exp(x)\n save(e / sum(e, dim=0), omap={x:1})")},
    {"layer norm", BLOCK_OF("X: f16[6, 320]\n G: f16[320]\n B: f16[320]", "x=6",
                            "x = iter(X, imap={x:0})\n g = iter(G)\n b = iter(B)\n m = mean(x, dim=1)\n v = mean(square(x - m), dim=1)\n"
                            "save((x - m) / sqrt(v + 0.00001) * g + b, omap={x:0})")},
    {"layer norm by squares", BLOCK_OF("X: f16[6, 136]\n G: f16[136]", "x=3",
                                       "x = iter(X, imap={x:0})\n g = iter(G)\n m = mean(x, dim=1)\n v = mean(x * x, dim=1)\n save((x - m) * rsqrt(v "
                                       "- m * m + 0.001) * g, omap={x:0})")},
    {"rms norm", BLOCK_OF("X: f16[9, 200]", "x=9", "x = iter(X, imap={x:0})\n save(x / sqrt(mean(square(x), dim=1)), omap={x:0})")},
    {"ntrans", BLOCK_OF("X: f16[3, 256]\n H: f16[3, 256]\n A: f16[3, 256]", "x=3",
                        "x = iter(X, imap={x:0})\n h = iter(H, imap={x:0})\n a = iter(A, imap={x:0})\n n = h / sqrt(mean(square(h), dim=1))\n"
                        "y = x + a * (n + x)\n save(y / sqrt(mean(square(y), dim=1)), omap={x:0})")},
    {"sum over a loop",
     BLOCK_OF("X: f16[4, 512]", "x=4; i=8", "x = iter(X, imap={x:0}, fmap={i:1})\n save(accum_sum(square(x), dim=1), omap={x:0})")},
    {"mean over a loop", BLOCK_OF("X: f16[4, 510]", "x=4; i=6", "x = iter(X, imap={x:0}, fmap={i:1})\n save(accum_mean(x + 1, dim=1), omap={x:0})")},
    {"accum of what stays", BLOCK_OF("X: f16[4, 64]\n Y: f16[3, 64]", "x=4; i=3",
                                     "x = iter(X, imap={x:0})\n y = iter(Y, fmap={i:0})\n save(accum(x * y) + accum_rms(x + y, dim=1), omap={x:0})")},
    {"rms norm by two iterators",
     BLOCK_OF("X: f16[6, 256]", "x=6; i=4",
              "x = iter(X, imap={x:0}, fmap={i:1})\n all = iter(X, imap={x:0})\n save(all / accum_rms(x, dim=1), omap={x:0})")},
    {"running softmax sums",
     BLOCK_OF("X: f16[4, 256]", "x=4; i=8",
              "x = iter(X, imap={x:0}, fmap={i:1})\n m, moved = accum_max(max(x, dim=1))\n e = exp(x - m)\n"
              "d = accum_sum_rescale(e, exp(moved), dim=1)\n n = accum_sum_rescale(e * x, exp(moved), dim=1)\n save(n / d, omap={x:0})")},
    {"rotary", BLOCK_OF("X: f16[6, 48]\n C: f16[6, 24]\n S: f16[6, 24]", "x=6",
                        "x = iter(X, imap={x:0})\n c = iter(C, imap={x:0})\n s = iter(S, imap={x:0})\n a, b = split(x, dim=1, parts=2)\n"
                        "save(concat(a * c - b * s, a * s + b * c, dim=1), omap={x:0})")},
    {"gates", BLOCK_OF("X: f16[6, 120]", "x=2",
                       "x = iter(X, imap={x:0})\n a, b, c = split(exp(x), dim=1, parts=3)\n save(sigmoid(a) * tanh(c) + b, omap={x:0})")},
    {"parts normed together",
     BLOCK_OF("X: f16[6, 40]\n Y: f16[6, 40]\n Z: f16[6, 120]", "x=3",
              "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n z = iter(Z, imap={x:0})\n j = concat(x, y, x * y, dim=1)\n"
              "save(j * z / sqrt(mean(square(j), dim=1)) - max(z - j, dim=1), omap={x:0})")},
    {"a part of a sum",
     BLOCK_OF("X: f16[8, 6, 16]", "x=2", "x = iter(X, imap={x:2})\n save(chunk(sum(square(x), dim=1), dim=0, parts=4, index=2), omap={x:2})")},
    {"rows one below the other", BLOCK_OF("X: f16[8, 24]\n Y: f16[8, 24]", "x=2",
                                          "x = iter(X, imap={x:1})\n y = iter(Y, imap={x:1})\n"
                                          "save(transpose(concat(x, y + 1, dim=0)), omap={x:0})")},
    {"sum and maximum of one load",
     BLOCK_OF("X: f16[5, 77]", "x=5", "x = iter(X, imap={x:0})\n save(max(x, dim=1) - sum(x, dim=1) * sum(square(x), dim=1), omap={x:0})")},
    {"loop over rows", BLOCK_OF("X: f16[8, 40]", "x=2; i=4",
                                "x = iter(X, imap={x:0}, fmap={i:0})\n e = exp(x)\n n = accum(e, fmap={i:0})\n d = accum(sum(e, dim=1), "
                                "fmap={i:0})\n save(n / d, omap={x:0})")},
    {"rms norm over parts",
     BLOCK_OF("X: f16[8, 240]", "x=8; i=4", "x = iter(X, imap={x:0}, fmap={i:1})\n save(accum(x, fmap={i:1}) / accum_rms(x, dim=1), omap={x:0})")},
    {"parts of one axis", "X: f16[8, 48]\n O, P = block(x=2; i=2, j=3) {\n x = iter(X, imap={x:0}, fmap={i:1, j:1})\n s = sum(x, dim=1)\n"
                          "save(accum(x, fmap={i:1}) * accum(s) + sum(accum_sum(x, dim=0), dim=1), omap={x:0})\n save(accum(s * s, fmap={i:1, j:1}), "
                          "omap={x:0})\n }\n return O, P"},
    {"combine with maxima", BLOCK_OF("N: f32[8, 3, 40]\n D: f32[8, 3, 1]\n M: f32[8, 3, 1]", "x=3",
                                     "n = iter(N, imap={x:1})\n d = iter(D, imap={x:1})\n m = iter(M, imap={x:1})\n f = exp(m - max(m, dim=0))\n"
                                     "save(sum(n * f, dim=0) / sum(abs(d) * f + 1, dim=0), omap={x:1})")},
    {"combine", BLOCK_OF("N: f32[12, 2, 64]\n D: f32[12, 2, 1]", "x=2",
                         "n = iter(N, imap={x:1})\n d = iter(D, imap={x:1})\n save(sum(n, dim=0) / sum(exp(d), dim=0), omap={x:1})")},
    {"sum over the middle", BLOCK_OF("X: f16[3, 20, 24]", "x=3", "x = iter(X, imap={x:0})\n save(sum(x, dim=1), omap={x:0})")},
    {"max over the first", BLOCK_OF("X: f16[37, 48]", "x=2", "x = iter(X, imap={x:1})\n save(max(x, dim=0), omap={x:1})")},
    {"sum of groups", BLOCK_OF("X: f16[4, 96]", "x=2", "x = iter(X, imap={x:0})\n save(sum(x, dim=1, group=8), omap={x:0})")},
    {"sum to parts", BLOCK_OF("X: f16[4, 96]", "x=2", "x = iter(X, imap={x:0})\n save(sum_to(x, dim=1, extent=12), omap={x:0})")},
    {"sum of everything", BLOCK_OF("X: f16[30, 50]", "", "x = iter(X)\n save(sum(sum(x, dim=0), dim=1))")},
    {"two sums", BLOCK_OF("X: f16[24, 40]", "", "x = iter(X)\n save(x / (1 + square(sum(x, dim=0))) + mean(x, dim=1))")},
    {"transpose", BLOCK_OF("X: f16[24, 40]", "x=2", "x = iter(X, imap={x:0})\n save(transpose(x), omap={x:1})")},
    {"transposed operand",
     BLOCK_OF("X: f16[24, 40]\n Y: f16[40, 24]", "x=2", "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:1})\n save(x + transpose(y), omap={x:0})")},
    {"heads",
     BLOCK_OF(
         "X: f16[2, 4, 6, 16]\n W: f16[16]", "x=2, y=6",
         "x = iter(X, imap={x:0, y:2})\n w = iter(W)\n save(transpose(x * rsqrt(mean(square(x), dim=3)) * w, perm=[0, 2, 1, 3]), omap={x:0, y:1})")},
    {"rows and columns", BLOCK_OF("X: f16[8, 48]\n R: f16[8, 1]\n C: f16[1, 48]", "x=4",
                                  "x = iter(X, imap={x:0})\n r = iter(R, imap={x:0})\n c = iter(C)\n save(x * r - c, omap={x:0})")},
    {"outer product", BLOCK_OF("R: f16[8, 1]\n C: f16[1, 48]", "x=4", "r = iter(R, imap={x:0})\n c = iter(C)\n save(r * c + r, omap={x:0})")},
    {"repeated", BLOCK_OF("X: f16[8, 16]", "x=4",
                          "x = iter(X, imap={x:0})\n save(repeat(x, dim=1, times=3) + sum(repeat(x, dim=1, times=2), dim=1), omap={x:0})")},
    {"powers",
     BLOCK_OF("X: f16[8, 16]\n Y: f16[8, 1]", "x=4", "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n save(pow(abs(y) + 0.5, x), omap={x:0})")},
    {"reshaped above", "X: f16[2, 48, 16]\n T = reshape(X, [2, 4, 12, 16])\n O = block(x=2, y=4) {\n x = iter(T, imap={x:0, y:1})\n"
                       "save(x - max(x, dim=2), omap={x:0, y:1})\n }\n return O"},
    {"two outputs", "X: f16[6, 80]\n O, S = block(x=6) {\n x = iter(X, imap={x:0})\n e = exp(x)\n save(e, omap={x:0})\n save(sum(e, dim=1), "
                    "omap={x:0})\n }\n return O, S"},
    {"one sum, many rows",
     BLOCK_OF("X: f16[64]\n Y: f16[12, 64]", "x=12", "x = iter(X)\n y = iter(Y, imap={x:0})\n save(y * sum(exp(x), dim=0), omap={x:0})")},
    {"constants", BLOCK_OF("X: f16[12, 64]", "x=12", "x = iter(X, imap={x:0})\n save(1 / (2 + exp(x)), omap={x:0})")},
    {"long rows", BLOCK_OF("X: f16[2, 6000]", "x=2", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})")},
};
// clang-format on

struct fixture {
  struct arena mem;
  struct graph *g;
  int node;
  struct norm n;
  void **in, **out;
  struct lower_job j;
};

static void open_made(struct fixture *f, const char *name, struct graph *g)
{
  struct err e = {0};
  char why[160], note[256];
  bool changed;
  if (plan_stable(&f->mem, g, &f->g, &changed, note, &e)) fail_msg("%s: %s", name, e.text);
  while (f->g->nodes[f->node].op != OP_BLOCK) f->node++;
  f->in = NEWS(&f->mem, void *, graph_inputs(f->g, NULL) + 1), f->out = NEWS(&f->mem, void *, 8);
  eval_random(&f->mem, f->g, DOM_F64, NULL, 7, f->in);
  if (eval_run(&f->mem, f->g, DOM_F64, NULL, f->in, f->out, NULL, &e)) fail_msg("%s: %s", name, e.text);
  if (norm_make(&f->mem, f->g, f->node, &f->n, why)) fail_msg("%s: %s", name, why);
  f->j = (struct lower_job){.mem = &f->mem, .n = &f->n, .gpu = &H200, .name = "rows"};
}

static void open_graph(struct fixture *f, const char *name, const char *text)
{
  *f = (struct fixture){0};
  open_made(f, name, graph_of(&f->mem, arena_printf(&f->mem, "graph g {\n %s\n}\n", text)));
}

// What the kernel argument holds before: an input, or nothing.
static struct tile_fill fill_of(struct fixture *f, const char *buffer, int tensor)
{
  int *inputs = NEWS(&f->mem, int, f->g->ntensors + 1), n = graph_inputs(f->g, inputs);
  for (int i = 0; i < n; i++)
    if (inputs[i] == tensor) return (struct tile_fill){buffer, 1, f->in[i], shape_size(&f->g->tensors[tensor].shape)};
  return (struct tile_fill){0};
}

static void compare(struct fixture *f, const char *what, const char *text, const struct tile_host *h, const int *arg)
{
  int *outputs = NEWS(&f->mem, int, f->g->ntensors + 1), n = graph_outputs(f->g, outputs), compared = 0;
  for (int b = 0, a = 0; b < h->k->nbuffers; b++) {
    if (h->k->buffers[b].mem != MEM_GL) continue;
    int tensor = arg[a++], o = 0;
    while (o < n && outputs[o] != tensor) o++;
    if (o == n) continue;
    enum tile_type t = h->k->buffers[b].type;
    int64_t elements = shape_size(&f->g->tensors[tensor].shape);
    double sum = 0, wrong = 0, tolerance = t == TT_F32 ? 2e-5 : t == TT_F16 ? 1e-3 : 6e-3;
    for (int64_t i = 0; i < elements; i++) {
      double x = num_one(t, (char *)h->data[b] + i * tile_types[t].bytes), want = ((double *)f->out[o])[i];
      if (!(fabs(x - want) <= 8 * tolerance * (1 + fabs(want))))
        fail_msg("%s: element %lld is %g and should be %g\n%s", what, (long long)i, x, want, text);
      sum += want * want, wrong += (x - want) * (x - want);
    }
    if (sqrt(wrong) > tolerance * sqrt(sum)) fail_msg("%s: off by %g\n%s", what, sqrt(wrong / sum), text);
    compared++;
  }
  assert_int_equal(compared, n);
}

// False where the settings do not go with the kernel.
static bool run(struct fixture *f, const char *name, const struct knobs *k, struct sim_counts *counts)
{
  struct lower_out out;
  struct err e = {0};
  struct tile_program *p;
  struct tile_host h;
  struct tile_fill fills[16] = {{0}};
  struct sim_report report;
  struct str said = {0};
  if (scheme_rows.emit(&f->j, k, &out, &e)) return false;
  const char *text = str_text(&out.text);
  char what[200];
  snprintf(what, sizeof what, "%s: vec=%d across=%d down=%d join=%d regs=%d deep=%d stream=%d late=%d ahead=%d hold=%d", name, k->v[0], k->v[1],
           k->v[2], k->v[3], k->v[4], k->v[5], k->v[6], k->v[7], k->v[8], k->v[9]);
  if (tile_parse(&f->mem, "rows.tile", text, &p, &e) || tile_lower(p, p->kernels[0], 90, &e) ||
      tile_host_open(&h, &f->mem, p, p->kernels[0], 0, NULL, &e))
    fail_msg("%s: line %d: %s\n%s", what, e.at.line, e.text, text);
  int nfills = 0;
  for (int b = 0, a = 0; b < h.k->nbuffers; b++)
    if (h.k->buffers[b].mem == MEM_GL) {
      fills[nfills] = fill_of(f, h.k->buffers[b].name, out.arg[a++]);
      nfills += fills[nfills].buffer != NULL;
    }
  if (tile_host_fill(&h, 1, nfills, fills, &e) || tile_host_run(&h, &report, NULL, &e)) fail_msg("%s: %s\n%s", what, e.text, text);
  sim_print_errors(&report, &said);
  if (report.found) fail_msg("%s: %s\n%s", what, str_text(&said), text);
  compare(f, what, text, &h, out.arg);
  if (counts) *counts = report.counts;
  str_free(&out.text);
  return true;
}

// Would the interpreter take long?
static bool heavy(struct fixture *f, const struct knobs *k)
{
  struct rows r;
  struct row_plan p;
  char why[160];
  return rows_make(&f->j, &r, why) || !rows_plan(&f->mem, &r, k, &p) || p.blocks * p.threads > 1 << 14;
}

static int one_of(struct rng *r, int n, const int *of) { return of[rng_below(r, (uint64_t)n)]; }

// Settings at random: most do not go with the kernel, and a good number must.
static int sample(struct fixture *f, const char *name, int most)
{
  static const int powers[] = {1, 1, 2, 4, 8, 16, 32, 64, 128}, vecs[] = {1, 2, 4, 8}, few[] = {0, 0, 1, 2, 3, 4, 8};
  struct rng r = {42};
  int done = 0;
  for (int i = 0; i < TRIES && done < most; i++) {
    struct arena_mark m = arena_mark(&f->mem);
    struct knobs k = {{one_of(&r, 4, vecs), one_of(&r, 9, powers), one_of(&r, 7, powers), one_of(&r, 6, powers), one_of(&r, 7, few),
                       one_of(&r, 7, few), i % 2, i % 5 < 2, i % 4 % 3, i / 3 % 2}};
    f->j.dependent = i % 3 == 0;
    done += !heavy(f, &k) && run(f, name, &k, NULL);
    arena_reset(&f->mem, m);
  }
  return done;
}

static void correct(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(graphs); i++) {
    struct fixture f;
    char why[160] = "";
    struct knobs best[BEST];
    open_graph(&f, graphs[i].name, graphs[i].text);
    int n = scheme_rows.choices(&f.j, BEST, best, why);
    if (!n) fail_msg("%s: %s", graphs[i].name, why);
    for (int k = 0; k < n; k++) assert_true(isfinite(scheme_cost(&scheme_rows, &f.j, &best[k])));
    for (int k = 0; k < n; k++)
      if (!run(&f, graphs[i].name, &best[k], NULL)) fail_msg("%s: choice %d is refused", graphs[i].name, k);
    int done = sample(&f, graphs[i].name, SAMPLES);
    if (done < 2 && strcmp(graphs[i].name, "one element")) fail_msg("%s: only %d settings went with it", graphs[i].name, done);
    arena_close(&f.mem);
  }
}

static void random_graphs(void **state)
{
  (void)state;
  int taken = 0;
  for (int seed = 0; seed < RANDOM; seed++) {
    struct fixture f = {0};
    char name[32], why[160];
    struct norm n;
    struct knobs best[1];
    struct graph *g = random_block(&f.mem, (uint64_t)seed);
    snprintf(name, sizeof name, "random graph %d", seed);
    int node = 0;
    while (g->nodes[node].op != OP_BLOCK) node++;
    if (norm_make(&f.mem, g, node, &n, why)) {
      arena_close(&f.mem);
      continue;
    }
    open_made(&f, name, g);
    if (scheme_rows.choices(&f.j, 1, best, why)) {
      if (!heavy(&f, &best[0])) assert_true(run(&f, name, &best[0], NULL));
      taken += sample(&f, name, 4) > 0;
    }
    arena_close(&f.mem);
  }
  assert_in_range(taken, RANDOM / 2, RANDOM);
}

// The best settings move every byte once, 8 or 16 a lane (4, where a warp then has a row of one line), in whole sectors, and
// without bank conflicts.
static void frugal(void **state)
{
  (void)state;
  static const struct {
    const char *name, *text;
    int64_t loads, stores; // bytes
    int narrow;            // logarithm of the bytes of a lane that are too few, or 0: of 8
  } rows[] = {
      {"softmax", BLOCK_OF("X: f16[4, 4096]", "x=4", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})"), 32768, 32768},
      {"short rows", BLOCK_OF("X: f16[64, 64]", "x=64", "x = iter(X, imap={x:0})\n save(x / sqrt(mean(square(x), dim=1)), omap={x:0})"), 8192, 8192,
       2},
      {"a loop and the whole row",
       BLOCK_OF("X: f16[4, 4096]", "x=4; i=8",
                "x = iter(X, imap={x:0}, fmap={i:1})\n all = iter(X, imap={x:0})\n save(all / accum_rms(x, dim=1), omap={x:0})"),
       32768, 32768},
      {"joined parts",
       BLOCK_OF("X: f16[4, 4096]", "x=4; i=8", "x = iter(X, imap={x:0}, fmap={i:1})\n save(accum(x, fmap={i:1}) / accum_rms(x, dim=1), omap={x:0})"),
       32768, 32768},
      {"elementwise",
       BLOCK_OF("X: f32[512, 512]\n Y: f32[512, 512]", "x=8", "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n save(x * y, omap={x:0})"), 2097152,
       1048576},
      {"ntrans",
       BLOCK_OF("X: f16[2, 4096]\n H: f16[2, 4096]\n A: f16[2, 4096]", "x=2",
                "x = iter(X, imap={x:0})\n h = iter(H, imap={x:0})\n a = iter(A, imap={x:0})\n n = h / sqrt(mean(square(h), dim=1))\n"
                "y = x + a * (n + x)\n save(y / sqrt(mean(square(y), dim=1)), omap={x:0})"),
       49152, 16384},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct fixture f;
    char why[160] = "";
    struct knobs best[1];
    struct sim_counts c;
    open_graph(&f, rows[i].name, rows[i].text);
    assert_int_equal(scheme_rows.choices(&f.j, 1, best, why), 1);
    assert_true(run(&f, rows[i].name, &best[0], &c));
    int64_t wide[2] = {0};
    for (int k = 0; k < 2; k++)
      for (int width = 0; width < SIM_WIDTHS; width++) {
        if (width < (rows[i].narrow ? rows[i].narrow : 3) && c.bytes[MEM_GL][k][width])
          fail_msg("%s: accesses of %d bytes a lane", rows[i].name, 1 << width);
        wide[k] += c.bytes[MEM_GL][k][width];
      }
    if (wide[0] != rows[i].loads || wide[1] != rows[i].stores)
      fail_msg("%s: %lld bytes loaded, %lld stored", rows[i].name, (long long)wide[0], (long long)wide[1]);
    assert_int_equal(c.sectors, c.sectors_least);
    assert_int_equal(c.wavefronts, c.wavefronts_least);
    arena_close(&f.mem);
  }
}

// What is no work of rows is refused with a reason, and so is a maximum whose moves are used in another way than softmax does.
static void refused(void **state)
{
  (void)state;
  static const struct {
    const char *text, *why;
  } rows[] = {
      {BLOCK_OF("X: f16[4, 8]\n Y: f16[8, 4]", "", "x = iter(X)\n y = iter(Y)\n save(matmul(x, y))"), "a product"},
      {BLOCK_OF("X: f16[4, 32]", "x=4; i=4",
                "x = iter(X, imap={x:0}, fmap={i:1})\n m, moved = accum_max(x)\n save(accum(x * moved) + m, omap={x:0})"),
       "running maximum"},
      {BLOCK_OF("X: f16[4, 32]", "x=4; i=4", "x = iter(X, imap={x:0}, fmap={i:1})\n m, moved = accum_max(x)\n save(accum(exp(x - m)), omap={x:0})"),
       "running maximum"},
      {BLOCK_OF("X: f16[4, 32]", "x=4; i=4",
                "x = iter(X, imap={x:0}, fmap={i:1})\n m, moved = accum_max(x)\n save(accum_rescale(exp(x - m), exp(moved * 2)), omap={x:0})"),
       "running maximum"},
      {BLOCK_OF("X: f16[4, 32]", "x=4; i=4",
                "x = iter(X, imap={x:0}, fmap={i:1})\n m, moved = accum_max(x)\n save(accum_sum_rescale(exp(x - m), exp(sum(moved, dim=1)), dim=1), "
                "omap={x:0})"),
       "running maximum"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct fixture f;
    char why[160] = "";
    struct knobs best[1];
    open_graph(&f, "refused", rows[i].text);
    assert_int_equal(scheme_rows.choices(&f.j, 1, best, why), 0);
    if (!strstr(why, rows[i].why)) fail_msg("%s: %s", rows[i].text, why);
    arena_close(&f.mem);
  }
}

// Mean and variance come of one pass, and are right also where the mean is large or a row's first element is far from the others.
static void moments(void **state)
{
  (void)state;
  static const double first[] = {64.5, 2000, -3}, others[] = {64, 64, 64}, step[] = {1. / 16, 1. / 16, 0};
  const char *graph = BLOCK_OF("X: f16[4, 240]", "x=4",
                               "x = iter(X, imap={x:0})\n d = x - mean(x, dim=1)\n"
                               "save(d / sqrt(mean(square(d), dim=1) + 0.0001), omap={x:0})");
  for (size_t c = 0; c < COUNT(first); c++) {
    struct fixture f;
    struct err e = {0};
    struct knobs k = {{8, 32, 1, 1}};
    struct rows r;
    struct row_plan p;
    char why[160] = "";
    open_graph(&f, "moments", graph);
    assert_int_equal(rows_make(&f.j, &r, why), OK);
    assert_true(rows_plan(&f.mem, &r, &k, &p));
    assert_int_equal(r.nstages, 2);
    for (int i = 0; i < 960; i++) ((double *)f.in[0])[i] = i % 240 ? others[c] + step[c] * (i * 37 % 29) : first[c];
    if (eval_run(&f.mem, f.g, DOM_F64, NULL, f.in, f.out, NULL, &e)) fail_msg("%s", e.text);
    assert_true(run(&f, "moments", &k, NULL));
    arena_close(&f.mem);
  }
}

static const char *emitted(struct fixture *f, const struct knobs *k)
{
  struct lower_out out;
  struct err e = {0};
  if (scheme_rows.emit(&f->j, k, &out, &e)) fail_msg("%s", e.text);
  const char *text = arena_printf(&f->mem, "%s", str_text(&out.text));
  str_free(&out.text);
  return text;
}

static int times(const char *text, const char *what)
{
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) n++;
  return n;
}

// Before the wait lines of inputs are fetched, not of what another kernel makes; `hold` lets the next kernel begin after the wait;
// without a kernel ahead there is nothing of the kind.
static void before_the_wait(void **state)
{
  (void)state;
  const char *graph = "X: f16[4, 512]\n Y: f16[4, 512]\n Z: f16[4, 512]\n T = block(x=4) {\n x = iter(X, imap={x:0})\n save(exp(x), omap={x:0})\n }\n"
                      "O = block(x=4) {\n t = iter(T, imap={x:0})\n y = iter(Y, imap={x:0})\n z = iter(Z, imap={x:0})\n s = sum(t * y, dim=1)\n"
                      "save(y / sqrt(s) + z, omap={x:0})\n }\n return O";
  static const struct {
    struct knobs k;
    int fetches;
  } rows[] = {{{{4, 32, 1, 1, 0, 0, 0, 0, 0, 0}}, 0},
              {{{4, 32, 1, 1, 0, 0, 0, 0, 1, 0}}, 2},
              {{{4, 32, 1, 1, 0, 0, 0, 0, 1, 1}}, 2},
              {{{8, 16, 1, 2, 2, 0, 0, 0, 2, 1}}, 2}};
  struct fixture f;
  struct knobs k = {{4, 32, 1, 1, 0, 0, 0, 0, 2, 0}};
  char why[160];
  open_graph(&f, "before", graph);
  for (f.node++; f.g->nodes[f.node].op != OP_BLOCK;) f.node++;
  assert_int_equal(norm_make(&f.mem, f.g, f.node, &f.n, why), OK);
  for (size_t i = 0; i < COUNT(rows); i++) {
    f.j.dependent = true;
    const char *text = emitted(&f, &rows[i].k), *wait = strstr(text, "grid.wait"), *trigger = strstr(text, "grid.trigger");
    assert_non_null(wait), assert_non_null(trigger);
    assert_int_equal(times(text, "prefetch.L2"), rows[i].fetches);
    assert_int_equal(times(text, "prefetch.L2") - times(wait, "prefetch.L2"), rows[i].fetches);
    assert_int_equal(trigger > wait, rows[i].k.v[9]);
    assert_int_equal(times(text, "<sqrt>"), 0);
    assert_int_equal(times(text, "<rsqrt>"), 1);
    f.j.dependent = false;
    assert_int_equal(times(emitted(&f, &rows[i].k), "Sync<"), times(text, "Sync<barrier>"));
  }
  struct lower_out out;
  struct err e = {0};
  f.j.dependent = true;
  assert_int_not_equal(scheme_rows.emit(&f.j, &k, &out, &e), OK); // more rounds than there are
  arena_close(&f.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(correct), cmocka_unit_test(random_graphs),   cmocka_unit_test(frugal),
                                     cmocka_unit_test(moments), cmocka_unit_test(before_the_wait), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
