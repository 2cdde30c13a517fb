// `mpirun -n K mica search ...`: K processes, on one or several hosts, that share one search. Only in a build with -DMICA_MPI=ON. Only the first
// process uses the database and prints results.
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

// Number of processes that mpirun started; 0 if it did not start this one.
static int launched(void)
{
  const char *open_mpi = getenv("OMPI_COMM_WORLD_SIZE"), *others = getenv("PMI_SIZE");
  return open_mpi ? atoi(open_mpi) : others ? atoi(others) : 0;
}

#ifdef MICA_MPI
#include <mpi.h>
#include <sched.h>

enum { MESSAGE = 1 << 30 }; // bytes sent by one call at most: counts are ints

static void gather(void *arg, const void *mine, size_t bytes, struct arena *mem, void **all, size_t *n)
{
  const struct crew *c = arg;
  uint64_t own = bytes, *each = NEWS(mem, uint64_t, c->size);
  MPI_Allgather(&own, 1, MPI_UINT64_T, each, 1, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int i = 0; i < c->size; i++) {
    n[i] = each[i];
    all[i] = i == c->rank ? arena_copy(mem, mine, bytes) : arena_alloc(mem, n[i]);
    for (size_t at = 0; at < n[i]; at += MESSAGE) MPI_Bcast((char *)all[i] + at, (int)MIN(n[i] - at, (size_t)MESSAGE), MPI_BYTE, i, MPI_COMM_WORLD);
  }
}

// mpirun binds each process to a core; this unbinds the search's threads.
static void unbind(void)
{
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
}

int crew_open(struct cli *c, struct crew *w, struct mica_options *o)
{
  (void)c;
  *w = (struct crew){.size = 1};
  if (!launched()) return OK;
  MPI_Comm host;
  int local;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &w->rank), MPI_Comm_size(MPI_COMM_WORLD, &w->size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &local), MPI_Comm_free(&host);
  unbind();
  w->arg = w, w->gather = gather;
  if (!o->search_threads) o->search_threads = MAX(1, (o->threads ? o->threads : pool_cores()) / local);
  if (w->rank) o->remember = false, o->progress = NULL;
  return OK;
}

void crew_close(const struct crew *w)
{
  if (w->gather) MPI_Finalize();
}

#else

int crew_open(struct cli *c, struct crew *w, struct mica_options *o)
{
  (void)o;
  *w = (struct crew){.size = 1};
  if (launched() < 2) return OK;
  err_set(&c->err, ERR_LIBRARY, NOWHERE, "this Mica was built without MPI: each of %d processes would search everything", launched());
  err_hint(&c->err, "run it without mpirun, or configure with -DMICA_MPI=ON (docs/search.md)");
  return (int)c->err.status;
}

void crew_close(const struct crew *w) { (void)w; }

#endif
