// Names: a hash table whose buckets are stacks. The newest name is first, so an inner name hides an outer one; closing a scope removes its names in
// reverse.
#include "tile/tile_parse.h"
#include "front/parse.h"

#include <string.h>

static int bucket(char sigil, const char *p, int n) { return (int)(hash_bytes(p, (size_t)n, (uint64_t)sigil) % TILE_BUCKETS); }

int tile_scope_open(struct tile_scope *s)
{
  int mark = s->start;
  s->start = s->n;
  return mark;
}

void tile_scope_close(struct tile_scope *s, int mark)
{
  while (s->n > s->start) {
    const struct tile_name *last = &s->names[--s->n];
    s->bucket[bucket(last->sigil, last->name, (int)strlen(last->name))] = last->next;
  }
  s->start = mark;
}

const struct tile_name *tile_scope_find(const struct tile_scope *s, char sigil, const char *p, int n)
{
  for (int i = s->bucket[bucket(sigil, p, n)]; i; i = s->names[i - 1].next) {
    const struct tile_name *x = &s->names[i - 1];
    if (x->sigil == sigil && strlen(x->name) == (size_t)n && !memcmp(x->name, p, (size_t)n)) return x;
  }
  return NULL;
}

void tile_scope_add(struct tile_scope *s, struct tile_name name)
{
  int *first = &s->bucket[bucket(name.sigil, name.name, (int)strlen(name.name))];
  name.next = *first;
  PUSH(s->mem, s->names, s->n, s->cap) = name;
  *first = s->n;
}

const char *tile_scope_near(const struct tile_scope *s, char sigil, const char *word)
{
  struct near n = near_start(word);
  for (int i = s->n; i > MAX(0, s->n - 1000); i--)
    if (s->names[i - 1].sigil == sigil) near_try(&n, s->names[i - 1].name);
  return n.best;
}

struct tile_nearest tile_nearest(const char *word)
{
  struct near n = near_start(word);
  return (struct tile_nearest){n.word, n.best, n.distance};
}

void tile_nearest_try(struct tile_nearest *t, const char *candidate)
{
  struct near n = {t->word, t->best, t->distance};
  near_try(&n, candidate);
  t->best = n.best, t->distance = n.distance;
}
