// Products by the vendor's library. It proposes several algorithms, ordered by its own model. The fastest one, timed on the candidate's buffers, is
// used. The choice is shared by all candidates with that product.
#include "gpu/stage.h"

#include <math.h>

enum { LAUNCHES = 16, REPLAYS = 3 };

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

// An algorithm that does not run has infinite time.
static int time_one(struct stage *s, struct loaded *l, int launch, double *seconds, struct err *e)
{
  struct gpu_graph *graph;
  struct err mine = {0};
  int times = MIN(LAUNCHES, s->nsets);
  *seconds = INFINITY;
  int status = try_one(s, l, launch, e);
  if (status != OK) return status == NO ? OK : status;
  if (stage_record(s, l, launch, launch + 1, times, false, &graph, &mine)) return gpu_wait(s->g, e);
  for (int i = 0; i < REPLAYS && status == OK; i++) {
    double t;
    status = gpu_times(s->g, 1, &graph, s->flush, (size_t)s->flush_bytes, &t, e);
    *seconds = fmin(*seconds, t);
  }
  gpu_graph_close(graph);
  return status;
}

static int choose(struct stage *s, struct loaded *l, int launch, const struct blas_algorithm *a, int n, int *best, struct err *e)
{
  double least = INFINITY;
  *best = 0;
  for (int i = 0; i < n && n > 1; i++) {
    double t;
    l->how[launch] = a[i];
    if (time_one(s, l, launch, &t, e)) return e->status;
    if (t < least) least = t, *best = i;
  }
  return OK;
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
