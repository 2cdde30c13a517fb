// Random models, sizes and pipelines: every plan is proved, and threads make the tokens of the reference in float64.
#include "megas.h"
#include "thin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MODELS = 40 };

static int from(struct rng *r, int lo, int hi) { return lo + (int)rng_below(r, (uint64_t)(hi - lo + 1)); }

static struct mega_config config_of(struct rng *r)
{
  struct mega_config c = {.name = "random", .layers = from(r, 1, 4), .kv = from(r, 1, 3), .dim = 2 * from(r, 2, 8), .eps = 1e-5, .theta = 10000};
  c.heads = c.kv * from(r, 1, 4), c.hidden = 4 * from(r, 3, 16), c.inner = from(r, 9, 90), c.vocab = from(r, 40, 200);
  c.tied = rng_below(r, 2), c.qk_norm = rng_below(r, 2);
  c.type = mega_type_find(rng_below(r, 2) ? "f32" : "bf16");
  if (rng_below(r, 2)) c.rope_factor = 8, c.rope_low = 1, c.rope_high = 4, c.rope_original = 64;
  return c;
}

static struct mega_sizes sizes_of(struct rng *r)
{
  return (struct mega_sizes){.rows = from(r, 1, 12),
                             .workers = from(r, 1, 12),
                             .stages = from(r, 1, 9),
                             .stage_bytes = 1024 << from(r, 0, 4),
                             .steps = from(r, 2, 7),
                             .context = from(r, 0, 140),
                             .parts = from(r, 0, 3),
                             .merge = (enum mega_merge)from(r, 0, 2)};
}

static void one_model(uint64_t seed)
{
  struct rng r = {seed};
  struct arena mem = {0};
  struct err e = {0};
  struct mega_config c = config_of(&r);
  struct mega_sizes s = sizes_of(&r);
  struct mega_model *m;
  struct mega_plan *p;
  struct mega_proof proof;
  struct mega_answer a;
  float **first;
  int32_t *want;
  int status = mega_from_config(&mem, &c, &s, &m, &e);
  if (status == OK) status = mega_plan_make(&mem, m, &p, &e);
  if (status == OK) status = mega_prove(p, &proof, &e);
  if (status == OK) status = mega_values_make(&mem, m, seed, &first, &e);
  if (status == OK) status = mega_run(&mem, p, first, s.steps, 60, &a, &e);
  if (status == OK) status = mega_reference(&mem, &c, m, first, s.steps, &want, &e);
  if (status != OK) fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
  for (int i = 0; i < s.steps * s.rows; i++)
    if (a.tokens[i] != want[i]) fail_msg("seed %llu: row %d, step %d", (unsigned long long)seed, i % s.rows, i / s.rows);
  arena_close(&mem);
}

static void random_models(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= MODELS; seed += (uint64_t)thinned(4)) one_model(seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_models)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
