// The builder: kernels, parameters, buffers and views. A view of global memory has a coordinate for each dimension of its buffer, a layout tiled like
// the view itself. Predicates of partial tiles use it.
#include "tile/build.h"

#include <stdlib.h>

struct tile_program *tile_program_new(struct arena *mem, const char *file, bool row)
{
  struct tile_program *p = NEW(mem, struct tile_program);
  *p = (struct tile_program){.mem = mem, .ex = ex_open(mem), .file = file, .row = row};
  p->lay = (struct lay_ctx){mem, p->ex, NULL};
  return p;
}

int build_kernel(struct builder *b, struct tile_program *p, const char *name, struct err *e)
{
  struct tile_kernel *k = NEW(p->mem, struct tile_kernel);
  *b = (struct builder){.p = p, .k = k, .e = e, .at = {p->file, 0, 0}};
  b->open[0].stmt = b->open[0].last = -1;
  k->name = name, k->arch = target_gpu_at(0)->arch, k->cluster = 1, k->body = k->grid = k->threads = -1;
  struct tile_kernel **grown = NEWS(p->mem, struct tile_kernel *, p->nkernels + 1);
  for (int i = 0; i < p->nkernels; i++) grown[i] = p->kernels[i];
  grown[p->nkernels++] = k;
  p->kernels = grown;
  return OK;
}

int build_param(struct builder *b, const char *name, int64_t lo, int64_t hi, int64_t multiple, ex *out)
{
  if (in_body(b)) return build_error(b, "parameters are declared before the kernel's spec");
  if (lo < 0 || hi > TILE_SIZE_MOST || lo > hi || multiple < 1)
    return build_error(b, "parameter %s: sizes lie between 0 and %d, multiples are at least 1", name, TILE_SIZE_MOST);
  struct tile_kernel *k = b->k;
  ex *grown = NEWS(b->p->mem, ex, k->nparams + 1);
  for (int i = 0; i < k->nparams; i++) grown[i] = k->params[i];
  grown[k->nparams++] = *out = ex_var(b->p->ex, name, lo, hi, multiple);
  k->params = grown;
  return OK;
}

static struct levels of(const struct tile_view *v)
{
  struct levels l = {v->nlevels, {{0}}};
  for (int i = 0; i < l.n; i++) l.level[i] = v->level[i];
  return l;
}

static void set(struct tile_view *v, const struct levels *l)
{
  v->nlevels = l->n;
  for (int i = 0; i < l->n; i++) v->level[i] = l->level[i];
}

static struct levels of_coord(const struct tile_view *v, int d)
{
  struct levels l = {v->nlevels, {{0}}};
  for (int i = 0; i < l.n; i++) l.level[i] = v->coord[d].level[i];
  return l;
}

static void set_coord(struct tile_view *v, int d, const struct levels *l)
{
  for (int i = 0; i < l->n; i++) v->coord[d].level[i] = l->level[i];
}

static int view_add(struct builder *b, const struct tile_view *v, enum stmt_kind kind, int *out)
{
  struct tile_kernel *k = b->k;
  PUSH(b->p->mem, k->views, k->nviews, k->cap[LIST_VIEWS]) = *v;
  *out = k->nviews - 1;
  k->views[*out].at = b->at;
  if (!v->name || !in_body(b)) return OK;
  int s = stmt_add(b, kind);
  if (s < 0) return (int)b->e->status;
  k->stmts[s].view = *out;
  return OK;
}

static struct tile_view derived(struct builder *b, const char *name, int view, enum view_op op)
{
  CHECK(view >= 0 && view < b->k->nviews);
  struct tile_view v = b->k->views[view];
  v.name = name, v.op = op, v.source = view, v.arg = (struct lay){0}, v.nindex = 0, v.index = NULL;
  return v;
}

// The mode's shape, with strides that enumerate it, first fastest; or with stride 0 for coordinates of other dimensions.
static struct lay identity(struct builder *b, struct lay mode, bool count)
{
  struct lay_ctx *c = &b->p->lay;
  if (count) return lay_compact(c, mode, false);
  struct lay_node *zero = arena_copy(c->mem, mode.node, sizeof *zero * (size_t)mode.n);
  for (int i = 0; i < mode.n; i++) zero[i].stride = EX_C(0);
  return (struct lay){mode.n, zero};
}

static int root_coords(struct builder *b, struct tile_view *v)
{
  if (v->nlevels > 1) return build_error(b, "a tensor in global memory is declared with one level and tiled in the body");
  int rank = v->nlevels ? lay_rank(v->level[0]) : 0;
  if (rank > TILE_DIMS) return build_error(b, "a tensor in global memory has at most %d dimensions", TILE_DIMS);
  v->ncoord = rank;
  for (int d = 0; d < rank; d++) {
    struct lay mode[TILE_DIMS];
    for (int j = 0; j < rank; j++) mode[j] = identity(b, lay_mode(v->level[0], j), j == d);
    v->coord[d].origin = EX_C(0), v->coord[d].partial = false;
    v->coord[d].limit = lay_size(&b->p->lay, lay_mode(v->level[0], d));
    v->coord[d].level[0] = rank == 1 && v->level[0].node->arity == LAY_LEAF ? mode[0] : lay_tuple(&b->p->lay, rank, mode);
  }
  return OK;
}

static int place(struct builder *b, enum tile_type t, enum tile_mem m, struct swizzle s, ex elements)
{
  if (m == MEM_GL && in_body(b)) return build_error(b, "tensors in global memory are declared before the kernel's spec");
  if (t == TT_MBAR && m != MEM_SH) return build_error(b, "an mbarrier lies in shared memory (.SH)");
  if (s.bits && m != MEM_SH) return build_error(b, "only shared memory is swizzled");
  if (s.bits && (s.bits < 0 || s.base < 0 || abs(s.shift) < s.bits || s.bits + s.base + abs(s.shift) > 20))
    return build_error(b, "swizzle(bits, base, shift) needs |shift| >= bits and at most 20 bits in all");
  int64_t most = m == MEM_SH ? 1 << 18 : 1 << 12; // bytes: more than the shared memory, or a thread's registers, of any target
  if (m != MEM_GL && (!ex_is_const(elements) || ex_value(elements) > most / tile_types[t].bytes))
    return build_error(b, "a tensor in %s has a constant size of at most %d bytes", tile_mem_name[m], (int)most);
  return OK;
}

int build_tensor(struct builder *b, const char *name, int nlevels, const struct lay *levels, enum tile_type t, enum tile_mem m, struct swizzle s,
                 int *view)
{
  if (levels_check(b, nlevels, levels)) return (int)b->e->status;
  struct tile_view v = {.name = name, .buf = b->k->nbuffers, .op = VIEW_ROOT, .source = -1, .offset = EX_C(0), .peer = EX_C(-1)};
  struct levels l = {nlevels, {{0}}};
  ex elements = EX_C(1);
  for (int i = 0; i < nlevels; i++) {
    l.level[i] = levels[i];
    elements = ex_add(b->p->ex, elements, ex_sub(b->p->ex, lay_cosize(&b->p->lay, levels[i]), EX_C(1)));
  }
  set(&v, &l);
  if (place(b, t, m, s, elements) || (m == MEM_GL && root_coords(b, &v))) return (int)b->e->status;
  struct tile_buffer buf = {.name = name, .at = b->at, .type = t, .mem = m, .swizzle = s, .elements = elements};
  PUSH(b->p->mem, b->k->buffers, b->k->nbuffers, b->k->cap[LIST_BUFFERS]) = buf;
  if (view_add(b, &v, STMT_ALLOC, view)) return (int)b->e->status;
  b->k->buffers[v.buf].view = *view;
  return OK;
}

// Whether dimension d of the innermost level is still the whole dimension of the buffer. Only then may its last tile be partial: a partial tile
// within a tile would need a second predicate.
static void whole_dimensions(struct builder *b, const struct tile_view *v, bool *whole)
{
  const struct tile_buffer *buf = &b->k->buffers[v->buf];
  const struct tile_view *root = &b->k->views[buf->view];
  for (int d = 0; d < 64; d++) whole[d] = false;
  if (buf->mem != MEM_GL || !v->nlevels || root->nlevels != 1) return;
  struct lay inner = v->level[v->nlevels - 1];
  for (int d = 0; d < lay_rank(inner) && lay_rank(inner) == v->ncoord; d++) whole[d] = lay_size(&b->p->lay, lay_mode(inner, d)) == v->coord[d].limit;
}

int build_tile(struct builder *b, const char *name, int view, struct lay tiler, int *out)
{
  struct tile_view v = derived(b, name, view, VIEW_TILE);
  bool whole[64], partial[64] = {0};
  whole_dimensions(b, &v, whole);
  struct levels l = of(&v);
  if (levels_tile(b, &l, tiler, whole, partial)) return (int)b->e->status;
  for (int d = 0; d < v.ncoord; d++) {
    struct levels c = of_coord(&v, d);
    if (levels_tile(b, &c, tiler, whole, NULL)) return (int)b->e->status;
    set_coord(&v, d, &c);
    if (partial[d]) v.coord[d].partial = true;
  }
  set(&v, &l);
  v.arg = tiler;
  return view_add(b, &v, STMT_VIEW, out);
}

int build_index(struct builder *b, const char *name, int view, int n, const ex *index, int *out)
{
  struct tile_view v = derived(b, name, view, VIEW_INDEX);
  struct levels l = of(&v);
  if (levels_index(b, &l, n, index, &v.offset)) return (int)b->e->status;
  for (int d = 0; d < v.ncoord; d++) {
    struct levels c = of_coord(&v, d);
    if (levels_index(b, &c, n, index, &v.coord[d].origin)) return (int)b->e->status;
    set_coord(&v, d, &c);
  }
  set(&v, &l);
  v.nindex = n, v.index = arena_copy(b->p->mem, index, sizeof *index * (size_t)n);
  return view_add(b, &v, STMT_VIEW, out);
}

int build_reshape(struct builder *b, const char *name, int view, int depth, struct lay shape, int *out)
{
  struct tile_view v = derived(b, name, view, VIEW_RESHAPE);
  struct levels l = of(&v);
  if (levels_reshape(b, &l, depth, shape)) return (int)b->e->status;
  for (int d = 0; d < v.ncoord; d++) {
    struct levels c = of_coord(&v, d);
    if (levels_reshape(b, &c, depth, shape)) return (int)b->e->status;
    set_coord(&v, d, &c);
  }
  set(&v, &l);
  v.arg = shape, v.depth = depth;
  return view_add(b, &v, STMT_VIEW, out);
}

int build_peer(struct builder *b, const char *name, int view, ex rank, int *out)
{
  struct tile_view v = derived(b, name, view, VIEW_PEER);
  if (b->k->buffers[v.buf].mem != MEM_SH) return build_error(b, "only shared memory is seen by other blocks of a cluster");
  struct ex_range r = ex_range(b->p->ex, rank);
  if (r.lo < 0 || r.hi >= b->k->cluster) return build_error(b, "the rank of a peer lies in 0 .. %d (`cluster %d`)", b->k->cluster - 1, b->k->cluster);
  v.peer = rank;
  return view_add(b, &v, STMT_VIEW, out);
}
