// The plan of a kernel, and the kernel that the scheme of products makes: tiles in shared memory, operators on the side, the order in
// which the text computes.
#include "../gpu_of.h"
#include "../tables.h"
#include "lower/mma.h"
#include "plan/layout.h"

#include <string.h>

static struct norm norm_of(struct arena *mem, const struct graph *g)
{
  struct norm n;
  char why[160];
  int node = 0;
  while (g->nodes[node].op != OP_BLOCK) node++;
  if (norm_make_in(mem, g, NULL, node, &n, why) != OK) fail_msg("%s", why);
  return n;
}

static int tile_of_iterator(const struct mma_plan *p, int iter)
{
  for (int v = 0; v < p->k.nvalues; v++)
    if (mma_loads(p, v) && mma_iter(p, v) == iter && p->tile_of[v] >= 0) return p->tile_of[v];
  return -1;
}

static bool on_the_side(const struct mma_plan *p, int node)
{
  for (int v = 0; v < p->k.nvalues; v++)
    if (p->k.v[v].live && p->k.v[v].about == node + 1 && p->section[v] == MMA_SIDE) return true;
  return false;
}

// Every iterator in shared memory is a tile of the scheme and the other way round; so are nodes on the side.
static void same(const char *name, const struct mma_plan *p)
{
  const struct chains *c = &p->n->passes->chains;
  for (int i = 0; i < p->n->niter; i++) {
    int t = p->n->iter[i].tile, x = tile_of_iterator(p, i);
    const struct copy_meta *m = &p->n->passes->meta.iter[i];
    if ((x >= 0) != c->tile[t] || m->shared != c->tile[t]) fail_msg("%s: tile t%d", name, t);
    if (x >= 0 && (p->tile[x].varying != m->ring || p->tile[x].width != m->chunk)) fail_msg("%s: copy of t%d", name, t);
  }
  for (int i = 0; i < p->n->block->nnodes; i++)
    if (on_the_side(p, i) != c->side[i]) fail_msg("%s: node %d is%s on the side", name, i, c->side[i] ? " not" : "");
}

// A tile is contiguous along the innermost dimension of the plan of layouts, and swizzled as the plan requires. The same holds for a tile that an
// operand computed on the side replaces.
static void same_layouts(const char *name, const struct mma_plan *p, const struct layouts *l, int node)
{
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    int shown = t->tensor;
    for (int k = 0; k < p->nsides; k++)
      if (p->side[k].tile == i) shown = p->n->block->nodes[mma_at(p, p->side[k].root)->about - 1].out;
    const struct tensor_layout *x = &l->tile[node][shown];
    int last = t->in.n ? t->in.axis[t->in.n - 1] : -1;
    if (last < 0 || x->inner < 0 || !(norm_dim_letters(&p->n->t[t->tensor].dim[x->inner]) >> last & 1))
      fail_msg("%s: inside of t%d", name, t->tensor);
    if (x->swizzled >= 0 && (t->swizzle[0] != x->swizzle.bits || t->stride != t->cols + x->swizzle.shift / 2))
      fail_msg("%s: swizzle of t%d", name, t->tensor);
    if (x->swizzled < 0 && t->rows > 1) fail_msg("%s: t%d is not swizzled", name, t->tensor);
  }
}

static void schemes_follow(void **s)
{
  (void)s;
  int taken = 0, sides = 0;
  struct table t;
  table_open(&t, "passes");
  for (int i = 0; i < t.n; i++) {
    struct arena mem = {0};
    struct graph *g = graph_of(&mem, t.row[i].text);
    struct norm n = norm_of(&mem, g);
    struct target gpu = *gpu_of("sm_90a");
    struct lower_job j = {.mem = &mem, .n = &n, .store = store_types(&mem, g, NULL), .gpu = &gpu, .name = "k"};
    struct mma_plan p;
    char why[160] = "";
    if (mma_plan(&p, &j, why)) {
      struct layouts l;
      struct err e = {0};
      assert_int_equal(plan_layouts(&mem, g, false, &l, &e), OK);
      same(t.row[i].title, &p), same_layouts(t.row[i].title, &p, &l, n.node), taken++;
      for (int k = 0; k < n.block->nnodes; k++) sides += n.passes->chains.side[k];
    } else
      assert_true(*why); // and what it says is the reason
    arena_close(&mem);
  }
  table_close(&t);
  assert_true(taken >= 6 && sides >= 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(schemes_follow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
