// Tiles of a block: the place of each tensor, and how it is copied, converted or transposed. Tiles are fp32 whatever dtype the device memory has. The
// time of a use, for lifetimes in scratch, is stage * nodes + node index: a value made before the loop and read inside it lives until the loop ends.
#include "gen/emit.h"

#include <string.h>

enum stage stage_of(const struct block *b, int tensor)
{
  if (b->iterations == 1) return BEFORE;
  switch (b->g->tensors[tensor].phase) {
  case FIXED: return BEFORE;
  case VARYING:
  case RUN: return INSIDE;
  case AFTER: break;
  }
  return BEHIND;
}

int depth_of(const struct block *b, enum stage st) { return b->depth + (st == INSIDE ? b->g->nloop : 0); }

static int time_of(const struct block *b, enum stage st) { return (int)st * b->g->nnodes + b->now; }

const char *block_name(const struct block *b, const char *prefix, int tensor) { return name_of(b->mem, prefix, tensor, b->g->tensors[tensor].name); }

static int buffer_new(struct block *b, const char *name, int64_t elements, enum stage st)
{
  int buf = space_add(&b->space, 4 * elements, time_of(b, st)), n = buf;
  PUSH(b->mem, b->names, n, b->names_cap) = name;
  return buf;
}

struct view tile_new(struct block *b, const char *name, const struct shape *s, enum stage st, bool whole_loop)
{
  int buf = buffer_new(b, name, shape_size(s), st);
  if (whole_loop) space_touch(&b->space, buf, BEHIND * b->g->nnodes);
  return view_dense(name, buf, F32, s);
}

// Rows a power of two apart map to few cache sets, so they are padded by a cache line.
struct view tile_like(struct block *b, const char *name, const struct view *v, enum stage st)
{
  struct view r = {.ptr = name, .dtype = F32, .shape = v->shape};
  int64_t step = 1;
  bool set[MAX_DIMS] = {0};
  for (int k = 0; k < v->shape.n; k++) { // smallest stride first
    int best = -1;
    for (int i = v->shape.n - 1; i >= 0; i--)
      if (!set[i] && (best < 0 || v->stride[i] < v->stride[best])) best = i;
    r.stride[best] = step, step *= v->shape.d[best], set[best] = true;
    if (step == v->shape.d[best] && step % 256 == 0) step += 16;
  }
  r.buf = buffer_new(b, name, step, st);
  return r;
}

void tile_use(struct block *b, const struct view *v, enum stage st)
{
  if (v->buf < 0) return;
  int now = time_of(b, st), loop_end = BEHIND * b->g->nnodes;
  bool outlives = st == INSIDE && b->space.buffers[v->buf].first < b->g->nnodes;
  space_touch(&b->space, v->buf, outlives ? loop_end : now);
}

void tile_print(struct block *b, struct nest *f, enum stage st)
{
  nest_finish(f);
  nest_print_shared(&b->text[st], depth_of(b, st), f, b->threads);
}

static int unit_dim(const struct view *v)
{
  for (int i = v->shape.n - 1; i >= 0; i--)
    if (v->shape.d[i] > 1 && v->stride[i] == 1) return i;
  return -1;
}

// Transposes pieces in registers: from and to are contiguous along different dimensions.
static void transpose_print(struct str *s, int depth, struct arena *mem, const struct view *from, const struct view *to, int p, int q)
{
  const char *src = from->ptr, *dst = to->ptr;
  for (int i = 0; i < from->shape.n; i++) {
    if (i == p || i == q || from->shape.d[i] == 1) continue;
    line(s, depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)from->shape.d[i], i);
    src = arena_printf(mem, "%s + i%d * %lld", src, i, (long long)from->stride[i]);
    dst = arena_printf(mem, "%s + i%d * %lld", dst, i, (long long)to->stride[i]);
  }
  line(s, depth, "m_load_tile_t(%lld, %lld, %s, %lld, %s, %lld);", (long long)from->shape.d[q], (long long)from->shape.d[p], src,
       (long long)from->stride[q], dst, (long long)to->stride[p]);
}

void tile_copy(struct block *b, const struct view *from, const struct view *to, enum stage st)
{
  struct view src = *from;
  tile_use(b, from, st), tile_use(b, to, st);
  int p = unit_dim(from), q = unit_dim(to);
  bool turns = p >= 0 && q >= 0 && p != q;
  if (turns && to->dtype == F32 && from->dtype != F32) { // converted first, without transposing
    src = tile_like(b, arena_printf(b->mem, "%s_in", to->ptr), from, st);
    tile_copy(b, from, &src, st);
    p = unit_dim(&src);
  }
  if (turns && to->dtype == F32) {
    transpose_print(&b->text[st], depth_of(b, st), b->mem, &src, to, p, q);
    return;
  }
  struct nest f = nest_new(b->mem, &to->shape);
  nest_store(&f, nest_load(&f, from), to, false);
  tile_print(b, &f, st);
}

void tile_fill(struct block *b, const struct view *v, double c, enum stage st)
{
  struct nest f = nest_new(b->mem, &v->shape);
  nest_store(&f, nest_const(&f, c), v, false);
  tile_print(b, &f, st);
}

// The axes that divide v, which becomes a tile. Each axis divides the part of the axis before.
static int divide(struct view *v, char letter, int n, const int8_t *map, const int64_t *parts, struct cut_axis *axes)
{
  int count = 0;
  for (int i = 0; i < n; i++) {
    if (map[i] == REPLICA) continue;
    v->shape.d[map[i]] /= parts[i];
    if (parts[i] > 1) axes[count++] = (struct cut_axis){letter, i, parts[i], v->shape.d[map[i]] * v->stride[map[i]]};
  }
  return count;
}

// Appends " + x0 * n" for every axis.
static const char *tile_at(const struct block *b, const char *at, int n, const struct cut_axis *axes)
{
  for (int i = 0; i < n; i++) at = arena_printf(b->mem, "%s + %c%d * %lld", at, axes[i].letter, axes[i].index, (long long)axes[i].step);
  return at;
}

static int axes_of(const struct block *b, const struct node *n, struct view *v, struct cut_axis *axes)
{
  const int grid = divide(v, 'x', b->g->ngrid, n->a.imap, b->g->grid, axes);
  return grid + divide(v, 'l', b->g->nloop, n->a.fmap, b->g->loop, axes + grid);
}

int tile_axes(const struct block *b, int node, struct cut_axis axes[MAX_GRID + MAX_LOOPS])
{
  struct view v = b->from[b->order[node]].v;
  return axes_of(b, &b->g->nodes[node], &v, axes);
}

struct view tile_iterator(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  struct view v = b->from[b->order[node]].v;
  struct cut_axis axes[MAX_GRID + MAX_LOOPS];
  const int naxes = axes_of(b, n, &v, axes);
  const char *at = tile_at(b, v.ptr, naxes, axes);
  enum stage st = stage_of(b, n->out);
  v.ptr = block_name(b, "t", n->out);
  line(&b->text[st], depth_of(b, st), "const %s *const %s = %s;", c_type(v.dtype), v.ptr, at);
  return v;
}

struct view tile_saved(const struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  struct view v = b->to[b->order[node]];
  struct cut_axis axes[MAX_GRID];
  v.ptr = tile_at(b, v.ptr, divide(&v, 'x', b->g->ngrid, n->a.omap, b->g->grid, axes), axes);
  return v;
}

// Elements from this tile of an iterator to the same thread's next tile; 0: no prefetch. Small tiles are not worth a prefetch, and large ones would
// be evicted before use.
static int64_t to_next(const struct block *b, int tensor)
{
  const struct graph *g = b->g;
  const struct node *n = &g->nodes[g->tensors[tensor].node];
  const struct view *v = &b->place[tensor].v;
  int64_t bytes = shape_size(&v->shape) * dtype_bytes(v->dtype);
  bool loops = b->iterations > 1;
  if (n->op != OP_ITER || bytes < 2048 || bytes > 128 << 10 || (loops && g->tensors[tensor].phase == FIXED)) return 0;
  const int8_t *map = loops ? n->a.fmap : n->a.imap;
  const int64_t *parts = loops ? g->loop : g->grid;
  for (int i = (loops ? g->nloop : g->ngrid) - 1; i >= 0; i--)
    if (parts[i] > 1) return map[i] == REPLICA ? 0 : v->shape.d[map[i]] * v->stride[map[i]];
  return 0;
}

int tile_load(struct block *b, struct nest *f, int tensor, enum stage st)
{
  const struct place *p = &b->place[tensor];
  CHECK(p->kind != PLACE_NONE);
  if (p->kind == PLACE_CONST) return nest_const(f, p->c);
  struct view v = p->v;
  int u = unit_dim(&v);
  for (int i = u + 1; u >= 0 && i < v.shape.n; i++) {
    if (v.shape.d[i] == 1 || !v.stride[i]) continue; // contiguous along an outer dimension: read through a transposed copy
    struct view t = tile_new(b, arena_printf(b->mem, "%s_t%d_%d", block_name(b, "t", tensor), b->now, b->space.n), &v.shape, st, false);
    tile_copy(b, &v, &t, st);
    v = t;
    break;
  }
  tile_use(b, &v, st);
  int value = nest_load(f, &v);
  if (++b->loads[tensor] == 2) f->operands[f->noperands - 1].ahead = to_next(b, tensor);
  return value;
}

void block_comment(struct block *b, int node, enum stage st)
{
  line(&b->text[st], depth_of(b, st), "// %s", node_text(b->mem, b->g, &b->g->nodes[node]));
}
