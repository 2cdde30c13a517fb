// Digits and subscripts. A partition, a tile, a reshape and a repetition read and cut subscripts from the right, as
// row-major order does; a cut that falls inside a digit leaves two parts of it, which make up the digit again where they
// meet. Parts that meet are always put together, so that an index is written in one way only.
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

static struct piece part_of(int digit, int64_t div, int64_t extent) { return (struct piece){digit, 0, div, extent}; }

static void put(struct builder *b, struct piece x);

// A part of a digit that was cut is a part of its low digit, of its high one, or of both.
static void put_cut(struct builder *b, struct piece x)
{
  const struct digit *d = &b->p->digits[x.digit];
  int high = d->high, low = d->low;
  int64_t n = b->p->digits[low].extent, end = x.div * x.extent;
  if (x.div % n == 0) put(b, part_of(high, x.div / n, x.extent));
  else if (n % end == 0) put(b, part_of(low, x.div, x.extent));
  else if (n % x.div || end % n) prove_give_up(b->p, "an index is cut where none of its parts ends");
  else put(b, part_of(high, 1, end / n)), put(b, part_of(low, x.div, n / x.div));
}

static void put(struct builder *b, struct piece x)
{
  struct piece *last = b->n ? &b->piece[b->n - 1] : NULL;
  const struct digit *d = x.digit >= 0 ? &b->p->digits[x.digit] : NULL;
  if (x.extent == 1) return;
  if (d && d->high >= 0) {
    put_cut(b, x);
    return;
  }
  if (d && d->value >= 0) x = (struct piece){-1, d->value / x.div % x.extent, 1, x.extent};
  if (last && x.digit < 0 && last->digit < 0) last->at = last->at * x.extent + x.at, last->extent *= x.extent;
  else if (last && x.digit == last->digit && last->div == x.div * x.extent) last->div = x.div, last->extent *= x.extent;
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
  put(&b, part_of(digit, 1, p->digits[digit].extent));
  return built(&b);
}

struct subscript subscript_fixed(struct prover *p, int64_t at, int64_t extent)
{
  struct builder b = {.p = p};
  put(&b, (struct piece){-1, at, 1, extent});
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

struct subscript subscript_rename(struct prover *p, struct subscript s, int u, int v, int w)
{
  struct builder b = {.p = p};
  for (int i = 0; i < s.n; i++) {
    struct piece x = s.p[i];
    if (x.digit == u && v >= 0) x = part_of(w, 1, p->digits[w].extent), i++;
    else if (x.digit == u) x.digit = w;
    put(&b, x);
  }
  return built(&b);
}

void digit_cut(struct prover *p, int digit, int64_t extent)
{
  struct digit d = p->digits[digit];
  if (extent == 1 || extent == d.extent) return;
  int high = digit_new(p, d.extent / extent, d.output), low = digit_new(p, extent, d.output);
  p->digits[digit].high = high, p->digits[digit].low = low;
}

int digit_isolate(struct prover *p, struct piece x)
{
  int64_t end = x.div * x.extent;
  if (end < p->digits[x.digit].extent) digit_cut(p, x.digit, end), x.digit = p->digits[x.digit].low;
  if (x.div > 1) digit_cut(p, x.digit, x.div), x.digit = p->digits[x.digit].high;
  return x.digit;
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
  for (int k = 0; k < s.n; k++) {
    struct piece x = s.p[k], y = x;
    if (k == i && rest > 1) {
      x.extent /= rest, y.extent = rest;
      if (x.digit >= 0) x.div *= rest;
      else x.at /= rest, y.at %= rest;
      put(&h, x), put(&l, y);
    } else {
      put(k <= i ? &h : &l, x);
    }
  }
  *high = built(&h), *low = built(&l);
  return !p->why;
}
