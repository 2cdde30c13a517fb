// Checks the elements of an input against its declared range, before anything runs.
#include "ir/ir.h"

#include <math.h>
#include <stdlib.h>

struct elements {
  const struct tensor *t;
  const void *p;
  bool doubles;
};

static double element(const struct elements *x, int64_t i) { return x->doubles ? ((const double *)x->p)[i] : num_read(x->t->dtype, x->p, i); }

static const char *label(const struct tensor *t) { return t->name ? t->name : "an input"; }

static int outside(const struct tensor *t, int64_t i, double x, struct err *e)
{
  char text[32];
  if (fabs(x) < 1e15 && x == rint(x))
    snprintf(text, sizeof text, "%.0f", x);
  else
    str_double(text, x);
  if (x != rint(x)) return err_set(e, ERR_INDEX_RANGE, NOWHERE, "%s[%lld] is %s, which is no whole number", label(t), (long long)i, text);
  const bool above = x > (double)t->range.most;
  return err_set(e, ERR_INDEX_RANGE, NOWHERE, "%s[%lld] is %s, %s %lld", label(t), (long long)i, text, above ? "limit" : "at least",
                 (long long)(above ? t->range.most + 1 : t->range.least));
}

struct seen {
  int64_t value, at;
};

static int by_value(const void *a, const void *b)
{
  const struct seen *x = a, *y = b;
  return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : (x->at > y->at) - (x->at < y->at);
}

// Checks that elements are distinct. -1 marks dropped slices and may repeat.
static int check_distinct(const struct elements *x, int64_t n, struct err *e)
{
  struct arena tmp = {0};
  struct seen *s = NEWS(&tmp, struct seen, n + 1);
  int status = OK;
  for (int64_t i = 0; i < n; i++) s[i] = (struct seen){(int64_t)element(x, i), i};
  qsort(s, (size_t)n, sizeof *s, by_value);
  for (int64_t i = 1; i < n && !status; i++)
    if (s[i].value == s[i - 1].value && s[i].value >= 0)
      status = err_set(e, ERR_REPEATED_INDEX, NOWHERE, "%s[%lld] and %s[%lld] are both %lld", label(x->t), (long long)s[i - 1].at, label(x->t),
                       (long long)s[i].at, (long long)s[i].value);
  arena_close(&tmp);
  return status;
}

static int check(const struct elements *x, struct err *e)
{
  const struct tensor *t = x->t;
  if (!t->whole || !num_whole(t->dtype)) return OK;
  const int64_t n = shape_size(&t->shape);
  for (int64_t i = 0; i < n; i++) {
    const double v = element(x, i);
    if (!(v >= (double)t->range.least && v <= (double)t->range.most && v == rint(v))) return outside(t, i, v, e);
  }
  return t->range.distinct ? check_distinct(x, n, e) : OK;
}

int range_check(const struct tensor *t, const void *elements, struct err *e) { return check(&(struct elements){t, elements, false}, e); }
int range_check_doubles(const struct tensor *t, const double *x, struct err *e) { return check(&(struct elements){t, x, true}, e); }
