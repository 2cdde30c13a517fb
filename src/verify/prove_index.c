// Digits and subscripts. A partition, a tile, a reshape and a repetition read and cut subscripts from the right, as
// row-major order does; a cut that falls inside a digit cuts that digit for good.
#include "verify/prove.h"

enum { MOST_PIECES = 40 };

struct builder {
  struct prover *p;
  int n;
  struct piece piece[MOST_PIECES];
};

void *prove_give_up(struct prover *p, const char *why)
{
  if (!p->why) p->why = why;
  return NULL;
}

int digit_new(struct prover *p, int64_t extent, bool output)
{
  PUSH(p->mem, p->digits, p->ndigits, p->digits_cap) = (struct digit){extent, -1, -1, -1, output};
  return p->ndigits - 1;
}

static void put(struct builder *b, struct piece x)
{
  struct piece *last = b->n ? &b->piece[b->n - 1] : NULL;
  const struct digit *d = x.digit >= 0 ? &b->p->digits[x.digit] : NULL;
  if (d && d->high >= 0) {
    struct piece high = {.digit = d->high}, low = {.digit = d->low};
    put(b, high), put(b, low);
    return;
  }
  if (d) x.extent = d->extent;
  if (d && d->value >= 0) x = (struct piece){-1, d->value, x.extent};
  if (x.extent == 1) return;
  if (last && x.digit < 0 && last->digit < 0) last->at = last->at * x.extent + x.at, last->extent *= x.extent;
  else if (b->n == MOST_PIECES) prove_give_up(b->p, "an index has too many pieces");
  else b->piece[b->n++] = x;
}

static void put_all(struct builder *b, struct subscript s)
{
  for (int i = 0; i < s.n; i++) put(b, s.p[i]);
}

static struct subscript built(struct builder *b)
{
  if (!b->n) return (struct subscript){0};
  return (struct subscript){b->n, arena_copy(b->p->mem, b->piece, sizeof *b->piece * (size_t)b->n)};
}

struct subscript subscript_of(struct prover *p, int digit)
{
  struct builder b = {.p = p};
  put(&b, (struct piece){.digit = digit});
  return built(&b);
}

struct subscript subscript_fixed(struct prover *p, int64_t at, int64_t extent)
{
  struct builder b = {.p = p};
  put(&b, (struct piece){-1, at, extent});
  return built(&b);
}

struct subscript subscript_join(struct prover *p, struct subscript high, struct subscript low)
{
  struct builder b = {.p = p};
  put_all(&b, high), put_all(&b, low);
  return built(&b);
}

struct subscript subscript_expand(struct prover *p, struct subscript s)
{
  return subscript_join(p, s, (struct subscript){0});
}

static void cut_digit(struct prover *p, int i, int64_t extent)
{
  struct digit d = p->digits[i];
  int high = digit_new(p, d.extent / extent, d.output), low = digit_new(p, extent, d.output);
  p->digits[i].high = high, p->digits[i].low = low;
}

bool subscript_cut(struct prover *p, struct subscript s, int64_t extent, struct subscript *high, struct subscript *low)
{
  struct builder h = {.p = p}, l = {.p = p};
  int64_t have = 1;
  s = subscript_expand(p, s);
  int i = s.n - 1;
  while (i >= 0 && have < extent && extent % (have * s.p[i].extent) == 0) have *= s.p[i--].extent;
  int64_t rest = extent / have;
  if (rest > 1 && (i < 0 || s.p[i].extent % rest)) return prove_give_up(p, "an index is cut where none of its parts ends");
  if (rest > 1 && s.p[i].digit >= 0) cut_digit(p, s.p[i].digit, rest);
  for (int k = 0; k < s.n; k++) {
    struct piece x = s.p[k];
    if (k == i && rest > 1 && x.digit >= 0) {
      put(&h, (struct piece){.digit = p->digits[x.digit].high}), put(&l, (struct piece){.digit = p->digits[x.digit].low});
    } else if (k == i && rest > 1) {
      put(&h, (struct piece){-1, x.at / rest, x.extent / rest}), put(&l, (struct piece){-1, x.at % rest, rest});
    } else {
      put(k <= i ? &h : &l, x);
    }
  }
  *high = built(&h), *low = built(&l);
  return !p->why;
}
