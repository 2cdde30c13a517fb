// Facts on which the cuts are decided: which operators the search knows, which tensors are views of which, which nodes read them.
// All are arrays indexed by node or tensor of the program; node order is a topological order (graph_check).
#include "lax/piece.h"

static enum kind kind_of(const struct graph *p, const struct node *n)
{
  if (op_rows[n->op].rule == RULE_WORLD) return MEETING;
  if (n->nout && p->tensors[n->out].weak) return LIGHT; // computed from indices: recomputed in every piece that reads it
  if (n->nout && op_rows[n->op].rule == RULE_MAP && p->tensors[n->out].range.distinct && shape_size(&p->tensors[n->out].shape) > 1)
    return LIBRARY; // indices of an update: results of a searched kernel are not known to be distinct
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX:
  case RULE_VIEW: return LIGHT;
  case RULE_MAP:
  case RULE_CONTRACT: return SEARCHED;
  case RULE_REDUCE: return op_rows[n->op].abstract == AE_PROD ? LIBRARY : SEARCHED;
  case RULE_AT:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return LIBRARY;
}

// Is n a product, or elementwise on a product and inputs, such as the addition of a bias? The product's kernel can store such a value.
static bool ends_product(const struct facts *f, const struct node *n, const int *maker, const bool *ends)
{
  bool any = op_rows[n->op].rule == RULE_CONTRACT;
  if (any || op_rows[n->op].rule != RULE_MAP) return any;
  for (int k = 0; k < n->nin; k++) {
    int from = maker[n->in[k]];
    if (!ends[from] && f->p->nodes[from].op != OP_INPUT) return false;
    any |= ends[from];
  }
  return any;
}

// Parts of an input or of a product's result are views: readers use the tensor in place. Parts of other results are never stored: they are in
// one kernel with the operators that compute them (glue.c).
static void find_kinds(struct facts *f)
{
  int *maker = NEWS(f->tmp, int, f->p->ntensors + 1);
  bool *ends = NEWS(f->tmp, bool, f->p->nnodes + 1);
  for (int i = 0; i < f->p->nnodes; i++) {
    const struct node *n = &f->p->nodes[i];
    const struct node *from = n->nin ? &f->p->nodes[maker[n->in[0]]] : NULL;
    f->kind[i] = kind_of(f->p, n);
    if (node_has(n, TAKES_PART)) f->kind[i] = from->op == OP_INPUT || ends[from - f->p->nodes] ? LIGHT : LIBRARY;
    ends[i] = ends_product(f, n, maker, ends);
    for (int k = 0; k < n->nout; k++) maker[n->out + k] = f->kind[i] == LIGHT && n->nin ? maker[n->in[0]] : i;
  }
}

static void find_live(struct facts *f)
{
  const struct graph *p = f->p;
  bool *read = NEWS(f->tmp, bool, p->ntensors + 1);
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &p->nodes[i];
    f->live[i] = n->op == OP_OUTPUT;
    for (int k = 0; k < n->nout; k++) f->live[i] |= read[n->out + k];
    for (int k = 0; k < n->nin && f->live[i]; k++) read[n->in[k]] = true;
    if (n->op == OP_OUTPUT) f->kept[n->in[0]] = true;
  }
}

static void find_roots(struct facts *f)
{
  for (int i = 0; i < f->p->nnodes; i++) {
    const struct node *n = &f->p->nodes[i];
    bool view = f->kind[i] == LIGHT && n->nin && n->nout;
    for (int k = 0; k < n->nout; k++) {
      f->root[n->out + k] = view ? f->root[n->in[0]] : n->out + k;
      f->part[n->out + k] = view && (f->part[n->in[0]] || node_has(n, TAKES_PART));
    }
  }
}

// Light operators do not count as users: each piece that reads one has a copy.
static bool uses(const struct facts *f, int node) { return f->live[node] && f->kind[node] != LIGHT; }

static void find_users(struct facts *f)
{
  const struct graph *p = f->p;
  int all = 0;
  for (int i = 0; i < p->nnodes; i++)
    for (int k = 0; k < p->nodes[i].nin && uses(f, i); k++, all++) f->first_user[f->root[p->nodes[i].in[k]] + 1]++;
  for (int t = 0; t < p->ntensors; t++) f->first_user[t + 1] += f->first_user[t];
  int *at = arena_copy(f->tmp, f->first_user, sizeof(int) * (size_t)(p->ntensors + 1));
  f->user = NEWS(f->tmp, int, all + 1);
  for (int i = 0; i < p->nnodes; i++)
    for (int k = 0; k < p->nodes[i].nin && uses(f, i); k++) f->user[at[f->root[p->nodes[i].in[k]]]++] = i;
}

// Power of the exponential's scale factor in the result: exp(x) 1, a sum of it 1, their quotient 0.
static double degree(enum abstract how, double x, double y)
{
  switch (how) {
  case AE_EXP: return 1;
  case AE_ADD:
  case AE_SUB:
  case AE_EWMAX:
  case AE_EWMIN: return MAX(x, y);
  case AE_MUL:
  case AE_MATMUL:
  case AE_CONCAT_MATMUL: return x + y;
  case AE_DIV: return x - y;
  case AE_SQRT: return x / 2;
  case AE_RSQRT: return -x / 2;
  case AE_SQUARE: return 2 * x;
  case AE_ID:
  case AE_NEG:
  case AE_SCALE:
  case AE_SUM:
  case AE_MEAN:
  case AE_MAX:
  case AE_CONCAT: return x;
  case AE_PROD:
  case AE_NONE:
  case AE_CONST:
  case AE_DEFINED:
  case AE_OPAQUE:
  case AE_SHIFT:
  case AE_ACCUM:
  case AE_ACCUM_MAX:
  case AE_GRAPH: break;
  }
  return 0;
}

static void find_raw(struct facts *f)
{
  double *d = NEWS(f->tmp, double, f->p->ntensors + 1);
  for (int i = 0; i < f->p->nnodes; i++) {
    const struct node *n = &f->p->nodes[i];
    double x = n->nin > 0 ? d[n->in[0]] : 0, y = n->nin > 1 ? d[n->in[1]] : 0;
    for (int t = n->out; t < n->out + n->nout; t++) f->raw[t] = (d[t] = degree(op_rows[n->op].abstract, x, y)) != 0;
  }
}

struct facts *facts_of(struct arena *tmp, const struct graph *p, int max_ops, const struct lax_probe *probe)
{
  struct facts *f = NEW(tmp, struct facts);
  *f = (struct facts){.tmp = tmp, .p = p, .max_ops = max_ops > 0 ? max_ops : LAX_MAX_OPS, .probe = probe};
  f->kind = NEWS(tmp, enum kind, p->nnodes + 1), f->live = NEWS(tmp, bool, p->nnodes + 1);
  f->owner = NEWS(tmp, int, p->nnodes + 1), f->root = NEWS(tmp, int, p->ntensors + 1);
  f->part = NEWS(tmp, bool, p->ntensors + 1), f->raw = NEWS(tmp, bool, p->ntensors + 1), f->kept = NEWS(tmp, bool, p->ntensors + 1);
  f->first_user = NEWS(tmp, int, p->ntensors + 1);
  find_kinds(f);
  find_live(f);
  find_roots(f);
  find_raw(f);
  for (int i = 0; i < p->nnodes; i++) f->owner[i] = uses(f, i) && f->kind[i] != MEETING ? 0 : -1;
  find_users(f);
  find_stored(f);
  return f;
}

int facts_maker(const struct facts *f, int id, int t)
{
  int node = f->p->tensors[f->root[t]].node;
  return f->owner[node] == id ? node : -1;
}

double facts_price(const struct facts *f, int t)
{
  const struct tensor *x = &f->p->tensors[t];
  return (double)shape_size(&x->shape) * dtype_bytes(x->dtype) * (f->kept[t] ? 1 : 2) * (f->raw[t] ? 1000 : 1);
}

void facts_place(const struct facts *f, int node, char out[96])
{
  const struct node *n = &f->p->nodes[node];
  const char *name = n->nout ? f->p->tensors[n->out].name : NULL;
  int k = snprintf(out, 96, name ? "%s `%.40s`" : "%s", op_rows[n->op].name, name);
  if (n->at.line) snprintf(out + k, 96 - (size_t)k, " at line %d", n->at.line);
}
