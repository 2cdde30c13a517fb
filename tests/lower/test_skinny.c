// Kernels of few rows: every setting of the scheme, run in the interpreter without a complaint, and equal to the block graph
// in float64.
#include "../gpu_of.h"
#include "../tables.h"
#include "sim/tile_host.h"
#include "eval/eval.h"
#include "lower/lower.h"
#include "sim/number.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct scheme scheme_skinny;

struct held {
  struct arena mem;
  struct graph *g;
  struct norm n, tail;
  bool has_tail;
  enum dtype *store;
  double **input, **output;
};

static void open_graph(struct held *h, const struct table_graph *x)
{
  struct err e = {0};
  char why[160] = "";
  int node = 0;
  *h = (struct held){.g = NULL};
  h->g = graph_of(&h->mem, x->text);
  while (h->g->nodes[node].op != OP_BLOCK) node++;
  if (norm_make_in(&h->mem, h->g, NULL, node, &h->n, why) != OK) fail_msg("%s: %s", x->title, why);
  while (++node < h->g->nnodes && h->g->nodes[node].op != OP_BLOCK) {
  }
  h->has_tail = node < h->g->nnodes;
  if (h->has_tail && norm_make_in(&h->mem, h->g, NULL, node, &h->tail, why) != OK) fail_msg("%s: %s", x->title, why);
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

// Difference of the outputs that the kernel wrote; NAN if one was not written.
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
  const char *what = arena_printf(&h->mem, "%s warps=%d cols=%d depth=%d split=%d ahead=%d", name, k->v[0], k->v[1], k->v[2], k->v[3], k->v[4]);
  if (scheme_emit(&scheme_skinny, j, k, &out, &e)) fail_msg("%s: %s", what, e.text);
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

static void settings(void **state)
{
  (void)state;
  struct table t;
  int stood = 0;
  table_open(&t, "skinny");
  for (int i = 0; i < t.n; i++)
    for (int gpu = 0; gpu < 2; gpu++) {
      struct held h;
      struct knobs k[CHOICES];
      char why[160] = "";
      if (getenv("MICA_ONLY") && !strstr(t.row[i].title, getenv("MICA_ONLY"))) continue;
      open_graph(&h, &t.row[i]);
      struct lower_job j = {.mem = &h.mem,
                            .n = &h.n,
                            .tail = h.has_tail ? &h.tail : NULL,
                            .store = h.store,
                            .gpu = gpu ? gpu_of("sm_80") : gpu_of("sm_90a"),
                            .name = "m",
                            .dependent = !gpu};
      int n = scheme_skinny.choices(&j, gpu ? 3 : CHOICES, k, why);
      if (!n) fail_msg("%s: %s", t.row[i].title, why);
      for (int c = 0; c < n; c++) assert_true(isfinite(scheme_cost(&scheme_skinny, &j, &k[c])));
      for (int c = 0; c < n; c += gpu ? 1 : 1 + n * thinned(3) / 12) hold(&h, t.row[i].title, &j, &k[c]);
      for (int c = 0; c < n; c++) {
        k[c].v[5] = 1; // alone: of the first setting with which it has an effect
        if (!isfinite(scheme_cost(&scheme_skinny, &j, &k[c]))) continue;
        hold(&h, t.row[i].title, &j, &k[c]);
        stood++;
        break;
      }
      arena_close(&h.mem);
    }
  assert_true(stood > t.n / 2);
  table_close(&t);
}

static void reasons(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "skinny_refused");
  for (int i = 0; i < t.n; i++) {
    const char *reason = table_field(&t.row[i], "refused");
    struct held h;
    struct knobs k[CHOICES];
    char why[160] = "";
    open_graph(&h, &t.row[i]);
    struct lower_job j = {.mem = &h.mem, .n = &h.n, .tail = h.has_tail ? &h.tail : NULL, .store = h.store, .gpu = gpu_of("sm_90a"), .name = "m"};
    assert_int_equal(scheme_skinny.choices(&j, CHOICES, k, why), 0);
    if (!strstr(why, reason)) fail_msg("%s: %s", reason, why);
    arena_close(&h.mem);
  }
  table_close(&t);
}

// Blocks of a cluster on an architecture without clusters, and columns that are no whole fragments, are errors, not text.
static void other_settings(void **state)
{
  (void)state;
  static const struct knobs bad[] = {{{8, 64, 1, 2}}, {{8, 40, 1, 1}}, {{0, 64, 1, 1}}, {{64, 64, 1, 1}}, {{8, 64, 0, 1}}};
  struct table t;
  table_open(&t, "skinny");
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct held h;
    struct lower_out out;
    struct err e = {0};
    open_graph(&h, &t.row[0]);
    struct lower_job j = {.mem = &h.mem, .n = &h.n, .store = h.store, .gpu = gpu_of("sm_80"), .name = "m"};
    assert_int_equal(scheme_emit(&scheme_skinny, &j, &bad[i], &out, &e), USER);
    assert_true(isinf(scheme_cost(&scheme_skinny, &j, &bad[i])));
    arena_close(&h.mem);
  }
  table_close(&t);
}

// Loads repeat the last value of k where the last step has fewer. An infinite weight there must not become 0 times infinity.
static void infinite(void **state)
{
  (void)state;
  static const struct knobs k = {{4, 64, 1, 1}};
  struct table t;
  table_open(&t, "skinny");
  for (int i = 0; i < t.n; i++) {
    struct held h;
    struct lower_out out;
    struct err e = {0};
    if (strcmp(t.row[i].name, "an_odd_sum_of_an_odd_number_of_columns") && strcmp(t.row[i].name, "an_odd_sum_of_aligned_columns")) continue;
    open_graph(&h, &t.row[i]);
    const struct shape *w = &h.g->tensors[h.g->nodes[1].out].shape;
    for (int64_t c = 0; c < w->d[1]; c++) h.input[1][(w->d[0] - 1) * w->d[1] + c] = INFINITY;
    struct lower_job j = {.mem = &h.mem, .n = &h.n, .store = h.store, .gpu = gpu_of("sm_90a"), .name = "m"};
    struct tile_program *p;
    struct tile_host host;
    struct sim_report r;
    assert_int_equal(scheme_emit(&scheme_skinny, &j, &k, &out, &e), OK);
    const char *text = arena_strdup(&h.mem, str_text(&out.text));
    str_free(&out.text);
    assert_int_equal(tile_parse(&h.mem, "skinny", text, &p, &e) || tile_lower(p, p->kernels[0], 90, &e), OK);
    assert_int_equal(tile_host_open(&host, &h.mem, p, p->kernels[0], 0, NULL, &e), OK);
    struct tile_fill fills[2];
    for (int a = 0; a < 2; a++)
      fills[a] = (struct tile_fill){host.k->buffers[a].name, 1, h.input[a], shape_size(&h.g->tensors[h.g->nodes[a].out].shape)};
    assert_int_equal(tile_host_fill(&host, 1, 2, fills, &e) || tile_host_run(&host, &r, NULL, &e), OK);
    for (int64_t c = 0; c < shape_size(&h.g->tensors[out.arg[2]].shape); c++)
      assert_true(isinf(number(host.k->buffers[2].type, (char *)host.data[2] + c * 2)));
    arena_close(&h.mem);
  }
  table_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(reasons), cmocka_unit_test(other_settings),
                                     cmocka_unit_test(infinite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
