// A context: memory, options, counters, and the memo of operations. A search spends most of its time building normal forms, and builds the same ones
// repeatedly. So each operation is looked up by (operator, operand ids) before it is carried out.
#include "expr/normal.h"

// Each pool begins with the entries that other files name by constants: no atom 0, no monomial 0, the monomial 1, and the normal forms UNKNOWN, NEVER
// (no nodes), EMPTY, ONE.
static void seed_pools(struct expr *ex)
{
  PUSH(&ex->mem, ex->atom.node, ex->atom.n, ex->atom.cap) = NULL;
  PUSH(&ex->mem, ex->mono.node, ex->mono.n, ex->mono.cap) = NULL;
  PUSH(&ex->mem, ex->poly.node, ex->poly.n, ex->poly.cap) = NULL;
  PUSH(&ex->mem, ex->poly.node, ex->poly.n, ex->poly.cap) = NULL;
  (void)arena_alloc(&ex->tmp, 16); // the first block stays for the life of the context
  struct arena_mark top = arena_mark(&ex->tmp);
  CHECK(intern_poly(ex, draft_poly(ex, 0)) == NF_EMPTY);
  // The unit monomial and NF_ONE refer to each other, so the unit's hash is computed with NF_EMPTY in place of NF_ONE.
  DRAFT_MONO(unit) = {.m = {.k = 1, .x = NF_EMPTY, .s = NF_EMPTY, .q = NF_EMPTY, .d = NF_EMPTY}};
  CHECK(intern_mono(ex, &unit.m) == MONO_UNIT);
  CHECK(poly_of_mono(ex, MONO_UNIT) == NF_ONE);
  struct expr_mono *m = ex->mono.node[MONO_UNIT];
  m->s = m->q = m->d = NF_ONE;
  m->h.depth = 0;
  ((struct poly *)ex->poly.node[NF_ONE])->h.depth = 0;
  arena_reset(&ex->tmp, top);
}

struct expr *expr_open(void)
{
  struct arena mem = {0};
  struct expr *ex = NEW(&mem, struct expr);
  ex->mem = mem;
  ex->exp_laws = true;
  ex->limit = MAX_MONOMIALS;
  ex->epoch = 1;
  seed_pools(ex);
  return ex;
}

void expr_close(struct expr *ex)
{
  if (!ex) return;
  arena_close(&ex->tmp);
  struct arena mem = ex->mem; // ex itself is allocated in it
  arena_close(&mem);
}

static bool unused(const struct expr *ex) { return ex->poly.n == NF_ONE + 1; }

void expr_option_exp_laws(struct expr *ex, bool on)
{
  CHECK(unused(ex));
  ex->exp_laws = on;
}

void expr_option_expand_squares(struct expr *ex, bool on)
{
  CHECK(unused(ex));
  ex->expand_squares = on;
}

struct expr_stats expr_stats(const struct expr *ex)
{
  struct expr_stats s = ex->stats;
  s.interned = ex->poly.n - (NF_ONE + 1);
  return s;
}

uint64_t expr_hash(const struct expr *ex, nf e) { return nf_known(e) ? poly_at(ex, e)->h.hash : e; }

// A normal form over a cap that the target did not exceed cannot be part of the target, and nor can anything built from it.
nf nf_settle(struct expr *ex, nf r)
{
  if (r) return r;
  ex->stats.too_big++;
  return ex->armed ? EXPR_NEVER : EXPR_UNKNOWN;
}

// Results depend on the size limit and therefore on the target: rows of an earlier epoch count as empty.
static inline uint32_t memo_slot(enum expr_op op, uint32_t a, uint64_t b, uint32_t cap)
{
  uint64_t h = ((uint64_t)a << 8 | op) * 0x9e3779b97f4a7c15u ^ b * 0xc4ceb9fe1a85ec53u;
  h ^= h >> 32;
  return (uint32_t)((h * 0xff51afd7ed558ccdu) >> 32) & (cap - 1);
}

bool memo_find(const struct expr *ex, enum expr_op op, uint32_t a, uint64_t b, nf *result)
{
  const struct memo *t = &ex->memo;
  if (!t->n) return false;
  for (uint32_t i = memo_slot(op, a, b, t->cap);; i = (i + 1) & (t->cap - 1)) {
    const struct memo_row *r = &t->row[i];
    if (r->epoch != ex->epoch) return false;
    if (r->a == a && r->b == b && r->op == op) {
      *result = r->result;
      return true;
    }
  }
}

static void memo_insert(struct memo *t, struct memo_row row)
{
  uint32_t i = memo_slot(row.op, row.a, row.b, t->cap);
  while (t->row[i].epoch == row.epoch) i = (i + 1) & (t->cap - 1);
  t->row[i] = row;
  t->n++;
}

static void memo_grow(struct expr *ex)
{
  struct memo old = ex->memo;
  ex->memo = (struct memo){.cap = old.cap ? 2 * old.cap : 1024};
  ex->memo.row = NEWS(&ex->mem, struct memo_row, ex->memo.cap);
  for (uint32_t i = 0; i < old.cap; i++)
    if (old.row[i].epoch == ex->epoch) memo_insert(&ex->memo, old.row[i]);
}

nf memo_put(struct expr *ex, enum expr_op op, uint32_t a, uint64_t b, nf result)
{
  if (2 * ex->memo.n >= ex->memo.cap) memo_grow(ex);
  memo_insert(&ex->memo, (struct memo_row){.epoch = ex->epoch, .op = op, .a = a, .b = b, .result = result});
  return result;
}

void memo_clear(struct expr *ex)
{
  ex->epoch++;
  ex->memo.n = 0;
}
