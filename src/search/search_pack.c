// Tables and options as bytes: numbers with seven bits in each byte, hashes whole. The bytes may come from a damaged or foreign file. The reader
// checks every number and recomputes derived data: the masks of a value from its operator; needs and cost of a kernel from its leaves and sizes.
#include "search/space.h"

#include <math.h>
#include <string.h>

void put_number(struct str *s, uint64_t x)
{
  char b[10];
  size_t n = 0;
  for (; x >= 128; x >>= 7) b[n++] = (char)(x | 128);
  b[n++] = (char)x;
  str_raw(s, b, n);
}

uint64_t get_number(struct bytes *b, uint64_t most)
{
  uint64_t x = 0;
  for (int shift = 0; shift < 64 && !b->bad; shift += 7) {
    if (b->p == b->end) break;
    unsigned char c = *b->p++;
    x |= (uint64_t)(c & 127) << shift;
    if (c < 128) {
      if (x > most) break;
      return x;
    }
  }
  b->bad = true;
  return 0;
}

void put_whole(struct str *s, const void *x, size_t n) { str_raw(s, x, n); }

void get_whole(struct bytes *b, void *x, size_t n)
{
  memset(x, 0, n);
  if (b->bad || (size_t)(b->end - b->p) < n) {
    b->bad = true;
    return;
  }
  memcpy(x, b->p, n);
  b->p += n;
}

static void put_index(struct str *s, int i) { put_number(s, (uint64_t)(i + 1)); }
static int get_index(struct bytes *b, int n) { return (int)get_number(b, (uint64_t)n) - 1; } // -1 to n - 1

void stats_pack(const struct search_stats *s, struct str *out)
{
  put_number(out, s->states), put_number(out, s->values);
  for (int i = 0; i < PRUNES; i++) put_number(out, s->pruned[i]);
}

void stats_unpack(struct search_stats *s, struct bytes *in)
{
  s->states = get_number(in, INT64_MAX), s->values = get_number(in, INT64_MAX);
  for (int i = 0; i < PRUNES; i++) s->pruned[i] = get_number(in, INT64_MAX);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static int *owners(const struct table *t, struct arena *mem)
{
  int *owner = NEWS(mem, int, t->nd + 1);
  for (int i = 0; i < t->n; i++)
    for (int d = t->v[i].der; d >= 0; d = t->d[d].next) owner[d] = i;
  return owner;
}

void table_pack(const struct table *t, struct str *out)
{
  struct arena mem = {0};
  int *owner = owners(t, &mem), known = 0;
  while (known < t->n && t->v[known].leaf >= 0) known++;
  put_number(out, t->cut), put_number(out, (uint64_t)t->nd);
  for (int i = 0; i < t->nd; i++) {
    const struct deriv *d = &t->d[i];
    put_number(out, d->op), put_number(out, (uint64_t)d->a), put_index(out, d->b), put_index(out, d->cls), put_index(out, d->attrs);
    put_number(out, (uint64_t)owner[i]);
    if (owner[i] < known) continue;
    const struct search_value *v = &t->v[known++];
    put_whole(out, &v->ehash, sizeof v->ehash), put_whole(out, &v->hash, sizeof v->hash);
  }
  arena_close(&mem);
}

// The instance must be one of the program's operators with the same number of operands.
static bool known_instance(const struct table *t, const struct deriv *d)
{
  if (d->attrs < 0) return op_rows[d->op].rule != RULE_MAP || !op_rows[d->op].attrs;
  const struct instance *i = &t->voc->i[d->attrs];
  return i->op == d->op && i->cls == d->cls;
}

// Adds a derivation of an existing value, or of the next value.
static bool add_derivation(struct table *t, struct arena *mem, const struct space *s, struct deriv *d, int owner, const struct search_value *hashes)
{
  struct search_value v = *hashes;
  if (!known_instance(t, d) || !value_derive(s, t, d, &v)) return false;
  if (owner == t->n) PUSH(mem, t->v, t->n, t->cap) = v;
  struct search_value *to = &t->v[owner];
  if (to->has != v.has || to->stored != v.stored || to->phase != v.phase) return false;
  d->next = to->der;
  to->der = t->nd;
  PUSH(mem, t->d, t->nd, t->dcap) = *d;
  return true;
}

bool table_unpack(struct table *t, struct arena *mem, const struct space *s, struct bytes *in)
{
  t->cut = get_number(in, 1);
  uint64_t n = get_number(in, (uint64_t)(in->end - in->p));
  for (uint64_t i = 0; i < n && t->n; i++) {
    struct deriv d = {.op = (enum op)get_number(in, OPS - 1)};
    d.a = (int)get_number(in, (uint64_t)t->n - 1), d.b = get_index(in, t->n);
    d.cls = get_index(in, s->nclass), d.attrs = get_index(in, t->voc->n);
    int owner = (int)get_number(in, (uint64_t)t->n);
    struct search_value v = {.leaf = -1, .der = -1};
    if (owner == t->n) get_whole(in, &v.ehash, sizeof v.ehash), get_whole(in, &v.hash, sizeof v.hash);
    if (in->bad || !add_derivation(t, mem, s, &d, owner, &v)) return false;
  }
  return !in->bad && in->p == in->end;
}

// ---- options --------------------------------------------------------------------------------------------------------

static void option_pack(const struct planner *pl, const struct option *x, struct str *out)
{
  put_index(out, x->table);
  if (x->table < 0) return;
  for (int i = 0; i < x->nmake; i++) put_number(out, (uint64_t)x->root[i]);
  put_number(out, (uint64_t)x->p.n);
  for (int i = 0; i < x->p.n; i++) put_number(out, (uint64_t)x->p.value[i]), put_index(out, x->p.deriv[i]);
  put_number(out, (uint64_t)x->parts);
  for (int c = 0; c < pl->m->s->nclass; c++)
    for (int k = 0; k < 3; k++) put_number(out, (uint64_t)x->z.ext[c][k]);
}

// An incomplete set also stores all needs seen so far.
void options_pack(const struct planner *pl, const struct options *x, struct str *out)
{
  put_number(out, (uint64_t)x->step), put_number(out, x->graphs), put_number(out, x->too_large), put_number(out, x->complete);
  if (x->step <= pl->ntables) keep_pack(x, out);
  put_number(out, (uint64_t)x->n);
  for (int i = 0; i < x->n; i++) option_pack(pl, &x->o[i], out);
}

// Reads the values of a kernel. Leaves come first, and each operator follows its operands. The roots must be among them.
static bool read_pick(const struct planner *pl, struct option *x, struct bytes *in)
{
  const struct table *t = &pl->tables[x->table];
  struct arena mem = {0};
  bool *there = NEWS(&mem, bool, t->n + 1), fine = true;
  int extra = 0;
  x->p.n = (int)get_number(in, MAX_PICK);
  for (int i = 0; i < x->p.n && fine; i++) {
    int v = x->p.value[i] = (int)get_number(in, (uint64_t)t->n - 1), d = x->p.deriv[i] = get_index(in, t->nd);
    if (in->bad || there[v])
      fine = false;
    else if (d < 0)
      fine = t->v[v].leaf >= 0 && !x->p.ops && (extra += t->v[v].leaf >= pl->nfixed) <= MAX_LEAVES;
    else {
      int k = t->v[v].der;
      while (k >= 0 && k != d) k = t->d[k].next;
      fine = k >= 0 && there[t->d[d].a] && (t->d[d].b < 0 || there[t->d[d].b]);
      x->p.ops++;
    }
    there[v] = true;
  }
  for (int k = 0; k < x->nmake && fine; k++) fine = there[x->root[k]];
  arena_close(&mem);
  return fine && x->p.ops;
}

// Each root must be a value that may be saved for the tensors to make.
static bool read_roots(const struct planner *pl, struct option *x, struct bytes *in)
{
  for (int k = 0; k < x->nmake; k++) {
    const int *home = &pl->home[(x->table * pl->ndev + x->make[k]) * HOMES];
    int i = 0;
    x->root[k] = (int)get_number(in, (uint64_t)MAX(pl->tables[x->table].n, 1) - 1);
    while (i < HOMES && home[i] != x->root[k]) i++;
    if (i == HOMES) return false;
  }
  return !in->bad;
}

// Pieces multiply to their class. Only axes and partial sums divide a class.
static bool read_sizes(const struct planner *pl, struct option *x, struct bytes *in)
{
  const struct search_schedule *sch = &pl->tables[x->table].sch;
  struct sizes *z = &x->z;
  z->blocks = z->iterations = 1;
  for (int c = 0; c < pl->m->s->nclass; c++) {
    uint64_t n = (uint64_t)pl->m->s->classes[c].extent, left = n;
    bool axis = false;
    for (int i = 0; i < sch->ngrid; i++) axis |= sch->grid[i] == c;
    for (int k = 0; k < 3; k++) {
      uint64_t e = get_number(in, n);
      if (!e || left % e) return false;
      left /= e, z->ext[c][k] = (int64_t)e;
    }
    if (left != 1 || (z->ext[c][LOOP] > 1 && c != sch->loop)) return false;
    if (c == x->split ? z->ext[c][GRID] != x->parts : z->ext[c][GRID] > 1 && !axis) return false;
    if (axis) z->blocks *= z->ext[c][GRID];
    if (c == sch->loop) z->iterations = z->ext[c][LOOP];
  }
  return z->blocks <= 1 << 16;
}

static bool read_parts(const struct planner *pl, struct option *x, int reads, struct bytes *in)
{
  int64_t n = (int64_t)get_number(in, INT64_MAX);
  if (reads < 0) return n == x->parts;
  bool known = false;
  for (int i = 0; i < PART_COUNTS; i++) known |= n > 0 && n == part_count(pl->m->s->classes[reads].extent, i);
  x->split = reads, x->parts = n;
  return known;
}

static bool option_unpack(const struct planner *pl, const struct options *to, struct option *x, struct bytes *in)
{
  int table = get_index(in, pl->ntables), reads;
  if (in->bad) return false;
  if (table < 0) return option_library(pl, to, x);
  *x = (struct option){.table = table, .node = -1, .nmake = to->nmake, .split = to->split, .parts = to->parts, .kernels = 1};
  memcpy(x->make, to->make, sizeof x->make);
  if (!read_roots(pl, x, in) || !read_pick(pl, x, in) || !option_reads(pl, x, &x->p, &reads)) return false;
  if (!read_parts(pl, x, reads, in) || !read_sizes(pl, x, in)) return false;
  x->structure = option_structure(&pl->tables[table], &x->p), x->needs = option_needs(x);
  struct works w;
  work_of(&pl->tables[table], &x->p, x->root, x->nmake, &w);
  return isfinite(x->cost = cost_kernel(pl->m, &pl->tables[table], &w, &x->z)); // infinite if its tiles do not fit
}

static bool read_options(const struct planner *pl, struct options *x, struct bytes *in)
{
  x->step = (int)get_number(in, (uint64_t)pl->ntables + 1);
  x->graphs = get_number(in, INT64_MAX), x->too_large = get_number(in, INT64_MAX), x->complete = get_number(in, 1);
  if (x->step <= pl->ntables && !keep_unpack(x, in)) return false;
  int n = (int)get_number(in, MOST_OPTIONS);
  for (int i = 0; i < n; i++) {
    struct option o;
    if (!option_unpack(pl, x, &o, in) || !keep_append(x, &o)) return false;
  }
  return !in->bad && in->p == in->end;
}

bool options_unpack(const struct planner *pl, struct options *x, struct bytes *in)
{
  options_clear(x);
  if (read_options(pl, x, in)) return true;
  options_clear(x);
  return false;
}
