// Hash-consing. A node is first a draft. Its head (hash, filter, depth) is computed from its content, and it is looked up by hash and bytes; only a
// new one is copied into the context. Hashes are computed from the hashes of the parts, never from their ids, so they are equal in every context.
#include "expr/normal.h"

#include <string.h>

// The index and the upper half of the hash, so that most other nodes are rejected without being read.
static inline uint64_t slot_of(uint64_t hash, uint32_t id) { return hash >> 32 << 32 | id; }

static void slot_insert(struct pool *p, uint32_t id)
{
  const struct head *h = p->node[id];
  uint32_t i = (uint32_t)h->hash & (p->slots - 1);
  while (p->slot[i]) i = (i + 1) & (p->slots - 1);
  p->slot[i] = slot_of(h->hash, id);
}

static void slots_grow(struct expr *ex, struct pool *p)
{
  p->slots = p->slots ? 2 * p->slots : 256;
  p->slot = NEWS(&ex->mem, uint64_t, p->slots);
  for (uint32_t id = 0; id < p->n; id++)
    if (p->node[id]) slot_insert(p, id);
}

static bool same(const struct head *a, const struct head *b)
{
  return a->hash == b->hash && a->bytes == b->bytes && !memcmp(a + 1, b + 1, a->bytes - sizeof *a);
}

static uint32_t intern(struct expr *ex, struct pool *p, const struct head *draft)
{
  if (draft->depth > MAX_DEPTH) return 0;
  if (2 * p->n >= p->slots) slots_grow(ex, p);
  for (uint32_t i = (uint32_t)draft->hash & (p->slots - 1); p->slot[i]; i = (i + 1) & (p->slots - 1))
    if (p->slot[i] >> 32 == draft->hash >> 32 && same(p->node[(uint32_t)p->slot[i]], draft)) return (uint32_t)p->slot[i];
  CHECK(p->n < UINT32_MAX / 4);
  PUSH(&ex->mem, p->node, p->n, p->cap) = arena_copy(&ex->mem, draft, draft->bytes);
  slot_insert(p, p->n - 1);
  return p->n - 1;
}

struct expr_atom *draft_atom(struct expr *ex, enum atom_kind kind, uint64_t tag, uint32_t n)
{
  struct expr_atom *a = arena_alloc(&ex->tmp, sizeof *a + n * sizeof(nf));
  a->kind = kind;
  a->tag = tag;
  a->n = n;
  return a;
}

struct poly *draft_poly(struct expr *ex, uint32_t n)
{
  struct poly *p = arena_alloc(&ex->tmp, sizeof *p + n * sizeof(uint32_t));
  p->n = n;
  return p;
}

static void head_begin(struct head *h, uint64_t seed, size_t bytes)
{
  *h = (struct head){.hash = hash_mix(0x6d696361u, seed), .bytes = (uint32_t)bytes};
}

static inline void head_take(struct head *h, const struct head *part)
{
  h->hash = hash_mix(h->hash, part->hash);
  h->mask |= part->mask;
  h->depth = MAX(h->depth, part->depth);
}

uint32_t intern_atom(struct expr *ex, struct expr_atom *draft)
{
  struct head *h = &draft->h;
  head_begin(h, (uint64_t)draft->kind << 32 | draft->n, offsetof(struct expr_atom, arg) + draft->n * sizeof(nf));
  h->hash = hash_mix(h->hash, draft->tag);
  h->mask = 1ull << (h->hash >> 58);
  for (uint32_t i = 0; i < draft->n; i++) head_take(h, &poly_at(ex, draft->arg[i])->h);
  h->depth++;
  return intern(ex, &ex->atom, h);
}

uint32_t intern_mono(struct expr *ex, struct expr_mono *draft)
{
  struct head *h = &draft->h;
  head_begin(h, draft->k, offsetof(struct expr_mono, a) + draft->n * sizeof(uint32_t));
  for (uint32_t i = 0; i < draft->n; i++) head_take(h, &atom_at(ex, draft->a[i])->h);
  const nf part[] = {draft->x, draft->s, draft->q, draft->d};
  for (size_t i = 0; i < COUNT(part); i++)
    if (part[i] != NF_EMPTY && part[i] != NF_ONE) {
      head_take(h, &poly_at(ex, part[i])->h);
      h->hash += i;
    }
  h->depth++;
  return intern(ex, &ex->mono, h);
}

nf intern_poly(struct expr *ex, struct poly *draft)
{
  struct head *h = &draft->h;
  head_begin(h, draft->n, offsetof(struct poly, m) + draft->n * sizeof(uint32_t));
  for (uint32_t i = 0; i < draft->n; i++) head_take(h, &mono_at(ex, draft->m[i])->h);
  return intern(ex, &ex->poly, h);
}

nf poly_of_mono(struct expr *ex, uint32_t m)
{
  if (!m) return 0;
  union {
    struct poly p;
    char room[sizeof(struct poly) + sizeof m];
  } one = {.p.n = 1};
  one.p.m[0] = m;
  return intern_poly(ex, &one.p);
}

nf poly_of_atom(struct expr *ex, uint32_t a)
{
  if (!a) return 0;
  DRAFT_MONO(draft);
  draft.m = (struct expr_mono){.k = 1, .x = NF_EMPTY, .s = NF_ONE, .q = NF_ONE, .d = NF_ONE, .n = 1};
  draft.m.a[0] = a;
  return poly_of_mono(ex, intern_mono(ex, &draft.m));
}

uint32_t bare_atom(const struct expr *ex, nf e)
{
  const struct poly *p = poly_at(ex, e);
  const struct expr_mono *m = p->n == 1 ? mono_at(ex, p->m[0]) : NULL;
  bool bare = m && m->k == 1 && m->n == 1 && m->x == NF_EMPTY && m->s == NF_ONE && m->q == NF_ONE && m->d == NF_ONE;
  return bare ? m->a[0] : 0;
}

bool has_numerator(const struct expr_mono *m) { return m->n || m->x != NF_EMPTY || m->s != NF_ONE || m->q != NF_ONE; }
