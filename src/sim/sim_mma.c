// Warp instructions on matrices: ldmatrix, stmatrix, mma. The row's thread-value layout gives the position of each value.
// Products of fp16 or bf16 numbers are exact in fp32. Sums are in fp32, in the order of k, each rounded to nearest; tensor
// cores may keep a few digits more or fewer within an instruction. A 16-bit accumulator is rounded once per instruction.
#include "sim/machine.h"

#define EACH for (int l = 0; l < LANES; l++)
enum { MOST = 512 }; // most elements of a tile

// ---- ldmatrix, stmatrix ----

// The row-major index, in a matrix of 64 elements, of half h of this lane's word.
static int element_of(bool trans, int lane, int h)
{
  int g = lane / 4, t = lane % 4;
  return trans ? (2 * t + h) * 8 + g : g * 8 + 2 * t + h;
}

// A register of a fragment; NULL if it is out of bounds.
static uint8_t *fragment(const struct walk *it, int o, int i, bool write)
{
  const struct sim_operand *op = &it->a->op[o];
  struct sim_place p;
  walk_place(it, o, &p);
  int64_t e = p.at[0] + op->inner[i];
  bool good = write ? regs_write(it->w, it->a, o, e, 1, it->w->active) : regs_read(it->w, it->a, o, e, 1, it->w->active);
  return good ? regs_at(it->w, op, e) : NULL;
}

static void rows(const struct walk *it, int o, bool write, struct access *x)
{
  struct sim_place p;
  int n = it->a->t->row->n;
  walk_place(it, o, &p);
  access_init(x, it->w, it->a, o, 16), access_elements(x, &p);
  if (n < 4) x->mask &= (1u << 8 * n) - 1;
  x->write = write, x->whole = true;
  access_check(x);
}

enum go sem_ldmatrix(struct warp *w, const struct sim_atom *a)
{
  if (!walk_collective(w, a)) return GO_ON;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    uint16_t m[LANES][8] = {0};
    struct access x;
    rows(&it, 1, false, &x);
    EACH if (x.mask >> l & 1) memcpy(m[l], access_data(&x, l), 16);
    for (int i = 0; i < a->op[0].ninner; i++) {
      uint8_t *to = fragment(&it, 0, i, true);
      EACH if (to) memcpy(to + 2 * l, &m[8 * (i / 2)][0] + element_of(a->t->row->trans, l, i % 2), 2);
    }
    w->s->r->counts.elements += LANES * a->op[0].ninner;
  }
  return GO_ON;
}

enum go sem_stmatrix(struct warp *w, const struct sim_atom *a)
{
  if (!walk_collective(w, a)) return GO_ON;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    uint16_t m[LANES][8] = {0};
    for (int i = 0; i < a->op[1].ninner; i++) {
      const uint8_t *from = fragment(&it, 1, i, false);
      EACH if (from) memcpy(&m[8 * (i / 2)][0] + element_of(a->t->row->trans, l, i % 2), from + 2 * l, 2);
    }
    struct access x;
    rows(&it, 0, true, &x);
    EACH if (x.mask >> l & 1) memcpy(access_data(&x, l), m[l], 16);
    w->s->r->counts.elements += LANES * a->op[1].ninner;
  }
  return GO_ON;
}

// ---- mma ----

struct team { // the lanes that hold a tile; lane[i] is thread i of the group
  int threads;
  int lane[LANES];
};

// Copies registers to the tile, in which the first dimension is the fastest.
static void gather_tile(const struct walk *it, int o, const struct team *t, float *tile)
{
  const struct sim_operand *op = &it->a->op[o];
  const int32_t *tv = it->a->tv[o];
  for (int i = 0; i < op->ninner; i++) {
    float row[LANES];
    const uint8_t *from = fragment(it, o, i, false);
    if (!from) continue;
    num_load_float(op->type, from, row);
    for (int j = 0; j < t->threads; j++) tile[tv[i * t->threads + j]] = row[t->lane[j]];
  }
}

static void scatter_tile(const struct walk *it, int o, const struct team *t, const float *tile)
{
  const struct sim_operand *op = &it->a->op[o];
  const int32_t *tv = it->a->tv[o];
  for (int i = 0; i < op->ninner; i++) {
    float row[LANES] = {0};
    uint32_t words[LANES];
    uint8_t *to = fragment(it, o, i, true);
    size_t bytes = (size_t)op->bytes;
    if (!to) continue;
    for (int j = 0; j < t->threads; j++) row[j] = tile[tv[i * t->threads + j]];
    num_store_float(op->type, row, words);
    for (int j = 0; j < t->threads; j++) memcpy(to + bytes * (size_t)t->lane[j], (uint8_t *)words + bytes * (size_t)j, bytes);
  }
}

// c[m + M n] += a[m + M k] b[n + N k]
#define PRODUCT(M)                                                                                               \
  static void product_##M(int n, int depth, const float *restrict a, const float *restrict b, float *restrict c) \
  {                                                                                                              \
    for (int j = 0; j < n; j++)                                                                                  \
      for (int k = 0; k < depth; k++)                                                                            \
        for (int i = 0; i < M; i++) c[M * j + i] += a[M * k + i] * b[n * k + j];                                 \
  }
PRODUCT(16)
PRODUCT(8)

void mma_product(int m, int n, int k, const float *a, const float *b, float *c)
{
  if (m == 16)
    product_16(n, k, a, b, c);
  else
    product_8(n, k, a, b, c);
}

static void multiply(const struct walk *it, const struct team *t)
{
  const struct instr *row = it->a->t->row;
  float a[MOST] = {0}, b[MOST] = {0}, c[MOST] = {0};
  gather_tile(it, 1, t, a), gather_tile(it, 2, t, b), gather_tile(it, 0, t, c);
  mma_product(row->m, row->n, row->k, a, b, c);
  scatter_tile(it, 0, t, c);
  struct sim_counts *counts = &it->w->s->r->counts;
  counts->elements += row->m * row->n * row->k, counts->flops += 2 * row->m * row->n * row->k;
}

enum go sem_mma(struct warp *w, const struct sim_atom *a)
{
  if (!walk_collective(w, a)) return GO_ON;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it))
    for (uint32_t left = w->active; left;) {
      int64_t first = code_eval(w, a->group)->v[__builtin_ctz(left)];
      struct team t = {.threads = MIN(a->nmembers, LANES)};
      left &= left - 1;
      for (int i = 0; i < t.threads; i++) {
        t.lane[i] = (int)(first + a->member[i]) & (LANES - 1);
        left &= ~(1u << t.lane[i]);
      }
      multiply(&it, &t);
    }
  return GO_ON;
}
