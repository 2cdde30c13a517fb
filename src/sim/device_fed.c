// Special inputs of a kernel that reads results of other kernels (device_fed.h).
#include "sim/device_fed.h"

struct graph *fed_graph(struct arena *mem, const struct graph *g, const struct fed *f, struct shrink_steps at_once, struct err *e)
{
  struct graph *all = graph_copy(mem, g), *small;
  for (int i = 0; i < f->n; i++)
    if (f->made[i] && graph_add(all, OP_OUTPUT, 1, &f->from[i], NULL, NOWHERE, NULL, e)) return NULL;
  return verify_shrink_axes(mem, all, at_once, &small) ? small : all;
}

struct fed_given { // inputs of the whole graph
  const struct graph *g;
  const int *ins;
  const struct buffers *b;
};

static void read_given(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct fed_given *d = arg;
  for (int64_t i = from; i < to; i++) out[i - from] = num_read(d->g->tensors[d->ins[input]].dtype, d->b->in[input], i);
}

static void hand_on(const struct fed *f, const struct fed_given *given, const struct reference64 *r, const struct graph *kernel, struct buffers *to)
{
  struct arena mem = {0};
  int *ins = NEWS(&mem, int, f->n + 1);
  graph_inputs(kernel, ins);
  for (int i = 0; i < f->n; i++) {
    const struct tensor *t = &kernel->tensors[ins[i]];
    int input = 0;
    while (!f->made[i] && given->ins[input] != f->from[i]) input++;
    for (int64_t k = 0, n = shape_size(&t->shape); k < n; k++) {
      double x = 0;
      if (f->made[i])
        x = r->value[f->from[i]][k];
      else
        read_given(given, input, k, k + 1, &x);
      num_write(t->dtype, to->in[i], k, x);
    }
  }
  arena_close(&mem);
}

int fed_inputs(const struct fed *f, const struct graph *whole, const struct graph *kernel, uint64_t seed, int round, stop_flag stop,
               struct buffers *to, struct err *e)
{
  struct arena mem = {0};
  struct buffers *b;
  struct reference64 r = {0};
  int *ins = NEWS(&mem, int, graph_inputs(whole, NULL) + 1);
  int status = buffers_open_until(whole, hash_mix(seed, (uint64_t)round), stop, &b, e);
  if (status == OK) {
    graph_inputs(whole, ins);
    special_inputs(whole, b, seed, round);
    struct fed_given given = {whole, ins, b};
    struct reference64_from from = {.read = read_given, .arg = &given, .rounds = true, .stop = stop};
    status = reference64_run(&r, whole, &from, e);
    if (status == OK) hand_on(f, &given, &r, kernel, to);
    reference64_close(&r);
    buffers_close(b);
  }
  arena_close(&mem);
  return status;
}
