// Digits and subscripts. Partitions, tiles, reshapes and repetitions split subscripts from the right, in row-major order. A boundary inside a digit
// splits it into two parts. Adjacent parts of a digit are always joined, so an index has one representation.
#include "verify/prove.h"

enum { MOST_PIECES = 40, MOST_LOOKED_AT = 1000 };

static const char NOWHERE_TO_CUT[] = "an index is split inside one of its parts";

struct prove_index_builder {
  struct prover *p;
  int n;
  struct verify_piece piece[MOST_PIECES];
};

int digit_new(struct prover *p, int64_t extent, bool output)
{
  PUSH(p->mem, p->digits, p->ndigits, p->digits_cap) = (struct digit){extent, -1, -1, -1, output};
  return p->ndigits - 1;
}

static struct verify_piece part_of(int digit, int64_t div, int64_t extent) { return (struct verify_piece){digit, 0, div, extent}; }

static void put(struct prove_index_builder *b, struct verify_piece x);

// A part of a digit that was split is a part of its low digit, of its high digit, or of both.
static void put_cut(struct prove_index_builder *b, struct verify_piece x)
{
  const struct digit *d = &b->p->digits[x.digit];
  int high = d->high, low = d->low;
  int64_t n = b->p->digits[low].extent, end = x.div * x.extent;
  if (x.div % n == 0)
    put(b, part_of(high, x.div / n, x.extent));
  else if (n % end == 0)
    put(b, part_of(low, x.div, x.extent));
  else if (n % x.div || end % n)
    prove_give_up(b->p, NOWHERE_TO_CUT);
  else
    put(b, part_of(high, 1, end / n)), put(b, part_of(low, x.div, n / x.div));
}

static void put_all(struct prove_index_builder *b, struct subscript s)
{
  for (int i = 0; i < s.n; i++) put(b, s.p[i]);
}

static bool same_pieces(struct subscript s, struct subscript t)
{
  bool same = s.n == t.n;
  for (int i = 0; i < s.n && same; i++)
    same = s.p[i].digit == t.p[i].digit && s.p[i].at == t.p[i].at && s.p[i].div == t.p[i].div && s.p[i].extent == t.p[i].extent;
  return same;
}

// If the pieces of a composite have changed, splits the part of it again. False: the part already is a piece.
static bool put_composite(struct prove_index_builder *b, struct verify_piece x)
{
  const struct digit d = b->p->digits[x.digit];
  if (!prove_step(b->p)) return true;
  struct subscript now = subscript_expand(b->p, d.parts), rest, part;
  if (x.extent == d.extent) return put_all(b, now), true;
  if (same_pieces(now, d.parts)) return false;
  if (subscript_cut(b->p, now, x.div, &now, &rest) && subscript_cut(b->p, now, x.extent, &rest, &part)) put_all(b, part);
  return true;
}

static void put(struct prove_index_builder *b, struct verify_piece x)
{
  struct verify_piece *last = b->n ? &b->piece[b->n - 1] : NULL;
  const struct digit *d = x.digit >= 0 ? &b->p->digits[x.digit] : NULL;
  if (x.extent == 1 || b->p->why) return;
  if (d && d->high >= 0) {
    put_cut(b, x);
    return;
  }
  if (d && d->parts.n && put_composite(b, x)) return;
  if (d && d->value >= 0) x = (struct verify_piece){-1, d->value / x.div % x.extent, 1, x.extent};
  if (last && x.digit < 0 && last->digit < 0) {
    last->at = last->at * x.extent + x.at, last->extent *= x.extent;
  } else if (last && x.digit == last->digit && last->div == x.div * x.extent) {
    last->div = x.div, last->extent *= x.extent;
    if (d->parts.n && last->extent == d->extent) b->n--, put_all(b, d->parts);
  } else if (b->n == MOST_PIECES) {
    prove_give_up(b->p, "an index has too many pieces");
  } else {
    b->piece[b->n++] = x;
  }
}

static struct subscript built(struct prove_index_builder *b)
{
  if (!b->n) return (struct subscript){0};
  return (struct subscript){b->n, arena_copy(b->p->mem, b->piece, sizeof *b->piece * (size_t)b->n)};
}

struct subscript subscript_of(struct prover *p, int digit)
{
  struct prove_index_builder b = {.p = p};
  put(&b, part_of(digit, 1, p->digits[digit].extent));
  return built(&b);
}

struct subscript subscript_fixed(struct prover *p, int64_t at, int64_t extent)
{
  struct prove_index_builder b = {.p = p};
  put(&b, (struct verify_piece){-1, at, 1, extent});
  return built(&b);
}

struct subscript subscript_join(struct prover *p, struct subscript high, struct subscript low)
{
  struct prove_index_builder b = {.p = p};
  put_all(&b, high), put_all(&b, low);
  return built(&b);
}

struct subscript subscript_expand(struct prover *p, struct subscript s) { return subscript_join(p, s, (struct subscript){0}); }

struct subscript subscript_rename(struct prover *p, struct subscript s, int u, int v, int w)
{
  struct prove_index_builder b = {.p = p};
  for (int i = 0; i < s.n; i++) {
    struct verify_piece x = s.p[i];
    if (u < 0 && x.digit == u && (x.at || x.extent != p->digits[w].extent))
      ; // u is a number, and x is another one
    else if (u < 0 ? x.digit == u : x.digit == u && v >= 0)
      x = part_of(w, 1, p->digits[w].extent), i += u >= 0;
    else if (x.digit == u)
      x.digit = w;
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

int digit_isolate(struct prover *p, struct verify_piece x)
{
  int64_t end = x.div * x.extent;
  if (end < p->digits[x.digit].extent) digit_cut(p, x.digit, end), x.digit = p->digits[x.digit].low;
  if (x.div > 1) digit_cut(p, x.digit, x.div), x.digit = p->digits[x.digit].high;
  return x.digit;
}

bool subscript_composite(const struct prover *p, struct subscript s)
{
  for (int i = 0; i < s.n; i++)
    if (s.p[i].digit >= 0 && p->digits[s.p[i].digit].parts.n) return true;
  return false;
}

// Returns a recent composite of the same pieces, or a new one.
static struct verify_piece composite(struct prover *p, struct subscript parts, int64_t extent)
{
  for (int i = p->ndigits - 1; i >= 0 && i >= p->ndigits - MOST_LOOKED_AT; i--)
    if (p->digits[i].parts.n && same_pieces(p->digits[i].parts, parts)) return part_of(i, 1, extent);
  int w = digit_new(p, extent, false);
  p->digits[w].parts = parts;
  return part_of(w, 1, extent);
}

// Splits off the low part of s, of extent `rest`. It may end inside the last piece or span several pieces.
static bool cut_last(struct prover *p, struct subscript s, int64_t rest, struct prove_index_builder *h, struct prove_index_builder *l)
{
  int64_t n = 1;
  int k = s.n;
  while (k > 0 && n % rest) n *= s.p[--k].extent;
  if (n % rest) return prove_give_up(p, NOWHERE_TO_CUT);
  struct subscript run = {s.n - k, s.p + k};
  struct verify_piece x = run.n == 1 ? *run.p : composite(p, run, n), y = x;
  x.extent /= rest, y.extent = rest;
  if (x.digit >= 0)
    x.div *= rest;
  else
    x.at /= rest, y.at %= rest;
  put_all(h, (struct subscript){k, s.p});
  put(h, x), put(l, y);
  return !p->why;
}

bool subscript_cut(struct prover *p, struct subscript s, int64_t extent, struct subscript *high, struct subscript *low)
{
  struct prove_index_builder h = {.p = p}, l = {.p = p};
  int64_t have = 1;
  s = subscript_expand(p, s);
  int i = s.n;
  while (i > 0 && have < extent && extent % (have * s.p[i - 1].extent) == 0) have *= s.p[--i].extent;
  struct subscript left = {i, s.p}, right = {s.n - i, s.p + i};
  if (extent == have)
    put_all(&h, left);
  else if (!cut_last(p, left, extent / have, &h, &l))
    return false;
  put_all(&l, right);
  *high = built(&h), *low = built(&l);
  return !p->why;
}
