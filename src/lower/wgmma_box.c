// Tiles as boxes. Grid axes, loop axes and letters walk a buffer with strides. TMA needs a tensor of at most five dimensions, of which the tile is a
// box. Letters that are adjacent in memory form one dimension. An axis whose step is the extent of a dimension continues that dimension.
#include "lower/wgmma.h"

static bool add_dim(struct box *b, int64_t extent, int64_t stride, int64_t box, bool inner)
{
  if (b->ndims == BOX_DIMS) return false;
  b->dim[b->ndims++] = (struct box_dim){.extent = extent, .stride = stride, .box = box, .inner = inner};
  return true;
}

// Rows in pieces are one dimension, which the first axis walks. A faster one may follow, of which each piece has a whole number.
static bool add_rows(const struct mma_plan *p, struct box *b, const struct plan_access *a, const struct lower_space *l)
{
  struct lower_walk rows;
  space_walk(l, p->n->extent, a->stride, 1, 1, &rows);
  const int64_t fast = rows.n == 2 ? rows.extent[1] : 1;
  if (rows.n < 1 || rows.n > 2 || p->cut % fast || !add_dim(b, p->nrows / fast, rows.stride[0], p->cut / fast, false)) return false;
  b->dim[b->ndims - 1].rows = true;
  return rows.n == 1 || add_dim(b, fast, rows.stride[1], fast, false);
}

// Adds the letters of a list, slowest first. A padded extent is one dimension of its true length, so that TMA fills the rest of the box with zeros
// for all blocks and iterations.
static bool add_letters(const struct mma_plan *p, struct box *b, const struct plan_access *a, const struct lower_space *l, bool inner)
{
  int first = b->ndims;
  for (int i = 0; i < l->n; i++) {
    int64_t extent = p->n->extent[(int)l->axis[i]], stride = a->stride[(int)l->axis[i]];
    struct box_dim *last = b->ndims > first ? &b->dim[b->ndims - 1] : NULL;
    if (last && last->stride == extent * stride)
      last->extent *= extent, last->box *= extent, last->stride = stride;
    else if (!add_dim(b, extent, stride, extent, inner))
      return false;
  }
  for (int c = 0; c < p->ncols; c++) {
    if (p->cols[c].has != mma_list_has(l) || !mma_pads(p, c)) continue;
    if (b->ndims != first + 1) return false;
    b->dim[first].box = p->cols[c].padded, b->dim[first].apart = true, b->dim[first].ragged = mma_ragged(p, c),
    b->dim[first].clipped = mma_clipped(p, c);
  }
  return true;
}

// Finds the dimension that an axis with this stride continues, or adds one.
static struct box_dim *dim_of_axis(struct box *b, int64_t stride)
{
  for (int i = 0; i < b->ndims; i++)
    if (!b->dim[i].rows && !b->dim[i].apart && b->dim[i].stride * b->dim[i].extent == stride) return &b->dim[i];
  return add_dim(b, 1, stride, 1, false) ? &b->dim[b->ndims - 1] : NULL;
}

// The axis continues along this dimension, and TMA fills the rest of the last box with zeros.
static struct box_dim *short_dim(const struct mma_plan *p, struct box *b, bool loop, int axis)
{
  for (int i = 0; i < b->ndims; i++)
    if (loop ? b->dim[i].ragged : b->dim[i].clipped && axis == p->n->clipped.axis) return &b->dim[i];
  return NULL;
}

struct wgmma_box_axis {
  bool loop;
  int index;
  int64_t extent, stride;
};

static int axes_by_stride(const struct mma_plan *p, const struct plan_access *a, struct wgmma_box_axis *out)
{
  const struct graph *g = p->n->block;
  int n = 0;
  for (int i = 0; i < g->ngrid + g->nloop; i++) {
    bool loop = i >= g->ngrid;
    int k = loop ? i - g->ngrid : i;
    struct wgmma_box_axis x = {loop, k, loop ? g->loop[k] : g->grid[k], loop ? a->loop[k] : a->grid[k]};
    if (!x.stride || x.extent == 1) continue;
    int at = n++;
    for (; at > 0 && out[at - 1].stride > x.stride; at--) out[at] = out[at - 1];
    out[at] = x;
  }
  return n;
}

// A walk contains all axes, those that do not move along the dimension with stride 0, because an axis must stay the same digit of the number.
static void begin_walks(const struct mma_plan *p, struct box_dim *d)
{
  const struct graph *g = p->n->block;
  d->grid = d->loop = (struct lower_walk){0};
  for (int i = g->ngrid - 1; i >= 0; i--) d->grid.extent[d->grid.n++] = g->grid[i];
  if (d->rows) d->grid.stride[d->grid.n - 1] = 1;
  for (int i = 0; i < g->nloop; i++) d->loop.extent[d->loop.n++] = g->loop[i];
}

static bool add_axes(const struct mma_plan *p, struct box *b, const struct plan_access *a)
{
  struct wgmma_box_axis axis[GRID_AXES + MAX_LOOPS];
  int n = axes_by_stride(p, a, axis);
  for (int i = 0; i < b->ndims; i++) begin_walks(p, &b->dim[i]);
  for (int i = 0; i < n; i++) {
    int before = b->ndims;
    struct box_dim *ends = short_dim(p, b, axis[i].loop, axis[i].index), *d = ends ? ends : dim_of_axis(b, axis[i].stride);
    if (!d) return false;
    if (b->ndims > before) begin_walks(p, d);
    struct lower_walk *w = axis[i].loop ? &d->loop : &d->grid;
    w->stride[axis[i].loop ? axis[i].index : p->n->block->ngrid - 1 - axis[i].index] = d->extent / d->box;
    d->extent = !ends ? d->extent * axis[i].extent : axis[i].loop ? p->n->ragged.all : p->n->clipped.all;
  }
  return true;
}

// A load that begins inside its buffer is moved by whole boxes along one dimension.
static bool add_offset(struct box *b, int64_t offset)
{
  for (int i = 0; i < b->ndims && offset; i++) {
    struct box_dim *d = &b->dim[i];
    if (d->rows || d->apart || offset % (d->stride * d->box)) continue;
    d->shift = offset / (d->stride * d->box), d->extent += d->shift * d->box, offset = 0;
  }
  return !offset;
}

static void sort(struct box *b)
{
  for (int i = 1; i < b->ndims; i++) {
    struct box_dim x = b->dim[i];
    int at = i;
    for (; at > 0 && b->dim[at - 1].stride < x.stride; at--) b->dim[at] = b->dim[at - 1];
    b->dim[at] = x;
  }
  for (int i = 1; i < b->ndims; i++) // rows in pieces come before a dimension of rows that is faster
    for (int k = i; k > 0 && b->dim[k].rows && b->dim[k - 1].box > 1; k--) {
      const struct box_dim x = b->dim[k];
      b->dim[k] = b->dim[k - 1], b->dim[k - 1] = x;
    }
}

// Whether the tile's rows are in the order of the box.
static bool rows_in_order(const struct mma_plan *p, const struct plan_access *a, const struct lower_space *out)
{
  for (int i = 1; i < out->n; i++)
    if (a->stride[(int)out->axis[i - 1]] < a->stride[(int)out->axis[i]] && p->n->extent[(int)out->axis[i - 1]] > 1) return false;
  return true;
}

bool box_of(struct mma_plan *p, const struct plan_access *a, const struct lower_space *rows, const struct lower_space *cols, struct box *out)
{
  int64_t size = mma_padded(p, mma_list_has(cols), space_size(cols));
  bool cut = p->cut && mma_list_same(rows, &p->rows);
  *out = (struct box){0};
  if (!add_letters(p, out, a, cols, true) || out->ndims != 1 || out->dim[0].stride != 1)
    return mma_refuse(p, "an operand's columns are not together in memory");
  if (cut && !add_rows(p, out, a, rows)) return mma_refuse(p, "rows of an operand are not together in memory");
  if ((!cut && !add_letters(p, out, a, rows, false)) || (!cut && !rows_in_order(p, a, rows)) || !add_axes(p, out, a))
    return mma_refuse(p, "an operand is no box of at most %d dimensions", BOX_RANK);
  if (!add_offset(out, a->offset)) return mma_refuse(p, "an operand begins within its buffer");
  sort(out);
  if (out->ndims > BOX_RANK || !out->dim[out->ndims - 1].inner) return mma_refuse(p, "an operand is no box of at most %d dimensions", BOX_RANK);
  out->chunk = 64; // elements of a 128-byte swizzle; the others are 64 and 32 bytes
  while (out->chunk > 16 && size % out->chunk) out->chunk /= 2;
  out->chunks = size / out->chunk;
  if (size % 16) return mma_refuse(p, "%lld columns of an operand, no multiple of 16", (long long)size);
  for (int i = 0; i < out->ndims; i++)
    if (!out->dim[i].inner && out->dim[i].stride * dtype_bytes(p->type) % 16) return mma_refuse(p, "an operand's rows do not begin at 16 bytes");
  return true;
}

bool box_make(struct mma_plan *p, const struct mma_tile *t, struct box *out)
{
  if (!box_of(p, &p->n->iter[t->iter], &t->out, &t->in, out)) return false;
  for (int i = 0; i < out->ndims; i++)
    if (!out->dim[i].inner && out->dim[i].box > 256) return mma_refuse(p, "%lld rows of an operand, more than 256", (long long)out->dim[i].box);
  return true;
}

const char *box_type(const struct mma_plan *p, const struct box *b)
{
  struct str s = {0};
  str_add(&s, "[");
  for (int i = 0; i < b->ndims; i++) str_add(&s, "%s%lld", i ? ", " : "", (long long)b->dim[i].extent);
  str_add(&s, " : ");
  for (int i = 0; i < b->ndims; i++) str_add(&s, "%s%lld", i ? ", " : "", (long long)b->dim[i].stride);
  str_add(&s, "]");
  return str_keep(p->job->mem, &s);
}

const char *box_view(const struct mma_plan *p, const struct box *b, const char *it, const char *chunk)
{
  struct str s = {0};
  str_add(&s, ".tile([");
  for (int i = 0; i < b->ndims; i++) str_add(&s, "%s%lld", i ? ", " : "", (long long)(b->dim[i].inner ? b->chunk : b->dim[i].box));
  str_add(&s, "])[");
  for (int i = 0; i < b->ndims; i++) {
    const struct box_dim *d = &b->dim[i];
    const char *part = d->part ? d->part : d->inner && b->chunks > 1 ? chunk : NULL;
    str_add(&s, "%s%s%lld", i ? ", " : "", part ? "(" : "", (long long)d->shift);
    mma_walk_text(&d->grid, "@bid", &s);
    mma_walk_text(&d->loop, it, &s);
    if (part) str_add(&s, ") * %lld + %s", (long long)(d->part ? d->parts : b->chunks), part);
  }
  str_add(&s, "]");
  return str_keep(p->job->mem, &s);
}

const char *box_shape(const struct mma_plan *p, const struct box *b)
{
  struct str shape = {0}, strides = {0};
  int64_t rows = 1, below = 1;
  int n = 0;
  for (int i = 0; i < b->ndims; i++)
    if (!b->dim[i].inner && b->dim[i].box > 1) rows *= b->dim[i].box, n++;
  if (n < 2) return "";
  below = rows;
  for (int i = 0; i < b->ndims; i++) {
    if (b->dim[i].inner || b->dim[i].box == 1) continue;
    below /= b->dim[i].box;
    str_add(&shape, "%lld, ", (long long)b->dim[i].box), str_add(&strides, "%lld, ", (long long)below);
  }
  const char *text =
      arena_printf(p->job->mem, ".reshape(0, [%s%lld : %s%lld])", str_text(&shape), (long long)b->chunk, str_text(&strides), (long long)rows);
  str_free(&shape), str_free(&strides);
  return text;
}
