// Copies by threads: through registers, asynchronous ones (cp.async), and atomics.
#include "sim/machine.h"

enum { ROOM = 32 * LANES };
#define EACH for (int l = 0; l < LANES; l++)

enum go sem_move(struct warp *w, const struct sim_atom *a)
{
  int width = a->t->width;
  uint8_t buffer[ROOM];
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    walk_store(&it, 0, width, walk_load(&it, 1, width, buffer));
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active) * width;
  }
  return GO_ON;
}

// The elements from number n on of two vectors, one after the other; n differs between lanes.
enum go sem_shift(struct warp *w, const struct sim_atom *a)
{
  const struct vec n = *code_eval(w, a->arg);
  const int width = a->t->width;
  const size_t b = (size_t)a->op[0].bytes, all = (size_t)width * b * LANES;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    uint8_t in[ROOM], both[2 * ROOM], out[ROOM] = {0};
    for (int k = 0; k < 2; k++) memcpy(both + (size_t)k * all, walk_load(&it, 1 + k, width, in), all);
    for (int i = 0; i < width; i++) EACH
      {
        const int64_t from = MIN(MAX(n.v[l], 0), width) + i;
        memcpy(out + ((size_t)i * LANES + (size_t)l) * b, both + ((size_t)from * LANES + (size_t)l) * b, b);
      }
    walk_store(&it, 0, width, out);
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active) * width;
  }
  return GO_ON;
}

// cp.async from global to shared memory; the copy belongs to the open group.
static void copy_piece(const struct walk *it)
{
  struct warp *w = it->w;
  const struct sim_atom *a = it->a;
  int bytes = a->t->width * a->op[0].bytes;
  struct sim_place from, to;
  struct access x, y;
  walk_place(it, 1, &from), walk_place(it, 0, &to);
  access_init(&x, w, a, 1, bytes), access_elements(&x, &from);
  access_check(&x);
  access_init(&y, w, a, 0, bytes), access_elements(&y, &to);
  y.write = true, y.agent = w->cp.agent, y.clock = w->cp.clock;
  access_check(&y);
  EACH
  {
    if (!(y.mask >> l & 1)) continue;
    if (x.mask >> l & 1)
      memcpy(access_data(&y, l), access_data(&x, l), (size_t)bytes);
    else
      memset(access_data(&y, l), 0, (size_t)bytes);
  }
}

enum go sem_cp_async(struct warp *w, const struct sim_atom *a)
{
  sync_open(w, &w->cp);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    copy_piece(&it);
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active) * a->t->width;
  }
  return GO_ON;
}

// A prefetch reads no data, so it may come before others have written them. Its addresses must be within the tensor.
enum go sem_prefetch(struct warp *w, const struct sim_atom *a)
{
  struct walk it = walk_begin(w, a);
  struct sim_place p;
  struct access x;
  walk_place(&it, 0, &p);
  access_init(&x, w, a, 0, a->op[0].bytes), access_elements(&x, &p);
  access_reach(&x);
  return GO_ON;
}

// *p = op(*p, value); stores the previous value in `old`.
static void change(const struct sim_atom *a, uint8_t *p, const uint8_t *value, uint8_t *old)
{
  uint8_t x[LANES * 8] = {0}, y[LANES * 8] = {0}, z[LANES * 8];
  const struct sim_operand *op = &a->op[0];
  memcpy(x, p, (size_t)op->bytes), memcpy(y, value, (size_t)op->bytes);
  point_binary(a->t->op, op->type, x, y, z);
  memcpy(old, p, (size_t)op->bytes);
  memcpy(p, z, (size_t)op->bytes);
}

static void atomic_piece(const struct walk *it, int memory)
{
  const struct sim_atom *a = it->a;
  int width = a->t->width;
  uint8_t buffer[ROOM], old[ROOM] = {0};
  size_t b = (size_t)a->op[0].bytes;
  const uint8_t *values = walk_load(it, memory + 1, width, buffer);
  struct sim_place p;
  struct access x;
  walk_place(it, memory, &p);
  access_init(&x, it->w, a, memory, width * (int)b), access_elements(&x, &p);
  x.write = x.atomic = true;
  access_check(&x);
  EACH
  {
    if (!(x.mask >> l & 1)) continue;
    for (int i = 0; i < width; i++) {
      size_t at = ((size_t)i * LANES + (size_t)l) * b;
      change(a, access_data(&x, l) + (size_t)i * b, values + at, old + at);
    }
    if (x.op->mem == MEM_GL) sync_tell(it->w, a, l, x.at[l], memory == 1);
  }
  if (memory) walk_store(it, 0, width, old);
}

enum go sem_atomic(struct warp *w, const struct sim_atom *a)
{
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    atomic_piece(&it, a->t->row->sem == SEM_ATOM ? 1 : 0);
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active) * a->t->width;
  }
  return GO_ON;
}
