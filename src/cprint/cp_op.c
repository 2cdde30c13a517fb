// Operators and conversions. Each used expression of tile/pointwise.def becomes a function of the source. The interpreter
// computes them in double. Here fp32 is used if it gives the same results: for sums, products, quotients and roots of
// numbers of at most 24 digits (Figueroa, "When is double rounding innocuous?"). Integers are computed in 64 bits.
#include "cprint/cp_print.h"
#include "eval/real_fn.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *const suffix[NUMBERS] = {"f32", "f64", "i64"}, *const type[NUMBERS] = {"float", "double", "int64_t"};

// The expressions as text.
#define K(c) c
#define m_max_c(c, x) (x <= c ? c : x)
#define m_min_c(c, x) (x >= c ? c : x)
#define TEXT(...) TEXT_(__VA_ARGS__)
#define TEXT_(...) #__VA_ARGS__
static const struct {
  const char *id, *text;
} unary[UN_COUNT] =
    {
#define UNARY_OP(id, name, value, cost) [UN_##id] = {#id, TEXT(value)},
#define BINARY_OP(id, name, value)
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
},
  binary[BI_COUNT] = {
#define UNARY_OP(id, name, value, cost)
#define BINARY_OP(id, name, value) [BI_##id] = {#id, TEXT(value)},
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
};

static const bool exact[UN_COUNT] = {
    // unary operators computed in fp32; all binary ones up to BI_MASK are
    [UN_CAST] = true, [UN_NEG] = true, [UN_ABS] = true, [UN_RELU] = true, [UN_SQRT] = true, [UN_SQUARE] = true, [UN_NOT] = true,
};

static bool narrow(enum tile_type t) { return num_floats(&tile_types[t]) && t != TT_F64; }
static bool integer(enum tile_type t) { return !num_floats(&tile_types[t]); }

const char *cp_type(enum tile_type t) { return tile_types[t].c; }

static const char *load(struct cprint *c, enum tile_type t, const char *x)
{
  if (num_narrow(&tile_types[t])) return arena_printf(c->w.mem, "mica_from_%s(%s)", cp_type(t) + 5, x);
  return x;
}

static const char *store(struct cprint *c, enum tile_type t, const char *x, bool real)
{
  if (num_narrow(&tile_types[t])) return arena_printf(c->w.mem, "mica_to_%s(%s)", cp_type(t) + 5, x);
  if (!integer(t)) return x; // rounded when it is stored
  if (!real) return arena_printf(c->w.mem, "(%s)%s", cp_type(t), x);
  return arena_printf(c->w.mem, "mica_to_%s(%s)", tile_types[t].name, x);
}

static const char *low(struct cprint *c, const char *id)
{
  char *s = arena_strdup(c->w.mem, id);
  for (char *p = s; *p; p++) *p = (char)tolower((unsigned char)*p);
  return s;
}

const char *cp_unary(struct cprint *c, int op, enum tile_type from, const char *x, enum tile_type to)
{
  if (op == UN_CAST && from == to) return x;
  if (op == UN_CAST) return store(c, to, load(c, from, x), !integer(from));
  enum number n = exact[op] && narrow(from) ? NUM_F32 : NUM_F64;
  c->unary[op][n] = true;
  return store(c, to, arena_printf(c->w.mem, "mica_%s_%s(%s)", low(c, unary[op].id), suffix[n], load(c, from, x)), true);
}

const char *cp_binary(struct cprint *c, int op, enum tile_type t, const char *x, const char *y)
{
  enum number n = narrow(t) && op <= BI_MASK ? NUM_F32 : !integer(t) ? NUM_F64 : NUM_I64;
  c->binary[op][n] = true;
  return store(c, t, arena_printf(c->w.mem, "mica_%s_%s(%s, %s)", low(c, binary[op].id), suffix[n], load(c, t, x), load(c, t, y)), !integer(t));
}

// x where the condition is not 0, else the old value.
const char *cp_keep(struct cprint *c, enum tile_type t, const char *x, const char *condition, const char *old)
{
  return arena_printf(c->w.mem, "%s != 0 ? %s : %s", load(c, t, condition), x, old);
}

const char *cp_fma(struct cprint *c, enum tile_type t, const char *x, const char *y, enum tile_type sum, const char *z)
{
  if (t != sum || t == TT_F32) return arena_printf(c->w.mem, "fmaf(%s, %s, %s)", load(c, t, x), load(c, t, y), z);
  if (t == TT_F64) return arena_printf(c->w.mem, "fma(%s, %s, %s)", x, y, z);
  if (integer(t)) return arena_printf(c->w.mem, "(%s)mica_add_i64(mica_mul_i64(%s, %s), %s)", cp_type(t), x, y, z);
  return arena_printf(c->w.mem, "mica_fma_%s(%s, %s, %s)", cp_type(t) + 5, x, y, z);
}

const char *cp_constant(struct cprint *c, enum tile_type t, double x)
{
  char text[32];
  str_double(text, x);
  if (integer(t)) return store(c, t, arena_strdup(c->w.mem, text), true);
  const char *s = isnan(x)   ? "NAN"
                  : isinf(x) ? x > 0 ? "INFINITY" : "-INFINITY"
                             : arena_printf(c->w.mem, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
  if (isfinite(x) && narrow(t)) s = arena_printf(c->w.mem, "%sf", s);
  return store(c, t, s, true);
}

const char *cp_atomic(struct cprint *c, int op, enum tile_type t)
{
  static const char *const words[] = {[2] = "16", [4] = "32", [8] = "64"};
  const char *bits = words[tile_types[t].bytes];
  const char *name = arena_printf(c->w.mem, "mica_atomic_%s_%s", low(c, binary[op].id), tile_types[t].name);
  for (int i = 0; i < c->nhelpers; i++)
    if (!strcmp(c->helper[i], name)) return name;
  PUSH(c->w.mem, c->helper, c->nhelpers, c->helper_cap) = name;
  str_add(&c->helpers, "MICA_ATOMIC(%s, %s, mica_word%s, %s)\n", name, cp_type(t), bits, cp_binary(c, op, t, "old", "v"));
  return name;
}

void cp_operators(struct cprint *c, struct str *out)
{
  for (int n = 0; n < NUM_I64; n++) {
    for (int i = 0; i < UN_COUNT; i++)
      if (c->unary[i][n])
        str_add(out, "MICA %s mica_%s_%s(%s x) { return (%s)(%s); }\n", type[n], low(c, unary[i].id), suffix[n], type[n], type[n], unary[i].text);
    for (int i = 0; i < BI_COUNT; i++)
      if (c->binary[i][n])
        str_add(out, "MICA %s mica_%s_%s(%s x, %s y) { return %s; }\n", type[n], low(c, binary[i].id), suffix[n], type[n], type[n], binary[i].text);
  }
  str_raw(out, str_text(&c->helpers), c->helpers.n);
}
