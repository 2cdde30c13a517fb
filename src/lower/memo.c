// Remembers the first choice for each kernel. A search prices thousands of kernel graphs, and most of their kernels occur in several graphs.
#include "lower/count.h"

#include <pthread.h>

enum { ROWS = 1 << 14 };
struct lower_memo {
  pthread_mutex_t lock;
  struct known_kernel {
    uint64_t key; // 0: empty
    bool takes;   // some scheme accepts it
    struct choice first;
  } row[ROWS]; // a key has one row; a later key with the same row replaces it
};

struct lower_memo *lower_memo_new(struct arena *mem)
{
  struct lower_memo *m = NEW(mem, struct lower_memo);
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

// Hashes what schemes know of a buffer: dtype, shape, its producer and consumers, and which accesses share it.
static uint64_t buffer_key(const struct lower_job *j, int tensor, const int *seen, int nseen)
{
  const struct graph *g = j->n->kernels;
  const struct tensor *t = &g->tensors[tensor];
  int first = 0;
  while (first < nseen && seen[first] != tensor) first++;
  uint64_t h = hash_bytes(t->shape.d, sizeof *t->shape.d * (size_t)t->shape.n, (uint64_t)j->store[tensor]);
  return hash_mix(h, (uint64_t)first << 2 | (uint64_t)(g->nodes[t->node].op == OP_INPUT) << 1 | count_is_output(g, tensor));
}

static uint64_t access_key(const struct norm *n, const struct plan_access *a)
{
  uint64_t h = hash_bytes(a->grid, sizeof a->grid, (uint64_t)a->offset);
  h = hash_mix(h, hash_bytes(a->loop, sizeof a->loop, 1));
  return hash_mix(h, hash_bytes(a->stride, sizeof *a->stride * (size_t)n->nletters, 2));
}

static uint64_t norm_key(const struct lower_job *j, const struct norm *n, int *seen, int *nseen)
{
  uint64_t h = graph_hash(n->block);
  for (int i = 0; i < n->niter + n->nsave; i++) {
    const struct plan_access *a = i < n->niter ? &n->iter[i] : &n->save[i - n->niter];
    h = hash_mix(hash_mix(h, access_key(n, a)), buffer_key(j, a->tensor, seen, *nseen));
    seen[(*nseen)++] = a->tensor;
  }
  return h;
}

uint64_t lower_memo_key(const struct lower_job *j)
{
  const struct norm *t = j->tail;
  int nseen = 0, *seen = NEWS(j->mem, int, j->n->niter + j->n->nsave + (t ? t->niter + t->nsave : 0) + 1);
  uint64_t h = hash_mix(j->dependent, j->off);
  h = hash_mix(h, norm_key(j, j->n, seen, &nseen));
  if (t) h = hash_mix(h, norm_key(j, t, seen, &nseen));
  return h | !h;
}

bool lower_memo_get(struct lower_memo *m, uint64_t key, int *n, struct choice *out)
{
  pthread_mutex_lock(&m->lock);
  const struct known_kernel *r = &m->row[key % ROWS];
  const bool known = r->key == key;
  if (known) *n = r->takes, *out = r->first;
  pthread_mutex_unlock(&m->lock);
  return known;
}

void lower_memo_put(struct lower_memo *m, uint64_t key, int n, const struct choice *first)
{
  pthread_mutex_lock(&m->lock);
  m->row[key % ROWS] = (struct known_kernel){key, n > 0, n ? *first : (struct choice){0}};
  pthread_mutex_unlock(&m->lock);
}
