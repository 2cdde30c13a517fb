// Candidates for GPUs. Without a GPU the model ranks them. The best is the first that passes all checks that need no GPU: equal to the part
// (verified.c), each kernel correct in the interpreter, and accepted by the compiler if it is installed.
#include "drive/climb.h"
#include "drive/pass.h"

// A proof for which no time is left is not begun.
static int prove(const struct pass_on *on, struct lowered *d, const char **why, struct err *e)
{
  struct job *j = on->j;
  const double work = j->clock ? device_proof_work(&d->plan, d->pick) : 0;
  if (!proof_fits(j, work, STOP_PROOF, why)) return err_set(e, ERR_STOPPED, NOWHERE, "%s", *why);
  int status = device_prove(j->mem, &d->plan, d->pick, -1, j->opts->seed, j->threads, job_stop(j, STOP_PROOF), &d->proof, why, e);
  if (e->id == ERR_STOPPED) return *why = NOT_CHECKED, status;
  return proof_took(j, work, d->proof.seconds), status;
}

int run_interpret(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct lowered *d = on->x->gpu.lowered;
  struct err mine = {0};
  const char *why = "";
  int status;
  if (!proof_find(j, on->c, d, &status, &why, &mine)) status = prove(on, d, &why, &mine);
  if (status == OK) return OK;
  if (mine.id == ERR_STOPPED) return on->x->unproved = on->x->late = true, err_set(e, ERR_STOPPED, NOWHERE, "%s", why);
  return err_set(e, ERR_WRONG, NOWHERE, "interpreter: %.700s", status == NO && *why ? why : mine.text);
}

static int cheapest(const struct contest *c)
{
  int best = -1;
  const struct candidate *x = c->plan && c->ncand > 1 ? &c->cand[1] : NULL;
  if (x && !x->dropped && x->ways && x->ways->measured) return 1;
  for (int i = 0; i < c->ncand; i++)
    if (!c->cand[i].dropped && c->cand[i].gpu.lowered && (best < 0 || c->cand[i].cost < c->cand[best].cost)) best = i;
  return best;
}

// Op-by-op stands without a proof, and the next run continues.
static void leave_unproved(struct job *j, struct candidate *base, int part)
{
  const char *who = j->split.n > 1 ? arena_printf(j->mem, "subprogram %d: ", part + 1) : "";
  job_left(j, arena_printf(j->mem, "%soperator by operator was %s", who, base->dropped));
  base->dropped = NULL, j->cut = j->stopped = true;
}

int race_device_part(struct job *j, struct contest *c, int part, struct err *e)
{
  if (!*j->unmeasured) return race_gpu_part(j, c, part, e);
  if (j->opts->prepare && j->db) race_prepare(j, c, part);
  for (int k; (k = cheapest(c)) >= 0;) {
    job_progress(j, "prove", part, 0, &c->stats, 1e6 * c->cand[k].cost);
    if ((j->stopped = job_stopping(j))) return OK;
    if (pass_leader(j, c, &c->cand[k])) return c->best = k, c->decided = true, j->stopped = job_stopping(j), OK;
    if (job_ending(j, STOP_PROOF)) c->cand[k].dropped = NULL; // the stop ended the check; the candidate is not wrong
    if (!k && c->cand->dropped && c->cand->unproved) return leave_unproved(j, c->cand, part), OK;
    if ((j->stopped = job_stopping(j))) return OK;
  }
  if ((j->stopped = job_stopping(j))) return OK;
  const char *why = c->cand[0].dropped ? c->cand[0].dropped : "not proven";
  return err_set(e, ERR_TARGET, NOWHERE, "no kernels for %s passed the checks; the program operator by operator: %s", j->target.name, why);
}

// ---- the whole program ----

int device_joined(struct job *j, struct candidate *c, struct err *e)
{
  c->passed = PASS_THREAD_GRAPHS;
  TRY(pass_candidate(j, NULL, c, LAST_OF_CANDIDATE, e));
  c->info.kernels = c->kernels;
  c->info.workspace = c->gpu.lowered->program.workspace;
  return OK;
}

static const char *why_op_by_op(const struct job *j)
{
  if (j->stopped) return "nothing tried before the stop was faster";
  return *j->unmeasured ? "no candidate that passed the checks is faster by the model" : "no candidate that passed the checks was faster";
}

int race_device_whole(struct job *j, struct err *e)
{
  struct err inner = {0};
  bool op_by_op = j->best.g == j->base.g;
  j->host = j->target;
  if (device_joined(j, &j->base, &inner) != OK) j->base.dropped = arena_strdup(j->mem, inner.text);
  if (!op_by_op && device_joined(j, &j->best, e) != OK) {
    if (!j->base.gpu.lowered) return (int)e->status;
    j->reason = arena_printf(j->mem, "its subprograms cannot be joined: %.300s", e->text);
    op_by_op = true, *e = (struct err){0};
  } else if (op_by_op) {
    j->reason = why_op_by_op(j);
  }
  if (op_by_op && !j->base.gpu.lowered) return *e = inner, (int)e->status;
  if (op_by_op) j->best = j->base;
  const bool apart = j->rank; // one GPU does not run all ranks
  int raced = op_by_op || j->single || *j->unmeasured || apart || clock_hurries(j) ? NO : race_joined(j, e);
  if (raced != OK && e->id == ERR_STOPPED && !job_stopped_by_user(j))
    raced = NO, j->cut = true, *e = (struct err){0}; // the results of the parts remain
  if (raced == NO)
    whole_proofs(j);
  else if (raced != OK)
    return raced;
  inner = (struct err){0};
  device_compile(j, j->best.gpu.lowered, &inner);
  if (inner.id == ERR_STOPPED)
    j->cut = true, job_left(j, "the kernels were not compiled");
  else if (inner.status != OK)
    return *e = inner, (int)e->status;
  if (*j->unmeasured) return OK;
  if (apart) return j->unmeasured = "a race uses one GPU and the program several; only its subprograms were measured", OK;
  return race_gpu_whole(j, e);
}
