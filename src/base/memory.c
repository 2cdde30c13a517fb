// Blocks, guards and unwinding (memory.h). A guard keeps its blocks in lists, so that they can be freed without the functions that allocated them.
// Each thread of a loop has a guard; after the loop its blocks pass to the guard of the thread that started the loop.
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct mem_block {
  struct mem_block *next, **link; // in a list of its guard
  struct guard *guard;            // or NULL
  const struct mem_kind *kind;    // NULL: plain memory
};
_Static_assert(sizeof(struct mem_block) % 16 == 0, "what follows is aligned");

static _Thread_local struct {
  struct guard *guard;
  struct undo *undo;
} here;

static struct mem_block *block_of(void *p) { return (struct mem_block *)p - 1; }

// ---- lists ----

static void link_in(struct mem_block *b, struct guard *g)
{
  struct mem_block **list = b->kind ? &g->handles : &g->blocks;
  b->guard = g, b->link = list;
  if ((b->next = *list)) b->next->link = &b->next;
  *list = b;
}

static void enter(struct mem_block *b, struct guard *g)
{
  b->guard = NULL;
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  link_in(b, g);
  pthread_mutex_unlock(&g->lock);
}

static void leave(struct mem_block *b)
{
  struct guard *g = b->guard;
  if (!g) return;
  pthread_mutex_lock(&g->lock);
  if ((*b->link = b->next)) b->next->link = b->link;
  b->guard = NULL;
  pthread_mutex_unlock(&g->lock);
}

// ---- blocks ----

static void *begin(struct mem_block *b, struct guard *g, const struct mem_kind *k)
{
  if (!b) return NULL;
  b->kind = k;
  return enter(b, g), b + 1;
}

static void *take(size_t bytes, struct guard *g, const struct mem_kind *k)
{
  return begin(bytes < SIZE_MAX / 2 ? calloc(1, sizeof(struct mem_block) + bytes) : NULL, g, k);
}

static void *need(void *p, size_t bytes)
{
  if (!p) mem_none(bytes);
  return p;
}

void *mem_raw(size_t bytes) { return begin(bytes < SIZE_MAX / 2 ? malloc(sizeof(struct mem_block) + bytes) : NULL, here.guard, NULL); }
void *mem_try(size_t bytes) { return take(bytes, here.guard, NULL); }
void *mem_take(size_t bytes) { return need(mem_try(bytes), bytes); }
void *mem_lasting(size_t bytes) { return need(take(bytes, NULL, NULL), bytes); }
void *mem_handle(size_t bytes, const struct mem_kind *k) { return need(take(bytes, here.guard, k), bytes); }

void *mem_more(void *p, size_t old_bytes, size_t bytes)
{
  if (!p) return mem_take(bytes);
  struct mem_block *b = block_of(p), *more;
  struct guard *g = b->guard;
  leave(b);
  if (!(more = realloc(b, sizeof *b + MAX(old_bytes, bytes)))) enter(b, g), mem_none(bytes);
  return enter(more, g), more + 1;
}

void mem_keep(void *p) { leave(block_of(p)); }

void mem_free(void *p)
{
  if (!p) return;
  leave(block_of(p));
  free(block_of(p));
}

void *mem_newest(const struct guard *g, const struct mem_kind *k) { return g->handles && g->handles->kind == k ? g->handles + 1 : NULL; }

// ---- unwinding ----

void mem_none(size_t bytes) { mem_short(&(struct shortage){.bytes = bytes}); }

void mem_none_for(size_t bytes, const char *what, ...)
{
  struct shortage s = {.bytes = bytes};
  va_list ap;
  va_start(ap, what);
  vsnprintf(s.what, sizeof s.what, what, ap);
  va_end(ap);
  mem_short(&s);
}

int mem_error(const struct shortage *s, struct err *e)
{
  *e = (struct err){0};
  if (*s->what)
    err_set(e, ERR_MEMORY, NOWHERE, "no memory for %s: %zu bytes", s->what, s->bytes);
  else
    err_set(e, ERR_MEMORY, NOWHERE, "out of memory: %zu more bytes could not be allocated", s->bytes);
  err_hint(e, "smaller tensors, fewer threads and a smaller search need less; `ulimit -v` shows whether the process is limited");
  return (int)e->status;
}

void mem_short(const struct shortage *s)
{
  struct guard *g = here.guard;
  if (!g) base_bug(__FILE__, __LINE__, "no memory, and no guard to go back to");
  g->lack = *s;
  while (here.undo != g->undo) {
    struct undo *u = here.undo;
    here.undo = u->below;
    u->act(u->arg);
  }
  longjmp(g->back, 1);
}

void undo_push(struct undo *u, void (*act)(void *), void *arg)
{
  *u = (struct undo){here.undo, act, arg};
  here.undo = u;
}

void undo_pop(const struct undo *u) { here.undo = u->below; }

static void unlock(void *m) { pthread_mutex_unlock(m); }

void guard_lock(struct undo *u, pthread_mutex_t *m)
{
  pthread_mutex_lock(m);
  undo_push(u, unlock, m);
}

void guard_unlock(const struct undo *u, pthread_mutex_t *m)
{
  undo_pop(u);
  pthread_mutex_unlock(m);
}

// ---- guards ----

struct guard *guard_here(void) { return here.guard; }

void guard_open(struct guard *g)
{
  g->above = here.guard, g->undo = here.undo;
  g->blocks = g->handles = NULL;
  pthread_mutex_init(&g->lock, NULL);
  here.guard = g;
}

static void end(struct guard *g)
{
  here.guard = g->above;
  pthread_mutex_destroy(&g->lock);
}

void guard_leave(struct guard *g)
{
  for (struct mem_block *b = g->handles, *next; b; b = next) {
    next = b->next;
    if (b->kind->leave) b->kind->leave(b + 1);
  }
  while (g->handles) leave(g->handles);
  while (g->blocks) leave(g->blocks);
  end(g);
}

static void pass_list(struct mem_block *list, struct guard *to)
{
  for (struct mem_block *b = list, *next; b; b = next) {
    next = b->next;
    enter(b, to);
  }
}

static void pass(struct guard *g, struct guard *to)
{
  struct mem_block *blocks = g->blocks, *handles = g->handles;
  end(g);
  pass_list(blocks, to), pass_list(handles, to);
}

bool guard_run(struct guard *to, void (*f)(void *arg), void *arg, struct shortage *lack)
{
  struct guard g;
  volatile bool good = false;
  guard_open(&g);
  if (!setjmp(g.back)) f(arg), good = true;
  if (!good) *lack = g.lack;
  pass(&g, to);
  return good;
}

static void close_handle(void *p)
{
  struct mem_block *b = block_of(p);
  b->kind->close(p);
}

// A handle that fails to allocate while it is closed leaves the rest to the list that is being freed.
void guard_fail(struct guard *g)
{
  struct shortage lack;
  for (struct mem_block *b = g->handles; b; b = b->next)
    if (b->kind->part) b->kind->part(b + 1);
  while (g->handles) {
    struct mem_block *b = g->handles;
    leave(b);
    guard_run(g, close_handle, b + 1, &lack);
  }
  while (g->blocks) mem_free(g->blocks + 1);
  end(g);
}
