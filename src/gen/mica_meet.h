/* mica_meet.h - how the ranks of a world exchange data on one machine. Each rank is a thread or a process. All of them map one
 * memory, the exchange: this header, then two slots a rank. An operand of meeting i goes to slot i % 2 of its rank; all ranks wait for
 * each other; then each reads the slots of all ranks. The rank that writes a slot again has waited for all readers in between, and a
 * last wait ends each call.
 *
 * The exchange begins as zeros but for `ranks` and `patience`. A rank that waits longer than `patience` gives up for all: `failed`
 * stays set, because nobody knows then which slots are in use. One word counts those that came and says that a rank gave up. So a
 * meeting ends in the same way for all: nobody comes after a rank gave up, and who gives up looks first whether all had come.
 */
#ifndef MICA_MEET_H
#define MICA_MEET_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { M_RANKS = 8, M_EXCHANGE = 256 }; /* most ranks; bytes before the slots */

struct m_exchange {
  uint64_t magic, key, bytes; /* of who opens it */
  uint64_t patience;          /* nanoseconds */
  uint32_t ranks, joined;     /* of the world; that have opened it, a bit each */
  uint64_t arrived;           /* at all meetings so far, each rank once a meeting; and M_GAVE_UP */
  uint32_t failed;            /* an error number: no call works any more */
  uint32_t at[M_RANKS];       /* meetings that each rank has come to */
};
_Static_assert(sizeof(struct m_exchange) <= M_EXCHANGE, "the slots begin behind the header");

static inline void *m_slot(struct m_exchange *x, int rank, int turn, size_t bytes)
{
  return (char *)x + M_EXCHANGE + ((size_t)rank * 2 + (size_t)turn) * bytes;
}

static inline uint64_t m_nanoseconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define M_GAVE_UP (1ull << 63)

static inline int m_fail(struct m_exchange *x, int why)
{
  uint32_t none = 0;
  __atomic_compare_exchange_n(&x->failed, &none, (uint32_t)why, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  __atomic_fetch_or(&x->arrived, M_GAVE_UP, __ATOMIC_ACQ_REL);
  return why;
}

/* Waits until all ranks have come. 0, or an error number: ETIMEDOUT where some did not come in time, ECANCELED where others gave up. */
static inline int m_meet(struct m_exchange *x, int rank)
{
  enum { SPINS = 2000, YIELDS = 20000 };
  uint64_t begin = 0, all, now = __atomic_load_n(&x->arrived, __ATOMIC_ACQUIRE);
  int why = 0;
  do {
    if (now & M_GAVE_UP) return ECANCELED;
    all = (now / x->ranks + 1) * x->ranks;
    __atomic_store_n(&x->at[rank], (uint32_t)(all / x->ranks), __ATOMIC_RELAXED);
  } while (!__atomic_compare_exchange_n(&x->arrived, &now, now + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  for (long i = 0; ((now = __atomic_load_n(&x->arrived, __ATOMIC_ACQUIRE)) & ~M_GAVE_UP) < all; i++) {
    if (now & M_GAVE_UP) return why ? why : ECANCELED;
    if (i < SPINS) continue;
    if (!begin) begin = m_nanoseconds();
    if (m_nanoseconds() - begin > x->patience)
      why = m_fail(x, ETIMEDOUT);
    else if (i < YIELDS)
      sched_yield();
    else
      nanosleep(&(const struct timespec){0, 50000}, 0);
  }
  return 0;
}

#endif
