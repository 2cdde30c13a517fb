// Products of tiles. The microkernel reads its first operand with any strides, and needs contiguous rows of the second.
// The first operand is read in place, from device memory too, unless it must be converted. The second is packed if many rows share it, transposed if
// it is stored transposed, and streamed in place if few rows read it. A caller's tensor need not be aligned. Without alignment, every other vector of
// the second operand straddles two cache lines, which costs a quarter of the rate.
// So the kernel copies a misaligned operand that several rows share; one that many rows share is packed in any case.
// An accumulator that is the product's only reader is added to directly.
// A second operand of bf16 is packed in pairs for instructions that multiply two of them at once, or tiles of them. They read the first operand in bf16
// too; sums are fp32. Few rows read a second operand of 16-bit numbers where it is, and widen it in registers.
// Tiles of frozen inputs are packed once (packed.c).
#include "gen/emit.h"

enum { DOT_ROWS = 4 };     // up to this number of rows, dot products with a transposed operand are faster than transposing it
enum { FEW_ROWS = 16 };    // up to this number of rows, each element of the second operand is read once, or twice from L1
enum { SHARED_ROWS = 32 }; // from this number of rows on, a copy of the second operand pays off
enum { MANY_ROWS = 128 };  // from this number of rows on, packing pays off although the operand is dense

struct matmul_product {
  int64_t m, n, k;
  int lead;                                                       // number of remaining leading dimensions
  struct view a, b, c;                                            // broadcast to the leading dimensions
  enum second { PLAIN, PACKED, TURNED, PAIRS, FEW, BLOCKS } kind; // form of the second operand
  bool add;
};

static bool on_device(const struct view *v) { return v->buf < 0; }

// A copy that products share. It is made at the stage of the tensor itself: outside of the loop if possible.
static struct view operand_copy(struct block *b, int tensor, const struct view *to_like, bool dense)
{
  struct place *p = &b->operand[tensor];
  if (p->kind == PLACE_VIEW && !p->packed && p->v.dtype == F32) return p->v;
  enum stage st = stage_of(b, tensor);
  const char *name = block_name(b, "o", tensor);
  struct view t = dense ? tile_new(b, name, &to_like->shape, st, false) : tile_like(b, name, to_like, st);
  tile_copy(b, to_like, &t, st);
  *p = (struct place){PLACE_VIEW, false, 0, t};
  return t;
}

// A copy in bf16 of a first operand whose rows are not words of pairs. A row of odd length ends with a zero.
static struct view narrow_copy(struct block *b, int tensor, const struct view *v)
{
  struct place *p = &b->operand[tensor];
  if (p->kind == PLACE_VIEW && !p->packed && p->v.dtype == BF16) return p->v;
  const enum stage st = stage_of(b, tensor);
  const int last = v->shape.n - 1;
  struct shape words = v->shape;
  words.d[last] = (v->shape.d[last] + 1) / 2;
  struct view t = tile_new(b, block_name(b, "h", tensor), &words, st, false);
  t.ptr = arena_printf(b->mem, "((uint16_t *)%s)", t.ptr), t.dtype = BF16;
  for (int i = 0; i < last; i++) t.stride[i] *= 2;
  t.shape.d[last] = 2 * words.d[last];
  const struct view numbers = view_cut(b->mem, &t, last, 0, v->shape.d[last]), end = view_cut(b->mem, &t, last, t.shape.d[last] - 1, 1);
  if (v->shape.d[last] % 2) tile_fill(b, &end, 0, st);
  tile_copy(b, v, &numbers, st);
  *p = (struct place){PLACE_VIEW, false, 0, numbers};
  return numbers;
}

// A copy in bf16 of a computed second operand, in the order of its memory.
static struct view narrow_second(struct block *b, int tensor, const struct view *v)
{
  const enum stage st = stage_of(b, tensor);
  const bool turned = v->stride[v->shape.n - 1] != 1;
  const struct view from = turned ? view_permuted(v, &(struct shape){0}) : *v;
  const struct shape words = {1, {(shape_size(&v->shape) + 1) / 2}};
  const struct view room = tile_new(b, block_name(b, "h", tensor), &words, st, false);
  struct view t = view_dense(arena_printf(b->mem, "((uint16_t *)%s)", room.ptr), room.buf, BF16, &from.shape);
  tile_copy(b, &from, &t, st);
  return turned ? view_permuted(&t, &(struct shape){0}) : t;
}

// The operand packed by m_pack_b, or in pairs by m_pack_pairs. Pairs need half as many words.
static struct view packed(struct block *b, int tensor, const struct view *v)
{
  struct place *p = &b->operand[tensor];
  if (p->kind == PLACE_VIEW && p->packed) return p->v;
  enum stage st = stage_of(b, tensor);
  int n = v->shape.n;
  struct shape words = v->shape;
  bool turned = v->stride[n - 1] != 1;
  if (v->dtype == BF16) words.d[n - 2] = (words.d[n - 2] + 1) / 2, words.d[n - 1] = (words.d[n - 1] + 15) / 16 * 16;
  struct view t = tile_new(b, block_name(b, "p", tensor), &words, st, false);
  const char *src = v->ptr, *dst = t.ptr;
  int depth = depth_of(b, st);
  for (int i = 0; i < n - 2; i++) {
    if (v->shape.d[i] == 1) continue;
    line(&b->text[st], depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)v->shape.d[i], i);
    src = arena_printf(b->mem, "%s + i%d * %lld", src, i, (long long)v->stride[i]);
    dst = arena_printf(b->mem, "%s + i%d * %lld", dst, i, (long long)t.stride[i]);
  }
  const char *by = v->dtype != BF16 ? "m_pack_b" : turned ? "m_pack_pairs_t" : "m_pack_pairs";
  line(&b->text[st], depth, "%s(%lld, %lld, %s, %lld, %s);", by, (long long)v->shape.d[n - 2], (long long)v->shape.d[n - 1], src,
       (long long)v->stride[turned ? n - 1 : n - 2], dst);
  *p = (struct place){PLACE_VIEW, true, 0, t};
  return t;
}

// The operand itself if its vectors are aligned, else a copy. The generated code decides at run time.
static struct view aligned(struct block *b, int tensor, const struct view *v)
{
  struct place *p = &b->operand[tensor];
  if (p->kind == PLACE_VIEW && !p->packed) return p->v;
  enum stage st = stage_of(b, tensor);
  struct view t = tile_new(b, block_name(b, "o", tensor), &v->shape, st, false);
  const char *name = block_name(b, "q", tensor);
  line(&b->text[st], depth_of(b, st), "const float *const %s = m_aligned(%lld, %s, %s);", name, (long long)shape_size(&v->shape), v->ptr, t.ptr);
  t.ptr = name;
  *p = (struct place){PLACE_VIEW, false, 0, t};
  return t;
}

static bool rows_contiguous(const struct view *v)
{
  int n = v->shape.n;
  return v->shape.d[n - 1] == 1 || v->stride[n - 1] == 1;
}

// Whether words of two numbers can be read along this dimension.
static bool has_words(const struct view *v, int along)
{
  for (int i = 0; i < v->shape.n; i++)
    if (i != along && v->stride[i] % 2) return false;
  return v->stride[along] == 1;
}

static bool by_pairs(const struct view *v, int64_t rows)
{
  int n = v->shape.n;
  return v->dtype == BF16 && rows > DOT_ROWS && (v->stride[n - 1] == 1 || v->stride[n - 2] == 1);
}

// The iterator whose tile this is, possibly seen as another shape or transposed; -1: it is none's, or a part of it.
static int iterator_of(const struct block *b, const struct view *v)
{
  for (int i = 0; i < b->g->nnodes; i++) {
    const struct node *n = &b->g->nodes[i];
    if (n->op == OP_ITER && b->place[n->out].kind == PLACE_VIEW && b->place[n->out].v.ptr == v->ptr) return i;
  }
  return -1;
}

// Whether the product reads a tile of a frozen input from the memory to which it was packed once. Few rows read rows of f32 where they are.
static bool packed_before(struct block *b, int64_t rows, struct view *v, enum second *kind)
{
  const int node = iterator_of(b, v), n = v->shape.n;
  if (node < 0 || !b->packing->frozen[b->order[node]]) return false;
  const enum pack_order order = pack_order(b->packing, v, rows);
  if (!order || (v->dtype == F32 && rows_contiguous(v) && rows <= FEW_ROWS)) return false;
  struct packed_operand x = {b->order[node], order, v->shape.d[n - 2], v->shape.d[n - 1], v->stride[n - 2], v->stride[n - 1], 0, {{0}}};
  x.naxes = tile_axes(b, node, x.axes);
  for (int i = 0; i < n - 2; i++)
    if (v->shape.d[i] > 1) x.axes[x.naxes++] = (struct cut_axis){'m', i, v->shape.d[i], v->stride[i]};
  int64_t step = pack_words(&x);
  for (int i = n - 3; i >= 0; step *= v->shape.d[i--]) v->stride[i] = step;
  const int at = pack_add(b->mem, b->packing, &x);
  v->ptr = pack_tile(b->mem, &x, arena_printf(b->mem, "packed%d", at));
  *kind = order == PACK_WORDS ? PAIRS : BLOCKS;
  return true;
}

// Whether a computed second operand is narrowed, to be multiplied in pairs as the first: where these are faster, and nothing in the kernel is in f32.
static bool narrows(const struct block *b, const struct view *first, const struct view *v, int64_t rows)
{
  const int n = v->shape.n;
  bool f32 = false;
  for (int i = 0; i < b->kernel->nin; i++) f32 |= b->from[i].kind == PLACE_VIEW && b->from[i].v.dtype == F32;
  return b->packing->pairs && !f32 && first->dtype == BF16 && v->dtype == F32 && rows > DOT_ROWS && (v->stride[n - 1] == 1 || v->stride[n - 2] == 1);
}

static struct view second(struct block *b, int tensor, const struct view *first, int64_t rows, enum second *kind)
{
  struct view v = b->place[tensor].v;
  int n = v.shape.n;
  *kind = PLAIN;
  if (packed_before(b, rows, &v, kind)) return v;
  if (narrows(b, first, &v, rows)) {
    *kind = PAIRS;
    if (b->operand[tensor].packed) return b->operand[tensor].v; // in pairs: computed operands are not packed otherwise
    v = narrow_second(b, tensor, &v);
    return packed(b, tensor, &v);
  }
  if (rows <= DOT_ROWS && v.stride[n - 2] == 1 && v.shape.d[n - 2] >= 16 && !rows_contiguous(&v)) {
    *kind = TURNED;
    return v;
  }
  if (rows <= DOT_ROWS && is_half(v.dtype) && v.stride[n - 1] == 1) {
    *kind = FEW;
    return v;
  }
  if (by_pairs(&v, rows)) {
    *kind = PAIRS;
    return packed(b, tensor, &v);
  }
  if (v.dtype != F32 || !rows_contiguous(&v)) return operand_copy(b, tensor, &v, true);
  int64_t cols = v.shape.d[n - 1], step = v.stride[n - 2];
  bool dense = step == cols && cols % 16 == 0 && view_is_dense(&v);
  if (on_device(&v) && rows >= SHARED_ROWS && rows < MANY_ROWS && dense) return aligned(b, tensor, &v);
  if (!on_device(&v) || rows <= FEW_ROWS || (step == cols && !(dense && rows >= MANY_ROWS))) return v;
  if (cols % 16) return operand_copy(b, tensor, &v, true);
  *kind = PACKED;
  return packed(b, tensor, &v);
}

// The first operand, copied if it is read several times and its rows are far apart.
static struct view first(struct block *b, int tensor, int64_t cols, enum second kind)
{
  struct view v = b->place[tensor].v;
  int row = v.shape.n - 2;
  bool dots = kind == TURNED;
  if (kind == PAIRS) return v.dtype == BF16 && v.shape.d[row + 1] % 2 == 0 && has_words(&v, row + 1) ? v : narrow_copy(b, tensor, &v);
  if (kind == BLOCKS) return v.dtype == F32 && (v.stride[row] == 1 || v.stride[row + 1] == 1) ? v : operand_copy(b, tensor, &v, true);
  bool again = stage_of(b, tensor) == BEFORE && b->iterations > 1, aliased = v.stride[row] % 256 == 0 || v.stride[row + 1] % 256 == 0;
  bool scattered = on_device(&v) && v.shape.d[row] > 1 && (aliased || !view_is_dense(&v));
  if (dots && v.stride[row + 1] != 1) return operand_copy(b, tensor, &v, true);
  if (v.dtype == F32 && !(scattered && (again || cols > 128))) return v;
  return operand_copy(b, tensor, &v, false);
}

// Makes leading dimensions along which the second operand is constant additional rows of the first.
static void stack_rows(struct matmul_product *p)
{
  while (p->lead) {
    int l = p->lead - 1, row = p->c.shape.n - 2;
    int64_t extent = p->c.shape.d[l];
    bool rows = p->m == 1 || (p->a.stride[l] == p->m * p->a.stride[row] && p->c.stride[l] == p->m * p->c.stride[row]);
    if (extent != 1 && (p->b.stride[l] || !rows)) return;
    if (extent != 1 && p->m == 1) p->a.stride[row] = p->a.stride[l], p->c.stride[row] = p->c.stride[l];
    p->m *= extent, p->lead--;
  }
}

static void product_print(struct block *b, struct matmul_product *p, enum stage st)
{
  struct str *s = &b->text[st];
  const char *at[3] = {p->a.ptr, p->b.ptr, p->c.ptr};
  const struct view *v[3] = {&p->a, &p->b, &p->c};
  int depth = depth_of(b, st), row = p->c.shape.n - 2, col = row + 1;
  for (int i = 0; i < p->lead; i++) {
    if (p->c.shape.d[i] == 1) continue;
    line(s, depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)p->c.shape.d[i], i);
    for (int k = 0; k < 3; k++)
      if (v[k]->stride[i]) at[k] = arena_printf(b->mem, "%s + i%d * %lld", at[k], i, (long long)v[k]->stride[i]);
  }
  long long ars = p->a.stride[row], acs = p->a.stride[col], ldb = p->kind == PACKED ? 0 : p->b.stride[p->kind == TURNED ? col : row],
            ldc = p->c.stride[row];
  long long m = p->m, n = p->n, k = p->k;
  if (p->k == 1) acs = 1;
  if (p->kind == TURNED)
    line(s, depth, "m_gemm_bt%s(%lld, %lld, %lld, %s, %lld, %s, %lld, %s, %lld, %d);",
         p->b.dtype == F32 ? "" : arena_printf(b->mem, "_%s", dtype_name(p->b.dtype)), m, n, k, at[0], ars, at[1], ldb, at[2], ldc, p->add);
  else if (p->kind == FEW)
    line(s, depth, "m_gemm_few_%s(%lld, %lld, %lld, %s, %lld, %lld, %s, %lld, %s, %lld, %d);", dtype_name(p->b.dtype), m, n, k, at[0], ars, acs,
         at[1], ldb, at[2], ldc, p->add);
  else if (p->kind == PAIRS)
    line(s, depth, "m_gemm_pairs(%lld, %lld, %lld, %s, %lld, %s, %s, %lld, %d);", m, n, k, at[0], ars, at[1], at[2], ldc, p->add);
  else if (p->kind == BLOCKS)
    line(s, depth, "m_gemm_blocks(%lld, %lld, %lld, %s, %lld, %d, %s, %s, %lld, %d, 0, 1);", m, n, k, at[0], acs == 1 ? ars : acs, acs != 1, at[1],
         at[2], ldc, p->add);
  else if (p->kind == PACKED && acs == 1)
    line(s, depth, "m_gemm_packed(%lld, %lld, %lld, %s, %lld, %s, %s, %lld, %d);", m, n, k, at[0], ars, at[1], at[2], ldc, p->add);
  else if (acs == 1)
    line(s, depth, "%s(%lld, %lld, %lld, %s, %lld, %s, %lld, %s, %lld, %d);", on_device(&p->b) && m <= FEW_ROWS ? "m_gemm_stream" : "m_gemm", m, n, k,
         at[0], ars, at[1], ldb, at[2], ldc, p->add);
  else
    line(s, depth, "m_product(%lld, %lld, (m_prod){%s, %s, %s, %lld, %lld, %lld, %lld, %lld, %d, M_W, 0});", m, n, at[0], at[1], at[2], ars, acs, ldb,
         ldc, k, p->add);
}

// Strides of an operand along the output's leading dimensions; its last two dimensions are not included.
static struct view led(const struct view *v, const struct shape *out)
{
  struct shape to = *out;
  to.d[to.n - 2] = v->shape.d[v->shape.n - 2], to.d[to.n - 1] = v->shape.d[v->shape.n - 1];
  struct view r = view_broadcast(v, &to);
  for (int i = 1; i <= 2; i++) r.stride[to.n - i] = v->stride[v->shape.n - i];
  return r;
}

// Whether the product is a matrix times one column. It is computed as the column, taken as a row, times the transposed matrix: dot products along its
// rows.
static bool is_column(const struct matmul_product *p)
{
  int row = p->c.shape.n - 2;
  return p->n == 1 && p->m >= 16 && p->k >= 16 && p->a.stride[row + 1] == 1 && p->b.dtype == F32 && p->b.stride[row] == 1 && p->c.stride[row] == 1;
}

static void multiply(struct block *b, int x, int y, const struct view *c, bool add, enum stage st)
{
  struct matmul_product p = {.c = *c, .add = add, .lead = c->shape.n - 2};
  const struct shape *sx = &b->g->tensors[x].shape, *sy = &b->g->tensors[y].shape;
  p.m = sx->d[sx->n - 2], p.k = sx->d[sx->n - 1], p.n = sy->d[sy->n - 1];
  struct view a = b->place[x].v, w = b->place[y].v;
  p.a = led(&a, &c->shape), p.b = led(&w, &c->shape);
  if (is_column(&p)) {
    p.a = view_permuted(&p.a, &(struct shape){0}), p.b = view_permuted(&p.b, &(struct shape){0});
    p.c = view_permuted(&p.c, &(struct shape){0});
    struct view column = p.a;
    p.a = p.b, p.b = column, p.n = p.m, p.m = 1, p.kind = TURNED;
    tile_use(b, &a, st), tile_use(b, &w, st), tile_use(b, c, st);
    stack_rows(&p);
    product_print(b, &p, st);
    return;
  }
  struct matmul_product plan = p;
  stack_rows(&plan); // sets the number of rows that share the second operand, before any copy is made
  w = second(b, y, &a, plan.m, &p.kind);
  a = first(b, x, p.n, p.kind);
  tile_use(b, &a, st), tile_use(b, &w, st), tile_use(b, c, st);
  p.a = led(&a, &c->shape), p.b = led(&w, &c->shape);
  stack_rows(&p);
  product_print(b, &p, st);
}

// Writes directly to a saver's tensor if no other node reads the product and it is stored as fp32.
static bool saved_directly(struct block *b, int tensor, bool streams, struct view *to)
{
  int reader = -1, readers = 0;
  for (int i = 0; i < b->g->nnodes; i++)
    for (int k = 0; k < b->g->nodes[i].nin; k++)
      if (b->g->nodes[i].in[k] == tensor) reader = i, readers++;
  if (readers != 1 || b->g->nodes[reader].op != OP_SAVE) return false;
  *to = tile_saved(b, reader);
  if (to->dtype != F32 || !rows_contiguous(to) || streams) return false; // streaming adds to its result repeatedly
  block_comment(b, reader, stage_of(b, tensor));
  return b->done[reader] = true;
}

static int64_t c_rows(const struct block *b, const struct node *n)
{
  const struct shape *s = &b->g->tensors[n->out].shape;
  return s->d[s->n - 2];
}

int matmul_node(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  enum stage st = stage_of(b, n->out);
  struct view c;
  bool add = false, streams = on_device(&b->place[n->in[n->nin / 2]].v) && c_rows(b, n) <= FEW_ROWS;
  if (!accum_target(b, n->out, &c, &add) && !saved_directly(b, n->out, streams, &c)) {
    c = tile_new(b, block_name(b, "t", n->out), &b->g->tensors[n->out].shape, st, false);
    b->place[n->out] = (struct place){PLACE_VIEW, false, 0, c};
  }
  int half = n->nin / 2;
  for (int i = 0; i < half; i++) multiply(b, n->in[i], n->in[half + i], &c, add || i, st);
  return OK;
}
