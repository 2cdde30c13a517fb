// Abstract expressions (paper, section 4.3) of a graph with known extents, for `mica show --abstract`. Blocks are traversed, so a muGraph shows the
// expression that it has in the search.
#include "cli/cli.h"
#include "search/space.h"

struct abstract_text_atom {
  uint32_t id;
  const char *text;
};
struct abstract_text_walk {
  struct arena *mem;
  struct expr *ex;
  struct abstract_text_atom *atoms;
  int natoms, cap;
};

static nf atom(struct abstract_text_walk *w, uint32_t id, const char *text)
{
  PUSH(w->mem, w->atoms, w->natoms, w->cap) = (struct abstract_text_atom){id, text};
  return expr_atom(w->ex, id);
}

static void name_scalar(struct abstract_text_walk *w, double x)
{
  char text[32];
  str_double(text, x);
  atom(w, atom_scalar(x), arena_strdup(w->mem, text));
}

static const char *atom_text(void *arg, uint32_t id)
{
  const struct abstract_text_walk *w = arg;
  for (int i = 0; i < w->natoms; i++)
    if (w->atoms[i].id == id) return w->atoms[i].text;
  return "?";
}

static const char *fn_text(void *arg, uint32_t fn)
{
  (void)arg;
  return fn < OPS ? op_rows[fn].name : "f";
}

// Number of elements reduced into one: along dim and, for accumulators, over the loop axes that do not join.
static uint64_t folded(const struct graph *g, const struct node *n)
{
  const struct shape *in = &g->tensors[n->in[0]].shape, *out = &g->tensors[n->out].shape;
  enum rule rule = op_rows[n->op].rule;
  int64_t k = 1;
  if (rule == RULE_CONTRACT) return (uint64_t)in->d[in->n - 1];
  bool reduces = rule == RULE_REDUCE || (op_rows[n->op].flags & REDUCES);
  if (reduces) k = shape_size(in) / shape_size(out);
  if (rule == RULE_ACCUM)
    for (int l = 0; l < g->nloop; l++)
      if (n->a.fmap[l] == REPLICA || reduces) k *= g->loop[l];
  return (uint64_t)k;
}

static nf mean_of(struct abstract_text_walk *w, nf sum, uint64_t k)
{
  return expr_mul(w->ex, sum, atom(w, (1u << 18) + (uint32_t)k % (1u << 18), arena_printf(w->mem, "(1/%llu)", (unsigned long long)k)));
}

static nf folding(struct abstract_text_walk *w, const struct graph *g, const struct node *n, nf x)
{
  uint64_t k = folded(g, n);
  unsigned flags = op_rows[n->op].flags;
  if (op_rows[n->op].abstract == AE_MAX || op_rows[n->op].abstract == AE_ACCUM_MAX) return expr_max(w->ex, k, x);
  if (op_rows[n->op].abstract == AE_PROD) return expr_opaque(w->ex, (uint32_t)n->op, 1, &x);
  nf sum = expr_sum(w->ex, k, flags & RMS ? expr_square(w->ex, x) : x);
  if (flags & MEAN) sum = mean_of(w, sum, k);
  return flags & RMS ? expr_sqrt(w->ex, sum) : sum;
}

static void graph_walk(struct abstract_text_walk *w, const struct graph *g, const nf *in, nf *out);

static nf map(struct abstract_text_walk *w, const struct node *n, nf x, nf y)
{
  unsigned attrs = op_rows[n->op].attrs;
  for (int i = 0; i < ATTRS; i++)
    if ((attrs >> i & 1) && attr_rows[i].kind == ATTR_REAL_KIND) name_scalar(w, attr_real(&n->a, i));
  if (op_rows[n->op].abstract == AE_RSQRT) name_scalar(w, 1);
  return abstract_map(w->ex, n->op, &n->a, x, y);
}

static nf contract(struct abstract_text_walk *w, const struct graph *g, const struct node *n, const nf *t)
{
  nf ab = expr_mul(w->ex, t[n->in[0]], t[n->in[n->op == OP_CONCAT_MATMUL ? 2 : 1]]);
  nf sum = expr_sum(w->ex, folded(g, n), ab);
  if (n->op != OP_CONCAT_MATMUL) return sum;
  const struct shape *second = &g->tensors[n->in[1]].shape;
  return expr_add(w->ex, sum, expr_sum(w->ex, (uint64_t)second->d[second->n - 1], expr_mul(w->ex, t[n->in[1]], t[n->in[3]])));
}

static void nested(struct abstract_text_walk *w, const struct node *n, nf *t)
{
  nf *in = NEWS(w->mem, nf, n->nin);
  for (int i = 0; i < n->nin; i++) in[i] = t[n->in[i]];
  graph_walk(w, n->sub, in, t + n->out);
}

static nf joined(struct abstract_text_walk *w, const struct node *n, const nf *t)
{
  nf *args = NEWS(w->mem, nf, n->nin);
  for (int i = 0; i < n->nin; i++) args[i] = t[n->in[i]];
  return n->nin == 1 ? args[0] : expr_opaque(w->ex, OP_CONCAT, n->nin, args);
}

static void node_walk(struct abstract_text_walk *w, const struct graph *g, const struct node *n, nf *t)
{
  nf x = n->nin ? t[n->in[0]] : EXPR_UNKNOWN, y = n->nin > 1 ? t[n->in[1]] : EXPR_UNKNOWN;
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_AT:
  case RULE_INDEX: break;
  case RULE_CONST:
  case RULE_MAP: t[n->out] = map(w, n, x, y); break;
  case RULE_CONTRACT: t[n->out] = contract(w, g, n, t); break;
  case RULE_REDUCE:
  case RULE_ACCUM: t[n->out] = folding(w, g, n, x); break;
  case RULE_CONCAT: t[n->out] = joined(w, n, t); break;
  case RULE_WORLD: t[n->out] = expr_opaque(w->ex, n->op, 1, &x); break;
  case RULE_GRAPH: nested(w, n, t); return;
  case RULE_VIEW:
  case RULE_SPLIT:
  case RULE_COMPOSITE: t[n->out] = x; break;
  }
  for (int i = 1; i < n->nout; i++) t[n->out + i] = n->op == OP_ACCUM_MAX ? EXPR_UNKNOWN : t[n->out];
}

static void graph_walk(struct abstract_text_walk *w, const struct graph *g, const nf *in, nf *out)
{
  nf *t = NEWS(w->mem, nf, g->ntensors);
  int nin = 0, nout = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT || n->op == OP_ITER)
      t[n->out] = in[nin++];
    else if (n->op == OP_OUTPUT || n->op == OP_SAVE)
      out[nout++] = t[n->in[0]];
    else
      node_walk(w, g, n, t);
  }
}

int abstract_text(struct arena *mem, const struct graph *g, struct str *out, struct err *e)
{
  (void)e;
  struct abstract_text_walk w = {.mem = mem, .ex = expr_open()};
  int n = graph_inputs(g, NULL), m = graph_outputs(g, NULL), *t = NEWS(mem, int, MAX(n, m));
  nf *in = NEWS(mem, nf, n), *results = NEWS(mem, nf, m);
  struct expr_names names = {atom_text, fn_text, &w};
  graph_inputs(g, t);
  for (int i = 0; i < n; i++) in[i] = atom(&w, (uint32_t)i, g->tensors[t[i]].name);
  graph_walk(&w, g, in, results);
  graph_outputs(g, t);
  for (int i = 0; i < m; i++) {
    str_add(out, "%s = ", g->tensors[t[i]].name ? g->tensors[t[i]].name : "out");
    if (results[i] == EXPR_UNKNOWN || results[i] == EXPR_NEVER)
      str_add(out, "(no abstract expression)");
    else
      expr_print(w.ex, results[i], &names, out);
    str_add(out, "\n");
  }
  expr_close(w.ex);
  return OK;
}
