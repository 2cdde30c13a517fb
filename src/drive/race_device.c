// Candidates for GPUs. Where nothing can be measured the model ranks them, and the first that comes through everything that can
// be checked without a GPU is the best: equal to the part (verified.c), each kernel right in the interpreter, and accepted by
// the compiler where there is one.
#include "drive/drive.h"

static bool equal(struct job *j, const struct contest *c, struct candidate *k)
{
  return k->g == c->cand->g || k->cert.equal || job_verified(j, c->part->g, k, STOP_PROOF);
}

// What is put together of parts is proven by parts.
static bool parts_equal(struct job *j, struct candidate *k)
{
  for (int i = 0; i < j->split.n && !k->dropped; i++)
    if (!equal(j, pipe_decided(j, i), k->of[i])) k->dropped = k->of[i]->dropped;
  return k->cert.equal = !k->dropped;
}

// The certificate, then each kernel in the interpreter, then the compiler. False and a reason where one fails.
bool device_candidate_proven(struct job *j, const struct contest *c, struct candidate *k)
{
  struct err e = {0};
  const char *why = "";
  if (!(k->of ? parts_equal(j, k) : equal(j, c, k))) return false;
  int status = device_prove(j->mem, &k->lowered->plan, k->lowered->pick, -1, j->opts->seed, job_stop(j, STOP_PROOF), &k->lowered->proof, &why, &e);
  if (status == NO && *why) return k->dropped = arena_printf(j->mem, "interpreter: %s", why), false;
  if (status != OK) return k->dropped = arena_printf(j->mem, "interpreter: %s", e.text), false;
  device_compile(j, k->lowered, &e);
  if (e.status != OK && e.id != ERR_STOPPED) return k->dropped = arena_printf(j->mem, "compiler: %s", e.text), false;
  return k->proven = true;
}

static int cheapest(const struct contest *c)
{
  int best = -1;
  for (int i = 0; i < c->ncand; i++)
    if (!c->cand[i].dropped && c->cand[i].lowered && (best < 0 || c->cand[i].cost < c->cand[best].cost)) best = i;
  return best;
}

int race_device_part(struct job *j, struct contest *c, int part, struct err *e)
{
  if (!*j->unmeasured) return race_gpu_part(j, c, part, e);
  for (int k; (k = cheapest(c)) >= 0;) {
    job_progress(j, "prove", part, 0, &c->stats, 1e6 * c->cand[k].cost);
    if ((j->stopped = job_stopping(j))) return OK;
    if (device_candidate_proven(j, c, &c->cand[k])) return c->best = k, c->decided = true, j->stopped = job_stopping(j), OK;
    if ((j->stopped = job_stopping(j))) return OK;
  }
  if ((j->stopped = job_stopping(j))) return OK;
  const char *why = c->cand[0].dropped ? c->cand[0].dropped : "not proven";
  return err_set(e, ERR_TARGET, NOWHERE, "no kernels for %s came through; operator by operator: %s", j->target.name, why);
}

// ---- the whole program ----

int device_joined(struct job *j, struct candidate *c, struct err *e)
{
  const struct lowered **like = NEWS(j->mem, const struct lowered *, j->split.n + 1);
  int n = 0;
  for (int i = 0; i < j->split.n; i++)
    if (c->of[i]->lowered) like[n++] = c->of[i]->lowered;
  const char *name = j->program->name ? j->program->name : "program";
  TRY(device_make(j, c->g, name, n, like, &c->lowered, e));
  c->kernels = c->info.kernels = c->lowered->program.nlaunch, c->cost = c->lowered->program.cost;
  c->info.workspace = c->lowered->program.workspace;
  return OK;
}

// Of parts that were proven, the sum; of one part that is the whole, its own.
static void join_proofs(struct job *j)
{
  struct device_proof *all = &j->best.lowered->proof;
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = &j->contests[i];
    const struct lowered *d = c->twin < 0 ? c->cand[c->best].lowered : NULL;
    if (!d) continue;
    all->kernels += d->proof.kernels, all->run += d->proof.run, all->full += d->proof.full;
    all->blocks += d->proof.blocks, all->elements += d->proof.elements, all->seconds += d->proof.seconds;
    if (d->proof.relative > all->relative) all->relative = d->proof.relative;
    if (*d->proof.note) all->note = *all->note ? arena_printf(j->mem, "%s; %s", all->note, d->proof.note) : d->proof.note;
  }
}

static const char *why_op_by_op(const struct job *j)
{
  if (j->stopped) return "of what was tried until the stop, nothing was faster";
  return *j->unmeasured ? "no candidate came through that the model says is faster" : "no candidate came through that was faster";
}

int race_device_whole(struct job *j, struct err *e)
{
  struct err inner = {0};
  bool op_by_op = j->best.g == j->base.g;
  j->host = j->target;
  if (device_joined(j, &j->base, &inner) != OK) j->base.dropped = arena_strdup(j->mem, inner.text);
  if (!op_by_op)
    TRY(device_joined(j, &j->best, e));
  else if (j->base.lowered)
    j->best = j->base;
  else
    return *e = inner, (int)e->status;
  if (op_by_op) j->reason = why_op_by_op(j);
  int raced = op_by_op || j->single || *j->unmeasured ? NO : race_joined(j, e);
  if (raced == NO)
    join_proofs(j);
  else if (raced != OK)
    return raced;
  inner = (struct err){0};
  device_compile(j, j->best.lowered, &inner);
  if (inner.id == ERR_STOPPED)
    j->cut = true, job_left(j, "the kernels were not compiled");
  else if (inner.status != OK)
    return *e = inner, (int)e->status;
  return *j->unmeasured ? OK : race_gpu_whole(j, e);
}
