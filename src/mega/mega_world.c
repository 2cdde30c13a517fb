// A world: ranks that run the same plan, each on its shard of the weights, of the heads and of the cache. This file makes the tables of a world
// (which rank writes to and signals which) and maps elements of a shard to elements of the whole tensor.
#include "mega/mega.h"

void mega_world_make(int n, struct mega_world *w)
{
  *w = (struct mega_world){.n = n};
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) {
      w->push[a][b] = w->stop[a][b] = true;
      w->begin[a][b] = w->end[a][b] = a != b;
      w->order[a][b] = (uint8_t)b;
    }
}

void mega_whole(const struct mega_model *m, const struct mega_tensor *t, struct mega_tensor *out)
{
  *out = *t;
  if (t->shard.n) out->dim[t->shard.dim] *= m->world;
}

int64_t mega_whole_at(const struct mega_model *m, const struct mega_tensor *t, int rank, int64_t at)
{
  const struct mega_shard *s = &t->shard;
  int64_t inner = 1, begin = 0;
  int section = 0;
  if (!s->n) return at;
  for (int d = s->dim + 1; d < t->rank; d++) inner *= t->dim[d];
  int64_t extent = t->dim[s->dim], d = at / inner % extent, outer = at / inner / extent;
  while (section + 1 < s->n && d >= begin + s->size[section]) begin += s->size[section++];
  return (outer * m->world * extent + m->world * begin + rank * s->size[section] + d - begin) * inner + at % inner;
}
