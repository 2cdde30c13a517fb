// Random inputs. Reals that stand for half precision are rounded to it, so that a kernel and the interpreter
// see the same numbers.
#include "eval/eval.h"

static void fill(enum domain d, const struct field *F, enum dtype t, struct rng *r, int64_t n, void *p)
{
  for (int64_t i = 0; i < n; i++) {
    switch (d) {
    case DOM_F64:
    case DOM_RISING:
    case DOM_FALLING: ((double *)p)[i] = num_round(t, rng_normal(r)); break;
    case DOM_F32: ((float *)p)[i] = (float)num_round(t, rng_normal(r)); break;
    case DOM_FIELD: ((struct ffv *)p)[i] = field_random(F, r); break;
    }
  }
}

void eval_random(struct arena *mem, const struct graph *g, enum domain d, const struct field *F, uint64_t seed, void **inputs)
{
  int k = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT) continue;
    const struct tensor *t = &g->tensors[g->nodes[i].out];
    int64_t n = shape_size(&t->shape);
    struct rng r = {hash_mix(seed, (uint64_t)k + 1)};
    inputs[k] = tensor_room(mem, t, domain_bytes(d));
    fill(d, F, t->dtype, &r, n, inputs[k++]);
  }
}
