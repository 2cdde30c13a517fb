// The rows of instr.def as structures. Their text is constant. It is parsed once a process, at the first use, and never changes, so all threads may
// read the rows.
#include "tile/tile.h"
#include "base/memory.h"
#include "tile/device.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct raw {
  const char *name;
  enum spec_kind spec;
  enum sem sem;
  int threads;
  uint32_t needs;
  const char *operands, *attrs, *text;
  double cost;
};
#define ROW(...) {__VA_ARGS__},
#define INSTR(name, spec, sem, threads, needs, operands, attrs, text, cost) \
  ROW(name, SPEC_##spec, SEM_##sem, threads, CAN_##needs, operands, attrs, text, cost)
static const struct raw raw_rows[] = {
#include "tile/instr.def"
};
#undef INSTR
#undef ROW

struct instr_reader { // state of reading one row's operands
  struct lay_ctx lay;
  const char *p;
};

static bool word(struct instr_reader *r, const char *w)
{
  while (*r->p == ' ') r->p++;
  size_t n = strlen(w);
  if (strncmp(r->p, w, n)) return false;
  r->p += n;
  return true;
}

static void levels(struct instr_reader *r, struct instr_operand *o)
{
  o->count = 1;
  for (; word(r, "["); r->p++) {
    CHECK(o->nlevels < 3);
    int64_t *extent = o->extent[o->nlevels++];
    o->rank = 0;
    while (!word(r, "]")) {
      CHECK(o->rank < 2);
      char *end;
      extent[o->rank] = strtol(r->p, &end, 10);
      CHECK(end > r->p && extent[o->rank] > 0);
      r->p = end;
      o->count *= (int)extent[o->rank++];
      word(r, ",");
    }
    CHECK(*r->p == '.');
  }
  if (!o->rank) o->nlevels = 0; // []: a scalar
}

static void type(struct instr_reader *r, struct instr_operand *o)
{
  size_t n = strcspn(r->p, ".");
  o->any_type = true;
  char *end;
  if (isdigit((unsigned char)*r->p))
    o->bytes = (int)strtol(r->p, &end, 10), o->count = 0, CHECK(*end == 'B');
  else if (strncmp(r->p, "b16", n) && strncmp(r->p, "any", n)) {
    int t = 0;
    while (t < TT_COUNT && (strlen(tile_types[t].name) != n || strncmp(tile_types[t].name, r->p, n))) t++;
    CHECK(t < TT_COUNT);
    o->type = (enum tile_type)t, o->any_type = false;
  }
  r->p += n + 1;
}

static void memory(struct instr_reader *r, struct instr_operand *o)
{
  if (word(r, "ANY"))
    o->any_mem = true;
  else if (word(r, "DSH"))
    o->peer = true, o->mem = MEM_SH;
  else if (word(r, "GL"))
    o->mem = MEM_GL;
  else if (word(r, "SH"))
    o->mem = MEM_SH;
  else
    CHECK(word(r, "RF")), o->mem = MEM_RF;
}

// A layout ends at the next comma, space or end that is outside of parentheses.
static struct lay layout(struct instr_reader *r)
{
  while (*r->p == ' ') r->p++;
  int depth = 0;
  size_t n = 0;
  for (; r->p[n] && (depth || !strchr(", ", r->p[n])); n++) depth += (r->p[n] == '(') - (r->p[n] == ')');
  struct arena scratch = {0};
  char *text = arena_printf(&scratch, "%.*s", (int)n, r->p);
  struct lay l;
  CHECK(lay_parse(&r->lay, text, false, NULL, NULL, &l));
  arena_close(&scratch);
  r->p += n;
  return l;
}

static bool operand(struct instr_reader *r, struct instr_operand *o)
{
  static const struct {
    const char *name;
    enum operand_kind kind;
  } kinds[] = {{"vec ", OPND_VECTOR},    {"frag ", OPND_FRAGMENT}, {"mats ", OPND_MATS},  {"row ", OPND_ROW},
               {"matrix ", OPND_MATRIX}, {"box ", OPND_BOX},       {"bar ", OPND_BARRIER}};
  for (size_t i = 0; i < COUNT(kinds); i++)
    if (word(r, kinds[i].name)) {
      o->kind = kinds[i].kind;
      levels(r, o), type(r, o), memory(r, o);
      if (word(r, "order ")) o->order = layout(r);
      if (word(r, "tv ")) o->tv = layout(r);
      word(r, ",");
      return true;
    }
  CHECK(!*r->p || !strncmp(r->p, "<-", 2));
  return false;
}

// Coordinates, innermost level first and in each level the first dimension fastest, enumerate the elements without a layout.
static void default_order(struct lay_ctx *c, struct instr_operand *o)
{
  struct lay mode[6];
  int n = 0;
  for (int l = o->nlevels - 1; l >= 0; l--)
    for (int d = 0; d < o->rank; d++) mode[n++] = lay_int(c, EX_C(o->extent[l][d]), EX_C(1));
  if (!o->order.n) o->order = lay_compact(c, lay_tuple(c, n, mode), false);
}

static void operands(struct instr_reader *r, struct instr *i)
{
  bool sync = i->spec == SPEC_SYNC;
  while (!sync && operand(r, &i->out[0])) CHECK(++i->nout == 1);
  CHECK(word(r, "<-") || !*r->p || sync);
  while (i->nin < (int)COUNT(i->in) && operand(r, &i->in[i->nin])) i->nin++;
  CHECK(!*r->p);
  for (int n = 0; n < i->nout + i->nin; n++) {
    struct instr_operand *o = n < i->nout ? &i->out[n] : &i->in[n - i->nout];
    if (o->kind == OPND_FRAGMENT) default_order(&r->lay, o);
  }
}

static void attributes(struct arena *mem, const char *p, struct instr *i)
{
  while (*p) {
    size_t n = strcspn(p, " ");
    if (!strncmp(p, "chosen", n))
      i->chosen = true;
    else if (!strncmp(p, "const", n))
      i->constant = true;
    else if (!strncmp(p, "trans", n))
      i->trans = true;
    else if (!strncmp(p, "sum", n))
      i->sum = true;
    else if (!strncmp(p, "op=", 3))
      i->op = arena_printf(mem, "%.*s", (int)n - 3, p + 3);
    else if (*p == 'm')
      i->m = atoi(p + 1);
    else if (*p == 'n')
      i->n = atoi(p + 1);
    else if (*p == 'k')
      i->k = atoi(p + 1);
    else
      CHECK(!strncmp(p, "N=", 2));
    p += n + strspn(p + n, " ");
  }
}

// Replaces N/8 and N in the text of a family by numbers; $N in the instruction's text stays.
static const char *with_number(struct arena *mem, const char *text, int number)
{
  struct str s = {0};
  for (const char *p = text; *p; p++)
    if (*p == 'N' && !strncmp(p, "N/8", 3))
      str_add(&s, "%d", number / 8), p += 2;
    else if (*p == 'N')
      str_add(&s, "%d", number);
    else
      str_raw(&s, p, 1);
  return str_keep(mem, &s);
}

static void parse_row(struct instr_reader *r, const struct raw *raw, int number, struct instr *i)
{
  struct arena *mem = r->lay.mem;
  bool family = number > 0;
  *i = (struct instr){
      .name = raw->name, .spec = raw->spec, .sem = raw->sem, .threads = raw->threads, .needs = raw->needs, .text = raw->text, .cost = raw->cost};
  attributes(mem, raw->attrs, i);
  if (family) i->name = with_number(mem, raw->name, number), i->n = number, i->cost = raw->cost * number;
  r->p = family ? with_number(mem, raw->operands, number) : raw->operands;
  operands(r, i);
  const struct instr_operand *first = i->nout ? &i->out[0] : &i->in[0];
  if (i->nout + i->nin && first->kind == OPND_VECTOR) i->width = first->count, i->bytes = first->bytes;
}

static struct {
  struct arena mem;
  struct instr *rows;
  int n;
  bool whole;
} table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // held until the table is complete

// Parsed once. After a call that ran out of memory it is parsed again.
static void parse_all(void)
{
  enum { STEPS = 32 }; // most members of a family
  arena_close(&table.mem);
  table.mem.lasting = true, table.n = 0;
  struct instr_reader r = {.lay = {&table.mem, ex_open(&table.mem), NULL}};
  table.rows = NEWS(&table.mem, struct instr, COUNT(raw_rows) * STEPS);
  for (size_t i = 0; i < COUNT(raw_rows); i++) {
    const char *family = strstr(raw_rows[i].attrs, "N=");
    int from = 0, to = 0, step = 1;
    if (family) CHECK(sscanf(family, "N=%d..%d/%d", &from, &to, &step) == 3 && (to - from) / step < STEPS);
    for (int number = from; number <= to; number += step) parse_row(&r, &raw_rows[i], number, &table.rows[table.n++]);
  }
}

const struct instr *instr_rows(int *n)
{
  struct undo undo;
  guard_lock(&undo, &lock);
  if (!table.whole) parse_all(), table.whole = true;
  guard_unlock(&undo, &lock);
  *n = table.n;
  return table.rows;
}
