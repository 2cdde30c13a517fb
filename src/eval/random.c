// Random inputs. Reals are rounded to the dtype of the tensor, so a kernel and the interpreter read the same numbers.
#include "eval/eval.h"

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

void eval_whole_numbers(const struct tensor *t, struct rng *r, int draw, double *out)
{
  const int64_t n = shape_size(&t->shape), least = t->range.least, all = t->range.most - least + 1;
  int64_t step = 1 + (int64_t)rng_below(r, (uint64_t)all), at = (int64_t)rng_below(r, (uint64_t)all);
  while (common(all, step) != 1) step++;
  const enum { UNIFORM, EQUAL, ENDS } how = t->range.distinct ? UNIFORM : draw % 3 == 1 ? EQUAL : draw % 3 == 2 ? ENDS : UNIFORM;
  if (how == EQUAL && n == 1) at = all - 1; // ENDS gives a single number the least value, so EQUAL gives the greatest
  for (int64_t i = 0; i < n; i++) {
    if (t->range.distinct)
      at = (at + step) % all; // no repetition within `all` steps
    else if (how == UNIFORM) {
      at = (int64_t)rng_below(r, (uint64_t)all);
      if (i % 2 == 0 && least + at < 0 && t->range.most >= 0) at = (int64_t)rng_below(r, (uint64_t)t->range.most + 1) - least;
    } else if (how == ENDS)
      at = i % 2 ? all - 1 : 0;
    out[i] = (double)(least + at);
  }
}

static void fill_whole(enum domain d, struct field *F, const struct tensor *t, struct rng *r, void *p)
{
  struct arena tmp = {0};
  const int64_t n = shape_size(&t->shape);
  double *x = tensor_room(&tmp, t, sizeof *x);
  eval_whole_numbers(t, r, 0, x);
  for (int64_t i = 0; i < n; i++) {
    if (d == DOM_FIELD)
      ((struct ffv *)p)[i] = ff_const(F, x[i]);
    else if (d == DOM_F32)
      ((float *)p)[i] = (float)x[i];
    else
      ((double *)p)[i] = x[i];
  }
  arena_close(&tmp);
}

static void fill(enum domain d, const struct field *F, enum dtype t, struct rng *r, int64_t n, void *p)
{
  for (int64_t i = 0; i < n; i++) {
    switch (d) {
    case DOM_F32: ((float *)p)[i] = (float)num_round(t, rng_normal(r)); break;
    case DOM_FIELD: ((struct ffv *)p)[i] = field_random(F, r); break;
    case DOM_F64:
    case DOM_RISING:
    case DOM_FALLING:
    case DOM_MEETING:
    case DOM_CLOSE:
    case DOM_ROUNDED:
    case DOM_APART: ((double *)p)[i] = num_round(t, rng_normal(r)); break;
    }
  }
}

void eval_random(struct arena *mem, const struct graph *g, enum domain d, struct field *F, uint64_t seed, void **inputs)
{
  const bool chooses = graph_chooses(g);
  int k = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT) continue;
    const struct tensor *t = &g->tensors[g->nodes[i].out];
    int64_t n = shape_size(&t->shape);
    struct rng r = {hash_mix(seed, (uint64_t)k + 1)};
    inputs[k] = tensor_room(mem, t, domain_bytes(d));
    if (num_whole(t->dtype) && (d != DOM_FIELD || chooses)) // otherwise they are arbitrary elements of the field
      fill_whole(d, F, t, &r, inputs[k++]);
    else
      fill(d, F, t->dtype, &r, n, inputs[k++]);
  }
}
