// Products by the vendor's library. It proposes several algorithms, ordered by its own model. The fastest one, timed on the candidate's buffers, is
// used. The choice is shared by all candidates with that product.
#include "gpu/rank.h"
#include "gpu/stage.h"

#include <math.h>

enum { LAUNCHES = 16, REPLAYS = 7 };            // of a rough time; of an exact one
static const double NEAR = 1.15, REPLAY = 5e-4; // rough times within which algorithms are timed exactly; seconds of a replay

static int known(const struct stage *s, const struct blas_product *mul)
{
  for (int i = 0; i < s->nknown; i++)
    if (blas_same(&s->known[i].mul, mul)) return s->known[i].algorithm;
  return -1;
}

// Runs once outside of a graph, because the library then loads its code. NO: the algorithm does not run.
static int try_one(struct stage *s, struct loaded *l, int launch, struct err *e)
{
  struct err mine = {0};
  if (stage_launch(s, l, launch, launch + 1, 0, 0, 0, &mine)) return gpu_wait(s->g, e) == OK ? NO : (int)e->status;
  return gpu_wait(s->g, e);
}

// Seconds of one launch; of an algorithm that does not run, infinite.
static int time_roughly(struct stage *s, struct loaded *l, int launch, double *seconds, struct err *e)
{
  struct gpu_graph *graph;
  struct err mine = {0};
  const int times = MIN(LAUNCHES, s->nsets);
  *seconds = INFINITY;
  int status = try_one(s, l, launch, e);
  if (status != OK) return status == NO ? OK : status;
  if (stage_record(s, l, launch, launch + 1, times, false, &graph, &mine)) return gpu_wait(s->g, e);
  status = gpu_times(s->g, 1, &graph, s->flush, (size_t)s->flush_bytes, seconds, e);
  *seconds /= times;
  gpu_graph_close(graph);
  return status;
}

// The fastest of n algorithms `who`, one of which takes `each` seconds. Algorithms differ by a few percent, and so do two short replays of one.
static int time_exactly(struct stage *s, struct loaded *l, int launch, const struct blas_algorithm *a, double each, int n, const int *who, int *best,
                        struct err *e)
{
  struct gpu_graph *graph[PRODUCT_PROPOSED] = {0};
  double samples[PRODUCT_PROPOSED * REPLAYS], least = INFINITY;
  int launches[PRODUCT_PROPOSED], status = OK;
  bool flush;
  const int times = rank_launches(each, REPLAY, s->nsets, &flush);
  for (int i = 0; i < n && status == OK; i++) {
    l->how[launch] = a[who[i]], launches[i] = times;
    status = stage_record(s, l, launch, launch + 1, launches[i], false, &graph[i], e);
  }
  if (status == OK) status = stage_replay(s, n, graph, launches, REPLAYS, flush, samples, e);
  for (int i = 0; i < n && status == OK; i++) {
    struct gpu_time t;
    rank_time(samples + i * REPLAYS, REPLAYS, times, &t);
    if (t.median < least) least = t.median, *best = who[i];
  }
  for (int i = 0; i < n; i++) gpu_graph_close(graph[i]);
  return status;
}

static int choose(struct stage *s, struct loaded *l, int launch, const struct blas_algorithm *a, int n, int *best, struct err *e)
{
  double seconds[PRODUCT_PROPOSED], least = INFINITY;
  int who[PRODUCT_PROPOSED], near = 0;
  *best = 0;
  for (int i = 0; i < n && n > 1; i++) {
    l->how[launch] = a[i];
    if (time_roughly(s, l, launch, &seconds[i], e)) return e->status;
    if (seconds[i] < least) least = seconds[i], *best = i;
  }
  for (int i = 0; i < n && n > 1; i++)
    if (seconds[i] <= NEAR * least) who[near++] = i;
  return near > 1 && isfinite(least) ? time_exactly(s, l, launch, a, least, near, who, best, e) : OK;
}

// ---- the library ----

static void *start(void *arg)
{
  struct stage *s = arg;
  struct err none = {0}; // a product that needs the library asks again, and has the error
  void *before;
  if (!gpu_enter(s->g, &before)) return NULL;
  blas_open(s->g, &s->started, &none);
  return gpu_leave(s->g, before), NULL;
}

void stage_blas_begin(struct stage *s)
{
  if (!s->blas && !s->starting) s->starting = pool_thread(&s->starter, start, s) == 0;
}

void stage_blas_started(struct stage *s)
{
  if (!s->starting) return;
  pthread_join(s->starter, NULL);
  s->starting = false, s->blas = s->started;
}

int product_load(struct stage *s, struct loaded *l, int launch, struct err *e)
{
  const struct code_launch *c = &l->code.launch[launch];
  struct blas_algorithm a[PRODUCT_PROPOSED];
  int n, best = c->algorithm >= 0 ? c->algorithm : known(s, &c->mul);
  stage_blas_started(s);
  if (!s->blas && blas_open(s->g, &s->blas, e)) return e->status;
  if (!s->blas_work && gpu_alloc(s->g, PRODUCT_WORKSPACE, &s->blas_work, e)) return e->status;
  if (blas_plan(s->blas, &c->mul, &l->plan[launch], e)) return e->status;
  if (blas_algorithms(l->plan[launch], PRODUCT_WORKSPACE, PRODUCT_PROPOSED, a, &n, e)) return e->status;
  if ((best < 0 || best >= n) && choose(s, l, launch, a, n, &best, e)) return e->status;
  if (s->nknown < KNOWN_PRODUCTS && known(s, &c->mul) < 0) s->known[s->nknown++] = (struct known_product){c->mul, best};
  l->how[launch] = a[best], l->algorithm[launch] = best;
  int status = try_one(s, l, launch, e);
  return status == NO ? err_set(e, ERR_GPU, NOWHERE, "cuBLASLt's algorithm %d does not run", best) : status;
}
