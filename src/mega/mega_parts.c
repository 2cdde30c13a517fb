// Chooses the number of parts of the positions in attention. More parts give attention more workers, but the next product must merge more sums.
#include "mega/mega.h"

enum { FEW_LAYERS = 2, LEAST_POSITIONS = 32 }; // parts of fewer positions save nothing
enum { ENOUGH_POSITIONS = 32768 };             // the choice does not change beyond this context

int mega_parts_choose(const struct mega_config *c, const struct mega_sizes *s, int *parts, struct err *e)
{
  struct mega_config few = *c;
  struct mega_sizes with = *s;
  double best = 0;
  int status = OK;
  *parts = 1;
  few.layers = MIN(c->layers, FEW_LAYERS), with.context = MIN(s->context, ENOUGH_POSITIONS);
  for (int n = 1; n <= MEGA_MOST_PARTS && status == OK && (n == 1 || s->context / n >= LEAST_POSITIONS); n *= 2) {
    struct arena own = {0};
    struct mega_model *m;
    struct mega_plan *p;
    struct mega_price price;
    if (n == 1 && s->context < 2 * LEAST_POSITIONS) break;                                     // only one choice
    if (n > 1 && s->rows > 1 && (int64_t)s->rows * c->kv * n > 2 * (int64_t)s->workers) break; // enough tiles
    with.parts = n;
    status = mega_from_config(&own, &few, &with, &m, e);
    if (status == OK) status = mega_plan_make(&own, m, &p, e);
    if (status == OK) {
      mega_price(&own, p, &price);
      if (n == 1 || price.step < best) best = price.step, *parts = n;
    }
    arena_close(&own);
  }
  return status;
}
