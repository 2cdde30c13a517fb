// Fingerprints by what computed them. Schedules of one program apply the same operators to the same operands, because a fingerprint does not depend
// on which pieces a tile stores. A probe saturates its schedules with one memory of fingerprints, and computes each once.
#include "search/space.h"

static uint64_t hash_of(const struct finger_key *k)
{
  return hash_mix(hash_mix(hash_mix((uint64_t)k->op << 32 | (uint32_t)k->index, k->over), k->a), k->b);
}

static bool same(const struct finger_key *a, const struct finger_key *b)
{
  return a->op == b->op && a->index == b->index && a->over == b->over && a->a == b->a && a->b == b->b;
}

// The place of k in the index; it holds 0 if k is new.
static int *slot(const struct finger_memo *m, const struct finger_key *k)
{
  uint64_t at = hash_of(k) & (uint64_t)(m->nslot - 1);
  while (m->slot[at] && !same(&m->row[m->slot[at] - 1].key, k)) at = (at + 1) & (uint64_t)(m->nslot - 1);
  return &m->slot[at];
}

static void more_slots(struct finger_memo *m)
{
  m->nslot = m->nslot ? 2 * m->nslot : 1024;
  m->slot = NEWS(m->mem, int, m->nslot);
  for (int i = 0; i < m->n; i++) *slot(m, &m->row[i].key) = i + 1;
}

const struct finger_row *finger_memo_find(const struct finger_memo *m, const struct finger_key *k)
{
  const int at = m->n ? *slot(m, k) : 0;
  return at ? &m->row[at - 1] : NULL;
}

void finger_memo_put(struct finger_memo *m, const struct finger_row *row)
{
  if (2 * (m->n + 1) > m->nslot) more_slots(m);
  int *at = slot(m, &row->key);
  PUSH(m->mem, m->row, m->n, m->cap) = *row;
  *at = m->n;
}
