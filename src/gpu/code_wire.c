// Code as bytes, and back. The source of kernels is not sent.
#include "gpu/wire.h"

#include <string.h>

static void put_kernel(struct wire *w, const struct code_kernel *k)
{
  wire_put_text(w, k->name);
  wire_put_bytes(w, k->cubin, (size_t)k->bytes);
  wire_put(w, k->shared), wire_put(w, k->cluster), wire_put(w, k->registers), wire_put(w, k->spilled);
}

static void get_kernel(struct arena *mem, struct wire *w, struct code_kernel *k)
{
  size_t n;
  k->name = wire_get_text(mem, w);
  const void *bytes = wire_get_bytes(w, &n);
  k->cubin = arena_copy(mem, bytes, n), k->bytes = (int64_t)n;
  k->shared = wire_get(w), k->cluster = (int)wire_get(w), k->registers = (int)wire_get(w), k->spilled = (int)wire_get(w);
}

static void put_arg(struct wire *w, const struct code_arg *a)
{
  wire_put(w, a->at.kind), wire_put(w, a->at.index), wire_put(w, a->at.offset), wire_put(w, a->is_map), wire_put(w, a->bytes);
  if (a->is_map) wire_put_bytes(w, &a->map, sizeof a->map);
  if (a->bytes) wire_put_bytes(w, a->value, (size_t)a->bytes);
}

static void get_value(struct arena *mem, struct wire *w, struct code_arg *a)
{
  size_t n;
  const void *value = wire_get_bytes(w, &n);
  a->value = arena_copy(mem, value, n);
  w->bad = w->bad || (int64_t)n != a->bytes;
}

static void get_arg(struct arena *mem, struct wire *w, struct code_arg *a)
{
  a->at.kind = (enum place_kind)wire_get(w), a->at.index = (int)wire_get(w), a->at.offset = wire_get(w);
  a->is_map = wire_get(w), a->bytes = wire_get(w);
  size_t n = 0;
  const void *map = a->is_map ? wire_get_bytes(w, &n) : NULL;
  if (n == sizeof a->map)
    memcpy(&a->map, map, n);
  else
    w->bad = w->bad || a->is_map;
  if (a->bytes) get_value(mem, w, a);
}

static void put_launch(struct wire *w, const struct code_launch *l)
{
  wire_put_text(w, l->name), wire_put_text(w, l->how);
  wire_put(w, l->kernel), wire_put(w, l->dependent), wire_put(w, l->blocks), wire_put(w, l->threads);
  wire_put(w, l->algorithm);
  wire_put_bytes(w, &l->mul, sizeof l->mul);
  wire_put(w, l->narg);
  for (int i = 0; i < l->narg; i++) put_arg(w, &l->arg[i]);
}

static bool product_fits(const struct code_launch *l) { return (unsigned)l->mul.epilogue < EPILOGUES && l->narg == blas_operands(&l->mul); }

static void get_launch(struct arena *mem, struct wire *w, int nkernel, struct code_launch *l)
{
  size_t n;
  l->name = wire_get_text(mem, w), l->how = wire_get_text(mem, w);
  l->kernel = (int)wire_get(w), l->dependent = wire_get(w), l->blocks = wire_get(w), l->threads = (int)wire_get(w);
  l->algorithm = (int)wire_get(w);
  const void *mul = wire_get_bytes(w, &n);
  if (n == sizeof l->mul)
    memcpy(&l->mul, mul, n);
  else
    w->bad = true;
  l->narg = (int)wire_get_count(w, 5 * sizeof(int64_t));
  l->arg = NEWS(mem, struct code_arg, l->narg + 1);
  for (int i = 0; i < l->narg; i++) get_arg(mem, w, &l->arg[i]);
  if (l->kernel >= nkernel || (l->kernel < 0 && !product_fits(l))) w->bad = true;
}

void wire_put_code(struct wire *w, const struct code *c)
{
  wire_put(w, c->workspace), wire_put(w, c->zeroed);
  wire_put(w, c->nstate);
  for (int i = 0; i < c->nstate; i++) wire_put(w, c->state[i].in), wire_put(w, c->state[i].out), wire_put(w, c->state[i].bytes);
  wire_put(w, c->nkernel);
  for (int i = 0; i < c->nkernel; i++) put_kernel(w, &c->kernel[i]);
  wire_put(w, c->nlaunch);
  for (int i = 0; i < c->nlaunch; i++) put_launch(w, &c->launch[i]);
}

int wire_get_code(struct arena *mem, struct wire *w, struct code *c, struct err *e)
{
  *c = (struct code){.workspace = wire_get(w), .zeroed = 0};
  c->zeroed = wire_get(w);
  c->nstate = (int)wire_get_count(w, 3 * sizeof(int64_t));
  c->state = NEWS(mem, struct code_state, c->nstate + 1);
  for (int i = 0; i < c->nstate; i++) c->state[i].in = (int)wire_get(w), c->state[i].out = (int)wire_get(w), c->state[i].bytes = wire_get(w);
  c->nkernel = (int)wire_get_count(w, 6 * sizeof(int64_t));
  c->kernel = NEWS(mem, struct code_kernel, c->nkernel + 1);
  for (int i = 0; i < c->nkernel; i++) get_kernel(mem, w, &c->kernel[i]);
  c->nlaunch = (int)wire_get_count(w, 8 * sizeof(int64_t));
  c->launch = NEWS(mem, struct code_launch, c->nlaunch + 1);
  for (int i = 0; i < c->nlaunch; i++) get_launch(mem, w, c->nkernel, &c->launch[i]);
  if (c->workspace < 0 || c->zeroed < 0 || c->zeroed > c->workspace) w->bad = true;
  return w->bad ? err_set(e, ERR_GPU, NOWHERE, "a candidate's code cannot be read") : OK;
}
