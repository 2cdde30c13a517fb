#include "gpu/peers.h"
#include "base/memory.h"
#include "cuda/driver.h"
#include "cuda/nccl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NON_BLOCKING = 1, ALREADY = 704, TOLD_BYTES = 4096, LAZY_PEER = 1 };
static const int64_t GRAIN = 2 << 20; // granularity of device memory that a handle covers

struct peer_entry {                 // data that a rank sends to the others
  uint64_t address, context, space; // space: the namespace of process ids
  int32_t process, device, nccl;    // nccl: the library is installed
  int32_t reaches, open;            // reaches: it can access the memory of all; open: it may write there
  struct cu_ipc handle;
  struct nccl_id id; // from rank 0
};
_Static_assert(sizeof(struct peer_entry) <= GPU_PEERS_ENTRY, "an entry has room in its slot");
_Static_assert((int)MEETING_MOST_RANKS == (int)M_RANKS, "as many ranks meet on the host as on GPUs");

struct gpu_peers {
  struct gpu *g;
  struct gpu_peers_wish w;
  struct meet_world world;
  uint32_t *told; // host memory that kernels write
  gpu_address own, gathered;
  gpu_address opened[MEETING_MOST_RANKS]; // for each handle
  bool direct, told_others, connected;    // told_others: they know the memory; connected: their kernels may write to it
  struct nccl nccl;
  void *comm;
};

size_t gpu_peers_room(int ranks) { return M_EXCHANGE + (size_t)ranks * 2 * GPU_PEERS_ENTRY; }

static struct peer_entry *entry(const struct gpu_peers *p, int rank, int turn) { return m_slot(p->w.host, rank, turn, GPU_PEERS_ENTRY); }

static int meet(const struct gpu_peers *p, struct err *e)
{
  const int why = m_meet(p->w.host, p->w.rank);
  if (!why) return OK;
  return err_set(e, ERR_WORLD, NOWHERE,
                 why == ETIMEDOUT ? "another rank did not connect its GPU: all ranks must make their first call together"
                                  : "another rank failed while the GPUs were being connected");
}

// ---- own memory ----

static int take(struct gpu_peers *p, struct err *e)
{
  struct gpu *g = p->g;
  const size_t bytes = (size_t)((p->w.bytes + GRAIN - 1) / GRAIN * GRAIN);
  void *told;
  TRY(gpu_alloc(g, bytes, &p->own, e));
  TRY(gpu_fill(g, p->own, 0, bytes, e));
  TRY(gpu_wait(g, e));
  if (gpu_check(g, g->host_alloc(&told, TOLD_BYTES), e, "taking memory of the host that the GPU writes")) return (int)e->status;
  p->told = told, *p->told = 0;
  p->world = (struct meet_world){.told = told, .patience = (unsigned long long)(p->w.seconds * 1e9), .rank = p->w.rank, .ranks = p->w.ranks};
  return OK;
}

// ---- the others' memory ----

// Processes in two containers may have the same id.
static uint64_t process_space(void)
{
  struct stat st;
  return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

static bool reach_context(struct gpu_peers *p, const struct peer_entry *x)
{
  struct gpu *g = p->g;
  int can = 0;
  if (x->context == (uintptr_t)g->context) return true;
  if (g->device_peer(&can, g->device, x->device) || !can) return false;
  const int code = g->peer_enable((cu_context)(uintptr_t)x->context, 0);
  return !code || code == ALREADY;
}

// Opens it by its handle, which the driver permits if the devices reach each other.
static bool reach_process(struct gpu_peers *p, int rank, const struct peer_entry *x)
{
  return !p->g->ipc_open(&p->opened[rank], x->handle, LAZY_PEER);
}

static bool reach(struct gpu_peers *p, int rank)
{
  const struct peer_entry *x = entry(p, rank, 0);
  const bool here = x->process == (int32_t)getpid() && x->space == process_space();
  if (rank != p->w.rank && !(here ? reach_context(p, x) : reach_process(p, rank, x))) return false;
  const gpu_address at = p->opened[rank] ? p->opened[rank] : rank == p->w.rank ? p->own : x->address;
  return p->world.at[rank] = (char *)(uintptr_t)at, true;
}

static void tell(struct gpu_peers *p)
{
  struct peer_entry *x = entry(p, p->w.rank, 0);
  p->told_others = true;
  __atomic_store_n(&entry(p, p->w.rank, 1)->open, 1, __ATOMIC_SEQ_CST);
  *x = (struct peer_entry){
      .address = p->own, .context = (uintptr_t)p->g->context, .space = process_space(), .process = (int32_t)getpid(), .device = p->g->device};
  if (p->g->ipc_get(&x->handle, p->own)) memset(&x->handle, 0, sizeof x->handle); // ranks of this process need no handle
}

static int none_reaches(const struct gpu_peers *p, struct err *e)
{
  err_set(e, ERR_WORLD, NOWHERE, "the GPUs of the %d ranks do not all reach each other's memory, and not all ranks have NCCL (libnccl.so.2)",
          p->w.ranks);
  return err_hint(e, "`mica targets` shows which GPU reaches which; `pip install nvidia-nccl-cu12` brings NCCL"), (int)e->status;
}

// ---- NCCL ----

// A wait in NCCL has the time limit of a collective, and ends if another rank failed.
static struct patience patience_of(const struct gpu_peers *p)
{
  const struct m_exchange *x = p->w.host;
  return (struct patience){.drop = (stop_flag)&x->failed, .until = now_seconds() + (double)x->patience * 1e-9};
}

// NCCL connects at the first data of each size, but not while a graph is recorded. So this sends the least and the most data, in place.
static int gather_once(struct gpu_peers *p, struct err *e)
{
  const int64_t most = p->w.gathered / p->w.ranks, sizes[] = {MIN(most, 16), most};
  gpu_address all;
  for (size_t i = 0; i < COUNT(sizes); i++)
    TRY(gpu_peers_gather(p, p->gathered + (gpu_address)(sizes[i] * p->w.rank), sizes[i], p->g->stream, &all, e));
  return gpu_wait(p->g, e);
}

static int join_nccl(struct gpu_peers *p, struct err *e)
{
  struct peer_entry *x = entry(p, 0, 0);
  struct err none = {0};
  bool all = true;
  entry(p, p->w.rank, 0)->nccl = nccl_find(&p->nccl, &none) == OK;
  TRY(meet(p, e));
  for (int r = 0; r < p->w.ranks; r++) all &= entry(p, r, 0)->nccl;
  if (!all) return none_reaches(p, e);
  if (!p->w.rank) TRY(nccl_check(&p->nccl, p->nccl.get_id(&x->id), e, "naming a world"));
  TRY(gpu_alloc(p->g, (size_t)p->w.gathered, &p->gathered, e));
  TRY(meet(p, e));
  const struct patience until = patience_of(p);
  TRY(nccl_join(&p->nccl, p->w.ranks, &x->id, p->w.rank, &until, &p->comm, e));
  return gather_once(p, e);
}

int gpu_peers_gather(struct gpu_peers *p, gpu_address operand, int64_t bytes, void *stream, gpu_address *all, struct err *e)
{
  *all = p->gathered;
  const int code = p->nccl.all_gather((const void *)(uintptr_t)operand, (void *)(uintptr_t)p->gathered, (size_t)bytes, NCCL_BYTES, p->comm, stream);
  const struct patience until = patience_of(p);
  return nccl_taken(&p->nccl, p->comm, code, &until, e, "gathering");
}

// ---- opening, closing ----

static bool wants_nccl(void)
{
  const char *v = getenv("MICA_NCCL");
  return v && *v && strcmp(v, "0") != 0;
}

static int connect(struct gpu_peers *p, struct err *e)
{
  bool direct = !wants_nccl();
  TRY(take(p, e));
  tell(p);
  TRY(meet(p, e));
  for (int r = 0; r < p->w.ranks; r++) direct &= reach(p, r);
  entry(p, p->w.rank, 1)->reaches = direct;
  TRY(meet(p, e));
  for (int r = 0; r < p->w.ranks; r++) direct &= entry(p, r, 1)->reaches;
  p->direct = direct;
  if (!direct) TRY(join_nccl(p, e));
  p->connected = true; // the others begin when the last rank has connected
  return meet(p, e);
}

// In a separate stream, since the caller's may be recording.
static int connect_apart(struct gpu_peers *p, struct err *e)
{
  struct gpu *g = p->g;
  const cu_stream before = g->stream;
  cu_stream own;
  if (gpu_check(g, g->stream_create(&own, NON_BLOCKING), e, "making a stream")) return (int)e->status;
  g->stream = own;
  const int status = connect(p, e);
  g->stream = before;
  return g->stream_destroy(own), status;
}

int gpu_peers_open(struct gpu *g, const struct gpu_peers_wish *w, struct gpu_peers **out, struct err *e)
{
  struct gpu_peers *p = mem_lasting(sizeof *p);
  *out = NULL;
  p->g = g, p->w = *w;
  const int status = connect_apart(p, e);
  if (status != OK) m_fail(w->host, EIO), gpu_peers_close(p);
  return status == OK ? (*out = p, OK) : status;
}

// Takes the memory of rank r once: 0 if another thread has it.
static gpu_address taken_back(struct gpu_peers *p, int r) { return __atomic_exchange_n(&entry(p, r, 0)->address, 0, __ATOMIC_SEQ_CST); }

// Memory that another rank may still write is kept. The last rank of this process frees the memory of all its ranks. Memory that another process
// still has open is kept until this process ends.
static void release(struct gpu_peers *p)
{
  const int32_t self = (int32_t)getpid();
  const uint64_t space = process_space();
  bool last = true;
  if (!p->told_others) {
    gpu_free(p->g, p->own);
    return;
  }
  if (!p->connected) gpu_free(p->g, taken_back(p, p->w.rank));
  __atomic_store_n(&entry(p, p->w.rank, 1)->open, 0, __ATOMIC_SEQ_CST);
  for (int r = 0; r < p->w.ranks; r++) last &= !__atomic_load_n(&entry(p, r, 1)->open, __ATOMIC_SEQ_CST);
  for (int r = 0; r < p->w.ranks && last; r++) {
    const struct peer_entry *x = entry(p, r, 0);
    if (x->process != self || x->space != space || p->g->context_set((cu_context)(uintptr_t)x->context)) continue;
    const gpu_address memory = taken_back(p, r);
    if (memory) p->g->release(memory);
  }
}

void gpu_peers_close(struct gpu_peers *p)
{
  void *before;
  if (!p) return;
  if (gpu_enter(p->g, &before)) {
    if (p->comm) p->nccl.leave(p->comm);
    for (int r = 0; r < p->w.ranks; r++)
      if (p->opened[r]) p->g->ipc_close(p->opened[r]);
    gpu_free(p->g, p->gathered);
    if (p->told) p->g->host_free(p->told);
    release(p);
    p->g->context_set(before);
  }
  mem_free(p);
}

bool gpu_peers_direct(const struct gpu_peers *p) { return p->direct; }
const struct meet_world *gpu_peers_world(const struct gpu_peers *p) { return &p->world; }

int gpu_peers_told(const struct gpu_peers *p, struct err *e)
{
  const uint32_t told = __atomic_load_n(p->told, __ATOMIC_ACQUIRE);
  if (!told) return OK;
  if (told == MEETING_OTHERS)
    err_set(e, ERR_WORLD, NOWHERE, "another rank of the world failed, or was closed");
  else
    err_set(e, ERR_WORLD, NOWHERE, "rank %u did not reach the collective operation within %g seconds", told - 1, p->w.seconds);
  return err_hint(e, "every rank has to make the same calls; open the ranks again"), (int)e->status;
}
