#include "held.h"

#include "../tables.h"
#include "sim/tile_host.h"
#include "eval/eval.h"
#include "kern/kern.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "../gpu_of.h"
#include "sim/number.h"
#include "thread/thread.h"
#include "special.h"
#include "thin.h"

#include <math.h>
#include <stdlib.h>

struct held { // a row of a table
  const char *name, *graph, *how, *instance, *most, *refused;
  bool special;
  unsigned off; // rules of values
};

static const struct manner {
  const char *target;
  double off;  // relative norm
  int workers; // 0: a block for each work tile
} usual = {"sm_90a", 2e-3}, wide = {"sm_90a", 1.6e-2}, older = {"sm_80", 2e-3}, persistent = {"sm_90a", 2e-3, 2};

static struct target gpu_in(const struct manner *m) { return m->workers ? gpu_budget(gpu_of(m->target), m->workers, 0) : *gpu_of(m->target); }

struct holding {
  struct arena *mem;
  const struct held *row;
  const struct manner *manner;
  struct target gpu;
  const struct graph *g;
  int node; // the kernel
  const enum dtype *store;
  void *in[32], *out[32]; // float64, by input and output of the graph
  struct lower_out made;
  struct choice c;
  struct err e;
  struct str said;
};

static int said(struct holding *h, const char *what)
{
  str_add(&h->said, "%s\n", what);
  return NO;
}

static void fill_special(struct holding *h)
{
  int in[64], n = graph_inputs(h->g, in);
  for (int i = 0; i < n; i++) {
    const struct tensor *t = &h->g->tensors[in[i]];
    int cols = (int)t->shape.d[t->shape.n - 1];
    if (t->name && !strcmp(t->name, "X")) special_fill(h->in[i], (int)shape_size(&t->shape) / cols, cols);
  }
}

static int prepare(struct holding *h)
{
  struct graph *plain, *stable;
  const struct graph *flat;
  bool changed;
  char note[256];
  plain = graph_of(h->mem, h->row->graph);
  if (plan_stable(h->mem, plain, &stable, &changed, note, &h->e)) return said(h, h->e.text);
  if (thread_flat(h->mem, stable, &flat, &h->e)) return said(h, h->e.text);
  h->g = flat;
  enum dtype *store = NEWS(h->mem, enum dtype, stable->ntensors);
  for (int i = 0; i < stable->ntensors; i++) store[i] = stable->tensors[i].dtype;
  h->store = store;
  for (int i = 0; i < stable->nnodes; i++)
    if (stable->nodes[i].op == OP_BLOCK) h->node = i;
  eval_random(h->mem, stable, DOM_F64, NULL, 7, h->in);
  if (h->row->special) fill_special(h);
  return eval_run(h->mem, stable, DOM_F64, NULL, h->in, h->out, NULL, &h->e) ? said(h, h->e.text) : OK;
}

static int lower(struct holding *h)
{
  struct norm n;
  char why[160] = "";
  if (!scheme_parse(h->row->how, &h->c)) return said(h, "no such scheme");
  if (norm_make_in(h->mem, h->g, NULL, h->node, &n, why)) return said(h, why);
  struct lower_job j = {
      .mem = h->mem, .n = &n, .store = h->store, .gpu = &h->gpu, .name = "kernel_under_test", .dependent = h->gpu.can & CAN_PDL, .off = h->row->off};
  const struct scheme *s = scheme_at(h->c.scheme);
  struct knobs all[CHOICES];
  if (!s->choices(&j, CHOICES, all, why)) return said(h, why);
  if (!(scheme_cost(s, &j, &h->c.k) > 0)) return said(h, "its cost is no number");
  return scheme_emit(s, &j, &h->c.k, &h->made, &h->e) ? said(h, h->e.text) : OK;
}

static int same_classes(struct holding *h, const struct tile_buffer *b, const char *data, const double *want, const struct tensor *t)
{
  int64_t n = shape_size(&t->shape);
  for (int64_t i = 0; i < n; i++) {
    double x = num_one(b->type, data + i * tile_types[b->type].bytes);
    if (special_same(x, num_round(t->dtype, want[i]), 4 * h->manner->off)) continue;
    str_add(&h->said, "%s: element %lld is %g, not %g\n", b->name, (long long)i, x, want[i]);
    return NO;
  }
  return OK;
}

// The number of a tensor among inputs (outputs), as eval_run counts them; -1: neither.
static int place_of(const struct graph *g, int tensor, bool output)
{
  int list[64], n = output ? graph_outputs(g, list) : graph_inputs(g, list);
  for (int i = 0; i < n; i++)
    if (list[i] == tensor) return i;
  return -1;
}

static int compare(struct holding *h, const struct tile_host *t, int buffer, int tensor)
{
  const struct tile_buffer *b = &t->k->buffers[buffer];
  const double *want = h->out[place_of(h->g, tensor, true)];
  double off = 0, size = 0;
  int64_t n = shape_size(&h->g->tensors[tensor].shape), bytes = tile_types[b->type].bytes;
  if (h->row->special) return same_classes(h, b, t->data[buffer], want, &h->g->tensors[tensor]);
  for (int64_t i = 0; i < n; i++) {
    double d = num_one(b->type, (char *)t->data[buffer] + i * bytes) - want[i];
    off += d * d, size += want[i] * want[i];
  }
  if (sqrt(off) <= h->manner->off * sqrt(size)) return OK; // zeros, of a comparison that never holds, are zeros
  str_add(&h->said, "%s: relative norm of the difference %g\n", b->name, sqrt(off / size));
  return NO;
}

// Memory that is no tensor: counters begin as zeros. Parts have no values until a block writes them.
static struct tile_fill fill_other(struct holding *h, const char *name, int arg)
{
  const int64_t n = arg == ARG_COUNTERS ? h->made.counters / 4 : h->made.parts;
  double *values = NEWS(h->mem, double, n + 1);
  for (int64_t i = 0; i < n && arg == ARG_PARTS; i++) values[i] = NAN;
  return (struct tile_fill){name, 1, values, n};
}

// Whether the instance that the row names was issued too often.
static int too_often(struct holding *h, const struct sim_counts *c)
{
  const char *most = h->row->most, *number = most ? strrchr(most, ' ') : NULL;
  for (int i = 0; number && i < c->nrows; i++) {
    if (strncmp(c->rows[i].name, most, (size_t)(number - most)) || c->rows[i].name[number - most]) continue;
    if (c->rows[i].times <= strtoll(number, NULL, 10)) continue;
    str_add(&h->said, "%s was issued %lld times\n", c->rows[i].name, (long long)c->rows[i].times);
    return NO;
  }
  return OK;
}

static int run(struct holding *h)
{
  struct tile_program *p;
  struct tile_host t;
  struct sim_report r;
  struct tile_fill fill[32];
  int nfills = 0, status = OK;
  if (tile_parse(h->mem, "kernel.tile", str_text(&h->made.text), &p, &h->e) || tile_lower(p, p->kernels[0], h->gpu.arch, &h->e)) {
    str_add(&h->said, "%d:%d: %s\n", h->e.at.line, h->e.at.col, h->e.text);
    return NO;
  }
  struct tile_kernel *k = p->kernels[0];
  for (int i = 0, a = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) {
      int tensor = h->made.arg[a++], input = place_of(h->g, tensor, false);
      if (tensor < 0) fill[nfills++] = fill_other(h, k->buffers[i].name, tensor);
      if (tensor < 0) continue;
      int64_t elements = shape_size(&h->g->tensors[tensor].shape); // of a box of parts fewer
      if (ex_is_const(k->buffers[i].elements)) elements = MIN(elements, ex_value(k->buffers[i].elements));
      if (input >= 0) fill[nfills++] = (struct tile_fill){k->buffers[i].name, 1, h->in[input], elements};
    }
  if (tile_host_open(&t, h->mem, p, k, 0, NULL, &h->e) || tile_host_fill(&t, 1, nfills, fill, &h->e) || tile_host_run(&t, &r, NULL, &h->e))
    return said(h, h->e.text);
  if (r.found) sim_print_errors(&r, &h->said);
  if (r.counts.unwritten) said(h, "elements of outputs are not written");
  for (int i = 0, a = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) {
      int tensor = h->made.arg[a++];
      if (tensor >= 0 && place_of(h->g, tensor, false) < 0) status |= compare(h, &t, i, tensor);
    }
  status |= too_often(h, &r.counts);
  for (int i = 0; h->row->instance && i < r.counts.nrows; i++)
    if (strstr(r.counts.rows[i].name, h->row->instance) && r.counts.rows[i].times) return r.found || r.counts.unwritten ? NO : status;
  if (h->row->instance) return said(h, "the instruction was not used");
  return r.found || r.counts.unwritten ? NO : status;
}

// text: gets that of the kernel; NULL.
static bool hold_row_text(const struct held *row, const struct manner *m, struct str *text)
{
  struct arena mem = {0};
  struct holding h = {.mem = &mem, .row = row, .manner = m, .gpu = gpu_in(m)};
  bool fine;
  int status = prepare(&h);
  if (status == OK) status = lower(&h);
  if (row->refused)
    fine = status != OK && strstr(str_text(&h.said), row->refused);
  else
    fine = status == OK && run(&h) == OK;
  if (!fine) print_error("%s (%s): %s", row->name, row->how, str_text(&h.said));
  if (!fine && getenv("MICA_SHOW")) print_error("%s\n", str_text(&h.made.text));
  if (text) str_add(text, "%s", str_text(&h.made.text));
  str_free(&h.said), str_free(&h.made.text);
  arena_close(&mem);
  return fine;
}

static bool hold_row(const struct held *row, const struct manner *m) { return hold_row_text(row, m, NULL); }

bool hold_graph(const char *name, const char *graph, const char *how)
{
  const struct held row = {.name = name, .graph = graph, .how = how};
  return hold_row(&row, &usual);
}

static struct held *rows_of(const struct table *t, struct arena *mem)
{
  struct held *rows = NEWS(mem, struct held, t->n);
  for (int i = 0; i < t->n; i++) {
    const struct table_graph *x = &t->row[i];
    rows[i] = (struct held){x->title,
                            x->text,
                            table_field(x, "how"),
                            table_field(x, "uses"),
                            table_field(x, "most"),
                            table_field(x, "refused"),
                            table_field(x, "special")};
    if (!rows[i].how) fail_msg("%s:%d: no scheme", t->path, x->line);
  }
  return rows;
}

static void hold_in(const struct held *rows, int n, int step, const struct manner *m)
{
  int failed = 0;
  for (int i = 0; i < n; i += step) failed += !hold_row(&rows[i], m);
  if (failed) fail_msg("%d of %d rows", failed, n);
}

enum { FEW = 4 }; // rows of a table that the sanitizers run in full

void hold(const char *table)
{
  struct table t;
  table_open(&t, table);
  hold_in(rows_of(&t, &t.mem), t.n, t.n > FEW ? thinned(2) : 1, &usual);
  table_close(&t);
}

void hold_off(const char *table, int most)
{
  struct table t;
  struct choice c;
  int failed = 0;
  table_open(&t, table);
  const struct held *rows = rows_of(&t, &t.mem);
  for (int i = 0; i < t.n && i < most; i++)
    for (int r = 0; r < KERN_RULES && scheme_parse(rows[i].how, &c); r += thinned(3)) {
      struct held row = rows[i];
      row.instance = row.most = NULL, row.off = 1u << r;
      bool has = scheme_at(c.scheme)->rules & row.off, fine = !has || hold_row(&row, &usual);
      if (!fine) print_error("without %s\n", kern_rule_name((enum kern_rule)r));
      failed += !fine;
    }
  table_close(&t);
  if (failed) fail_msg("%d kernels", failed);
}

static struct held *without_instances(const struct table *t, struct arena *mem)
{
  struct held *plain = rows_of(t, mem);
  for (int i = 0; i < t->n; i++) plain[i].instance = plain[i].most = NULL;
  return plain;
}

void hold_sm80(const char *table)
{
  struct table t;
  table_open(&t, table);
  hold_in(without_instances(&t, &t.mem), t.n, thinned(3), &older);
  table_close(&t);
}

// The text with bf16 in place of fp16.
static const char *with_bf16(struct arena *mem, const char *text)
{
  struct str s = {0};
  for (const char *at = text, *f; *at; at = f) {
    f = strstr(at, " f16[");
    f = f ? f : at + strlen(at);
    str_add(&s, "%.*s%s", (int)(f - at), at, *f ? " bf16[" : "");
    f += *f ? 5 : 0;
  }
  const char *out = arena_strdup(mem, str_text(&s));
  return str_free(&s), out;
}

void hold_bf16(const char *table)
{
  struct table t;
  table_open(&t, table);
  struct held *plain = without_instances(&t, &t.mem);
  for (int i = 0; i < t.n; i++) plain[i].graph = with_bf16(&t.mem, plain[i].graph);
  hold_in(plain, t.n, thinned(3), &wide);
  table_close(&t);
}

// The scheme's choices for a row's graph, as texts; returns how many.
static int choices_of(struct arena *mem, const struct held *row, const struct manner *m, const char *how[CHOICES])
{
  struct holding h = {.mem = mem, .row = row, .manner = m, .gpu = gpu_in(m)};
  struct knobs k[CHOICES];
  struct norm n;
  char why[160];
  int found = 0;
  if (prepare(&h) == OK && scheme_parse(row->how, &h.c) && norm_make_in(mem, h.g, NULL, h.node, &n, why) == OK) {
    struct lower_job j = {.mem = mem, .n = &n, .store = h.store, .gpu = &h.gpu, .name = "kernel_under_test"};
    found = scheme_at(h.c.scheme)->choices(&j, CHOICES, k, why);
  }
  for (int i = 0; i < found; i++) {
    struct str s = {0};
    struct choice c = {h.c.scheme, k[i], 0};
    scheme_text(&c, &s);
    how[i] = arena_strdup(mem, str_text(&s));
    str_free(&s);
  }
  str_free(&h.said);
  return found;
}

// Every other choice in the quick tier, the odd ones of every other row.
static int hold_row_choices(const struct held *of, int row_index)
{
  struct arena mem = {0};
  const char *how[CHOICES];
  int found = choices_of(&mem, of, &usual, how), failed = !found;
  if (!found) print_error("%s: no choices\n", of->name);
  for (int k = found > 1 ? row_index % quick_step(2) : 0; k < found; k += quick_step(2)) {
    struct held row = *of;
    row.how = how[k], row.instance = row.most = NULL;
    failed += !hold_row(&row, &usual);
  }
  arena_close(&mem);
  return failed;
}

void hold_choices(const char *table, int most)
{
  struct table t;
  int failed = 0;
  table_open(&t, table);
  const struct held *rows = rows_of(&t, &t.mem);
  for (int i = 0; i < t.n && i < most; i += thinned(3)) failed += hold_row_choices(&rows[i], i);
  table_close(&t);
  if (failed) fail_msg("%d kernels", failed);
}

// If the scheme takes the row's graph at these knobs: clean and right? *held counts.
static bool hold_if_taken(const struct held *row, int *held)
{
  struct arena mem = {0};
  struct holding h = {.mem = &mem, .row = row, .manner = &usual, .gpu = gpu_in(&usual)};
  bool fine = true;
  if (prepare(&h) == OK && lower(&h) == OK) ++*held, fine = run(&h) == OK;
  if (!fine) print_error("%s (%s): %s", row->name, row->how, str_text(&h.said));
  str_free(&h.said), str_free(&h.made.text);
  arena_close(&mem);
  return fine;
}

int hold_layouts(const char *table)
{
  struct table t;
  static const struct {
    int wm, wn, by, stages;
  } at[] = {{1, 1, 0, 2}, {2, 1, 0, 4}, {3, 1, 0, 3}, {1, 2, 0, 2}, {2, 2, 0, 3}, {1, 4, 0, 4},
            {1, 2, 1, 2}, {2, 2, 1, 4}, {1, 2, 1, 3}, {1, 4, 1, 2}, {2, 4, 1, 3}, {3, 2, 1, 2}};
  int failed = 0, held = 0;
  char how[64];
  table_open(&t, table);
  const struct held *rows = rows_of(&t, &t.mem);
  for (int i = 0; i < t.n; i++)
    for (int k = 0; k < (int)COUNT(at); k += thinned(2)) {
      struct held row = rows[i];
      snprintf(how, sizeof how, "mma wm=%d wn=%d by=%d stages=%d", at[k].wm, at[k].wn, at[k].by, at[k].stages);
      row.how = how, row.instance = row.most = NULL;
      failed += !hold_if_taken(&row, &held);
    }
  table_close(&t);
  if (failed) fail_msg("%d kernels of %d", failed, held);
  return held * thinned(2);
}

int hold_workers(const char *table, const char *scheme)
{
  struct table t;
  int failed = 0, loops = 0;
  table_open(&t, table);
  for (int i = 0; i < t.n; i += thinned(2)) {
    const char *how[CHOICES];
    struct held row = {.name = t.row[i].title, .graph = t.row[i].text, .how = scheme};
    int n = choices_of(&t.mem, &row, &persistent, how);
    for (int k = 0; k < n; k += MAX(1, n - 1)) {
      row.how = how[k];
      struct str text = {0};
      failed += !hold_row_text(&row, &persistent, &text);
      loops += strstr(str_text(&text), "@worker") || strstr(str_text(&text), "(round = 0");
      str_free(&text);
    }
  }
  table_close(&t);
  if (failed) fail_msg("%d kernels", failed);
  return loops * thinned(2);
}
