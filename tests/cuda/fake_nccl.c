// A replacement of NCCL without GPUs, for ranks that are threads of one process.
#include "cuda/nccl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, ROOM = 4096 };
static struct communicator {
  int rank, ranks;
  char operand[ROOM];
} communicators[MOST]; // by rank
static int come;       // to all meetings so far

static void wait_for_all(int ranks)
{
  const int own = __atomic_add_fetch(&come, 1, __ATOMIC_SEQ_CST), all = (own + ranks - 1) / ranks * ranks;
  while (__atomic_load_n(&come, __ATOMIC_SEQ_CST) < all) sched_yield();
}

// The thread sanitizer would see memcpy, but not the atomics above: tests build this library without it.
static void copy(char *to, const char *from, size_t n)
{
  for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = from[i];
}

int fake_nccl_joined, fake_nccl_gathered, fake_nccl_left;

#define FUNCTION(field, symbol, parameters) __attribute__((visibility("default"))) int fake_nccl_##field parameters __asm__(symbol);
NCCL_FUNCTIONS
#undef FUNCTION
const char *ncclGetErrorString(int code);

const char *ncclGetErrorString(int code) { return code ? "as the test wants it" : "no error"; }
int fake_nccl_get_version(int *version) { return *version = 22900, 0; }
int fake_nccl_get_id(struct nccl_id *id) { return memset(id, 7, sizeof *id), 0; }
// Nonblocking: a rank continues when its state says that all ranks have joined. Rank FAKE_DEAD joins no communicator.
int fake_nccl_init_rank(void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *c)
{
  if (id.bytes[5] != 7 || rank >= ranks || ranks > MOST || c->size != sizeof *c || c->blocking) return 1;
  const char *dead = getenv("FAKE_DEAD");
  if (dead && atoi(dead) == rank) return 1;
  communicators[rank].rank = rank, communicators[rank].ranks = ranks;
  __atomic_add_fetch(&fake_nccl_joined, 1, __ATOMIC_SEQ_CST);
  return *comm = &communicators[rank], NCCL_IN_PROGRESS;
}
int fake_nccl_get_state(void *comm, int *state)
{
  const struct communicator *own = comm;
  return *state = __atomic_load_n(&fake_nccl_joined, __ATOMIC_SEQ_CST) % own->ranks ? NCCL_IN_PROGRESS : 0, 0;
}
int fake_nccl_leave(void *comm) // one that others did not join is forgotten
{
  const struct communicator *own = comm;
  if (__atomic_load_n(&fake_nccl_joined, __ATOMIC_SEQ_CST) % own->ranks) return __atomic_sub_fetch(&fake_nccl_joined, 1, __ATOMIC_SEQ_CST), 0;
  return __atomic_add_fetch(&fake_nccl_left, 1, __ATOMIC_SEQ_CST), 0;
}
int fake_nccl_all_gather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
  struct communicator *own = comm;
  (void)stream;
  if (type != NCCL_BYTES || !own || count > ROOM) return 1;
  __atomic_add_fetch(&fake_nccl_gathered, 1, __ATOMIC_SEQ_CST);
  copy(own->operand, from, count);
  wait_for_all(own->ranks);
  for (int r = 0; r < own->ranks; r++) copy((char *)to + (size_t)r * count, communicators[r].operand, count);
  return wait_for_all(own->ranks), 0; // until then others read the operand
}
int fake_nccl_all_reduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
  return (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream, 1;
}
