// Sets weights and initial state by name, or at random by a seed.
#include "base/num.h"
#include "front/parse.h"
#include "serve/serve_device.h"

#include <string.h>

bool serve_floats(const struct mega_tensor *t) { return t->type < DTYPES && num_floats(&num_rows[t->type]); }

static bool takes_values(const struct mega_tensor *t) { return t->kind == MEGA_WEIGHTS || (t->kind == MEGA_STATE && serve_floats(t)); }

static int tensor_of(const struct serve *s, const char *name, struct err *e)
{
  int t = mega_tensor_find(s->m, name);
  struct near near = near_start(name);
  if (t >= 0 && takes_values(&s->m->tensor[t])) return t;
  for (int i = 0; i < s->m->ntensors; i++)
    if (takes_values(&s->m->tensor[i])) near_try(&near, s->m->tensor[i].name);
  err_set(e, ERR_NAME, NOWHERE, "%s has no weights %.60s", s->m->name, name);
  if (near.best) err_hint(e, "did you mean %s?", near.best);
  return -1;
}

static int room_for(struct serve *s, int t, struct err *e)
{
  int64_t n = mega_elements(&s->m->tensor[t]);
  if (!s->value[t] && !(s->value[t] = arena_try(&s->mem, sizeof(float) * (size_t)n)))
    return err_set(e, ERR_MEMORY, NOWHERE, "no memory for %s, %lld elements", s->m->tensor[t].name, (long long)n);
  return OK;
}

int serve_value(struct serve *s, const char *name, const void *data, int dtype, int64_t elements, struct err *e)
{
  int t = tensor_of(s, name, e);
  if (t < 0) return USER;
  const struct mega_tensor *x = &s->m->tensor[t];
  if (s->weights_ready) return err_set(e, ERR_MEGA, NOWHERE, "%s: steps have begun, and its weights are fixed", s->m->name);
  if (dtype < 0 || dtype >= DTYPES) return err_set(e, ERR_DTYPE, NOWHERE, "%s: number %d is no element type", x->name, dtype);
  if (elements != mega_elements(x))
    return err_set(e, ERR_SHAPE, NOWHERE, "%s has %lld elements, and %lld are given", x->name, (long long)mega_elements(x), (long long)elements);
  s->given[t] = true;
  if (s->gpu) return device_value(s, t, data, dtype, e);
  TRY(room_for(s, t, e));
  for (int64_t i = 0; i < elements; i++) {
    double v = num_read((enum dtype)dtype, data, i);
    s->value[t][i] = (float)(x->type < DTYPES ? num_round((enum dtype)x->type, v) : v);
  }
  return OK;
}

int serve_random(struct serve *s, uint64_t seed, struct err *e)
{
  if (s->weights_ready) return err_set(e, ERR_MEGA, NOWHERE, "%s: steps have begun, and its weights are fixed", s->m->name);
  for (int t = 0; t < s->m->ntensors; t++) {
    const struct mega_tensor *x = &s->m->tensor[t];
    if (x->kind != MEGA_WEIGHTS && (x->kind != MEGA_STATE || s->served || !serve_floats(x))) continue;
    s->given[t] = true;
    if (s->gpu) {
      TRY(device_random(s, t, seed, e));
      continue;
    }
    TRY(room_for(s, t, e));
    mega_value_fill(s->m, t, seed, s->value[t]);
  }
  return OK;
}

int serve_complete(const struct serve *s, struct err *e)
{
  struct str missing = {0};
  for (int t = 0; t < s->m->ntensors; t++)
    if (s->m->tensor[t].kind == MEGA_WEIGHTS && !s->given[t]) str_add(&missing, "%s%s", missing.n ? ", " : "", s->m->tensor[t].name);
  int status = OK;
  if (missing.n) {
    status = err_set(e, ERR_MEGA, NOWHERE, "%s has no weights yet: %.500s", s->m->name, str_text(&missing));
    err_hint(e, "give them by name, or all by a seed");
  }
  str_free(&missing);
  return status;
}
