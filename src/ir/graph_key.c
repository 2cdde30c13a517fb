// A key of a graph that is the same in every build of Mica: a hash of its operators, attributes, dtypes and extents by their names in
// the language. The key does not depend on names of tensors, the order of operators, or operators that no output needs. It depends on
// the order of inputs and outputs.
#include "ir/ir.h"

#include <string.h>

struct ir_digest {
  uint64_t h[2];
};

static struct ir_digest digest_of(struct str *s)
{
  const struct ir_digest d = {{hash_bytes(str_text(s), s->n, 0), hash_bytes(str_text(s), s->n, 1)}};
  return s->n = 0, d;
}

static void add_digest(struct str *s, struct ir_digest d) { str_add(s, " %016llx%016llx", (unsigned long long)d.h[0], (unsigned long long)d.h[1]); }

static void add_axes(struct str *s, int n, const int8_t *dims)
{
  for (int i = 0; i < n; i++) str_add(s, "%s%d", i ? "," : "", dims[i]);
}

static void add_attribute(struct str *s, const struct attrs *a, const struct attr_row *row)
{
  char text[128];
  const void *x = (const char *)a + row->offset;
  switch (row->kind) {
  case ATTR_DIM_KIND: str_add(s, "%d", *(const int *)x); return;
  case ATTR_INT_KIND: str_add(s, "%lld", (long long)*(const int64_t *)x); return;
  case ATTR_REAL_KIND: str_double(text, *(const double *)x), str_add(s, "%s", text); return;
  case ATTR_LIST_KIND: shape_text(text, x), str_add(s, "%s", text); return;
  case ATTR_GRID_KIND: add_axes(s, MAX_GRID, x); return;
  case ATTR_LOOP_KIND: add_axes(s, MAX_LOOPS, x); return;
  }
}

// Attributes with default values are left out, so keys do not change when an operator gets another attribute.
static void add_attributes(struct str *s, const struct node *n)
{
  const struct attrs base = attrs_default(n->op);
  struct str own = {0}, usual = {0};
  for (int i = 0; i < ATTRS; i++) {
    if (!(op_rows[n->op].attrs >> i & 1)) continue;
    own.n = usual.n = 0;
    add_attribute(&own, &n->a, &attr_rows[i]), add_attribute(&usual, &base, &attr_rows[i]);
    if (attr_rows[i].needed || strcmp(str_text(&own), str_text(&usual)) != 0) str_add(s, " %s=%s", attr_rows[i].name, str_text(&own));
  }
  str_free(&own), str_free(&usual);
}

static void add_tensor(struct str *s, const struct tensor *t)
{
  char text[128];
  shape_text(text, &t->shape);
  str_add(s, " %s%s", dtype_name(t->dtype), text);
  for (int d = 0; d < t->shape.n; d++)
    if (t->runs[d]) str_add(s, " %d runs %d", d, t->runs[d]);
}

// The declared properties of an input; those of other tensors are inferred.
static void add_input(struct str *s, const struct tensor *t, int number)
{
  str_add(s, " input %d", number);
  if (t->whole) str_add(s, " %lld..%lld%s", (long long)t->range.least, (long long)t->range.most, t->range.distinct ? " distinct" : "");
  if (t->state) str_add(s, " state");
  if (t->frozen) str_add(s, " frozen");
  if (t->shard) str_add(s, " shard %d", t->shard);
  if (t->extent) str_add(s, " extent %d", t->extent);
}

static struct ir_digest key_of(struct arena *mem, const struct graph *g)
{
  struct ir_digest *of = NEWS(mem, struct ir_digest, g->ntensors + 1), all;
  struct str s = {0}, whole = {0};
  int inputs = 0;
  str_add(&whole, "%s world %d", level_name(g->level), g->world);
  for (int i = 0; i < g->ngrid; i++) str_add(&whole, " grid %lld", (long long)g->grid[i]);
  for (int i = 0; i < g->nloop; i++) str_add(&whole, " loop %lld", (long long)g->loop[i]);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct ir_digest sub = n->sub ? key_of(mem, n->sub) : (struct ir_digest){{0}};
    str_add(&s, "%s", op_rows[n->op].name);
    add_attributes(&s, n);
    if (n->sub) add_digest(&s, sub);
    if (n->op == OP_INPUT || n->op == OP_ITER) add_input(&s, &g->tensors[n->out], inputs++);
    if (n->op != OP_ITER)
      for (int k = 0; k < n->nin; k++) add_digest(&s, of[n->in[k]]);
    for (int k = 0; k < n->nout; k++) add_tensor(&s, &g->tensors[n->out + k]);
    const struct ir_digest own = digest_of(&s);
    for (int k = 0; k < n->nout; k++) str_add(&s, "result %d", k), add_digest(&s, own), of[n->out + k] = digest_of(&s);
    if (n->op == OP_INPUT || n->op == OP_ITER || n->op == OP_OUTPUT || n->op == OP_SAVE) add_digest(&whole, own);
  }
  all = digest_of(&whole);
  return str_free(&s), str_free(&whole), all;
}

void graph_key(const struct graph *g, char out[GRAPH_KEY])
{
  struct arena mem = {0};
  const struct ir_digest d = key_of(&mem, g);
  snprintf(out, GRAPH_KEY, "%016llx%016llx", (unsigned long long)d.h[0], (unsigned long long)d.h[1]);
  arena_close(&mem);
}
