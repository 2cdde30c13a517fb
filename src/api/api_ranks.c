// include/mica.h: programs of several devices. A rank is a module; its inputs and outputs are the rank's parts of sharded tensors.
#include "api/module.h"

#include "gpu/peers.h"

#include <math.h>
#include <string.h>

static const double LONGEST = 1e6; // longest time limit for waiting ranks, in seconds

static int shard(int n, const int *dim, int i) { return i >= 0 && i < n ? dim[i] : -1; }

int mica_module_world(const struct mica_module *x) { return x->p.world; }
int mica_module_input_shard(const struct mica_module *x, int i) { return shard(x->p.nin, x->p.in_shard, i); }
int mica_module_output_shard(const struct mica_module *x, int i) { return shard(x->p.nout, x->p.out_shard, i); }

static struct mica_tensor *parts(struct arena *mem, int n, const struct mica_tensor *whole, const int *dim, int world)
{
  struct mica_tensor *part = NEWS(mem, struct mica_tensor, n + 1);
  for (int i = 0; i < n; i++) {
    part[i] = whole[i], part[i].name = arena_strdup(mem, whole[i].name);
    if (dim[i] >= 0) part[i].shape[dim[i]] /= world;
  }
  return part;
}

static int no_rank(const struct mica_module *whole, int rank, double seconds, struct err *e)
{
  const char *name = whole->p.name;
  if (whole->rank >= 0) return err_set(e, ERR_WORLD, NOWHERE, "%.80s is rank %d already", name, whole->rank);
  if (whole->p.world < 2) {
    err_set(e, ERR_WORLD, NOWHERE, "%.80s is a program of one device, which has no ranks", name);
    return err_hint(e, "a program of several devices begins with `world`"), (int)e->status;
  }
  if (rank < 0 || rank >= whole->p.world) {
    err_set(e, ERR_WORLD, NOWHERE, "%.80s has no rank %d", name, rank);
    return err_hint(e, "its ranks are 0 to %d", whole->p.world - 1), (int)e->status;
  }
  if (!(seconds >= 0 && seconds <= LONGEST)) return err_set(e, ERR_OPTION, NOWHERE, "ranks cannot wait %g seconds for each other", seconds);
  return OK;
}

void module_describe(struct mica_module *x, const struct mica_module *of, bool rank)
{
  const struct package *p = &of->p;
  const int world = rank ? p->world : 1;
  x->p = *p;
  x->p.name = arena_strdup(&x->mem, p->name), x->p.target = arena_strdup(&x->mem, p->target);
  x->p.object.function = p->object.function ? arena_strdup(&x->mem, p->object.function) : NULL;
  x->p.in_shard = arena_copy(&x->mem, p->in_shard, sizeof(int) * (size_t)(p->nin + 1));
  x->p.out_shard = arena_copy(&x->mem, p->out_shard, sizeof(int) * (size_t)(p->nout + 1));
  x->p.in_extents = arena_copy(&x->mem, p->in_extents, sizeof *p->in_extents * (size_t)p->nin);
  x->p.out_extents = arena_copy(&x->mem, p->out_extents, sizeof *p->out_extents * (size_t)p->nout);
  x->p.in = parts(&x->mem, p->nin, p->in, p->in_shard, world);
  x->p.out = parts(&x->mem, p->nout, p->out, p->out_shard, world);
}

// Takes the rank's code, and sets size and key of the memory that the ranks share.
static int take_code(struct mica_module *x, const struct mica_module *whole, struct exchange_wish *wish, struct err *e)
{
  size_t n;
  if (x->p.gpu) {
    code_copy(&x->mem, &whole->p.code, &x->p.code);
    return wish->key = x->p.key, wish->bytes = gpu_peers_room(x->p.world), OK;
  }
  const void *bytes = module_bytes(whole->cpu, &n);
  wish->key = hash_mix(hash_bytes(bytes, n, 0), n), wish->bytes = module_exchange(whole->cpu);
  return module_load(bytes, n, whole->p.object.function, &x->cpu, e);
}

static int open_rank(struct mica_module *whole, int rank, const char *name, double seconds, struct mica_module **out, struct err *e)
{
  TRY(no_rank(whole, rank, seconds, e));
  struct mica_module *x = module_new(whole->m);
  module_describe(x, whole, true);
  x->seconds = seconds > 0 ? seconds : RANKS_WAIT;
  struct exchange_wish wish = {.name = name, .here = &whole->m->worlds, .rank = rank, .ranks = x->p.world, .seconds = x->seconds};
  int status = take_code(x, whole, &wish, e);
  if (status == OK) status = exchange_open(&wish, &x->exchange, e);
  if (status != OK) return mica_module_close(x), status;
  x->rank = rank;
  return *out = x, module_enter(x), OK;
}

int mica_module_rank(struct mica_module *whole, int rank, const char *name, double seconds, struct mica_module **out)
{
  struct mica_context *m = whole->m;
  int status;
  *out = NULL;
  CALL(m, status, open_rank(whole, rank, name, seconds, out, &m->err));
  return status;
}

int rank_call(struct mica_module *x, const void *const *in, void *const *out, struct err *e)
{
  pthread_mutex_lock(&x->turn);
  int status = module_call_rank(x->cpu, x->rank, exchange_memory(x->exchange), (void *const *)in, out);
  if (status) status = exchange_failed(x->exchange, status, e);
  pthread_mutex_unlock(&x->turn);
  return status;
}

int rank_connect(struct mica_module *x, struct gpu_resident *r, struct err *e)
{
  if (x->p.world < 2) return OK;
  if (x->rank < 0) {
    err_set(e, ERR_WORLD, NOWHERE, "%.80s runs on %d GPUs, one a rank", x->p.name, x->p.world);
    return err_hint(e, "open each rank with mica_module_rank, in Python with f.rank(number), and call the ranks"), (int)e->status;
  }
  if (x->devices) return err_set(e, ERR_WORLD, NOWHERE, "rank %d of %.80s is on another GPU already", x->rank, x->p.name);
  return gpu_resident_connect(r, exchange_memory(x->exchange), x->rank, x->seconds, e);
}

int rank_able(const struct mica_module *x, struct err *e)
{
  if (!x->exchange || !__atomic_load_n(&exchange_memory(x->exchange)->failed, __ATOMIC_ACQUIRE)) return OK;
  return exchange_failed(x->exchange, 0, e);
}
