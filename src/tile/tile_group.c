// Threads and blocks as tensors. A group's layouts go from coordinates to thread (or block) numbers; a coordinate of
// the executing thread under the mode s:d is (number / d) mod s.
#include "tile/build.h"

static int group_add(struct builder *b, const struct tile_group *g, int *out)
{
  struct tile_kernel *k = b->k;
  PUSH(b->p->mem, k->groups, k->ngroups, k->cap[LIST_GROUPS]) = *g;
  *out = k->ngroups - 1;
  struct tile_group *mine = &k->groups[*out];
  mine->at = b->at;
  struct levels l = {mine->nlevels, {{0}}};
  for (int i = 0; i < l.n; i++) l.level[i] = mine->level[i];
  mine->size = levels_size(b, &l);
  if (!mine->name || !in_body(b)) return OK;
  int s = stmt_add(b, STMT_GROUP);
  if (s < 0) return (int)b->e->status;
  k->stmts[s].group = *out;
  return OK;
}

static struct levels of(const struct tile_group *g)
{
  struct levels l = {g->nlevels, {{0}}};
  for (int i = 0; i < l.n; i++) l.level[i] = g->level[i];
  return l;
}

static void set(struct tile_group *g, const struct levels *l)
{
  g->nlevels = l->n;
  for (int i = 0; i < l->n; i++) g->level[i] = l->level[i];
}

static struct tile_group derived(struct builder *b, const char *name, int group, enum view_op op)
{
  CHECK(group >= 0 && group < b->k->ngroups);
  struct tile_group g = b->k->groups[group];
  g.name = name, g.op = op, g.source = group, g.arg = (struct lay){0}, g.nindex = 0, g.index = NULL;
  return g;
}

// The numbers that blocks and threads have.
static int root_number(struct builder *b, const struct tile_group *g, ex size)
{
  struct tile_kernel *k = b->k;
  struct ex_range r = ex_range(b->p->ex, size);
  if (g->kind == GROUP_BLOCK) {
    k->bid = ex_var(b->p->ex, "blockIdx.x", 0, MIN(r.hi, INT32_MAX) - 1, 1);
    return OK;
  }
  if (!ex_is_const(size) || ex_value(size) > TILE_THREADS)
    return build_error(b, "a block has a constant number of threads, at most %d", TILE_THREADS);
  k->tid = ex_var(b->p->ex, "threadIdx.x", 0, ex_value(size) - 1, 1);
  return OK;
}

int build_group(struct builder *b, const char *name, enum group_kind kind, int nlevels, const struct lay *levels, int *out)
{
  if (in_body(b)) return build_error(b, "the grid and the threads of a block are declared before the kernel's spec");
  int *root = kind == GROUP_BLOCK ? &b->k->grid : &b->k->threads;
  if (*root >= 0) return build_error(b, "a kernel has one group of %s", kind == GROUP_BLOCK ? "blocks" : "threads");
  if (levels_check(b, nlevels, levels)) return (int)b->e->status;
  struct tile_group g = {.name = name, .kind = kind, .op = VIEW_ROOT, .source = -1, .nlevels = nlevels, .offset = EX_C(0)};
  for (int i = 0; i < nlevels; i++) g.level[i] = levels[i];
  if (group_add(b, &g, root)) return (int)b->e->status;
  *out = *root;
  return root_number(b, &g, b->k->groups[*root].size);
}

int build_group_tile(struct builder *b, const char *name, int group, struct lay tiler, int *out)
{
  struct tile_group g = derived(b, name, group, VIEW_TILE);
  struct levels l = of(&g);
  bool whole[64];
  for (int i = 0; i < 64; i++) whole[i] = true; // the last tile may be partial: 384 threads by 256
  if (levels_tile(b, &l, tiler, whole, NULL)) return (int)b->e->status;
  set(&g, &l);
  g.arg = tiler;
  return group_add(b, &g, out);
}

int build_group_reshape(struct builder *b, const char *name, int group, int depth, struct lay shape, int *out)
{
  struct tile_group g = derived(b, name, group, VIEW_RESHAPE);
  struct levels l = of(&g);
  if (levels_reshape(b, &l, depth, shape)) return (int)b->e->status;
  set(&g, &l);
  g.arg = shape, g.depth = depth;
  return group_add(b, &g, out);
}

int build_group_index(struct builder *b, const char *name, int group, int n, const ex *index, int *out)
{
  struct tile_group g = derived(b, name, group, VIEW_INDEX);
  struct levels l = of(&g);
  for (int i = 0; i < n; i++)
    if (index[i] == EX_ALL) return build_error(b, "_ is no coordinate of threads or blocks");
  if (levels_index(b, &l, n, index, &g.offset)) return (int)b->e->status;
  set(&g, &l);
  g.nindex = n, g.index = arena_copy(b->p->mem, index, sizeof *index * (size_t)n);
  return group_add(b, &g, out);
}

int build_group_scalar(struct builder *b, const char *name, int group, int *out)
{
  struct tile_group g = derived(b, name, group, VIEW_INDEX);
  g.nlevels = 0, g.index = NULL;
  g.offset = g.kind == GROUP_BLOCK ? b->k->bid : b->k->tid;
  return group_add(b, &g, out);
}

// The coordinate of number `id` < `size` under a mode, which may be nested: first mode fastest. The part with the largest strides needs no remainder.
// *range gets the value's known range.
static ex coordinate(struct builder *b, struct lay mode, ex id, ex size, struct ex_range *range)
{
  struct ex_pool *p = b->p->ex;
  ex shape[64], stride[64], c = EX_C(0), least = EX_C(0), scale = EX_C(1);
  int n = lay_leaves(mode, shape, stride, 64);
  for (int i = 0; i < n; i++) {
    if (stride[i] == EX_C(0)) continue;
    ex quotient = ex_div(p, id, stride[i]), one = ex_mod(p, quotient, shape[i]);
    bool last = ex_mul(p, stride[i], shape[i]) == size;
    c = ex_add(p, c, ex_mul(p, scale, last ? quotient : one));
    least = ex_add(p, least, ex_mul(p, scale, one));
    scale = ex_mul(p, scale, shape[i]);
  }
  *range = ex_range(p, least);
  return c;
}

int build_indices(struct builder *b, int group, int nvars, const char *const *names, ex *vars)
{
  CHECK(group >= 0 && group < b->k->ngroups);
  if (!in_body(b)) return build_error(b, "indices() stands in the body of the kernel's spec");
  const struct tile_group *g = &b->k->groups[group];
  struct ex_pool *p = b->p->ex;
  int modes = 0;
  for (int i = 0; i < g->nlevels; i++) modes += lay_rank(g->level[i]);
  if (nvars != modes) return build_error(b, "%d names for the %d dimensions of #%s", nvars, modes, g->name ? g->name : "");
  ex *values = NEWS(b->p->mem, ex, nvars);
  bool blocks = g->kind == GROUP_BLOCK;
  ex id = blocks ? b->k->bid : b->k->tid, size = b->k->groups[blocks ? b->k->grid : b->k->threads].size;
  for (int i = 0, v = 0; i < g->nlevels; i++)
    for (int m = 0; m < lay_rank(g->level[i]); m++, v++) {
      struct ex_range r;
      values[v] = coordinate(b, lay_mode(g->level[i], m), id, size, &r);
      bool fixed = !names[v] || ex_is_const(values[v]);
      vars[v] = fixed ? EX_C(0) : ex_var(p, names[v], r.lo, r.hi, ex_multiple(p, values[v]));
    }
  int s = stmt_add(b, STMT_LET);
  if (s < 0) return (int)b->e->status;
  struct tile_stmt *st = &b->k->stmts[s];
  st->nvars = nvars, st->vars = arena_copy(b->p->mem, vars, sizeof *vars * (size_t)nvars), st->values = values, st->group = group;
  return OK;
}
