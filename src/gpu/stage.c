// The problem on the device. Inputs are stored in sets, outputs and workspaces in rings, one allocation each. Guard bytes surround every output and
// every workspace.
//
// The sets together are 2.2 times the L2 cache, as for the peers; there are at least two, so that no launch finds the inputs of the previous one in
// the cache. The other sets hold the first one's inputs rotated, so their results differ.
//
// The part of a workspace that must be zero is separate from the rest, because programs that take turns leave other values there.
#include "gpu/stage.h"
#include "base/memory.h"

#include <string.h>
#include <sys/mman.h>

enum { MOST_SETS = 4096, MOST_RING = 256, MOST_WORK = 64, LEAST_L2 = 60 << 20 };
static const int64_t MOST_WORK_BYTES = INT64_C(1) << 31, MOST_FAST = INT64_C(1) << 30;

static int64_t round_up(int64_t n) { return (n + GUARD - 1) / GUARD * GUARD; }

void stage_work(const struct code *c, int64_t *from, int64_t *bytes)
{
  *from = GUARD;
  *bytes = round_up(c->workspace - c->zeroed / GUARD * GUARD);
}

gpu_address stage_place(const struct stage *s, const struct code *c, const struct lower_place *at, int set, int ring, int work)
{
  int64_t from, bytes;
  if (at->kind == PLACE_INPUT) return s->in + (uint64_t)(set * s->in_bytes + s->in_at[at->index] + at->offset);
  if (at->kind == PLACE_OUTPUT) return s->out + (uint64_t)(ring * s->out_bytes + s->out_at[at->index] + at->offset);
  if (at->offset < c->zeroed) return s->zero + (uint64_t)(work * s->zero_bytes + at->offset);
  stage_work(c, &from, &bytes);
  return s->work + (uint64_t)(work * s->work_bytes + from + at->offset - c->zeroed / GUARD * GUARD);
}

static void take_back(struct stage *s, gpu_address *a)
{
  gpu_free(s->g, *a);
  *a = 0;
}

// Outputs are read to here, through little pinned memory.
static int take_back_room(struct stage *s, struct err *e)
{
  struct err slow = {0};
  void *p = NULL;
  s->fast = s->out_bytes <= MOST_FAST && gpu_host_alloc(s->g, (size_t)s->out_bytes, &p, &slow) == OK;
  s->back = s->fast ? p : mem_try((size_t)s->out_bytes);
  return s->back ? OK : err_set(e, ERR_MEMORY, NOWHERE, "no memory for %lld bytes of outputs", (long long)s->out_bytes);
}

static void give_back_room(struct stage *s)
{
  if (s->fast)
    gpu_host_free(s->g, s->back);
  else
    mem_free(s->back);
}

void stage_end(struct stage *s)
{
  for (int i = 0; i < s->np; i++) stage_drop(s, i);
  gpu_address *const all[] = {&s->in, &s->out, &s->zero, &s->work, &s->flush};
  for (size_t i = 0; i < COUNT(all); i++) take_back(s, all[i]);
  stage_compare_end(s);
  if (s->shared) munmap(s->shared, (size_t)s->map.bytes);
  give_back_room(s);
  s->shared = NULL, s->back = NULL, s->zero_bytes = s->work_bytes = 0, s->nknown = 0;
  arena_close(&s->mem);
  s->mem = (struct arena){0};
}

// ---- sets ----

static int64_t sum_of(int n, const int64_t *x)
{
  int64_t sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

static int count_sets(struct stage *s, int asked, struct err *e)
{
  size_t memory;
  if (gpu_memory(s->g, &memory, e)) return e->status;
  int64_t inputs = MAX(1, sum_of(s->map.nin, s->map.in_bytes)), l2 = MAX(LEAST_L2, gpu_facts(s->g)->l2), room = (int64_t)memory;
  int64_t want = (22 * l2 / 10 + inputs - 1) / inputs;
  s->nsets = (int)MIN(MAX(want, 2), MOST_SETS);
  if (asked > 0) s->nsets = MIN(asked, MOST_SETS);
  s->nsets = (int)MAX(1, MIN(s->nsets, room / 2 / s->in_bytes));
  s->nring = (int)MAX(1, MIN(MIN(s->nsets, MOST_RING), room / 5 / s->out_bytes));
  s->flush_bytes = 2 * l2;
  return OK;
}

// Set number j has the input bytes rotated by j guard lengths. A mask would have holes then, so it is not rotated.
static int rotate(struct stage *s, int j, struct err *e)
{
  for (int i = 0; i < s->map.nin; i++) {
    int64_t n = s->map.in_bytes[i], cut = n && !s->masks[i] ? (int64_t)j * GUARD % n : 0;
    gpu_address from = s->in + (uint64_t)s->in_at[i], to = from + (uint64_t)(j * s->in_bytes);
    if (gpu_copy(s->g, to, from + (uint64_t)cut, (size_t)(n - cut), e)) return e->status;
    if (gpu_copy(s->g, to + (uint64_t)(n - cut), from, (size_t)cut, e)) return e->status;
  }
  return OK;
}

static int fill_sets(struct stage *s, struct err *e)
{
  if (gpu_alloc(s->g, (size_t)(s->nsets * s->in_bytes), &s->in, e)) return e->status;
  if (gpu_alloc(s->g, (size_t)(s->nring * s->out_bytes), &s->out, e)) return e->status;
  if (gpu_alloc(s->g, (size_t)s->flush_bytes, &s->flush, e)) return e->status;
  for (int i = 0; i < s->map.nin; i++)
    if (gpu_write(s->g, s->in + (uint64_t)s->in_at[i], s->shared + s->map.in[i], (size_t)s->map.in_bytes[i], e)) return e->status;
  for (int j = 1; j < s->nsets; j++)
    if (rotate(s, j, e)) return e->status;
  return gpu_wait(s->g, e);
}

// ---- the request ----

// Lengths, each with a flag if there are flags.
static int64_t *read_list(struct arena *mem, struct wire *w, int *n, bool **flags)
{
  *n = (int)wire_get_count(w, sizeof(int64_t) * (flags ? 2 : 1));
  int64_t *x = NEWS(mem, int64_t, *n + 1);
  if (flags) *flags = NEWS(mem, bool, *n + 1);
  for (int i = 0; i < *n; i++) {
    if ((x[i] = wire_get(w)) < 0) w->bad = true;
    if (flags) (*flags)[i] = wire_get(w);
  }
  return x;
}

int stage_problem(struct stage *s, struct wire *in, int carried, struct wire *out, struct err *e)
{
  stage_end(s);
  int nin, nout;
  int64_t *in_bytes = read_list(&s->mem, in, &nin, &s->masks), *out_bytes = read_list(&s->mem, in, &nout, NULL);
  int asked = (int)wire_get(in);
  if (in->bad) return err_set(e, ERR_GPU, NOWHERE, "a problem cannot be read");
  shared_layout(&s->mem, nin, in_bytes, nout, out_bytes, &s->map);
  void *p = mmap(NULL, (size_t)s->map.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, carried, 0);
  if (p == MAP_FAILED) return err_set(e, ERR_MEMORY, NOWHERE, "memory shared with the worker cannot be mapped");
  s->shared = p;
  s->in_at = NEWS(&s->mem, int64_t, nin + 1), s->out_at = NEWS(&s->mem, int64_t, nout + 1);
  s->in_bytes = guarded_layout(nin, in_bytes, s->in_at), s->out_bytes = guarded_layout(nout, out_bytes, s->out_at);
  if (take_back_room(s, e)) return e->status;
  int status = count_sets(s, asked, e);
  if (status == OK) status = fill_sets(s, e);
  if (status != OK) return stage_end(s), status;
  wire_put(out, s->nsets);
  return OK;
}

// ---- workspaces ----

int stage_room(struct stage *s, const struct code *c, struct err *e)
{
  int64_t from, bytes;
  stage_work(c, &from, &bytes);
  int64_t zero = round_up(c->zeroed) + GUARD, work = from + bytes + GUARD;
  if (s->work && zero <= s->zero_bytes && work <= s->work_bytes) return OK;
  take_back(s, &s->zero), take_back(s, &s->work);
  s->zero_bytes = MAX(zero, s->zero_bytes), s->work_bytes = MAX(work, s->work_bytes);
  s->nwork = (int)MAX(1, MIN(MIN(s->nsets, MOST_WORK), MOST_WORK_BYTES / s->work_bytes));
  if (gpu_alloc(s->g, (size_t)(s->nwork * s->zero_bytes), &s->zero, e)) return e->status;
  if (gpu_fill(s->g, s->zero, 0, (size_t)(s->nwork * s->zero_bytes), e)) return e->status;
  return gpu_alloc(s->g, (size_t)(s->nwork * s->work_bytes), &s->work, e);
}
