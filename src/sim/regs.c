// Registers: [element][lane] for every buffer of a warp, a mask of the lanes that have written each element, and the ranges
// that asynchronous products still read or write.
#include "sim/machine.h"

void *regs_at(struct warp *w, const struct sim_operand *op, int64_t element)
{
  const struct rbuf *r = &w->s->rf[op->buf];
  return w->regs + r->at + element * r->bytes * LANES;
}

static bool inside(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask)
{
  const struct sim_operand *op = &a->op[o];
  const struct rbuf *r = &w->s->rf[op->buf];
  if (element >= 0 && element + n <= r->elements) return true;
  report(w, a, SIM_BOUNDS, __builtin_ctz(mask), "uses register %lld of %%%s, which has %d%s", (long long)(element < 0 ? element : element + n - 1),
         op->buffer->name, r->elements, r->elements == 1 ? " register" : " registers");
  return false;
}

static bool pending(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask, bool write)
{
  const struct pending *p = &w->pending[a->op[o].buf];
  for (int i = 0; i < p->n; i++) {
    if (p->range[i].hi <= element || element + n <= p->range[i].lo || (!write && !p->range[i].write)) continue;
    report(w, a, SIM_WAIT, __builtin_ctz(mask), "%s register %lld of %%%s, which a wgmma %s; no Sync<wgmma.wait> is between",
           write ? "writes" : "reads", (long long)element, a->op[o].buffer->name, p->range[i].write ? "sums into" : "reads");
    return true;
  }
  return false;
}

bool regs_read(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask)
{
  const struct sim_operand *op = &a->op[o];
  if (!mask) return true;
  if (!inside(w, a, o, element, n, mask)) return false;
  const uint32_t *marks = w->marks + w->s->rf[op->buf].mark + element;
  uint32_t all = mask;
  for (int i = 0; i < n; i++) all &= marks[i];
  if (all != mask) {
    int lane = __builtin_ctz(mask & ~all);
    while (marks[0] >> lane & 1) marks++, element++;
    report(w, a, SIM_UNINIT, lane, "reads register %lld of %%%s, which was never written", (long long)element, op->buffer->name);
  }
  if (w->pending[op->buf].n) pending(w, a, o, element, n, mask, false);
  return true;
}

bool regs_write(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask)
{
  const struct sim_operand *op = &a->op[o];
  if (!mask || !inside(w, a, o, element, n, mask)) return false;
  uint32_t *marks = w->marks + w->s->rf[op->buf].mark + element;
  for (int i = 0; i < n; i++) marks[i] |= mask;
  struct pending *p = &w->pending[op->buf];
  if (p->n) pending(w, a, o, element, n, mask, true);
  p->dirty = true;
  return true;
}

void regs_alloc(struct warp *w, int buf)
{
  const struct rbuf *r = &w->s->rf[buf];
  for (int i = 0; i < r->elements; i++) w->marks[r->mark + i] &= ~w->active;
}

void regs_done(struct warp *w, uint32_t clock)
{
  for (int b = 0; b < w->s->k->nbuffers; b++) {
    struct pending *p = &w->pending[b];
    int n = 0;
    for (int i = 0; i < p->n; i++)
      if (p->range[i].clock > clock) p->range[n++] = p->range[i];
    p->n = n;
  }
}

void regs_blend(void *to, const void *from, int bytes, uint32_t mask)
{
  if (mask == FULL) {
    memmove(to, from, (size_t)(bytes * LANES));
    return;
  }
  for (int l = 0; l < LANES; l++)
    if (mask >> l & 1) memcpy((uint8_t *)to + l * bytes, (const uint8_t *)from + l * bytes, (size_t)bytes);
}
