#include "onnx/einsum.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PRINTF(2, 3) static bool fail(struct einsum_equation *q, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  if (!*q->why) vsnprintf(q->why, sizeof q->why, fmt, args);
  va_end(args);
  return false;
}

static int times(const struct einsum_term *x, int label)
{
  int n = 0;
  for (int i = 0; i < x->n; i++) n += x->label[i] == label;
  return n;
}

static void add(struct einsum_equation *q, struct einsum_term *x, int label)
{
  if (x->n == MAX_DIMS)
    fail(q, "a term has more than %d labels", MAX_DIMS);
  else
    x->label[x->n++] = label;
}

static int letter_of(char c) { return islower((unsigned char)c) ? c - 'a' : isupper((unsigned char)c) ? c - 'A' + 26 : -1; }

// Labels up to the end of a term; an ellipsis stands for `dots` dimensions.
static const char *read_term(struct einsum_equation *q, const char *p, int dots, struct einsum_term *x)
{
  for (bool seen = false; *p && *p != ',' && *p != '-' && !*q->why; p++) {
    if (*p == ' ') continue;
    if (!strncmp(p, "...", 3) && !seen) {
      for (int i = dots; i-- > 0;) add(q, x, EINSUM_DOTS + i);
      seen = true, p += 2;
    } else if (letter_of(*p) >= 0)
      add(q, x, letter_of(*p));
    else
      fail(q, "its equation has `%c` where a label should be", *p);
  }
  return p;
}

static int letters_in(const char *p)
{
  int n = 0;
  for (; *p && *p != ',' && *p != '-'; p++) n += letter_of(*p) >= 0;
  return n;
}

static bool twice_in(const struct einsum_term *x)
{
  bool twice = false;
  for (int i = 0; i < x->n; i++) twice |= times(x, x->label[i]) > 1;
  return twice;
}

// Extents of a term's labels. *dots becomes the largest number of dimensions that an ellipsis stands for.
static bool take_extents(struct einsum_equation *q, const struct einsum_term *x, const struct shape *s, int *dots)
{
  for (int i = 0; i < x->n; i++) {
    int64_t d = s->d[i], *e = &q->extent[x->label[i]];
    if (x->label[i] >= EINSUM_DOTS) *dots = MAX(*dots, x->label[i] - EINSUM_DOTS + 1);
    if (!d) return fail(q, "one of its inputs is empty");
    if (*e && *e != d) return fail(q, "a label has the extents %lld and %lld", (long long)*e, (long long)d);
    *e = d;
  }
  return true;
}

static bool read_inputs(struct einsum_equation *q, const char **p, int *dots)
{
  for (;; ++*p) {
    if (q->nin == MIN(q->terms, EINSUM_TERMS)) return fail(q, "its equation has more terms than it has inputs");
    const int k = q->nin++, rank = q->shape[k]->n;
    struct einsum_term *x = &q->in[k];
    *p = read_term(q, *p, rank - letters_in(*p), x);
    if (!*q->why && x->n != rank) fail(q, "term %d of its equation has %d labels for %d dimensions", k, x->n, rank);
    if (*q->why || !take_extents(q, x, q->shape[k], dots)) return false;
    q->twice[k] = twice_in(x);
    if (**p != ',') return true;
  }
}

// Without `->`, the result has the dimensions of the ellipsis, then every label that occurs once in all terms, in alphabetical order.
static void implied_output(struct einsum_equation *q, int dots)
{
  for (int i = dots; i-- > 0;) add(q, &q->out, EINSUM_DOTS + i);
  for (int k = 0; k < EINSUM_DOTS; k++) {
    int label = k < 26 ? k + 26 : k - 26, n = 0; // upper-case letters first
    for (int i = 0; i < q->nin; i++) n += times(&q->in[i], label);
    if (n == 1) add(q, &q->out, label);
  }
}

bool einsum_read(struct einsum_equation *q, const char *equation)
{
  const char *p = equation;
  int dots = 0;
  if (!read_inputs(q, &p, &dots)) return false;
  if (q->nin != q->terms) return fail(q, "its equation has %d terms for %d inputs", q->nin, q->terms);
  if (!*p)
    implied_output(q, dots);
  else if (strncmp(p, "->", 2))
    fail(q, "its equation has `%c` where `->` should be", *p);
  else if (*read_term(q, p + 2, dots, &q->out))
    fail(q, "its equation goes on after the result");
  if (twice_in(&q->out)) fail(q, "a label stands twice in a term, which is not taken");
  for (int i = 0; i < q->out.n; i++)
    if (!q->extent[q->out.label[i]]) fail(q, "a label of the result is in no term");
  return !*q->why;
}
