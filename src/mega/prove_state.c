// Accesses to state, indexed by the first dimension of their box: the layer of a cache, the row of a token.
#include "mega/mega_prove.h"

static int64_t buckets(const struct mega_box *b) { return MIN(b->hi[0] - b->lo[0], MEGA_BUCKETS); }

void mega_touch_add(struct arena *mem, struct mega_touches *to, const struct mega_touch *t)
{
  for (int64_t i = 0; i < buckets(&t->box); i++) {
    int64_t at = (t->box.lo[0] + i) % MEGA_BUCKETS;
    PUSH(mem, to->at[at], to->n[at], to->cap[at]) = *t;
  }
}

const struct mega_touch *mega_touch_find(const struct mega_touches *in, int rank, const struct mega_box *box,
                                         bool (*fine)(void *arg, const struct mega_touch *t), void *arg)
{
  for (int64_t i = 0; i < buckets(box); i++) {
    int64_t at = (box->lo[0] + i) % MEGA_BUCKETS;
    for (int k = 0; k < in->n[at]; k++)
      if (mega_meet(rank, &in->at[at][k].box, box) && !fine(arg, &in->at[at][k])) return &in->at[at][k];
  }
  return NULL;
}
