// Arithmetic on numbers that are known while parsing. Extents need exact integers, scalars need doubles, and an
// expression may be used as either. A number therefore stays an exact integer while possible, and records why it is
// none any more. Functions of numbers are the FLOAT column of op.def, compiled here over double.
#include "base/rational.h"
#define NUM double
#include "eval/real.h"
#include "front/parse.h"

#include <stdlib.h>

struct number number_of(int64_t x) { return (struct number){.real = (double)x, .whole = x, .lost = WHOLE}; }

static struct number real_of(double x, enum lost why) { return (struct number){.real = x, .lost = why}; }

static int64_t floor_mod(int64_t a, int64_t b) // b not 0
{
  int64_t r = b == -1 ? 0 : a % b;
  return r && (r < 0) != (b < 0) ? r + b : r;
}

static struct number whole_op(int op, int64_t a, int64_t b)
{
  int64_t r = 0;
  switch (op) {
  case '+': return __builtin_add_overflow(a, b, &r) ? real_of((double)a + (double)b, OVERFLOWED) : number_of(r);
  case '-': return __builtin_sub_overflow(a, b, &r) ? real_of((double)a - (double)b, OVERFLOWED) : number_of(r);
  case '*': return __builtin_mul_overflow(a, b, &r) ? real_of((double)a * (double)b, OVERFLOWED) : number_of(r);
  case '%': return number_of(floor_mod(a, b));
  default:
    if (floor_mod(a, b)) return real_of((double)a / (double)b, INEXACT);
    return b == -1 ? whole_op('-', 0, a) : number_of(a / b);
  }
}

// Exact where both are short decimals or fractions, so that 0.1 + 0.2 is 0.3 and 1 / 3 / 7 is 1 / 21.
static double real_op(int op, double a, double b)
{
  double r;
  if (rational_fold(op, a, b, &r)) return r;
  return op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
}

// Rejects a computed number that is NaN, or infinite although all its inputs were finite.
static int proper(struct err *e, struct loc at, bool inputs, double r, const char *what)
{
  if (!isnan(r) && !(inputs && isinf(r))) return OK;
  int s = err_set(e, ERR_ATTRIBUTE, at, isnan(r) ? "%s of these numbers is undefined" : "%s of these numbers is too large", what);
  return err_hint(e, "numbers are computed while the program is read, as 64-bit floating point"), s;
}

int number_by_zero(struct err *e, struct loc at)
{
  int s = err_set(e, ERR_ATTRIBUTE, at, "division by zero");
  return err_hint(e, "numbers are computed while the program is read; look at the parameters"), s;
}

int number_op(struct err *e, struct loc at, int op, struct number a, struct number b, struct number *r)
{
  char what[] = {'`', (char)op, '`', 0};
  bool whole = a.lost == WHOLE && b.lost == WHOLE;
  if ((op == '/' || op == '%') && b.real == 0) return number_by_zero(e, at);
  if (op == '%' && !whole) return err_set(e, ERR_SYNTAX, at, "`%%` takes integers");
  if (whole) return *r = whole_op(op, a.whole, b.whole), OK;
  enum lost why = a.lost != WHOLE ? a.lost : b.lost;
  *r = real_of(real_op(op, a.real, b.real), why);
  return proper(e, at, isfinite(a.real) && isfinite(b.real), r->real, what);
}

static double by_row(enum op op, const struct attrs *a, double r, double x, double y)
{
  ATTR_LOCALS(a);
  switch (op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, field, abstract, range, cost, doc) \
  case OP_##id:                                                                                        \
    return code;
#include "ir/op.def"
#undef OP
  case OPS: break;
  }
  return NAN;
}

int number_fold(struct err *e, struct loc at, enum op op, const struct attrs *a, int n, const struct number *x, struct number *r)
{
  double y = n > 1 ? x[1].real : 0;
  *r = real_of(by_row(op, a, 0, x[0].real, y), DECIMAL);
  return proper(e, at, isfinite(x[0].real) && isfinite(y), r->real, op_rows[op].name);
}

bool number_neutral(enum op op, double *out)
{
  static const double candidates[] = {0, 1, -INFINITY, INFINITY}, samples[] = {-2.5, 0.75, 3};
  const struct attrs none = {0};
  for (size_t i = 0; i < COUNT(candidates); i++) {
    bool same = true;
    for (size_t k = 0; k < COUNT(samples); k++) same &= by_row(op, &none, candidates[i], samples[k], 0) == samples[k];
    if (same) return *out = candidates[i], true;
  }
  return false;
}

int number_real(struct err *e, struct loc at, const struct number *x, double *out)
{
  *out = x->real;
  bool kept = x->lost != WHOLE || llabs(x->whole) <= (int64_t)1 << 53 || (int64_t)x->real == x->whole;
  if (kept && !x->cut) return OK;
  char nearest[32];
  str_double(nearest, x->real);
  int s = err_set(e, ERR_ATTRIBUTE, at, "this integer has more digits than a constant keeps");
  return err_hint(e, "the nearest that can be written is %s", nearest), s;
}

int number_whole(struct err *e, enum errid id, struct loc at, const struct number *x, const char *what, int64_t lo, int64_t hi, int64_t *out)
{
  static const char *const why[] = {[DECIMAL] = "is a decimal number",
                                    [INEXACT] = "is the result of a division that leaves a remainder",
                                    [OVERFLOWED] = "is beyond 64-bit integers"};
  char text[32];
  str_double(text, x->real);
  if (x->lost != WHOLE) {
    int s = err_set(e, id, at, "%s must be an integer, and %s %s", what, text, why[x->lost]);
    if (x->lost == INEXACT) err_hint(e, "`/` must divide exactly in extents and attributes");
    return s;
  }
  if (x->whole >= lo && x->whole <= hi) return *out = x->whole, OK;
  return err_set(e, id, at, "%s must be from %lld to %lld, not %lld", what, (long long)lo, (long long)hi, (long long)x->whole);
}
