/* mica_meet.h - data exchange between the ranks of a world on one machine. Each rank is a thread or a process. All ranks map one
 * memory, the exchange: this header, then two slots for each rank. At barrier i, each rank writes its operand to its slot i % 2, waits
 * for all ranks, and reads the slots of all ranks. Before a rank writes a slot again, another barrier has waited for all readers. A
 * last barrier ends each call.
 *
 * The exchange is initially zero, except for `ranks` and `patience`. If a rank waits longer than `patience`, the exchange fails for all
 * ranks: `failed` stays set, because it is unknown which slots are in use. One word has the number of arrivals and a bit for failure. So
 * a barrier ends alike for all ranks: no rank arrives after a failure, and a rank that fails first checks whether all have arrived.
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
  uint64_t magic, key, bytes; /* of the program that opens it */
  uint64_t patience;          /* nanoseconds */
  uint32_t ranks, joined;     /* size of the world; a bit for each rank that has opened it */
  uint64_t arrived;           /* arrivals at all barriers so far; and M_GAVE_UP */
  uint32_t failed;            /* an error number: all further calls fail */
  uint32_t at[M_RANKS];       /* barriers at which each rank has arrived */
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

/* Waits until all ranks have arrived. Returns 0 or an error number: ETIMEDOUT: a rank did not arrive in time; ECANCELED: another rank failed. */
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
