// Copies boxes of tensors to packed arrays and back. A tensor is plain memory, or words with the epoch that is read or written.
#include "mega/mega_threads.h"

#include <string.h>

// Calls f(arg, first element, count) for each contiguous run of elements of a box, from dimension d on, in the order of the box. `at` is the index of
// the dimensions before d.
static bool runs(const struct mega_tensor *t, const struct mega_box *b, int d, int64_t at, bool (*f)(void *arg, int64_t at, int64_t n), void *arg)
{
  if (d + 1 >= MIN(t->rank, MEGA_DIMS)) return f(arg, at * t->dim[d] + b->lo[d], b->hi[d] - b->lo[d]);
  for (int64_t i = b->lo[d]; i < b->hi[d]; i++)
    if (!runs(t, b, d + 1, at * t->dim[d] + i, f, arg)) return false;
  return true;
}

struct mega_moving {
  struct mega_thread *t;
  const struct mega_tensor *tensor;
  struct mega_memory *memory;
  int64_t base;   // first element of the version, or of a slot of it
  uint32_t epoch; // of tagged data
  float *packed;
  bool fine;
};

// Finds the version that an access reads or writes, and its epoch. Constant tensors, state and outputs have one version.
static struct mega_moving moving_of(struct mega_thread *t, int access, float *packed)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_op *op = mega_op_of(p, t->node);
  const struct mega_access *a = &op->spec.access[access];
  int tensor = op->arg[a->arg], back = 0, write = 0;
  const struct mega_held *h = &p->held[tensor];
  struct mega_moving m = {t, &p->m->tensor[tensor], &t->run->memory[tensor], .packed = packed, .fine = true};
  if (a->out)
    while (h->write[write] != t->node) write++;
  else
    write = mega_read_write(p, t->node, tensor, &back);
  if (m.tensor->kind != MEGA_ACTIVATION) return m;
  int64_t epoch = (int64_t)(t->step - back) * h->nwrites + write;
  m.base = epoch % h->versions * mega_slots(p->m, m.tensor) * m.memory->elements, m.epoch = (uint32_t)epoch + 1;
  return m;
}

static bool gather_run(void *arg, int64_t at, int64_t n)
{
  struct mega_moving *m = arg;
  if (m->memory->plain)
    memcpy(m->packed, m->memory->plain + m->base + at, sizeof(float) * (size_t)n);
  else
    for (int64_t i = 0; i < n; i++)
      if (!mega_wait_word(m->t, &m->memory->words[m->base + at + i], m->epoch, m->tensor, &m->packed[i])) return m->fine = false;
  m->packed += n;
  return true;
}

// Writes a tagged word. A word of a shared tensor goes to every rank that the plan names.
static void write_words(const struct mega_moving *m, int64_t at, float x)
{
  const struct mega_running *r = m->t->run;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint64_t word = (uint64_t)m->epoch << 32 | bits;
  if (mega_slots(r->p->m, m->tensor) == 1) return atomic_store_explicit(&m->memory->words[at], word, memory_order_relaxed);
  for (int k = 0; k < r->p->world.n; k++) {
    struct mega_memory *to = &r->ranks[k].memory[m->tensor - r->p->m->tensor];
    if (r->p->world.push[r->rank][k]) atomic_store_explicit(&to->words[at + r->rank * to->elements], word, memory_order_relaxed);
  }
}

static bool scatter_run(void *arg, int64_t at, int64_t n)
{
  struct mega_moving *m = arg;
  if (m->memory->plain) memcpy(m->memory->plain + m->base + at, m->packed, sizeof(float) * (size_t)n);
  for (int64_t i = 0; i < n && m->memory->words; i++) write_words(m, m->base + at + i, m->packed[i]);
  m->packed += n;
  return true;
}

// Reads the slots one after another, in the order in which the rank adds them.
bool mega_gather(struct mega_thread *t, int access, const struct mega_box *b, float *to)
{
  struct mega_moving m = moving_of(t, access, to);
  int64_t base = m.base;
  for (int i = 0; i < mega_slots(t->run->p->m, m.tensor) && m.fine; i++) {
    if (m.tensor->shared) m.base = base + t->run->p->world.order[t->run->rank][i] * m.memory->elements;
    runs(m.tensor, b, 0, 0, gather_run, &m);
  }
  return m.fine;
}

void mega_scatter(struct mega_thread *t, int access, const struct mega_box *b, const float *from)
{
  struct mega_moving m = moving_of(t, access, (float *)from);
  runs(m.tensor, b, 0, 0, scatter_run, &m);
}
