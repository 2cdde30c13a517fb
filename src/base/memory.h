// memory: allocation, and unwinding when an allocation fails.
//
//   block    memory that was taken. It belongs to the guard of the thread that took it, until it is freed or kept
//   guard    around a call of the library, or a thread's share of one: where a block cannot be had, the thread goes back to its guard
//            (longjmp), which then frees every block that is left. So nothing between has to look whether there was memory
//   handle   a block that stands for more than memory: its kind says how it is closed
//   undo     what has to be done on that way back besides: a lock, a file. On the stack of the function that needs it
//
// Data that must outlive a failing call is in an arena that is `lasting`, or is kept. Large memory, whose size depends on input, is allocated by
// mem_try or arena_try; a failure is an ordinary error that names its purpose.
#ifndef MICA_MEMORY_H
#define MICA_MEMORY_H

#include "base/base.h"

#include <pthread.h>
#include <setjmp.h>

struct mem_block;
struct mem_kind {
  void (*close)(void *p); // called after a failure, the newest handle first; frees p
  void (*part)(void *p);  // called before that for all handles: releases others that also have a guard; or NULL
  void (*leave)(void *p); // called when the guard is left without a failure; frees p. NULL: p lives on
};
struct undo {
  struct undo *below;
  void (*act)(void *arg);
  void *arg;
};
struct shortage { // the reason for unwinding
  size_t bytes;   // that could not be allocated
  char what[200]; // its purpose if known; else ""
};
struct guard {
  jmp_buf back;
  struct guard *above;                // of the same thread
  struct undo *undo;                  // of the enclosing guard
  struct mem_block *blocks, *handles; // the newest first
  pthread_mutex_t lock;               // protects both: another thread may free a block
  struct shortage lack;               // set after a failure
};

// All are 16-byte aligned, zeroed except mem_raw, and never NULL, except mem_raw and mem_try.
void *mem_take(size_t bytes);
void *mem_raw(size_t bytes);     // not zeroed; NULL: no memory
void *mem_try(size_t bytes);     // NULL: no memory
void *mem_lasting(size_t bytes); // belongs to no guard
void *mem_handle(size_t bytes, const struct mem_kind *k);
void *mem_more(void *p, size_t old_bytes, size_t bytes); // new bytes are not zeroed; p may be NULL
void mem_keep(void *p);                                  // belongs to no guard from now on
void mem_free(void *p);
void *mem_newest(const struct guard *g, const struct mem_kind *k); // the newest handle if it is of that kind; else NULL
_Noreturn void mem_none(size_t bytes);                             // unwinds to the guard
_Noreturn void mem_none_for(size_t bytes, const char *what, ...) PRINTF(2, 3);
_Noreturn void mem_short(const struct shortage *s);     // the same, for another thread's shortage
int mem_error(const struct shortage *s, struct err *e); // replaces the content of *e
#define MEM_NEWS(type, n) ((type *)mem_take(sizeof(type) * (size_t)(n)))

// struct guard g; guard_open(&g);
// if (!setjmp(g.back)) work, guard_leave(&g); else guard_fail(&g);
void guard_open(struct guard *g);
void guard_leave(struct guard *g); // remaining blocks live on
void guard_fail(struct guard *g);  // closes and frees remaining blocks
struct guard *guard_here(void);    // this thread's innermost guard, or NULL
// Runs f(arg) under a guard, whose blocks then belong to `to` (NULL: to none). False: it was unwound.
bool guard_run(struct guard *to, void (*f)(void *arg), void *arg, struct shortage *lack);

void undo_push(struct undo *u, void (*act)(void *), void *arg);
void undo_pop(const struct undo *u);
void guard_lock(struct undo *u, pthread_mutex_t *m); // a lock that is released when the thread unwinds
void guard_unlock(const struct undo *u, pthread_mutex_t *m);

#endif
