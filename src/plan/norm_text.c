// Normal forms as text, for people: `mica lower --dump norm`.
#include "plan/norm.h"

static void letters_text(const struct norm *n, const struct norm_tensor *t, struct str *out)
{
  str_add(out, "[");
  for (int d = 0; d < t->ndims; d++) {
    str_add(out, d ? ", " : "");
    for (int k = 0; k < t->dim[d].n; k++)
      str_add(out, "%s%c:%lld", k ? " " : "", 'a' + t->dim[d].letter[k], (long long)n->extent[(int)t->dim[d].letter[k]]);
    if (!t->dim[d].n) str_add(out, "1");
  }
  str_add(out, "]");
}

static void access_text(const struct norm *n, const struct plan_access *a, struct str *out)
{
  const char *name = n->kernels->tensors[a->tensor].name;
  if (name)
    str_add(out, " %s + ", name);
  else
    str_add(out, " tensor %d + ", a->tensor);
  str_add(out, "%lld", (long long)a->offset);
  for (int i = 0; i < n->block->ngrid; i++)
    if (a->grid[i]) str_add(out, " + %lld %c", (long long)a->grid[i], "xyz"[i]);
  for (int i = 0; i < n->block->nloop; i++)
    if (a->loop[i]) str_add(out, " + %lld %c", (long long)a->loop[i], "ijkl"[i]);
  for (int i = 0; i < n->nletters; i++)
    if (a->stride[i]) str_add(out, " + %lld %c", (long long)a->stride[i], 'a' + i);
}

void norm_text(const struct norm *n, struct str *out)
{
  const struct graph *b = n->block;
  for (int i = 0, iter = 0, save = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    bool is_view = op_rows[x->op].rule == RULE_VIEW;
    int shown = x->op == OP_SAVE ? x->in[0] : x->out;
    str_add(out, "%-18s", op_rows[x->op].name);
    if (x->op != OP_SAVE) {
      str_add(out, " t%d = ", x->out);
      letters_text(n, &n->t[shown], out);
    }
    for (int k = 0; k < x->nin && x->op != OP_ITER; k++) str_add(out, " t%d", n->t[x->in[k]].root);
    if (is_view) str_add(out, " (view)");
    if (x->op == OP_ITER) access_text(n, &n->iter[iter++], out);
    if (x->op == OP_SAVE) str_add(out, " ->"), access_text(n, &n->save[save++], out);
    str_add(out, "\n");
  }
}
