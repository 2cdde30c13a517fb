// Assigns offsets to buffers in one memory. Buffers with overlapping lifetimes get different bytes. First fit in order of decreasing size, as the
// literature on static memory planning recommends for few buffers.
#include "gen/emit.h"

#include <stdlib.h>

enum { ALIGN = 64 };

int space_add(struct gen_space *s, int64_t bytes, int first)
{
  struct buffer b = {(bytes + ALIGN - 1) / ALIGN * ALIGN, -1, first, first};
  PUSH(s->mem, s->buffers, s->n, s->cap) = b;
  return s->n - 1;
}

void space_touch(struct gen_space *s, int buf, int time)
{
  if (buf < 0) return;
  struct buffer *b = &s->buffers[buf];
  b->first = MIN(b->first, time), b->last = MAX(b->last, time);
}

static bool clash(const struct buffer *a, const struct buffer *b) { return a->first <= b->last && b->first <= a->last; }

// The lowest offset at which b overlaps no placed buffer with an overlapping lifetime.
static int64_t lowest(const struct gen_space *s, const struct buffer *b)
{
  int64_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < s->n; i++) {
      const struct buffer *o = &s->buffers[i];
      if (o->offset < 0 || !clash(o, b) || at >= o->offset + o->bytes || o->offset >= at + b->bytes) continue;
      at = o->offset + o->bytes, moved = true;
    }
  }
  return at;
}

void space_place(struct gen_space *s)
{
  for (int k = 0; k < s->n; k++) {
    struct buffer *big = NULL;
    for (int i = 0; i < s->n; i++)
      if (s->buffers[i].offset < 0 && (!big || s->buffers[i].bytes > big->bytes)) big = &s->buffers[i];
    big->offset = lowest(s, big);
    s->total = MAX(s->total, big->offset + big->bytes);
  }
}
