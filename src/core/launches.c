// How a candidate's kernels were made, as JSON and back: in the report, from which the folder of --out is made, and in the
// database, from which a later race starts. Made in the same way again, the kernels are the same.
#include "core/core.h"

#include <string.h>

static json_t *launch_json(const struct lowered *d, int i)
{
  const struct launch *l = &d->program.launch[i];
  json_t *v = json_pack("{s:s, s:s, s:f, s:b, s:i, s:b, s:b}", "name", l->name, "how", l->how, "model_us", 1e6 * l->cost, "product",
                        l->product, "node", l->first, "tail", l->last != l->first, "dependent", l->dependent);
  if (!l->product) json_object_set_new(v, "shared", json_integer(l->k->shared_bytes));
  if (d->registers[i] >= 0) json_object_set_new(v, "registers", json_integer(d->registers[i]));
  if (d->spilled[i] >= 0) json_object_set_new(v, "spilled", json_integer(d->spilled[i]));
  return v;
}

json_t *launches_json(const struct lowered *d)
{
  json_t *list = json_array();
  for (int i = 0; i < d->program.nlaunch; i++) json_array_append_new(list, launch_json(d, i));
  return list;
}

// Which launches have tails, and whether they wait for each other themselves.
static int plan_of(struct arena *mem, const json_t *launches, const struct graph *g, const struct gpu_limits *gpu, struct lower_plan *p,
                   struct err *e)
{
  struct lower_opts o = {0};
  struct graph *wrapped;
  TRY(wrap_library(mem, g, &wrapped, e));
  bool *tail = NEWS(mem, bool, wrapped->nnodes + 1);
  for (size_t i = 0; i < json_array_size(launches); i++) {
    const json_t *l = json_array_get(launches, i);
    json_int_t node = json_integer_value(json_object_get(l, "node"));
    if (node >= 0 && node < wrapped->nnodes) tail[node] = json_is_true(json_object_get(l, "tail"));
    o.dependent |= json_is_true(json_object_get(l, "dependent"));
  }
  o.tail = tail;
  return lower_plan_of(mem, wrapped, store_types(mem, wrapped), gpu, &o, p, e);
}

int launches_read(struct arena *mem, const json_t *launches, const struct graph *g, const struct gpu_limits *gpu, struct lower_plan *p,
                  struct choice **pick, struct err *e)
{
  TRY(plan_of(mem, launches, g, gpu, p, e));
  *pick = NEWS(mem, struct choice, p->nunits + 1);
  bool fits = json_array_size(launches) == (size_t)p->nunits;
  for (int i = 0; i < p->nunits && fits; i++) {
    const char *how = json_string_value(json_object_get(json_array_get(launches, (size_t)i), "how"));
    fits = p->unit[i].product || (how && scheme_parse(how, &(*pick)[i]));
  }
  return fits ? OK : err_set(e, ERR_DATABASE, NOWHERE, "the report's kernels are of another Mica; --fresh makes them anew");
}
