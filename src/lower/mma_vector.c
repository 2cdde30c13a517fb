// Vectors over columns that are reduced from iterators alone, such as the norm of each row of a right operand: computed
// on the side (mma_side.c), in fragments whose rows are the vector's elements, and kept in shared memory for all warps.
#include "lower/mma.h"

static bool reduces(const struct mma_plan *p, const bool *member)
{
  for (int v = 0; v < p->k.nvalues; v++) {
    if (!member[v] || !kern_folds(&p->k.v[v])) continue;
    if (mma_sums_parts(p, v) && p->tile_of[p->k.v[v].in[0]] < 0) continue; // while it is loaded
    if (mma_gone(p, v)) return true;
  }
  return false;
}

// Values without rows that are, or come from, reductions. NULL: `value` is none.
static bool *cone(struct mma_plan *p, int value)
{
  const struct kern_value *v = mma_at(p, value);
  bool *member = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  if (!v->live || (v->kind != KERN_MAP && !kern_folds(v)) || p->section[value] == MMA_SIDE || mma_has(p, value) & p->row_letters) return NULL;
  return mma_side_mark(p, member, value) && reduces(p, member) ? member : NULL;
}

// The tile in shared memory that is reduced, if any. A tile whose place a right operand takes is not read.
static bool find_tile(struct mma_plan *p, struct mma_side *s)
{
  s->tile = -1;
  for (int v = 0; v < p->k.nvalues; v++)
    for (int k = 0; s->member[v] && k < p->k.v[v].nin; k++)
      if (p->tile_of[p->k.v[v].in[k]] >= 0) s->tile = p->tile_of[p->k.v[v].in[k]];
  for (int i = 0; i < p->nsides; i++)
    if (s->tile >= 0 && !p->side[i].vector && p->side[i].tile == s->tile)
      return mma_refuse(p, "a vector is reduced from what a right operand is computed from");
  return true;
}

static bool add(struct mma_plan *p, int root, bool *member)
{
  struct mma_side *s = &p->side[p->nsides];
  if (p->nsides == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  *s = (struct mma_side){.root = root, .vector = true, .member = member};
  p->shape[root] = (struct mma_shape){false, mma_cols_of(p, root, mma_has(p, root))};
  if (p->shape[root].cols < 0) return mma_refuse(p, "more than %d lists of columns", MMA_LISTS);
  if (!find_tile(p, s)) return false;
  p->nsides++;
  return true;
}

// Vectors that other values read; they are computed nowhere else.
bool mma_vectors(struct mma_plan *p)
{
  int n = p->k.nvalues;
  bool **of = NEWS(p->job->mem, bool *, n + 1);
  for (int v = 0; v < n; v++) of[v] = cone(p, v);
  for (int v = 0; v < n; v++) {
    bool read = false;
    for (int k = 0; of[v] && k < n; k++) read |= !of[k] && p->section[k] != MMA_SIDE && mma_reads(p, k, v);
    if (read && !add(p, v, of[v])) return false;
  }
  for (int i = 0; i < p->nsides; i++)
    for (int v = 0; v < n && p->side[i].vector; v++)
      if (p->side[i].member[v]) p->section[v] = MMA_SIDE;
  for (int v = 0; v < n; v++)
    for (int j = 0; j < p->k.v[v].nin && p->k.v[v].live && p->section[v] != MMA_SIDE; j++) {
      bool known = p->section[p->k.v[v].in[j]] != MMA_SIDE;
      for (int k = 0; k < p->nsides; k++) known |= p->side[k].root == p->k.v[v].in[j];
      if (!known) return mma_refuse(p, "a step on the way to a vector is read elsewhere");
    }
  return true;
}

// ---- emission ----

void mma_vector_declare(struct mma_kernel *k)
{
  for (int i = 0; i < k->p->nsides; i++)
    if (k->p->side[i].vector)
      text_line(k->t, "%%w%d:[%lld].fp32.SH", k->p->side[i].root, (long long)k->p->cols[k->p->shape[k->p->side[i].root].cols].padded);
}

// In the order of the columns that it will be.
void mma_vector_store(struct mma_kernel *k, const struct mma_plan *whole, const struct mma_side *s, const char *reg)
{
  int64_t stride[MAX_LETTERS];
  const struct mma_list *l = &whole->cols[whole->shape[s->root].cols].list;
  struct str at = {0};
  mma_list_strides(k->p->n, l, stride);
  str_add(&at, "0");
  mma_row_walk(k->p, stride, 1, &at);
  long long size = whole->cols[whole->shape[s->root].cols].size, gap = whole->cols[whole->shape[s->root].cols].padded - size;
  int indent = text_if(k->t, "@lane % 4 == 0");
  mma_rows_open(k, true), text_if(k->t, mma_side_row_exists(k));
  text_line(k->t, "%%w%d[%s] <- Move(%%%s[m, 0][h, 0][0, 0])", s->root, str_keep(k->mem, &at), reg);
  text_until(k->t, indent);
  text_fill(k->t,
            "?gap if (@tid < $gap) {\n" // what is read with it and counts for nothing
            "?gap %one:[].fp32.RF <- Init<1.0>()\n"
            "?gap %w$root[$size + @tid] <- Move(%one)",
            HOLES(NULL, INT(gap, gap), INT(root, s->root), INT(size, size)));
}

const char *mma_vector_value(struct mma_kernel *k, int value)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->nsides; i++) {
    if (!p->side[i].vector || p->side[i].root != value) continue;
    struct mma_shape s = p->shape[value];
    const char *v = mma_declare(k, s, "fp32");
    text_fill(k->t, "each n:$nt\n%$v[0, n][0, 0] <- Move(%w$value.tile([2])[$at])",
              HOLES(NULL, INT(nt, p->cols[s.cols].nt), STR(v, v), INT(value, value), STR(at, mma_cols_index(p, s.cols, 2))));
    return k->have[value] = s, v;
  }
  return NULL;
}
