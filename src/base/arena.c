// Bump allocation. Blocks double up to 16 MiB, so a long job makes few system calls. Memory is cleared when it is given, because most blocks are never
// full. A reset frees whole blocks back to the mark, except the largest, which the next block reuses. Otherwise a loop that marks and resets at the end
// of a block would allocate 16 MiB each time. The address sanitizer is told about reset memory, and finds later reads.
#include "base/memory.h"

#include <string.h>

// Bytes of a block for several requests. The allocator of the address sanitizer gives pages of larger blocks back when they are freed, and page faults
// of new ones take longer than the work.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { MOST = 64 << 10 };
#else
enum { MOST = 16 << 20 };
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

struct arena_block {
  struct arena_block *below;
  size_t fill, cap;
  bool clear; // of one large request: the system made its pages, and they are zero
  _Alignas(16) char data[];
};

static void add_block(struct arena *a, struct arena_block *b) { b->below = a->head, a->head = b; }

static struct arena_block *more(struct arena *a, size_t bytes)
{
  struct arena_block *b = a->spare;
  if (b && b->cap >= bytes) return a->spare = NULL, b;
  const size_t cap = MAX(a->head ? MIN(2 * a->head->cap, (size_t)MOST) : (size_t)16 << 10, bytes);
  const bool clear = cap > MOST;
  if (!(b = (clear ? mem_try : mem_raw)(sizeof *b + cap))) return NULL;
  b->below = NULL, b->fill = 0, b->cap = cap, b->clear = clear;
  if (a->lasting) mem_keep(b);
  return b;
}

static size_t rounded(size_t bytes) { return (MIN(bytes, SIZE_MAX / 4) + 15) & ~(size_t)15; }
static bool has_room(const struct arena *a, size_t bytes) { return a->head && a->head->cap - a->head->fill >= bytes; }

// Bytes of unknown content; *clear: they are zero. NULL: no memory.
static void *give(struct arena *a, size_t bytes, bool *clear)
{
  bytes = rounded(bytes);
  struct arena_block *b = has_room(a, bytes) ? NULL : more(a, bytes);
  if (b) add_block(a, b);
  if (!has_room(a, bytes)) return NULL;
  void *p = a->head->data + a->head->fill;
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  a->head->fill += bytes, a->used += bytes;
  return *clear = a->head->clear, p;
}

void *arena_try(struct arena *a, size_t bytes)
{
  bool clear;
  void *p = give(a, bytes, &clear);
  return p && !clear ? memset(p, 0, bytes) : p;
}

// A copy of `copied` bytes, followed by zeros.
static void *copy(struct arena *a, const void *from, size_t copied, size_t bytes)
{
  bool clear;
  char *p = give(a, bytes, &clear);
  if (!p) mem_none(bytes);
  if (copied) memcpy(p, from, copied);
  if (!clear) memset(p + copied, 0, bytes - copied);
  return p;
}

void *arena_alloc(struct arena *a, size_t bytes) { return copy(a, NULL, 0, bytes); }

static void free_block(struct arena_block *b)
{
  if (b) ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
  mem_free(b);
}

void arena_close(struct arena *a)
{
  for (struct arena_block *b = a->head, *below; b; b = below) below = b->below, free_block(b);
  free_block(a->spare);
  *a = (struct arena){.lasting = a->lasting};
}

static void empty(struct arena_block *b, size_t from)
{
  ASAN_POISON_MEMORY_REGION(b->data + from, b->fill - from);
  b->fill = from, b->clear = false;
}

struct arena_mark arena_mark(struct arena *a) { return (struct arena_mark){a->head, a->head ? a->head->fill : 0, a->used}; }

void arena_reset(struct arena *a, struct arena_mark m)
{
  while (a->head != m.head) {
    struct arena_block *b = a->head, *less = b;
    a->head = b->below;
    if (!a->spare || b->cap > a->spare->cap) less = a->spare, a->spare = b, empty(b, 0);
    free_block(less);
  }
  if (a->head) empty(a->head, m.fill);
  a->used = m.used;
}

void *arena_copy(struct arena *a, const void *p, size_t bytes) { return copy(a, p, bytes, bytes); }

char *arena_strdup(struct arena *a, const char *s) { return arena_copy(a, s, strlen(s) + 1); }

void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes) { return copy(a, old, old_bytes, new_bytes); }

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
