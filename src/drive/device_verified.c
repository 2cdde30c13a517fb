// Is a candidate for GPUs right? Equal to its part (verified.c), each of its kernels right in the interpreter, and accepted by the
// compiler where there is one.
#include "drive/drive.h"

static bool equal(struct job *j, const struct contest *c, struct candidate *k)
{
  return k->g == c->cand->g || k->cert.equal || job_verified(j, c->part->g, k, STOP_PROOF);
}

// What is put together of parts is proven by parts.
static bool parts_equal(struct job *j, struct candidate *k)
{
  for (int i = 0; i < j->split.n && !k->dropped; i++)
    if (!equal(j, whole_part(j, i), k->of[i])) k->dropped = k->of[i]->dropped;
  return k->cert.equal = !k->dropped;
}

// The certificate, then each kernel in the interpreter, then the compiler. False and a reason where one fails.
bool device_verified(struct job *j, const struct contest *c, struct candidate *k)
{
  struct err e = {0};
  const char *why = "";
  if (!(k->of ? parts_equal(j, k) : equal(j, c, k))) return false;
  int status =
      device_prove(j->mem, &k->gpu.lowered->plan, k->gpu.lowered->pick, -1, j->opts->seed, job_stop(j, STOP_PROOF), &k->gpu.lowered->proof, &why, &e);
  if (status == NO && *why) return k->dropped = arena_printf(j->mem, "interpreter: %s", why), false;
  if (status != OK) return k->dropped = arena_printf(j->mem, "interpreter: %s", e.text), false;
  device_compile(j, k->gpu.lowered, &e);
  if (e.status != OK && e.id != ERR_STOPPED) return k->dropped = arena_printf(j->mem, "compiler: %s", e.text), false;
  return k->proven = true;
}
