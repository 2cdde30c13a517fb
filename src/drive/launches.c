// The choices for a candidate's kernels, as JSON and back: in the report, from which the folder of --out is made, and in the database, from which a
// later race starts. The same choices give the same kernels.
#include "drive/drive.h"

#include <math.h>
#include <string.h>

static json_t *launch_json(const struct lowered *d, int i)
{
  const struct launch *l = &d->program.launch[i];
  json_t *v = json_pack("{s:s, s:s, s:f, s:b, s:b}", "name", l->name, "how", l->how, "model_us", 1e6 * l->cost, "product", l->product, "dependent",
                        l->dependent);
  if (l->k)
    json_object_set_new(v, "shared", json_integer(l->k->shared_bytes));
  else if (l->algorithm >= 0)
    json_object_set_new(v, "algorithm", json_integer(l->algorithm));
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

int launches_graph(struct arena *mem, const json_t *report, struct graph **out, struct err *e)
{
  const json_t *rank = json_object_get(json_object_get(report, "ranks"), "kernels");
  struct str text = {0};
  json_text(rank ? rank : json_object_get(report, "graph"), &text);
  int status = graph_from_json(mem, str_text(&text), text.n, "report", out, e);
  str_free(&text);
  if (status == OK && rank) status = graph_rank(mem, *out, out, e);
  return status;
}

// A product has the epilogue of its choices, and the library makes nothing else.
static bool product_fits(const struct lower_unit *u, const struct choice *c)
{
  if (u->meet.m.ranks || c->scheme == SCHEME_MEETING) return u->meet.m.ranks && c->scheme == SCHEME_MEETING;
  bool found = !u->product && c->scheme != SCHEME_LIBRARY;
  for (int i = 0; i < u->nchoices && u->product; i++) found |= c->scheme == SCHEME_LIBRARY && u->choice[i].k.v[0] == c->k.v[0];
  return found;
}

bool launches_pick(const struct lower_plan *p, int n, const char *const *how, struct choice *pick)
{
  int at = 0;
  for (int i = 0; i < p->nunits; i++) {
    if (lower_inside(p, pick, i)) continue;
    if (at == n || !how[at] || !scheme_parse(how[at], &pick[i]) || !product_fits(&p->unit[i], &pick[i])) return false;
    at++;
  }
  return at == n;
}

static bool settle_product(const struct lower_unit *u, struct choice *c)
{
  for (int i = 0; i < u->nchoices; i++)
    if (u->choice[i].tail == c->tail) return *c = u->choice[i], true;
  return false;
}

bool launches_settle(struct arena *scratch, const struct lower_plan *p, int unit, struct choice *c)
{
  const struct lower_unit *u = &p->unit[unit];
  if (u->product || c->scheme == SCHEME_LIBRARY) return u->product && c->scheme == SCHEME_LIBRARY && settle_product(u, c);
  if (c->scheme < 0) return false;
  struct lower_job j = lower_unit_job(scratch, p, u, c->tail);
  char why[160];
  const struct scheme *s = scheme_at(c->scheme);
  const bool takes = !(c->tail && u->last == u->first) && scheme_takes(c->scheme, &j, why);
  if (s->settle) s->settle(&j, &c->k);
  c->cost = takes ? scheme_cost(s, &j, &c->k) : INFINITY;
  return isfinite(c->cost);
}

int launches_target(const json_t *report, const struct target *t, struct target *out, struct err *e)
{
  *out = *t;
  return f32_products_read(json_string_value(json_object_get(json_object_get(report, "options"), "f32_products")), &out->f32_products, e);
}

json_t *stored_json(const struct lowered *d)
{
  json_t *list = json_array();
  for (int i = 0; d->plan.stored && d->plan.stored[i]; i++) json_array_append_new(list, json_string(d->plan.stored[i]));
  return list;
}

static const char *const *stored_of(struct arena *mem, const json_t *list)
{
  const char **name = NEWS(mem, const char *, json_array_size(list) + 1);
  int n = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *s = json_string_value(json_array_get(list, i));
    if (s) name[n++] = arena_strdup(mem, s);
  }
  return name;
}

int launches_read(struct arena *mem, const json_t *launches, const json_t *stored, const struct graph *g, const struct target *gpu,
                  struct lower_plan *p, struct choice **pick, struct err *e)
{
  struct lower_opts o = {.tails = true, .stored = stored_of(mem, stored)};
  for (size_t i = 0; i < json_array_size(launches); i++) o.dependent |= json_is_true(json_object_get(json_array_get(launches, i), "dependent"));
  TRY(lower_plan(mem, g, gpu, &o, p, e));
  *pick = NEWS(mem, struct choice, p->nunits + 1);
  int n = (int)json_array_size(launches);
  const char **how = NEWS(mem, const char *, n + 1);
  for (int i = 0; i < n; i++) how[i] = json_string_value(json_object_get(json_array_get(launches, (size_t)i), "how"));
  if (launches_pick(p, n, how, *pick)) return OK;
  return err_set(e, ERR_DATABASE, NOWHERE, "the report's kernels were made by another version of Mica; --fresh makes new ones");
}

void launches_algorithms(const json_t *launches, struct device_program *d)
{
  for (int i = 0; i < d->nlaunch; i++) {
    const json_t *a = json_object_get(json_array_get(launches, (size_t)i), "algorithm");
    if (json_is_integer(a)) d->launch[i].algorithm = (int)json_integer_value(a);
  }
}
