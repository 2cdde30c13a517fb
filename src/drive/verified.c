// Checks that a candidate equals its part: the verifier's certificate, and the evidence that the job accepts.
#include "drive/pass.h"

#include <string.h>

// ERR_OPTION if --accept is not a kind of evidence.
int job_accepts(struct job *j, struct err *e)
{
  const char *accept = j->opts->accept;
  static const enum evidence weakest[] = {EVIDENCE_PROVED, EVIDENCE_FULL, EVIDENCE_REDUCED};
  j->accept = EVIDENCE_FULL;
  if (!accept || !*accept) return OK;
  for (size_t i = 0; i < COUNT(weakest); i++)
    if (!strcmp(accept, evidence_name(weakest[i]))) return j->accept = weakest[i], OK;
  err_set(e, ERR_OPTION, NOWHERE, "there is no kind of evidence `%.40s`", accept);
  return err_hint(e, "the weakest evidence that a result may have is proved, full or reduced"), (int)e->status;
}

const char NOT_CHECKED[] = "not checked: the job was stopped, or its time was over";

bool job_verified(struct job *j, const struct graph *part, struct candidate *k, enum stop until)
{
  struct verify_opts o = {.seed = j->opts->seed, .threads = j->threads, .stop = job_stop(j, until)};
  struct err e = {0};
  const struct certificate *c = &k->cert;
  if (verify_equal(part, k->g, &o, &k->cert, &e) != OK)
    k->dropped = e.id == ERR_STOPPED ? NOT_CHECKED : arena_printf(j->mem, "verifier: %s", e.text);
  else if (!c->equal)
    k->dropped =
        arena_printf(j->mem, "%s: %s", c->finding == FOUND_UNEQUAL ? "not equal to the program" : "not decided whether it is equal", c->note);
  else if (c->scope > j->accept)
    k->dropped =
        arena_printf(j->mem, "equal, but by weaker evidence than was asked for (--accept %s would take it): %s", evidence_name(c->scope), c->note);
  return !k->dropped;
}

// ---- the pass ----

static bool equal(struct job *j, const struct contest *c, struct candidate *k, enum stop until)
{
  return k->g == c->cand->g || k->cert.equal || job_verified(j, c->part->g, k, until);
}

// A joined program is proved by parts.
static bool parts_equal(struct job *j, struct candidate *k)
{
  for (int i = 0; i < j->split.n && !k->dropped; i++)
    if (!equal(j, whole_part(j, i), k->of[i], STOP_PROOF)) k->dropped = k->of[i]->dropped;
  return k->cert.equal = !k->dropped;
}

int run_verify(const struct pass_on *on, struct err *e)
{
  struct candidate *x = on->x;
  bool same = x->of ? parts_equal(on->j, x) : equal(on->j, on->c, x, clock_proof(on->j));
  return same ? OK : err_set(e, ERR_UNEQUAL, NOWHERE, "not verified");
}
