// Copies of tiles whose rows begin at any element. Asynchronous copies need at least 4 aligned bytes, so these tiles go through registers. A piece is
// 8 elements of a row. A thread loads the two aligned vectors that have them, shifts the 8 elements out, and stores them as one vector. No condition
// is around the loads, since the compiler would wait for each one in it: threads without a piece load something else. Elements of a piece beyond the
// row are set to zero, so they are padding (mma_pad.c). Loads are clamped to whole vectors of the tensor, and elements after the last one are copied
// one by one. So nothing outside of the tensor is read.
//
// If one batch of pieces is a tile of an iteration, its loads are issued before the products of an earlier iteration, and its stores follow after
// these products.
#include "lower/mma.h"

// PIECES: pieces that a thread has in flight. LOOP_PIECES: the same within a loop, where accumulators occupy registers. LEAST: elements of a row from
// which on a piece takes fewer instructions than copies of single elements.
enum { PIECES = 10, LOOP_PIECES = 4, LEAST = 5 };

static int64_t whole_vectors(const struct mma_plan *p, const struct plan_access *a) { return norm_elements(p->n, a->tensor) / MMA_PIECE; }

// Whether the tile's rows are contiguous in device memory.
static bool contiguous(const struct mma_plan *p, const struct mma_tile *t, const struct plan_access *a)
{
  int64_t step = 1;
  for (int i = t->in.n - 1; i >= 0; step *= p->n->extent[(int)t->in.axis[i--]])
    if (a->stride[(int)t->in.axis[i]] != step) return false;
  return true;
}

bool mma_anywhere(const struct mma_plan *p, const struct mma_tile *t)
{
  const struct plan_access *a = &p->n->iter[t->iter];
  const struct norm *n = p->n;
  const uint32_t shorter = (n->ragged.all ? 1u << n->ragged.letter : 0) | (n->clipped.all ? 1u << n->clipped.letter : 0);
  return t->width == 1 && t->own_cols >= LEAST && !(mma_list_has(&t->in) & shorter) && whole_vectors(p, a) && contiguous(p, t, a);
}

int64_t mma_row_pieces(const struct mma_tile *t) { return (t->own_cols + mma_piece(t) - 1) / mma_piece(t); }

int64_t mma_anywhere_batches(const struct mma_plan *p, const struct mma_tile *t)
{
  const int64_t most = p->iterations > 1 ? LOOP_PIECES : PIECES;
  return (mma_copy_rounds(p, t) + most - 1) / most;
}

static int64_t pieces_of_batch(const struct mma_plan *p, const struct mma_tile *t)
{
  const int64_t batches = mma_anywhere_batches(p, t);
  return (mma_copy_rounds(p, t) + batches - 1) / batches;
}

int64_t mma_anywhere_registers(const struct mma_plan *p, const struct mma_tile *t)
{
  return t->anywhere ? pieces_of_batch(p, t) * 2 * MMA_PIECE / 2 : 0;
}

bool mma_anywhere_late(const struct mma_plan *p, const struct mma_tile *t)
{
  return t->anywhere && t->varying && p->iterations > 1 && mma_anywhere_batches(p, t) == 1;
}

// ---- text ----

static const struct hole *holes_of(const struct mma_kernel *k, const struct mma_tile *t, const struct mma_copy *c)
{
  const struct mma_plan *p = k->p;
  const int tensor = p->n->iter[t->iter].tensor;
  const long long row = mma_row_pieces(t), pieces = t->own_rows * row, each = pieces_of_batch(p, t), batches = mma_anywhere_batches(p, t);
  const long long last = t->own_cols % MMA_PIECE, whole = whole_vectors(p, &p->n->iter[t->iter]);
  return KEPT_HOLES(k->mem, NULL, INT(batches, batches), INT(each, each), INT(threads, p->threads), INT(over, batches * each * p->threads > pieces),
                    INT(pieces, pieces), INT(cut, t->cut), STR(row, c->row), STR(at, c->at), STR(memory, k->global[tensor]), INT(last, last),
                    INT(rest, MMA_PIECE - last), INT(inside, row - 1), INT(whole, whole), INT(most, whole - 1), STR(inner, c->inner),
                    STR(outer, c->outer), INT(buffer, t->buffer), STR(stage, c->stage), STR(type, tile_dtype(p->type)), INT(cols, t->own_cols),
                    INT(tail, norm_elements(p->n, tensor) % MMA_PIECE), INT(tile, t->tensor), STR(batch, batches > 1 ? "i" : "0"));
}

// Opens the loop over the pieces of a thread in a batch. @c: number of the piece; @e: its first element in the tensor.
#define EACH_PIECE                 \
  "each j:$each\n"                 \
  "@turn = $batch * $each + j\n"   \
  "@c = @turn * $threads + @tid\n" \
  "?cut @row = $row\n"             \
  "@e = $at\n"

static void loads(struct mma_kernel *k, const struct hole *holes)
{
  text_fill(k->t,
            EACH_PIECE "%raw$tile[j][0] <- Move<ld.global.nc>(%$memory.tile([8])[min(@e / 8, $most)])\n"
                       "%raw$tile[j][1] <- Move<ld.global.nc>(%$memory.tile([8])[min(@e / 8 + 1, $most)])",
            holes);
}

// Only the stores are conditional, so that the compiler makes them predicated instructions.
static void stores(struct mma_kernel *k, const struct hole *holes)
{
  text_fill(k->t,
            EACH_PIECE "%piece:[8].$type.RF\n"
                       "%piece <- Move<shift, @e % 8>(%raw$tile[j][0], %raw$tile[j][1])\n"
                       "?last if ($inner == $inside) {\n"
                       "?last each z:$rest\n"
                       "?last %piece[$last + z] <- Init<0.0>()\n"
                       "?last }\n"
                       "?last }\n"
                       "?over if (@c < $pieces) {\n"
                       "%s$buffer[$stage].tile([1, 8])[$outer, $inner] <- Move(%piece)\n"
                       "?tail if (@e / 8 + 1 >= $whole) {\n"
                       "?tail for (z = 0; z < 8; z += 1) rolled {\n"
                       "?tail if (@e + z >= $whole * 8 && ($inner) * 8 + z < $cols) {\n"
                       "?tail %s$buffer[$stage][$outer, ($inner) * 8 + z] <- Move(%$memory[@e + z])",
            holes);
}

void mma_anywhere_declare(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    if (mma_anywhere_late(p, t)) text_line(k->t, "%%raw%d:[%lld].[2].[8].%s.RF", t->tensor, (long long)pieces_of_batch(p, t), tile_dtype(p->type));
  }
}

void mma_anywhere_copy(struct mma_kernel *k, const struct mma_tile *t, const struct mma_copy *c)
{
  const struct hole *holes = holes_of(k, t, c);
  if (c->part == MMA_COPY_LOADS) {
    loads(k, holes);
    return;
  }
  if (c->part == MMA_COPY_STORES) {
    stores(k, holes);
    return;
  }
  TEXT_SCOPE(k->t);
  text_begin(k->t, "for (i = 0; i < $batches; i += 1) rolled {\n%raw$tile:[$each].[2].[8].$type.RF", holes);
  loads(k, holes), stores(k, holes);
}
