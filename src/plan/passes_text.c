// Decisions of the passes as text: one row for each chain, operator, copy or product.
#include "plan/passes.h"

static const char *const source_names[] = {[SOURCE_CONSTANT] = "number",     [SOURCE_DEVICE] = "device memory", [SOURCE_TILE] = "tile",
                                           [SOURCE_REGISTERS] = "registers", [SOURCE_FOLD] = "folded",          [SOURCE_SHARED] = "shared memory"};
static const char *const sections[] = {[SECTION_BEFORE] = "before", [SECTION_LOOP] = "loop", [SECTION_AFTER] = "after"};

static const char *name_of(const struct norm *n, int node) { return op_rows[n->block->nodes[node].op].name; }

static void letters(uint32_t set, struct str *out)
{
  if (!set) str_add(out, "-");
  for (int i = 0; i < MAX_LETTERS; i++)
    if (set >> i & 1) str_add(out, "%c", 'a' + i);
}

static void operands(const struct norm *n, const struct chains *c, int node, struct str *out)
{
  const struct node *x = &n->block->nodes[node];
  str_add(out, "%s", name_of(n, node));
  for (int k = 0; k < x->nin; k++) str_add(out, "%s t%d %s", k ? "," : "", n->t[x->in[k]].root, source_names[c->source[node][MIN(k, 1)]]);
}

void chains_text(const struct norm *n, const struct passes *p, struct str *out)
{
  const struct chains *c = &p->chains;
  for (int i = 0; i < c->nchains; i++) {
    str_add(out, "  chain %d: ", i + 1);
    for (int k = 0, first = 1; k < n->block->nnodes; k++) {
      if (c->of[k] != i) continue;
      str_add(out, "%st%d = ", first ? "" : "; ", n->block->nodes[k].out), operands(n, c, k, out);
      if (c->folded[k]) str_add(out, " (added in the accumulator)");
      if (c->side[k]) str_add(out, " (on the side)");
      first = 0;
    }
    str_add(out, "\n");
  }
  for (int i = 0; i < c->nproducts; i++) {
    const struct chain_product *x = &c->product[i];
    str_add(out, "  product t%d = t%d t%d: rows ", x->out, x->a, x->b);
    letters(x->rows, out), str_add(out, ", columns "), letters(x->cols, out), str_add(out, ", sum "), letters(x->sum, out);
    str_add(out, ", batch "), letters(x->batch, out);
    if (x->into >= 0) str_add(out, "; adds to t%d", n->block->nodes[x->into].out);
    str_add(out, c->oriented ? "\n" : "; products have no rows in common\n");
  }
}

void schedule_text(const struct norm *n, const struct passes *p, struct str *out)
{
  const struct schedule *s = &p->schedule;
  for (int i = 0; i < s->n; i++) {
    int x = s->order[i];
    str_add(out, "  %-6s depth %d  t%-3d %-18s %lld bytes in use\n", sections[s->section[x]], s->depth[x], n->block->nodes[x].out, name_of(n, x),
            (long long)s->at[i]);
  }
  str_add(out, "  at most %d barriers before the loop, %d in it, %d after; at most %lld bytes of registers\n", s->barriers[0], s->barriers[1],
          s->barriers[2], (long long)s->held);
}

static void copy_text(const struct norm *n, const struct plan_access *a, const struct copy_meta *m, bool save, const enum dtype *store,
                      struct str *out)
{
  const char *name = n->kernels->tensors[a->tensor].name;
  int bytes = dtype_bytes(store[a->tensor]), chunk = MIN(m->chunk, 16 / bytes);
  str_add(out, "  %-5s t%-3d %s ", save ? "save" : "iter", a->tile, save ? "to" : "from");
  if (name)
    str_add(out, "%s: ", name);
  else
    str_add(out, "tensor %d: ", a->tensor);
  if (chunk > 1)
    str_add(out, "chunks of %d bytes along %c", chunk * bytes, 'a' + m->along);
  else
    str_add(out, "one by one");
  if (!save) str_add(out, m->shared ? ", to shared memory" : ", to registers");
  if (m->ring) str_add(out, ", in a ring");
  str_add(out, "\n");
}

void meta_text(const struct norm *n, const struct passes *p, const enum dtype *store, struct str *out)
{
  static const char *const places[] = {
      [ACCUMULATOR_NONE] = "", [ACCUMULATOR_PRODUCT] = "registers that products add to", [ACCUMULATOR_REGISTERS] = "registers of its own"};
  const struct meta *m = &p->meta;
  for (int i = 0; i < n->niter; i++) copy_text(n, &n->iter[i], &m->iter[i], false, store, out);
  for (int i = 0; i < n->nsave; i++) copy_text(n, &n->save[i], &m->save[i], true, store, out);
  for (int i = 0; i < n->block->nnodes; i++)
    if (m->accumulator[i] != ACCUMULATOR_NONE) str_add(out, "  %-9s t%-3d %s\n", name_of(n, i), n->block->nodes[i].out, places[m->accumulator[i]]);
}

void threads_text(const struct norm *n, const struct passes *p, struct str *out)
{
  struct warp_layout w[WARP_LAYOUTS];
  int count = p->chains.nproducts && p->chains.oriented ? plan_threads(n, &p->chains, w) : 0;
  if (!count) str_add(out, "  no products with rows in common\n");
  for (int i = 0; i < count; i++)
    str_add(out, "  %2d warps: %2d along rows, %d along %s, %lld products a warp, %lld bytes copied\n", w[i].rows * w[i].cols, w[i].rows, w[i].cols,
            w[i].sums ? "sums   " : "columns", (long long)w[i].calls, (long long)w[i].volume);
}
