// The best partial plans of one length: a heap with the worst plan on top. Optionally only a limited number of plans with the same expensive parts is
// kept.
#include "search/space.h"

struct beam beam_open(struct arena *mem, int most)
{
  struct beam b = {.most = most, .s = NEWS(mem, struct unfinished *, most), .age = NEWS(mem, uint64_t, most)};
  return b;
}

static bool worse(const struct beam *b, int i, int k)
{
  double x = b->s[i]->bound, y = b->s[k]->bound;
  return x > y || (x >= y && b->age[i] > b->age[k]);
}

static void swap(struct beam *b, int i, int k)
{
  struct unfinished *s = b->s[i];
  uint64_t a = b->age[i];
  b->s[i] = b->s[k], b->age[i] = b->age[k], b->s[k] = s, b->age[k] = a;
}

static void sink(struct beam *b, int n, int i)
{
  for (int k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && worse(b, k + 1, k)) k++;
    if (!worse(b, k, i)) break;
    swap(b, i, k);
  }
}

// The position of the state to replace: the worst similar one if there are enough, or the worst of all. -1: a position is free.
static int place_for(const struct beam *b, uint64_t heavy)
{
  int same = 0, worst = -1;
  for (int i = 0; i < b->n && b->same; i++)
    if (b->s[i]->heavy == heavy && (!same++ || worse(b, i, worst))) worst = i;
  return b->same && same >= b->same ? worst : b->n < b->most ? -1 : 0;
}

void beam_push(struct arena *mem, struct beam *b, const struct unfinished *s)
{
  if (b->n == b->most && s->bound >= b->s[0]->bound) return;
  int i = place_for(b, s->heavy);
  if (i >= 0 && s->bound >= b->s[i]->bound) return;
  if (i < 0 && !b->s[i = b->n++]) b->s[i] = NEW(mem, struct unfinished);
  *b->s[i] = *s, b->age[i] = b->ages++;
  for (; i && worse(b, i, (i - 1) / 2); i = (i - 1) / 2) swap(b, i, (i - 1) / 2);
  sink(b, b->n, i);
}

void beam_sort(struct beam *b)
{
  for (int n = b->n - 1; n > 0; n--) {
    swap(b, 0, n);
    sink(b, n, 0);
  }
}
