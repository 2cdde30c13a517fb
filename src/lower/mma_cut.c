// Re-tiles the grid, the loop or the columns of a kernel with products (plan/retile.h). Loads of missing rows read the last row. Missing rows are not
// stored.
#include "lower/mma.h"

const struct lower_job *mma_retile(const struct lower_job *j, struct norm_retile to, char why[160])
{
  if (!j->exact && lower_exact(j)) {
    struct lower_job *exact = arena_copy(j->mem, j, sizeof *j);
    exact->exact = true, j = exact;
  }
  if (!to.rows && !to.step && !to.cols) return j;
  struct lower_job *job = arena_copy(j->mem, j, sizeof *j);
  job->n = norm_cut(j->mem, j->n, to, j->tail != NULL, &job->cut, why), job->retiled = true;
  return job->n ? job : NULL;
}

// ---- rows ----

void mma_cut_rows(struct mma_plan *p)
{
  int8_t letter[MAX_LETTERS];
  const int n = norm_in_order(p->n, p->row_letters, letter);
  p->rows = (struct lower_space){0};
  mma_list_add(p->n, &p->rows, n, letter, ~0u);
  p->nrows = space_size(&p->rows), p->padded = p->cut ? p->cut : (p->nrows + 15) / 16 * 16;
}

int64_t mma_block_rows(const struct mma_plan *p) { return p->cut ? p->cut : p->nbatch * p->padded; }

bool mma_cut_ragged(const struct mma_plan *p) { return p->nrows % p->cut != 0; }

const char *mma_cut_row(const struct mma_plan *p, const char *row, bool within)
{
  struct arena *mem = p->job->mem;
  const struct graph *b = p->n->block;
  const char *piece = b->ngrid > 1 ? arena_printf(mem, "@bid %% %lld", (long long)b->grid[0]) : "@bid";
  const char *at = b->grid[0] > 1 ? arena_printf(mem, "%s * %lld + %s", piece, (long long)p->cut, row) : row;
  return within && mma_cut_ragged(p) ? arena_printf(mem, "min(%s, %lld)", at, (long long)p->nrows - 1) : at;
}

struct norm *mma_block_norm(const struct mma_plan *p)
{
  struct norm *n = arena_copy(p->job->mem, p->n, sizeof *n);
  for (int i = 0; i < p->rows.n && p->cut; i++) n->extent[(int)p->rows.axis[i]] = i ? 1 : p->cut;
  return n;
}

// ---- re-tilings worth trying ----

enum { MMA_STEPS = 5 };

static int some_rows(const struct lower_job *j, int64_t least, int64_t step, int64_t rows[MMA_CUTS], char why[160])
{
  struct mma_plan as_is, all;
  struct lower_job bare = *j;
  char other[160];
  bool fine = mma_plan(&as_is, mma_retile(j, (struct norm_retile){.step = step}, why), why);
  int n = 0;
  if (fine) rows[n++] = 0;
  bare.tail = NULL;
  const struct lower_job *whole = mma_retile(&bare, (struct norm_retile){1 << 20, step, 0}, other);
  if (!mma_plan(&all, whole, other)) return n;
  for (int64_t r = least; r <= 256; r += r < 64 ? r : 64) {
    bool same = fine && as_is.nbatch == 1 && as_is.nrows == r;
    if (!same && (r == least || r / 2 < all.nrows)) rows[n++] = r;
  }
  return n;
}

static int add_step(int64_t step, int n, int64_t out[MMA_STEPS])
{
  bool known = false;
  for (int i = 0; i < n; i++) known |= out[i] == step;
  if (!known && n < MMA_STEPS) out[n++] = step;
  return n;
}

// Steps of the loop: the block graph's (0) unless it is a single element, 64, 128, the least one, about 128 in equal parts, and a few small ones.
static int some_steps(const struct norm *n, int64_t least, int64_t out[MMA_STEPS])
{
  int64_t all, own = norm_own_step(n, &all), turns = (all + 127) / 128;
  int count = own == 1 ? 0 : add_step(0, 0, out);
  if (!own) return count;
  for (int64_t s = least; s <= 128; s *= 2)
    if (s != own && (s < all || own > 1)) count = add_step(s, count, out);
  int64_t even = ((all + turns - 1) / turns + 15) / 16 * 16;
  if (all % 128 && even != own && even < all) count = add_step(even, count, out);
  return own == 1 && all <= 256 ? add_step((all + 15) / 16 * 16, count, out) : count;
}

// Re-tilings: the block graph's, and a few sizes of pieces with a few steps of the loop. A piece must not be the block graph's, nor so large that its
// first half has all rows.
int mma_cuts(const struct lower_job *j, int64_t least, struct norm_retile out[MMA_CUTS], char why[160])
{
  int64_t rows[MMA_CUTS], step[MMA_STEPS];
  int nsteps = some_steps(j->n, lower_exact(j) ? 32 : 64, step), n = 0, nrows = some_rows(j, least, step[0], rows, why);
  char other[160];
  for (int i = 0; i < nrows; i++)
    for (int k = 0; k < nsteps && n < MMA_CUTS; k++) {
      struct norm_retile a = {rows[i], step[k], 0};
      if (!step[k] || mma_retile(j, a, other)) out[n++] = a;
    }
  return n;
}
