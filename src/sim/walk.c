// The pieces of an atom, one for each iteration of its loops: for each operand, the address of every lane and its guard.
// Values are [element][lane] in their type. Registers have the same order, so a piece in registers needs no copy.
#include "sim/machine.h"

#define EACH for (int l = 0; l < LANES; l++)

struct walk walk_begin(struct warp *w, const struct sim_atom *a)
{
  struct walk it = {.w = w, .a = a};
  for (int m = 0; m < a->t->nmodes; m++) it.done |= a->t->extent[m] <= 0;
  return it;
}

void walk_next(struct walk *it)
{
  const struct tile_atom *t = it->a->t;
  for (int m = 0; m < t->nmodes; m++) {
    if (++it->mode[m] < t->extent[m]) return;
    it->mode[m] = 0;
  }
  it->done = true;
}

// out = base + sum of stride * mode; returns true if all lanes have the same value.
static bool affine(const struct walk *it, int base, const int *stride, int64_t out[LANES])
{
  const struct vec *b = code_eval(it->w, base);
  bool uniform = b->uniform;
  int64_t shift = 0;
  memcpy(out, b->v, sizeof b->v);
  for (int m = 0; m < it->a->t->nmodes; m++) {
    if (!it->mode[m]) continue;
    const struct vec *d = code_eval(it->w, stride[m]);
    if (d->uniform) {
      shift += d->v[0] * it->mode[m];
    } else {
      uniform = false;
      EACH out[l] += d->v[l] * it->mode[m];
    }
  }
  if (shift) EACH out[l] += shift;
  return uniform;
}

void walk_place(const struct walk *it, int o, struct sim_place *p)
{
  const struct sim_operand *op = &it->a->op[o];
  p->uniform = affine(it, op->offset, op->stride, p->at);
  p->mask = it->w->active;
  for (int g = 0; g < op->nguards; g++) {
    int64_t value[LANES];
    uint32_t out = 0;
    bool uniform = affine(it, op->guard[g].value, op->guard[g].stride, value);
    const struct vec *limit = code_eval(it->w, op->guard[g].limit);
    if (uniform && limit->uniform)
      out = value[0] >= limit->v[0] ? FULL : 0;
    else
      EACH out |= (uint32_t)(value[l] >= limit->v[l]) << l;
    p->mask &= ~out;
  }
}

// ---- registers ----

static const void *load_regs(const struct walk *it, int o, int width, const struct sim_place *p, uint8_t *tmp)
{
  const struct sim_operand *op = &it->a->op[o];
  if (p->uniform) {
    if (!regs_read(it->w, it->a, o, p->at[0], width, p->mask)) return memset(tmp, 0, (size_t)(width * op->bytes * LANES));
    return regs_at(it->w, op, p->at[0]);
  }
  size_t b = (size_t)op->bytes;
  memset(tmp, 0, (size_t)width * b * LANES);
  EACH
  {
    if (!(p->mask >> l & 1) || !regs_read(it->w, it->a, o, p->at[l], width, 1u << l)) continue;
    const uint8_t *from = regs_at(it->w, op, p->at[l]);
    for (int i = 0; i < width; i++) memcpy(tmp + ((size_t)i * LANES + (size_t)l) * b, from + ((size_t)i * LANES + (size_t)l) * b, b);
  }
  return tmp;
}

static void store_regs(const struct walk *it, int o, int width, const struct sim_place *p, const uint8_t *values)
{
  const struct sim_operand *op = &it->a->op[o];
  size_t b = (size_t)op->bytes;
  if (p->uniform) {
    if (!regs_write(it->w, it->a, o, p->at[0], width, p->mask)) return;
    uint8_t *to = regs_at(it->w, op, p->at[0]);
    for (int i = 0; i < width; i++) regs_blend(to + (size_t)i * LANES * b, values + (size_t)i * LANES * b, op->bytes, p->mask);
    return;
  }
  EACH
  {
    if (!(p->mask >> l & 1) || !regs_write(it->w, it->a, o, p->at[l], width, 1u << l)) continue;
    uint8_t *to = regs_at(it->w, op, p->at[l]);
    for (int i = 0; i < width; i++) memcpy(to + ((size_t)i * LANES + (size_t)l) * b, values + ((size_t)i * LANES + (size_t)l) * b, b);
  }
}

// ---- memory ----

// Copies elements between memory, in which those of a lane are contiguous, and [element][lane]. For one element per lane at adjacent addresses the
// order is the same.
#define SPREAD(name, type)                                                                                      \
  static void gather_##name(type *to, const uint8_t *from, const int64_t *at, int width, uint32_t mask)         \
  {                                                                                                             \
    if (mask == FULL && width == 1) {                                                                           \
      EACH memcpy(&to[l], from + at[l], sizeof(type));                                                          \
      return;                                                                                                   \
    }                                                                                                           \
    for (; mask; mask &= mask - 1) {                                                                            \
      int l = __builtin_ctz(mask);                                                                              \
      const uint8_t *p = from + at[l];                                                                          \
      for (int i = 0; i < width; i++) memcpy(&to[i * LANES + l], p + (size_t)i * sizeof(type), sizeof(type));   \
    }                                                                                                           \
  }                                                                                                             \
  static void scatter_##name(uint8_t *to, const int64_t *at, const type *from, int width, uint32_t mask)        \
  {                                                                                                             \
    for (; mask; mask &= mask - 1) {                                                                            \
      int l = __builtin_ctz(mask);                                                                              \
      uint8_t *p = to + at[l];                                                                                  \
      for (int i = 0; i < width; i++) memcpy(p + (size_t)i * sizeof(type), &from[i * LANES + l], sizeof(type)); \
    }                                                                                                           \
  }
SPREAD(8, uint8_t)
SPREAD(16, uint16_t)
SPREAD(32, uint32_t)
SPREAD(64, uint64_t)

static void gather(const struct access *x, void *to, int width, int first, uint32_t mask)
{
  const uint8_t *from = access_buffer(x, first);
  if (x->row && width == 1 && mask == FULL)
    memcpy(to, from + x->at[0], (size_t)x->bytes * LANES);
  else if (x->op->bytes == 1)
    gather_8(to, from, x->at, width, mask);
  else if (x->op->bytes == 2)
    gather_16(to, from, x->at, width, mask);
  else if (x->op->bytes == 4)
    gather_32(to, from, x->at, width, mask);
  else
    gather_64(to, from, x->at, width, mask);
}

static void scatter(const struct access *x, const void *from, int width, int first, uint32_t mask)
{
  uint8_t *to = access_buffer(x, first);
  if (x->row && width == 1 && mask == FULL)
    memcpy(to + x->at[0], from, (size_t)x->bytes * LANES);
  else if (x->op->bytes == 1)
    scatter_8(to, x->at, from, width, mask);
  else if (x->op->bytes == 2)
    scatter_16(to, x->at, from, width, mask);
  else if (x->op->bytes == 4)
    scatter_32(to, x->at, from, width, mask);
  else
    scatter_64(to, x->at, from, width, mask);
}

// The lanes whose data are in the same memory as the first lane's.
static uint32_t together(const struct access *x, uint32_t mask) { return x->op->mem == MEM_GL || x->near ? mask : mask & -mask; }

const void *walk_load(const struct walk *it, int o, int width, void *tmp)
{
  const struct sim_operand *op = &it->a->op[o];
  struct sim_place p;
  walk_place(it, o, &p);
  if (op->mem == MEM_RF) return load_regs(it, o, width, &p, tmp);
  struct access x;
  access_init(&x, it->w, it->a, o, width * op->bytes);
  access_elements(&x, &p);
  access_check(&x);
  if (x.mask != FULL) memset(tmp, 0, (size_t)(width * op->bytes * LANES));
  for (uint32_t m = x.mask, now; m; m &= ~now) {
    now = together(&x, m);
    gather(&x, tmp, width, __builtin_ctz(m), now);
  }
  return tmp;
}

void walk_store(const struct walk *it, int o, int width, const void *values)
{
  const struct sim_operand *op = &it->a->op[o];
  struct sim_place p;
  walk_place(it, o, &p);
  if (op->mem == MEM_RF) {
    store_regs(it, o, width, &p, values);
    return;
  }
  struct access x;
  access_init(&x, it->w, it->a, o, width * op->bytes);
  x.write = true;
  access_elements(&x, &p);
  access_check(&x);
  for (uint32_t m = x.mask, now; m; m &= ~now) {
    now = together(&x, m);
    scatter(&x, values, width, __builtin_ctz(m), now);
  }
}

// ---- groups of threads ----

uint32_t walk_group(struct warp *w, const struct sim_atom *a, int lane)
{
  int64_t first = code_eval(w, a->group)->v[lane] - w->number * LANES;
  uint32_t mask = 0;
  for (int i = 0; i < a->nmembers; i++) {
    int64_t l = first + a->member[i];
    if (l >= 0 && l < LANES) mask |= 1u << l;
  }
  return mask;
}

bool walk_collective(struct warp *w, const struct sim_atom *a)
{
  if (a->nmembers == 1 || w->active == FULL) return true;
  EACH
  {
    if (!(w->active >> l & 1)) continue;
    uint32_t missing = walk_group(w, a, l) & w->lanes & ~w->active;
    if (!missing) continue;
    report(w, a, SIM_DIVERGENT, l, "reaches it without thread %d of the same group, and with %d of the threads of its warp",
           w->number * LANES + __builtin_ctz(missing), __builtin_popcount(w->active));
    return false;
  }
  return true;
}
