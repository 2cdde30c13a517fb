// The proof of a plan: checks in the order of check.def. A check assumes those before it, so the first check with a fault ends the proof.
#include "mega/mega_prove.h"

#include <string.h>

static int (*const check_of[])(struct mega_proving *v, struct err *e) = {
    [MEGA_CHECK_SCHEDULE] = mega_prove_schedule, [MEGA_CHECK_REGIONS] = mega_prove_regions, [MEGA_CHECK_WORDS] = mega_prove_words,
    [MEGA_CHECK_LOADS] = mega_prove_loads,       [MEGA_CHECK_COUNTS] = mega_prove_counts,   [MEGA_CHECK_EPOCHS] = mega_prove_epochs,
    [MEGA_CHECK_DEADLOCK] = mega_prove_deadlock, [MEGA_CHECK_ORDER] = mega_prove_order,     [MEGA_CHECK_REUSE] = mega_prove_reuse,
    [MEGA_CHECK_FENCE] = mega_prove_fence,       [MEGA_CHECK_WORLD] = mega_prove_world,
};
_Static_assert(COUNT(check_of) == MEGA_CHECKS, "check.def has a row without a function");

static int prove(struct mega_proving *v, struct err *e)
{
  for (int c = 0; c < MEGA_CHECKS && !v->out->nfaults; c++) {
    TRY(check_of[c](v, e));
    v->out->done[c] = true;
  }
  return OK;
}

static int prove_plan(const struct mega_plan *p, struct mega_proof *out, struct err *e)
{
  struct arena own = {0};
  struct mega_proving v = {.mem = &own, .p = p, .out = out};
  int status = prove(&v, e);
  arena_close(&own);
  return status;
}

// A plan that serves requests is derived with all rows at one position. Its proof is repeated with rows at other positions.
static int prove_seats(const struct mega_plan *given, struct mega_proof *out, struct err *e)
{
  struct arena own = {0};
  struct mega_model *m = arena_copy(&own, given->m, sizeof *m);
  struct mega_plan *p = arena_copy(&own, given, sizeof *p);
  int status = OK;
  p->m = m;
  for (int i = 0; status == OK && !out->nfaults && (m->seat = mega_seats_sample(&own, m, i)); i++) {
    m->order = mega_order_sample(&own, m, i);
    status = prove_plan(p, out, e);
  }
  arena_close(&own);
  return status;
}

int mega_prove(const struct mega_plan *p, struct mega_proof *out, struct err *e)
{
  *out = (struct mega_proof){0};
  int status = prove_plan(p, out, e);
  if (status == OK && !out->nfaults && mega_served(p->m) && !p->m->seat) status = prove_seats(p, out, e);
  if (status != OK || !out->nfaults) return status;
  return err_set(e, ERR_UNPROVED, NOWHERE, "%s: %s", mega_checks[out->fault[0].check].name, out->fault[0].text);
}
