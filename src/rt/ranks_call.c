// All ranks of a world in this process: a thread a rank, each with its parts of the whole tensors of the caller. They meet in memory that
// lives as long as the call.
#include "rt/rt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ranks_one {
  pthread_t thread;
  bool started;
  int rank, status;
  void **in, **out;
  const struct ranks_all *all;
};
struct ranks_all {
  struct module *m;
  const struct ranks_form *f;
  void *const *in, *const *out; // whole tensors
  struct m_exchange *exchange;
  struct ranks_one one[M_RANKS];
};

// ---- shapes ----

static struct ranks_tensor form_of(const struct graph *g, int t, int dim, const struct shape *whole)
{
  struct ranks_tensor x = {.divided = dim >= 0, .outer = 1, .inner = dtype_bytes(g->tensors[t].dtype)};
  for (int i = 0; i < whole->n; i++) *(i < dim ? &x.outer : &x.inner) *= whole->d[i];
  if (x.divided) x.inner /= g->world;
  return x;
}

const struct ranks_form *ranks_form_of(struct arena *mem, const struct graph *g)
{
  struct ranks_form *f = NEW(mem, struct ranks_form);
  f->ranks = g->world;
  f->in = NEWS(mem, struct ranks_tensor, graph_inputs(g, NULL) + 1), f->out = NEWS(mem, struct ranks_tensor, graph_outputs(g, NULL) + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op != OP_INPUT && n->op != OP_OUTPUT) continue;
    const int t = n->op == OP_INPUT ? n->out : n->in[0], dim = n->op == OP_INPUT ? input_shard(g, t) : output_shard(g, n);
    const struct shape whole = n->op == OP_INPUT ? graph_whole(g, t) : output_whole(g, n);
    struct ranks_tensor x = form_of(g, t, dim, &whole);
    if (n->op == OP_INPUT)
      x.written = g->tensors[t].state, f->in[f->nin++] = x;
    else
      x.state = 1 + output_state(g, n), f->out[f->nout++] = x;
  }
  return f;
}

// ---- parts ----

static size_t part_bytes(const struct ranks_tensor *x) { return (size_t)(x->outer * x->inner); }

static void *room(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

void ranks_part(const struct ranks_tensor *x, int ranks, int rank, void *whole, void *part, bool back)
{
  for (int64_t o = 0; o < x->outer; o++) {
    char *at = (char *)whole + (o * ranks + rank) * x->inner, *own = (char *)part + o * x->inner;
    memcpy(back ? at : own, back ? own : at, (size_t)x->inner);
  }
}

// A rank has memory of its own for parts, and for what others of this process would write at the same time.
static bool own_input(const struct ranks_tensor *x, int rank) { return x->divided || (x->written && rank); }

// A new state is in the place of the old one, if the caller has it there too.
static bool in_place(const struct ranks_all *a, int i) { return a->f->out[i].state && a->out[i] == a->in[a->f->out[i].state - 1]; }

static bool own_output(const struct ranks_all *a, int i, int rank) { return !in_place(a, i) && (a->f->out[i].divided || rank); }

static bool cut(const struct ranks_all *a, struct ranks_one *r)
{
  bool good = (r->in = calloc((size_t)a->f->nin + 1, sizeof *r->in)) && (r->out = calloc((size_t)a->f->nout + 1, sizeof *r->out));
  for (int i = 0; i < a->f->nin && good; i++) {
    const struct ranks_tensor *x = &a->f->in[i];
    const bool own = own_input(x, r->rank);
    good = (r->in[i] = own ? room(part_bytes(x)) : a->in[i]);
    if (good && x->divided) ranks_part(x, a->f->ranks, r->rank, a->in[i], r->in[i], false);
    if (good && own && !x->divided) memcpy(r->in[i], a->in[i], part_bytes(x));
  }
  for (int i = 0; i < a->f->nout && good; i++) {
    const int state = a->f->out[i].state - 1;
    good = (r->out[i] = in_place(a, i) ? r->in[state] : own_output(a, i, r->rank) ? room(part_bytes(&a->f->out[i])) : a->out[i]);
  }
  return good;
}

static void drop(const struct ranks_all *a, struct ranks_one *r)
{
  for (int i = 0; i < a->f->nin && r->in; i++)
    if (own_input(&a->f->in[i], r->rank)) free(r->in[i]);
  for (int i = 0; i < a->f->nout && r->out; i++)
    if (own_output(a, i, r->rank)) free(r->out[i]);
  free(r->in), free(r->out);
}

// Parts of results become whole; results that are not divided must have the same bits on all ranks.
static int join(const struct ranks_all *a, const struct ranks_one *r)
{
  for (int i = 0; i < a->f->nout; i++) {
    const struct ranks_tensor *x = &a->f->out[i];
    if (x->divided)
      ranks_part(x, a->f->ranks, r->rank, a->out[i], r->out[i], true);
    else if (r->rank && memcmp(a->out[i], r->out[i], part_bytes(x)) != 0)
      return EBADMSG;
  }
  return 0;
}

// ---- the call ----

static void *run(void *arg)
{
  struct ranks_one *r = arg;
  r->status = module_call_rank(r->all->m, r->rank, r->all->exchange, r->in, r->out);
  return NULL;
}

static int run_all(struct ranks_all *a)
{
  int status = 0;
  for (int i = 1; i < a->f->ranks && !status; i++) {
    status = pool_thread(&a->one[i].thread, run, &a->one[i]);
    a->one[i].started = !status;
  }
  if (status) m_fail(a->exchange, status);
  run(&a->one[0]);
  for (int i = 1; i < a->f->ranks; i++)
    if (a->one[i].started) pthread_join(a->one[i].thread, NULL);
  const int why = (int)a->exchange->failed;
  for (int i = 0; i < a->f->ranks && !why && !status; i++) status = join(a, &a->one[i]);
  return why ? why : status;
}

int module_call_ranks(struct module *m, const struct ranks_form *f, void *const *in, void *const *out)
{
  const size_t bytes = module_exchange(m);
  struct ranks_all a = {.m = m, .f = f, .in = in, .out = out, .exchange = room(bytes)};
  bool good = a.exchange;
  if (good) {
    memset(a.exchange, 0, sizeof *a.exchange);
    a.exchange->ranks = (uint32_t)f->ranks, a.exchange->patience = (uint64_t)RANKS_WAIT * 1000000000u;
  }
  for (int i = 0; i < f->ranks; i++) a.one[i].rank = i, a.one[i].all = &a;
  for (int i = 0; i < f->ranks && good; i++) good = cut(&a, &a.one[i]);
  const int status = good ? run_all(&a) : ENOMEM;
  for (int i = 0; i < f->ranks; i++) drop(&a, &a.one[i]);
  return free(a.exchange), status;
}

void module_as_ranks(struct module *m, const struct ranks_form *f) { module_ranks(m, module_call_ranks, f); }
