// Exact regions of work tiles. An access is a box; an access of a paged cache has a box for each page.
#include "mega/mega.h"

#include <string.h>

// ---- boxes ----

bool mega_meet(int rank, const struct mega_box *a, const struct mega_box *b)
{
  for (int d = 0; d < rank; d++)
    if (a->hi[d] <= b->lo[d] || b->hi[d] <= a->lo[d]) return false;
  return true;
}

int64_t mega_volume(int rank, const struct mega_box *b)
{
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= MAX(b->hi[d] - b->lo[d], 0);
  return n;
}

void mega_box_text(int rank, const struct mega_box *b, struct str *out)
{
  str_add(out, "[");
  for (int d = 0; d < rank; d++) {
    if (b->hi[d] == b->lo[d] + 1)
      str_add(out, "%s%lld", d ? ", " : "", (long long)b->lo[d]);
    else
      str_add(out, "%s%lld..%lld", d ? ", " : "", (long long)b->lo[d], (long long)b->hi[d] - 1);
  }
  str_add(out, "]");
}

// `from` without box i of r is at most two boxes for each dimension. Each of these is tested against the next box.
static bool covered(int rank, const struct mega_box *from, const struct mega_region *r, int i, struct mega_box *left)
{
  while (i < r->n && !mega_meet(rank, from, &r->box[i])) i++;
  if (i == r->n) return *left = *from, false;
  struct mega_box rest = *from;
  for (int d = 0; d < rank; d++) {
    const struct mega_box *b = &r->box[i];
    struct mega_box side = rest;
    side.hi[d] = b->lo[d];
    if (side.hi[d] > side.lo[d] && !covered(rank, &side, r, i + 1, left)) return false;
    side = rest, side.lo[d] = b->hi[d];
    if (side.hi[d] > side.lo[d] && !covered(rank, &side, r, i + 1, left)) return false;
    rest.lo[d] = MAX(rest.lo[d], b->lo[d]), rest.hi[d] = MIN(rest.hi[d], b->hi[d]);
  }
  return true;
}

bool mega_covered(struct arena *mem, int rank, const struct mega_box *from, const struct mega_region *r, struct mega_box *left)
{
  struct mega_region near = {0};
  struct arena_mark mark = arena_mark(mem);
  for (int i = 0; i < r->n; i++)
    if (mega_meet(rank, from, &r->box[i])) PUSH(mem, near.box, near.n, near.cap) = r->box[i];
  bool all = covered(rank, from, &near, 0, left);
  arena_reset(mem, mark);
  return all;
}

// ---- accesses ----

struct mega_paged { // dimensions of a paged cache
  int pages, slots;
  int axis;              // of the grid, which divides past positions; or -1
  int64_t per_row, size; // pages of a row, slots of a page
  bool table;
};

static bool paged_of(const struct mega_model *m, const struct mega_tensor *t, const struct mega_access *a, struct mega_paged *p)
{
  *p = (struct mega_paged){-1, -1, -1};
  for (int d = 0; d < a->rank; d++) {
    if (a->dim[d].how == MEGA_PAGE_NOW || a->dim[d].how == MEGA_PAGE_PAST) p->pages = d, p->axis = a->dim[d].axis, p->table = a->dim[d].table;
    if (a->dim[d].how == MEGA_SLOT_NOW || a->dim[d].how == MEGA_SLOT_PAST) p->slots = d;
  }
  if (p->pages < 0) return false;
  p->per_row = (t->dim[p->pages] - p->table) / m->rows, p->size = t->dim[p->slots];
  return true;
}

// The bounds of part `at` of a dimension, or of one of its sections. All parts but the last have the same width.
static void part(const struct mega_op *op, const struct mega_dim *x, int64_t extent, int64_t at, int64_t *lo, int64_t *hi)
{
  int64_t offset = 0, parts = op->parts[x->axis];
  if (x->section >= 0) extent = mega_section(op, x, &offset);
  int64_t width = (extent + parts - 1) / parts;
  *lo = offset + MIN(at * width, extent), *hi = offset + MIN((at + 1) * width, extent);
}

// The page with the i-th positions of a row: from a page table, or from the row's share. Shares follow the page that no request has.
static int64_t page_of(const struct mega_paged *p, const struct mega_seat *s, int64_t row, int64_t i)
{
  if (!p->table) return row * p->per_row + i;
  if (!s->live) return 0;
  return s->pages ? s->pages[i] : 1 + row * p->per_row + i;
}

// Appends positions from .. to - 1 of a row, one box for each page.
static void add_pages(struct arena *mem, const struct mega_paged *p, const struct mega_seat *s, const struct mega_box *base, int64_t row,
                      int64_t from, int64_t to, struct mega_region *out)
{
  for (int64_t at = from; at < to;) {
    int64_t page = at / p->size, end = MIN(to, (page + 1) * p->size);
    struct mega_box b = *base;
    b.lo[p->pages] = page_of(p, s, row, page), b.hi[p->pages] = b.lo[p->pages] + 1;
    b.lo[p->slots] = at % p->size, b.hi[p->slots] = b.lo[p->slots] + (end - at);
    PUSH(mem, out->box, out->n, out->cap) = b;
    at = end;
  }
}

// The number of boxes of an access. A stream whose elements are chosen by data has a box for each choice, which is a pair of the deciding access.
// Another access has one box.
static int64_t choices_of(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int tile)
{
  const int decider = op->spec.access[access].decider;
  struct mega_region r = {0};
  if (decider < 0) return 1;
  struct arena_mark mark = arena_mark(mem);
  mega_region(mem, m, op, decider, 0, tile, 0, &r);
  int64_t pairs = mega_volume(op->spec.access[decider].rank, &r.box[0]) / 2;
  arena_reset(mem, mark);
  return pairs;
}

// parts: an access of past positions that a grid axis divides has the tile's part of them; otherwise it has all.
static void region_of(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, int tile, int64_t step,
                      bool parts, struct mega_region *out)
{
  if (m->order && mega_ordered(m, op)) tile = m->order[tile];
  const struct mega_access *a = &op->spec.access[access];
  const struct mega_tensor *t = &m->tensor[op->arg[a->arg]];
  int64_t index[MEGA_AXES] = {0}, left = tile;
  struct mega_box b = {0};
  struct mega_paged p;
  for (int i = op->spec.naxes - 1; i >= 0; i--) index[i] = left % op->parts[i], left /= op->parts[i];
  for (int d = 0; d < a->rank; d++) {
    const struct mega_dim *x = &a->dim[d];
    b.lo[d] = 0, b.hi[d] = t->dim[d];
    if (x->how == MEGA_THIS_LAYER) b.lo[d] = layer, b.hi[d] = layer + 1;
    if (x->how == MEGA_PART) part(op, x, t->dim[d], index[x->axis], &b.lo[d], &b.hi[d]);
  }
  if (!paged_of(m, t, a, &p)) {
    for (int64_t i = choices_of(mem, m, op, access, tile); i > 0; i--) PUSH(mem, out->box, out->n, out->cap) = b;
    return;
  }
  struct mega_seat s = mega_seat_of(m, (int)index[0], step);
  int64_t now = p.table ? s.position : m->context + step;
  bool past = a->dim[p.pages].how == MEGA_PAGE_PAST;
  int64_t from = past ? 0 : now, to = !past ? now + 1 : p.table ? s.past : now;
  if (p.axis >= 0 && parts) {
    int64_t all = to, width = (all + op->parts[p.axis] - 1) / op->parts[p.axis];
    from = MIN(index[p.axis] * width, all), to = MIN(from + width, all);
  }
  add_pages(mem, &p, &s, &b, index[0], from, to, out);
}

void mega_region(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, int tile, int64_t step,
                 struct mega_region *out)
{
  region_of(mem, m, op, access, layer, tile, step, true, out);
}

// The elements that any tile of an ordered operator may read: whole dimensions, or whole sections of dimensions with sections.
static void reach_of_any(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, struct mega_region *out)
{
  const struct mega_access *a = &op->spec.access[access];
  struct mega_box b = {0};
  for (int d = 0; d < a->rank; d++) {
    const struct mega_dim *x = &a->dim[d];
    b.hi[d] = m->tensor[op->arg[a->arg]].dim[d];
    if (x->how == MEGA_THIS_LAYER) b.lo[d] = layer, b.hi[d] = layer + 1;
    if (x->how == MEGA_PART && x->section >= 0) b.hi[d] = mega_section(op, x, &b.lo[d]), b.hi[d] += b.lo[d];
  }
  PUSH(mem, out->box, out->n, out->cap) = b;
}

void mega_reach(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, int tile, int64_t step,
                struct mega_region *out)
{
  if (mega_ordered(m, op)) return reach_of_any(mem, m, op, access, layer, out);
  region_of(mem, m, op, access, layer, tile, step, !mega_paged(m, op, true), out);
}

void mega_filled(struct arena *mem, const struct mega_model *m, int tensor, struct mega_region *out)
{
  const struct mega_tensor *t = &m->tensor[tensor];
  struct mega_box all = {0};
  struct mega_paged p;
  for (int d = 0; d < t->rank; d++) all.hi[d] = t->dim[d];
  for (int o = 0; o < m->nops; o++)
    for (int a = 0; a < m->op[o].spec.naccess; a++) {
      const struct mega_access *x = &m->op[o].spec.access[a];
      if (m->op[o].arg[x->arg] != tensor || !paged_of(m, t, x, &p)) continue;
      for (int r = 0; r < m->rows; r++) {
        struct mega_seat s = mega_seat_of(m, r, 0);
        add_pages(mem, &p, &s, &all, r, 0, p.table ? s.past : m->context, out);
      }
      return;
    }
  PUSH(mem, out->box, out->n, out->cap) = all;
}

bool mega_paged(const struct mega_model *m, const struct mega_op *op, bool table)
{
  struct mega_paged p;
  for (int a = 0; a < op->spec.naccess; a++)
    if (paged_of(m, &m->tensor[op->arg[op->spec.access[a].arg]], &op->spec.access[a], &p) && p.table == table) return true;
  return false;
}

// ---- pieces of a stream ----

static int64_t piece_width(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *box, int *cut)
{
  const struct mega_access *a = &op->spec.access[access];
  int64_t slice = mega_bytes(m->tensor[op->arg[a->arg]].type);
  *cut = 0;
  for (int d = 0; d < a->rank; d++) {
    if (a->dim[d].cut)
      *cut = d;
    else if (a->dim[d].how != MEGA_ANY)
      slice *= box->hi[d] - box->lo[d];
  }
  int64_t width = MAX(1, m->stage_bytes / slice);
  bool weights = m->tensor[op->arg[a->arg]].kind == MEGA_WEIGHTS;
  return weights && width > MEGA_PIECE_UNIT ? width / MEGA_PIECE_UNIT * MEGA_PIECE_UNIT : width;
}

int64_t mega_pieces(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *box)
{
  int cut;
  int64_t width = piece_width(m, op, access, box, &cut);
  return (box->hi[cut] - box->lo[cut] + width - 1) / width;
}

void mega_piece(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *box, int64_t i, struct mega_box *out)
{
  int cut;
  int64_t width = piece_width(m, op, access, box, &cut);
  *out = *box;
  out->lo[cut] = box->lo[cut] + i * width;
  out->hi[cut] = MIN(out->lo[cut] + width, box->hi[cut]);
}

int64_t mega_piece_bytes(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *piece)
{
  const struct mega_access *a = &op->spec.access[access];
  int64_t n = mega_bytes(m->tensor[op->arg[a->arg]].type);
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d].how != MEGA_ANY) n *= piece->hi[d] - piece->lo[d];
  return n;
}
