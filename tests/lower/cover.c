// Few settings of a scheme in which every value of every knob occurs, so that each form of its kernels can be tried. The scheme's
// list has not all settings that kernels are made with: the climb goes to twice and half as much, and to the other of yes and no.
// Such a value is put into the first of the listed settings with which it fits. Then the setting with most that is still missing is
// taken, again and again.
#include "cover.h"

#include <math.h>
#include <string.h>

enum { LISTED = 1024, ROOM = LISTED + 512, VALUES = 16, TRIES = 32, ITEMS = KNOBS * KNOBS * VALUES * VALUES };

struct lower_cover {
  const struct lower_job *j;
  const struct scheme *s;
  bool pairs;
  int n; // settings
  struct choice *pool;
  int count[KNOBS], value[KNOBS][VALUES];
  bool *have; // by item
};

static int place_of(const struct lower_cover *c, int knob, int v)
{
  int i = 0;
  while (i < c->count[knob] && c->value[knob][i] != v) i++;
  return i;
}

static bool known(const struct lower_cover *c, int knob, int v) { return place_of(c, knob, v) < c->count[knob] || c->count[knob] == VALUES; }

static void add_values(struct lower_cover *c, const struct knobs *k)
{
  for (int i = 0; i < KNOBS && c->s->knob[i]; i++)
    if (!known(c, i, k->v[i])) c->value[i][c->count[i]++] = k->v[i];
}

// A setting with this value; none where nothing fits.
static void try_value(struct lower_cover *c, int listed, int knob, int v)
{
  if (v < 0 || known(c, knob, v)) return;
  for (int i = 0, step = 1 + listed / TRIES; i < listed && c->n < ROOM; i += step) {
    struct choice x = c->pool[i];
    x.k.v[knob] = v, x.cost = scheme_cost(c->s, c->j, &x.k);
    if (!isfinite(x.cost)) continue;
    c->pool[c->n++] = x;
    add_values(c, &x.k);
    return;
  }
}

static void go_beyond(struct lower_cover *c)
{
  int listed = c->n;
  for (int k = 0; k < KNOBS && c->s->knob[k]; k++)
    for (int i = 0, n = c->count[k]; i < n; i++) {
      int v = c->value[k][i];
      try_value(c, listed, k, 2 * v);
      if (v % 2 == 0) try_value(c, listed, k, v / 2);
      if (v <= 1) try_value(c, listed, k, 1 - v);
    }
}

// Values of a setting that are still missing; `take`: no longer.
static int gain(struct lower_cover *c, const struct knobs *k, bool take)
{
  int at[KNOBS], n = 0, all = 0;
  for (; all < KNOBS && c->s->knob[all]; all++) at[all] = place_of(c, all, k->v[all]);
  for (int i = 0; i < all; i++)
    for (int o = c->pairs ? i + 1 : i; o < (c->pairs ? all : i + 1); o++) {
      bool *have = &c->have[((i * KNOBS + o) * VALUES + at[i] % VALUES) * VALUES + at[o] % VALUES];
      n += !*have;
      *have |= take;
    }
  return n;
}

int scheme_cover(const struct lower_job *j, int scheme, bool pairs, int most, struct choice *out)
{
  struct lower_cover *c = NEW(j->mem, struct lower_cover);
  int n = 0;
  *c = (struct lower_cover){
      .j = j, .s = scheme_at(scheme), .pairs = pairs, .pool = NEWS(j->mem, struct choice, ROOM), .have = NEWS(j->mem, bool, ITEMS)};
  c->n = scheme_settings(j, scheme, LISTED, c->pool);
  for (int i = 0; i < c->n; i++) add_values(c, &c->pool[i].k);
  go_beyond(c);
  for (int best = 0; n < most && best >= 0; n += best >= 0) {
    int more = 0;
    best = -1;
    for (int i = 0; i < c->n; i++) {
      int has = gain(c, &c->pool[i].k, false);
      if (has > more) more = has, best = i;
    }
    if (best >= 0) gain(c, &c->pool[best].k, true), out[n] = c->pool[best];
  }
  return n;
}
