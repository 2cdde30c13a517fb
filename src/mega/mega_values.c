// Weights and initial state from a seed. The scale of weights keeps activations near 1. Gains are near 1. Tokens are rows of the table.
#include "base/num.h"
#include "mega/mega_run.h"

#include <math.h>

#include "mega/mega_noise.h"
#include <string.h>

struct mega_use { // how an operator uses a tensor
  bool stream, any, settings;
  int64_t table_rows; // for tokens: rows of the table that they index
};

static void use_of(const struct mega_op *op, const struct mega_model *m, int tensor, struct mega_use *u)
{
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_access *x = &op->spec.access[a];
    for (int d = 0; d < x->rank; d++) {
      if (op->arg[x->arg] == tensor && x->dim[d].extent == NOISE_SETTINGS) u->settings = true;
      if (x->dim[d].how != MEGA_ANY) continue;
      if (op->arg[x->arg] == tensor) u->any = true;
      if (op->arg[x->dim[d].decider] == tensor) u->table_rows = m->tensor[op->arg[x->arg]].dim[d];
    }
    if (op->arg[x->arg] == tensor && x->stream) u->stream = true;
  }
}

static double scale_of(const struct mega_tensor *t, const struct mega_use *u)
{
  int k = t->rank == 2 ? 1 : t->rank - 2; // tables are [n][k], other weights [...][k][n]
  return u->stream || u->any ? 1 / sqrt((double)t->dim[k]) : 0;
}

double mega_value_scale(const struct mega_model *m, int tensor, int64_t *table_rows)
{
  struct mega_use u = {0};
  struct mega_tensor whole;
  mega_whole(m, &m->tensor[tensor], &whole);
  for (int o = 0; o < m->nops; o++) use_of(&m->op[o], m, tensor, &u);
  *table_rows = u.table_rows;
  return whole.rank > 1 ? scale_of(&whole, &u) : 0;
}

static void fill_weights(const struct mega_tensor *t, const struct mega_use *u, struct rng *r, float *to)
{
  double scale = scale_of(t, u);
  for (int64_t i = 0; i < mega_elements(t); i++) {
    double x = scale > 0 ? scale * rng_normal(r) : 1 + 0.1 * rng_normal(r);
    to[i] = (float)(t->type < DTYPES ? num_round((enum dtype)t->type, x) : x);
  }
}

static void fill_boxes(struct arena *mem, const struct mega_model *m, int tensor, const struct mega_tensor *t, struct rng *r, float *to)
{
  struct mega_region filled = {0};
  mega_filled(mem, m, tensor, &filled);
  for (int k = 0; k < filled.n && t->shard.n; k++) filled.box[k].hi[t->shard.dim] = t->dim[t->shard.dim];
  for (int64_t i = 0; i < mega_elements(t); i++) {
    struct mega_box at = {0};
    bool in = false;
    for (int64_t d = t->rank - 1, left = i; d >= 0; d--) at.lo[d] = left % t->dim[d], at.hi[d] = at.lo[d] + 1, left /= t->dim[d];
    for (int k = 0; k < filled.n && !in; k++) in = mega_meet(t->rank, &filled.box[k], &at);
    to[i] = in ? (float)rng_normal(r) : NAN;
  }
}

// Fills the whole tensor, of which ranks have shards.
void mega_value_fill(const struct mega_model *m, int tensor, uint64_t seed, float *to)
{
  struct rng r = {hash_mix(seed, (uint64_t)(m->tensor[tensor].like ? m->tensor[tensor].like - 1 : tensor))};
  struct mega_use u = {0};
  struct arena own = {0};
  struct mega_tensor whole;
  mega_whole(m, &m->tensor[tensor], &whole);
  for (int o = 0; o < m->nops; o++) use_of(&m->op[o], m, tensor, &u);
  if (u.table_rows)
    for (int64_t i = 0; i < mega_elements(&whole); i++) to[i] = (float)rng_below(&r, (uint64_t)u.table_rows);
  else if (u.settings)
    memset(to, 0, sizeof *to * (size_t)mega_elements(&whole)); // settings of 0: the largest logit is chosen
  else if (whole.kind == MEGA_STATE)
    fill_boxes(&own, m, tensor, &whole, &r, to);
  else
    fill_weights(&whole, &u, &r, to);
  arena_close(&own);
}

// Copies each rank's part of the whole tensor.
static bool copy_shards(struct arena *mem, const struct mega_model *m, int tensor, float *whole, float **v)
{
  const struct mega_tensor *t = &m->tensor[tensor];
  for (int rank = 0; rank < m->world; rank++) {
    float **to = &v[rank * m->ntensors + tensor];
    *to = t->shard.n ? arena_try(mem, sizeof(float) * (size_t)mega_elements(t)) : whole;
    if (!*to) return false;
    for (int64_t i = 0; i < mega_elements(t) && t->shard.n; i++) (*to)[i] = whole[mega_whole_at(m, t, rank, i)];
  }
  return true;
}

int mega_values_make(struct arena *mem, const struct mega_model *m, uint64_t seed, float ***out, struct err *e)
{
  *out = NEWS(mem, float *, m->ntensors * m->world);
  for (int t = 0; t < m->ntensors; t++) {
    struct mega_tensor whole;
    if (m->tensor[t].kind == MEGA_ACTIVATION || m->tensor[t].kind == MEGA_OUTPUT) continue;
    mega_whole(m, &m->tensor[t], &whole);
    float *v = arena_try(mem, sizeof(float) * (size_t)mega_elements(&whole));
    if (v) mega_value_fill(m, t, seed, v);
    if (!v || !copy_shards(mem, m, t, v, *out))
      return err_set(e, ERR_MEMORY, NOWHERE, "no memory for %s, %lld elements", whole.name, (long long)mega_elements(&whole));
  }
  return OK;
}
