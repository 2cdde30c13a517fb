// Chooses the number of parts of the positions in attention, and the task that merges them. More parts give attention more workers. The sums of all
// parts must then be merged: by the next product, in each of its workers, or by an operator of its own, which adds an event.
#include "mega/mega.h"

enum { FEW_LAYERS = 2, LEAST_POSITIONS = 32 }; // parts of fewer positions save nothing
enum { ENOUGH_POSITIONS = 32768 };             // the choice does not change beyond this context

// Sets *ns to the modelled time of a step of a few layers.
static int time_of(const struct mega_config *c, const struct mega_sizes *s, double *ns, struct err *e)
{
  struct arena own = {0};
  struct mega_config few = *c;
  struct mega_model *m;
  struct mega_plan *p;
  struct mega_price price;
  few.layers = MIN(c->layers, FEW_LAYERS);
  int status = mega_from_config(&own, &few, s, &m, e);
  if (status == OK) status = mega_plan_make(&own, m, &p, e);
  if (status == OK) mega_price(&own, p, &price), *ns = price.step;
  arena_close(&own);
  return status;
}

// Whether so many parts can be faster than fewer parts.
static bool may_help(const struct mega_config *c, const struct mega_sizes *s, int parts)
{
  if (s->context / parts < LEAST_POSITIONS) return false;
  return s->rows == 1 || (int64_t)s->rows * c->kv * parts <= 2 * (int64_t)s->workers; // else there are enough tiles
}

int mega_parts_choose(const struct mega_config *c, struct mega_sizes *s, struct err *e)
{
  static const enum mega_merge merges[] = {MEGA_MERGE_PRODUCT, MEGA_MERGE_OPERATOR};
  struct mega_sizes with = *s, best = *s;
  double least = 0, ns;
  with.context = MIN(s->context, ENOUGH_POSITIONS);
  if (!s->parts) best.parts = 1, best.merge = MEGA_MERGE_PRODUCT;
  for (int n = s->parts ? s->parts : 1; n <= MEGA_MOST_PARTS; n *= 2) {
    if (!s->parts && n == 1 && !may_help(c, &with, 2)) break; // only one choice
    if (!s->parts && n > 1 && !may_help(c, &with, n)) break;
    for (size_t i = 0; i < COUNT(merges); i++) {
      bool asked = s->merge == MEGA_MERGE_ANY || s->merge == merges[i];
      if (n == 1 ? i > 0 : !asked) continue;
      with.parts = n, with.merge = merges[i];
      TRY(time_of(c, &with, &ns, e));
      if (!least || ns < least) least = ns, best.parts = n, best.merge = merges[i];
    }
    if (s->parts) break;
  }
  s->parts = best.parts, s->merge = best.merge;
  return OK;
}
