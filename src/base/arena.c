// Bump allocation. Blocks double up to 16 MiB, so a long job makes few calls to malloc; reset frees
// whole blocks back to the mark.
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

struct arena_block {
  struct arena_block *below;
  size_t fill, cap;
  _Alignas(16) char data[];
};

_Noreturn static void out_of_memory(size_t bytes)
{
  fprintf(stderr, "mica: out of memory (%zu bytes)\n", bytes);
  abort();
}

void *arena_alloc(struct arena *a, size_t bytes)
{
  bytes = (bytes + 15) & ~(size_t)15;
  struct arena_block *b = a->head;
  if (!b || b->cap - b->fill < bytes) {
    size_t cap = b ? MIN(2 * b->cap, (size_t)16 << 20) : (size_t)16 << 10;
    cap = MAX(cap, bytes);
    b = calloc(1, sizeof *b + cap);
    if (!b) out_of_memory(bytes);
    b->below = a->head, b->cap = cap, a->head = b;
  }
  void *p = b->data + b->fill;
  b->fill += bytes, a->used += bytes;
  return p;
}

void arena_close(struct arena *a)
{
  arena_reset(a, (struct arena_mark){0});
}

struct arena_mark arena_mark(struct arena *a)
{
  return (struct arena_mark){a->head, a->head ? a->head->fill : 0, a->used};
}

void arena_reset(struct arena *a, struct arena_mark m)
{
  while (a->head != m.head) {
    struct arena_block *b = a->head;
    a->head = b->below;
    free(b);
  }
  if (a->head) {
    memset(a->head->data + m.fill, 0, a->head->fill - m.fill);
    a->head->fill = m.fill;
  }
  a->used = m.used;
}

void *arena_copy(struct arena *a, const void *p, size_t bytes)
{
  void *q = arena_alloc(a, bytes);
  if (bytes) memcpy(q, p, bytes);
  return q;
}

char *arena_strdup(struct arena *a, const char *s)
{
  return arena_copy(a, s, strlen(s) + 1);
}

void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
  void *p = arena_alloc(a, new_bytes);
  if (old_bytes) memcpy(p, old, old_bytes);
  return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *s = arena_alloc(a, (size_t)n + 1);
  vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}
