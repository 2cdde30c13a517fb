// A graph as JSON, with one node per line and nested graphs indented. Keys have a fixed order and attributes the order of
// attr.def, so equal graphs give equal text. The schema is in docs/mugraph.md; json_read.c reads it back.
#include "ir/json.h"

#include <math.h>
#include <string.h>

// Writes a quoted string, with escapes for characters that JSON does not allow in strings.
static void quoted(struct str *o, const char *s)
{
  str_add(o, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      str_add(o, "\\%c", c);
    else if (c < 0x20)
      str_add(o, "\\u%04x", c);
    else
      str_raw(o, s, 1);
  }
  str_add(o, "\"");
}

static void tensor_name(struct str *o, const struct graph *g, int t)
{
  if (g->tensors[t].name)
    quoted(o, g->tensors[t].name);
  else
    str_add(o, "%d", t);
}

static void real(struct str *o, double x)
{
  char text[32];
  str_double(text, x);
  if (x == 0 && signbit(x))
    str_add(o, "-0.0"); // -0 would be read as an integer without a sign
  else
    str_add(o, isfinite(x) ? "%s" : "\"%s\"", text);
}

static void list(struct str *o, const struct shape *s)
{
  str_add(o, "[");
  for (int i = 0; i < s->n; i++) str_add(o, "%s%lld", i ? ", " : "", (long long)s->d[i]);
  str_add(o, "]");
}

static void map(struct str *o, const char *axes, const int8_t *dims, int n)
{
  const char *comma = "";
  str_add(o, "{");
  for (int i = 0; i < n; i++) {
    if (dims[i] == REPLICA) continue;
    str_add(o, "%s\"%c\": %d", comma, axes[i], dims[i]);
    comma = ", ";
  }
  str_add(o, "}");
}

static bool differs(const struct attr_row *row, const struct attrs *a, const struct attrs *d)
{
  const char *x = (const char *)a + row->offset, *y = (const char *)d + row->offset;
  switch (row->kind) {
  case ATTR_DIM_KIND: return *(const int *)x != *(const int *)y;
  case ATTR_INT_KIND: return *(const int64_t *)x != *(const int64_t *)y;
  case ATTR_REAL_KIND: return *(const double *)x != *(const double *)y;
  case ATTR_LIST_KIND: return !shape_eq((const struct shape *)x, (const struct shape *)y);
  case ATTR_GRID_KIND: return memcmp(x, y, MAX_GRID) != 0;
  case ATTR_LOOP_KIND: return memcmp(x, y, MAX_LOOPS) != 0;
  }
  return false;
}

static void attributes(struct str *o, const struct graph *g, const struct node *n)
{
  const struct attrs d = attrs_default(n->op);
  for (int i = 0; i < ATTRS; i++) {
    const struct attr_row *row = &attr_rows[i];
    if (!(op_rows[n->op].attrs >> i & 1) || (!row->needed && !differs(row, &n->a, &d))) continue;
    const char *p = (const char *)&n->a + row->offset;
    str_add(o, ", \"%s\": ", row->name);
    switch (row->kind) {
    case ATTR_DIM_KIND: str_add(o, "%d", *(const int *)p); break;
    case ATTR_INT_KIND: str_add(o, "%lld", (long long)*(const int64_t *)p); break;
    case ATTR_REAL_KIND: real(o, *(const double *)p); break;
    case ATTR_LIST_KIND: list(o, (const struct shape *)p); break;
    case ATTR_GRID_KIND: map(o, GRID_AXES, (const int8_t *)p, g->ngrid); break;
    case ATTR_LOOP_KIND: map(o, LOOP_AXES, (const int8_t *)p, g->nloop); break;
    }
  }
}

static void tensors(struct str *o, const char *key, const struct graph *g, const int *t, int n)
{
  if (!n) return;
  str_add(o, ", \"%s\": [", key);
  for (int i = 0; i < n; i++) {
    if (i) str_add(o, ", ");
    tensor_name(o, g, t[i]);
  }
  str_add(o, "]");
}

static void axes(struct str *o, const char *key, const char *letters, const int64_t *extents, int n)
{
  str_add(o, ", \"%s\": {", key);
  for (int i = 0; i < n; i++) str_add(o, "%s\"%c\": %lld", i ? ", " : "", letters[i], (long long)extents[i]);
  str_add(o, "}");
}

// Writes an input's declarations besides its dtype and shape.
static void declared(struct str *o, const struct tensor *t)
{
  if (!range_is_default(t)) str_add(o, ", \"range\": [%lld, %lld]", (long long)t->range.least, (long long)t->range.most);
  if (t->range.distinct) str_add(o, ", \"distinct\": true");
  if (t->shard) str_add(o, ", \"shard\": %d", t->shard - 1);
  if (t->state) str_add(o, ", \"state\": true");
  if (t->frozen) str_add(o, ", \"frozen\": true");
  if (t->extent) str_add(o, ", \"extent\": %d", t->extent);
}

// Writes the number of the run-time extent of each dimension, if it does not follow from the operands.
static void run_time(struct str *o, const struct graph *g, const struct node *n, const struct tensor *t)
{
  bool here = n->nout && extent_told(n->op) && extent_tells(t);
  for (int d = 0; d < t->shape.n && here; d++) here = !t->runs[d] || extent_input(g, t->runs[d]) >= 0;
  if (!here) return;
  str_add(o, ", \"runs\": [");
  for (int d = 0; d < t->shape.n; d++) str_add(o, "%s%d", d ? ", " : "", t->runs[d]);
  str_add(o, "]");
}

static void nodes(struct str *o, const struct graph *g, const struct graph *above, const int *from, int indent);

static void node(struct str *o, const struct graph *g, const struct node *n, const struct graph *above, const int *from, int indent)
{
  str_add(o, "%*s{\"op\": \"%s\"", indent, "", op_rows[n->op].name);
  if (n->op == OP_ITER)
    tensors(o, "in", above, from, 1);
  else
    tensors(o, "in", g, n->in, n->nin);
  if (n->op == OP_INPUT) {
    str_add(o, ", \"dtype\": \"%s\", \"shape\": ", dtype_name(g->tensors[n->out].dtype));
    const struct shape whole = graph_whole(g, n->out);
    list(o, &whole);
    declared(o, &g->tensors[n->out]);
  }
  if (n->nout) run_time(o, g, n, &g->tensors[n->out]);
  attributes(o, g, n);
  int outs[64];
  for (int i = 0; i < n->nout; i++) outs[i] = n->out + i;
  tensors(o, "out", g, outs, n->nout);
  if (n->sub) {
    str_add(o, ", \"graph\": {");
    if (n->sub->name) str_add(o, "\"name\": "), quoted(o, n->sub->name), str_add(o, ", ");
    str_add(o, "\"level\": \"%s\"", level_name(n->sub->level));
    axes(o, "grid", GRID_AXES, n->sub->grid, n->sub->ngrid);
    axes(o, "loop", LOOP_AXES, n->sub->loop, n->sub->nloop);
    nodes(o, n->sub, g, n->in, indent + 2);
    str_add(o, "}");
  }
  str_add(o, "}");
}

static void nodes(struct str *o, const struct graph *g, const struct graph *above, const int *from, int indent)
{
  int iter = 0;
  str_add(o, ", \"nodes\": [");
  for (int i = 0; i < g->nnodes; i++) {
    str_add(o, i ? ",\n" : "\n");
    node(o, g, &g->nodes[i], above, from ? from + iter : NULL, indent);
    iter += g->nodes[i].op == OP_ITER;
  }
  str_add(o, "\n%*s]", indent - 2, "");
}

void graph_to_json(const struct graph *g, struct str *o)
{
  str_add(o, "{\"mica\": \"mugraph\", \"version\": %d", JSON_VERSION);
  if (g->name) str_add(o, ", \"name\": "), quoted(o, g->name);
  str_add(o, ", \"level\": \"%s\"", level_name(g->level));
  if (g->world > 1) str_add(o, ", \"world\": %d", g->world);
  nodes(o, g, NULL, NULL, 2);
  str_add(o, "}\n");
}
