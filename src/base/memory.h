// memory: how memory is taken, and how work that finds none is left from wherever it is.
//
//   block    memory that was taken. It belongs to the guard of the thread that took it, until it is freed or kept
//   guard    around a call of the library, or a thread's share of one: where a block cannot be had, the thread goes back to its guard
//            (longjmp), which then frees every block that is left. So nothing between has to look whether there was memory
//   handle   a block that stands for more than memory: its kind says how it is closed
//   undo     what has to be done on that way back besides: a lock, a file. On the stack of the function that needs it
//
// Data that must outlive a call that fails are in an arena that is `lasting`, or are kept. Memory that is large, and of a size that input
// decides, is taken by mem_try or arena_try. If it is missing, that is an ordinary error that says what it was for.
#ifndef MICA_MEMORY_H
#define MICA_MEMORY_H

#include "base/base.h"

#include <pthread.h>
#include <setjmp.h>

struct mem_block;
struct mem_kind {
  void (*close)(void *p); // after a failure, the newest handle first. It frees p
  void (*part)(void *p);  // before that, of all handles: lets go of others that have a guard too; or NULL
  void (*leave)(void *p); // where the guard is left without a failure; it frees p. NULL: p lives on
};
struct undo {
  struct undo *below;
  void (*act)(void *arg);
  void *arg;
};
struct shortage { // why work was left
  size_t bytes;   // that could not be had
  char what[200]; // what for, where that is known; else ""
};
struct guard {
  jmp_buf back;
  struct guard *above;                // of the same thread
  struct undo *undo;                  // those of before
  struct mem_block *blocks, *handles; // the newest first
  pthread_mutex_t lock;               // of both: another thread may free a block
  struct shortage lack;               // after a failure
};

// All zeroed, 16-byte aligned, and never NULL but for mem_try.
void *mem_take(size_t bytes);
void *mem_try(size_t bytes);     // NULL: there is none
void *mem_lasting(size_t bytes); // belongs to no guard
void *mem_handle(size_t bytes, const struct mem_kind *k);
void *mem_more(void *p, size_t old_bytes, size_t bytes); // what is new is not zeroed; p may be NULL
void mem_keep(void *p);                                  // belongs to no guard from here on
void mem_free(void *p);
void *mem_newest(const struct guard *g, const struct mem_kind *k); // the newest handle, where it is of that kind; else NULL
_Noreturn void mem_none(size_t bytes);                             // back to the guard
_Noreturn void mem_none_for(size_t bytes, const char *what, ...) PRINTF(2, 3);
_Noreturn void mem_short(const struct shortage *s);     // the same, for what another thread lacked
int mem_error(const struct shortage *s, struct err *e); // in place of what *e had
#define MEM_NEWS(type, n) ((type *)mem_take(sizeof(type) * (size_t)(n)))

// struct guard g; guard_open(&g);
// if (!setjmp(g.back)) work, guard_leave(&g); else guard_fail(&g);
void guard_open(struct guard *g);
void guard_leave(struct guard *g); // what is left lives on
void guard_fail(struct guard *g);  // what is left is closed and freed
struct guard *guard_here(void);    // this thread's innermost, or NULL
// Does f(arg) under a guard of its own, whose blocks then belong to `to` (NULL: to none). False: it did not come to its end.
bool guard_run(struct guard *to, void (*f)(void *arg), void *arg, struct shortage *lack);

void undo_push(struct undo *u, void (*act)(void *), void *arg);
void undo_pop(const struct undo *u);
void guard_lock(struct undo *u, pthread_mutex_t *m); // a lock that does not stay when the thread goes back
void guard_unlock(const struct undo *u, pthread_mutex_t *m);

#endif
