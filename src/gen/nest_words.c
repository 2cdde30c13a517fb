// Expressions of a nest: addresses, loads, stores and operators as C.
#include "gen/nest_print.h"

#include <ctype.h>
#include <string.h>

// Names of functions: those of mica_cpu.h for float, m_NAME_DTYPE for other dtypes.
static const char *word(struct arena *mem, enum dtype t, const char *of_floats, const char *name)
{
  return t == F32 ? of_floats : arena_printf(mem, "m_%s_%s", name, dtype_name(t));
}

static const char *load(struct arena *mem, enum dtype t) { return word(mem, t, "m_load", "ld"); }
static const char *loadn(struct arena *mem, enum dtype t) { return word(mem, t, "m_loadn", "ldn"); }
static const char *store(struct arena *mem, enum dtype t) { return word(mem, t, "m_store", "st"); }
static const char *gather(struct arena *mem, enum dtype t) { return word(mem, t, "m_gather", "gather"); }
static const char *scatter(struct arena *mem, enum dtype t) { return word(mem, t, "m_scatter", "scatter"); }
const char *nest_storen(struct arena *mem, enum dtype t) { return word(mem, t, "m_storen", "stn"); }

const char *nest_address(const struct gen_printer *p, const struct operand *o, bool with_inner)
{
  struct str t = {0};
  int last = last_dim(p->f);
  str_add(&t, "%s", o->ptr);
  for (int i = 0; i < last; i++)
    if (o->s[i] == 1)
      str_add(&t, " + i%d", i);
    else if (o->s[i])
      str_add(&t, " + i%d * %lld", i, (long long)o->s[i]);
  bool cut = p->chunk && !o->local;
  if (with_inner && o->s[last] == 1)
    str_add(&t, cut ? " + c + j" : " + j");
  else if (with_inner && o->s[last])
    str_add(&t, cut ? " + (c + j) * %lld" : " + j * %lld", (long long)o->s[last]);
  return str_keep(p->f->mem, &t);
}

const char *nest_load_text(const struct gen_printer *p, const struct operand *o)
{
  struct arena *mem = p->f->mem;
  int64_t step = o->s[last_dim(p->f)];
  const char *at = nest_address(p, o, true), *n = p->rest ? "n" : "M_W";
  if (!step && o->dtype == F32) return arena_printf(mem, "m_splat(*(%s))", at);
  if (!step) return arena_printf(mem, "m_splat(m_%s_to_f32(*(%s)))", dtype_name(o->dtype), at);
  if (step != 1) return arena_printf(mem, "%s(%s, %lld, %s)", gather(mem, o->dtype), at, (long long)step, n);
  return p->rest ? arena_printf(mem, "%s(%s, n)", loadn(mem, o->dtype), at) : arena_printf(mem, "%s(%s)", load(mem, o->dtype), at);
}

bool nest_goes_past(const struct gen_printer *p, const struct operand *o)
{
  const struct nest *f = p->f;
  bool lines = o->past && o->dtype == F32 && o->s[last_dim(f)] == 1 && !p->chunk && f->d[last_dim(f)] % 16 == 0;
  for (int i = 0; i < last_dim(f); i++) lines &= o->s[i] % 16 == 0;
  return lines;
}

void nest_store_line(const struct gen_printer *p, int depth, const struct operand *o, const char *value)
{
  int64_t step = o->s[last_dim(p->f)];
  struct arena *mem = p->f->mem;
  const char *at = nest_address(p, o, true), *n = p->rest ? "n" : "M_W", *storen = nest_storen(mem, o->dtype);
  if (o->fetches && step == 1 && !p->rest) line(p->s, depth, "__builtin_prefetch(%s + M_FETCH, 1);", at);
  if (!step)
    line(p->s, depth, "%s(%s, 1, %s);", storen, at, value);
  else if (step != 1)
    line(p->s, depth, "%s(%s, %lld, %s, %s);", scatter(mem, o->dtype), at, (long long)step, n, value);
  else if (p->rest)
    line(p->s, depth, "%s(%s, n, %s);", o == p->whole ? "m_storen_past" : storen, at, value);
  else if (nest_goes_past(p, o))
    line(p->s, depth, "m_store_past(%s, %s, %s);", at, value, o == p->whole ? "1" : o->past);
  else
    line(p->s, depth, "%s(%s, %s);", store(mem, o->dtype), at, value);
}

const char *nest_code_text(const struct gen_printer *p, const struct gen_value *v)
{
  struct str t = {0};
  struct arena *mem = p->f->mem;
  for (const char *c = v->code; *c;) {
    if (!isalpha((unsigned char)*c) && *c != '_') {
      bool digits = isdigit((unsigned char)*c);
      do str_raw(&t, c++, 1);
      while (digits && (isalnum((unsigned char)*c) || *c == '.'));
      continue;
    }
    const char *end = c;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)MIN(end - c, 31), c);
    if (!strcmp(word, "x"))
      str_add(&t, "v%d", v->x);
    else if (!strcmp(word, "y"))
      str_add(&t, "v%d", v->y);
    else if (!strcmp(word, "K"))
      str_add(&t, "m_splat");
    else if (v->a && attr_named(word) >= 0)
      str_add(&t, "%s", number(mem, attr_real(v->a, attr_named(word))));
    else
      str_add(&t, "%s", word);
    c = end;
  }
  return str_keep(mem, &t);
}

void nest_prefetch(const struct gen_printer *p, int depth, const struct operand *o)
{
  if (!o->ahead || p->rest || o->s[last_dim(p->f)] != 1) return;
  if (p->unroll > 1) line(p->s, depth++, "if (u * M_W %% %d == 0)", (int)(64 / dtype_bytes(o->dtype)));
  line(p->s, depth, "__builtin_prefetch(%s + %lld);", nest_address(p, o, true), (long long)o->ahead);
}
