// Results by TMA. A warpgroup rounds its fragments and writes pieces of 64 rows into shared memory by stmatrix, swizzled. One of its threads stores
// each piece by TMA, in whole lines of memory. There are a few places for pieces. A place is reused when its data have been read, so stores overlap
// the next piece and the next item's products. Elementwise operators that only such results need are computed one piece at a time too, so that their
// operands need few registers besides the sums. Only 16-bit results are stored this way: a quad of lanes stores whole sectors of fp32 anyway.
#include "lower/wgmma.h"

#include <string.h>

// The rows of the saver as boxes of 64 rows: along each dimension, fastest first, the remaining factor of 64. In a block with missing rows, a whole
// piece may be beyond the end, and TMA omits it. That does not work if all rows are one piece, since coordinates then have no digit for a second one.
static bool cut(struct wg_store *s)
{
  int64_t left = 64, below = 1;
  for (int i = s->box.ndims - 1; i >= 0; i--) {
    const struct box_dim *d = &s->box.dim[i];
    if (d->inner) continue;
    s->piece[i] = MIN(left, d->box), s->pieces[i] = d->box / s->piece[i], s->below[i] = below;
    if (left % s->piece[i] || d->box % s->piece[i] || (d->extent <= s->piece[i] && s->pieces[i] > 1)) return false;
    left /= s->piece[i], below *= s->pieces[i];
  }
  return left == 1;
}

static bool all_rows(const struct mma_plan *p, uint32_t has) { return !(mma_list_has(&p->rows) & ~has); }

void wgmma_store_plan(struct wg_plan *w)
{
  struct mma_plan *p = &w->p;
  char ignored[160], *why = p->why;
  p->why = ignored;
  w->store = NEWS(p->job->mem, struct wg_store, p->n->nsave + 1), w->store_chunk = 0;
  for (int i = 0; i < p->n->nsave; i++) {
    const struct plan_access *a = &p->n->save[i];
    struct wg_store *s = &w->store[i];
    int value = p->k.save[i].value;
    struct mma_shape shape = p->shape[value];
    if (p->job->store[a->tensor] == F32 || !shape.rows || shape.cols < 0 || !all_rows(p, mma_has(p, value)) ||
        (mma_pads(p, shape.cols) && !mma_clipped(p, shape.cols)))
      continue;
    if (!box_of(p, a, &p->rows, &p->cols[shape.cols].list, &s->box) || !cut(s)) continue;
    if (w->store_chunk && w->store_chunk != s->box.chunk) continue; // all places for pieces have the same size
    w->store_chunk = s->box.chunk, s->sent = true;
  }
  p->why = why;
  w->section = arena_copy(p->job->mem, p->section, sizeof *p->section * (size_t)p->k.nvalues);
}

// ---- operators that are computed by pieces ----

// Whether only results stored by TMA, or operators computed with them, read it.
static bool read_late(const struct wg_plan *w, int value)
{
  const struct mma_plan *p = &w->p;
  for (int i = 0; i < p->k.nsaves; i++)
    if (p->k.save[i].value == value && !w->store[i].sent) return false;
  return mma_read_in(p, value, 1u << MMA_SENT);
}

static bool has_columns_of_result(const struct wg_plan *w, int value)
{
  for (int i = 0; i < w->p.k.nsaves; i++)
    if (w->store[i].sent && w->p.shape[w->p.k.save[i].value].cols == w->p.shape[value].cols) return true;
  return false;
}

void wgmma_store_sections(struct wg_plan *w)
{
  struct mma_plan *p = &w->p;
  memcpy(p->section, w->section, sizeof *p->section * (size_t)p->k.nvalues);
  for (int v = p->k.nvalues - 1; v >= 0 && w->places; v--) {
    const struct kern_value *x = mma_at(p, v);
    if (!x->live || x->kind != KERN_MAP || (p->iterations > 1 && p->section[v] != MMA_POST) || p->section[v] == MMA_SIDE || p->folded[v]) continue;
    if (has_columns_of_result(w, v) && read_late(w, v)) p->section[v] = MMA_SENT;
  }
}

int64_t wgmma_store_bytes(const struct wg_plan *w) { return 64ll * w->store_chunk * 2 * w->places * w->groups; }

bool wgmma_sends(const struct wg_plan *w, int save) { return w->places && w->store[save].sent; }

const char *wgmma_store_type(const struct wg_plan *w, int save) { return box_type(&w->p, &w->store[save].box); }

void wgmma_store_declare(struct mma_kernel *k, const struct wg_plan *w)
{
  int bits = w->store_chunk == 64 ? 3 : w->store_chunk == 32 ? 2 : 1;
  if (!w->places) return;
  for (int i = 0; i < w->p.n->nsave; i++)
    if (w->store[i].sent) {
      text_line(k->t, "%%sent:[%d].[%d].[64, %lld].%s.SH.swizzle(%d, 3, 3)", w->groups, w->places, (long long)w->store_chunk,
                tile_dtype(w->p.job->store[w->p.n->save[i].tensor]), bits);
      return;
    }
}

// ---- emission ----

// Copies the registers of piece j of a value.
static void slice(struct mma_kernel *k, const struct mma_plan *whole, int value, int cols)
{
  const struct mma_plan *p = k->p;
  const char *from = k->reg[value];
  if (!from || p->section[value] == MMA_SENT) return;
  struct mma_shape s = mma_loads(p, value) ? k->have[value] : p->shape[value];
  if (s.cols != cols || p->cols[cols].nt == whole->cols[cols].nt) return;
  const char *to = k->reg[value] = mma_declare(k, s, "fp32");
  text_line(k->t, "each m:%d n:%d h:%d\n%%%s[m, n][h, 0] <- Move(%%%s[m, j * %d + n][h, 0])", s.rows ? p->mt : 1, p->cols[cols].nt, s.rows ? 2 : 1,
            to, from, p->cols[cols].nt);
}

// Marks the operators computed by pieces that the result needs.
static void mark(const struct mma_plan *p, int value, bool *needed)
{
  if (p->section[value] != MMA_SENT || needed[value]) return;
  needed[value] = true;
  for (int i = 0; i < p->k.v[value].nin; i++) mark(p, p->k.v[value].in[i], needed);
}

// The registers of the result's piece j.
static const char *compute(struct mma_kernel *k, const struct mma_plan *whole, int value)
{
  const struct mma_plan *p = k->p;
  bool *needed = NEWS(k->mem, bool, p->k.nvalues + 1);
  int cols = p->shape[value].cols;
  mark(p, value, needed);
  slice(k, whole, value, cols);
  for (int v = 0; v < p->k.nvalues; v++)
    for (int j = 0; needed[v] && j < p->k.v[v].nin; j++) slice(k, whole, p->k.v[v].in[j], cols);
  for (int v = 0; v < p->k.nvalues; v++)
    if (needed[v]) mma_compute(k, v);
  return k->reg[value];
}

// The number, among all pieces of columns, of this warpgroup's piece j.
static const char *piece_of_columns(struct mma_kernel *k, const struct wg_plan *w, const struct wg_store *s)
{
  const long long each = s->box.chunks / w->wide;
  const char *in = w->slices > 1 ? arena_printf(k->mem, "@rank * %lld + j", each / w->slices) : "j";
  return w->wide == 1 ? in : arena_printf(k->mem, "%s * %lld + %s", wgmma_part(k->p), each, in);
}

// The box of the piece with row number @rows.
static struct box piece_box(struct mma_kernel *k, const struct wg_plan *w, const struct wg_store *s)
{
  struct box part = s->box;
  for (int i = 0; i < part.ndims; i++) {
    struct box_dim *d = &part.dim[i];
    d->loop.n = 0, d->parts = d->inner ? part.chunks : s->pieces[i];
    d->part = d->inner ? piece_of_columns(k, w, s) : arena_printf(k->mem, "@rows / %lld %% %lld", (long long)s->below[i], (long long)s->pieces[i]);
    if (!d->inner) d->box = s->piece[i];
  }
  return part;
}

// The number of 64-row pieces that a warpgroup stores for each item.
static int64_t pieces_of(const struct wg_plan *w, int save) { return w->p.mt * w->store[save].box.chunks / w->wide / w->slices; }

// The place of a piece: they are used in turn, across items too.
static const char *place(struct mma_kernel *k, const struct wg_plan *w, int save)
{
  int64_t all = 0, before = 0;
  for (int i = 0; i < w->p.n->nsave; i++) {
    if (i == save) before = all;
    if (w->store[i].sent) all += pieces_of(w, i);
  }
  const char *own = w->alternate ? arena_printf(k->mem, "round / %d", w->groups) : "round";
  const char *round = w->walks && all % w->places ? arena_printf(k->mem, "%s * %lld + ", own, (long long)all) : "";
  return arena_printf(k->mem, "(%s%lld + j * %d + m) %% %d", round, (long long)before, w->p.mt, w->places);
}

// Writes 64 rows at a time; each warp stores 16 columns of its 16 rows at once.
static void send(struct mma_kernel *k, const struct wg_plan *w, int save, const char *from)
{
  const struct plan_access *a = &k->p->n->save[save];
  const struct box piece = piece_box(k, w, &w->store[save]);
  TEXT_ABOUT(k->t, k->p->k.save[save].about);
  text_fill(k->t,
            "each m:$mt\n"
            "@rows = $group * $mt + m\n"
            "@place = $place\n"
            "if (@i == 0) {\n"
            "Sync<bulk.wait.read, $left>()\n"
            "}\n"
            "Sync<barrier>#group()\n"
            "each n:$steps\n"
            "%two:[2, 2].[1, 2].$type.RF\n"
            "each e:2 h:2\n"
            "%two[h, e] <- UnaryPointwise<cast>(%$from[m, n * 2 + e][h, 0])\n"
            "}\n"
            "%sent[@g][@place].tile([1, 8])[@wm % 4 * 16 + @lane % 16, n * 2 + @lane / 16] <- Move<stmatrix>#warp(%two)\n"
            "}\n"
            "Sync<fence.async>()\n"
            "Sync<barrier>#group()\n"
            "if (@i == 0) {\n"
            "%to$tile$view <- Move<tma>(%sent[@g][@place]$shape)\n"
            "Sync<bulk.commit>()",
            HOLES(NULL, INT(mt, k->p->mt), STR(group, wgmma_rows(k->p)), STR(place, place(k, w, save)), INT(left, w->places - 1),
                  INT(steps, w->store_chunk / 16), STR(type, tile_dtype(k->p->job->store[a->tensor])), STR(from, from), INT(tile, a->tile),
                  STR(view, box_view(k->p, &piece, "0", "")), STR(shape, box_shape(k->p, &piece))));
}

void wgmma_store(struct mma_kernel *k, const struct wg_plan *w, int save)
{
  const struct mma_plan *whole = k->p;
  struct mma_plan *p = arena_copy(k->mem, whole, sizeof *p);
  int value = p->k.save[save].value, cols = p->shape[value].cols;
  struct mma_known known = mma_remember(k);
  TEXT_SCOPE(k->t);
  text_open(k->t, "each j:%lld", (long long)w->store[save].box.chunks / w->wide / w->slices);
  p->cols[cols].nt = (int)w->store_chunk / 8;
  const char *piece = piece_of_columns(k, w, &w->store[save]);
  p->cols[cols].from = arena_printf(k->mem, w->wide * w->slices == 1 ? "%s * %d" : "(%s) * %d", piece, p->cols[cols].nt);
  k->p = p, k->section = MMA_SENT;
  const char *from = compute(k, whole, value);
  send(k, w, save, from);
  k->p = whole;
  mma_forget(k, &known);
}

void wgmma_store_finish(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->places) text_line(k->t, "if (@i == 0) {\nSync<bulk.wait, 0>()");
}
