// Copies and comparisons of large memory on all cores: first-touch page faults cost more than the copy.
#include "base/base.h"

#include <stdatomic.h>
#include <string.h>

static const size_t PIECE = 1 << 22; // bytes

struct pieces {
  char *to;          // NULL: compare
  const char *x, *y; // x: NULL if `to` is filled
  char byte;
  size_t bytes;
  atomic_bool differ;
};

static void piece(void *arg, int i, int worker)
{
  (void)worker;
  struct pieces *p = arg;
  const size_t from = (size_t)i * PIECE, n = MIN(PIECE, p->bytes - from);
  if (p->to && !p->x)
    memset(p->to + from, p->byte, n);
  else if (p->to)
    memcpy(p->to + from, p->x + from, n);
  else if (memcmp(p->x + from, p->y + from, n))
    p->differ = true;
}

static void each(struct pieces *p) { pool_run(pool_cores(), (int)((p->bytes + PIECE - 1) / PIECE), piece, p); }

void large_copy(void *to, const void *from, size_t bytes) { each(&(struct pieces){.to = to, .x = from, .bytes = bytes}); }

void large_fill(void *to, char byte, size_t bytes) { each(&(struct pieces){.to = to, .byte = byte, .bytes = bytes}); }

bool large_same(const void *x, const void *y, size_t bytes)
{
  struct pieces p = {.x = x, .y = y, .bytes = bytes};
  each(&p);
  return !p.differ;
}
