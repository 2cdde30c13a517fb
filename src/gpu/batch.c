// Programs that are being compiled. One thread prints CUDA C++, since programs share the arena in which printing allocates expressions. Then a thread
// waits for the compilers while the caller continues, for example with a race of earlier programs. The caller reads and writes the database. Quick
// races are stored by program, so an interrupted one loses little; exact races are stored as a whole, because their figures are compared.
#include "gpu/rank.h"
#include "base/memory.h"
#include "base/trace.h"
#include "gpu/session.h"

#include <string.h>

// ---- code ----

static void make_codes(struct gpu_batch *b)
{
  for (int i = 0; i < b->n; i++) {
    if (b->had[i]) continue;
    code_make(&b->each[i], b->programs[i], &b->codes[i], &b->err[i]);
    if (b->err[i].status == OK) b->good[b->ngood] = b->codes[i], b->which[b->ngood++] = i;
  }
}

// ---- stored results ----

static void look_up_each(struct gpu_batch *b, const char *identity)
{
  b->each_key = NEWS(&b->mem, const char *, b->n + 1);
  b->recalled = true;
  for (int i = 0; i < b->n; i++) {
    struct gpu_race one = {.result = &b->race->result[i]};
    b->each_key[i] = keep_key(&b->mem, 1, &b->programs[i], b->s->g, &b->o, identity);
    b->had[i] = !b->o.fresh && keep_recall(&b->mem, b->o.db, b->each_key[i], 1, &one);
    b->recalled = b->recalled && b->had[i];
    if (b->had[i]) snprintf(b->race->machine, sizeof b->race->machine, "%s", one.machine), b->race->sets = one.sets;
  }
  b->race->recalled = b->recalled;
}

static int look_up(struct gpu_batch *b, struct err *e)
{
  char identity[160] = "";
  if (!b->o.db) return OK;
  if (gpu_identity(b->o.device, identity, e)) return e->status;
  if (b->o.quick) return look_up_each(b, identity), OK;
  b->key = keep_key(&b->mem, b->n, b->programs, b->s->g, &b->o, identity);
  b->recalled = !b->o.fresh && keep_recall(&b->mem, b->o.db, b->key, b->n, b->race);
  return OK;
}

// ---- compiling ----

static int start(struct gpu_batch *b, struct err *e)
{
  struct gpu_forge *f = session_forge(b->s);
  if (session_worker(b->s, e) || gpu_forge_ready(f, e)) return e->status;
  make_codes(b);
  int arch = gpu_runs_on(b->programs[0]->gpu);
  // Code that is tried once is not stored in the database, but may have been prepared there.
  const struct compile_with how = {.c = &f->by,
                                   .processes = f->processes,
                                   .db = b->o.db,
                                   .known_only = b->o.quick,
                                   .before = &f->compiled,
                                   .until = {b->o.stop, &b->dropped, b->o.compile_until}};
  if (compile_begin(&b->mem, &how, arch, b->ngood, b->good, &b->work, e)) return e->status;
  b->thread = compile_start(&b->mem, b->work, NULL);
  return OK;
}

void batch_wait(struct gpu_batch *b)
{
  struct shortage lack;
  if (!b->thread || !b->work) return;
  if (!compile_wait(b->thread, &lack) && !stop_set(&b->dropped)) mem_short(&lack);
  compile_end(&b->mem, b->work, b->good, b->results, &b->stats);
  b->work = NULL;
  for (int i = 0; i < b->ngood; i++) b->codes[b->which[i]] = b->good[i];
}

static void drop(void *b) { gpu_batch_drop(b); }
static const struct mem_kind kind = {.close = drop};

int gpu_batch_start(struct gpu_session *s, const struct gpu_race_opts *o, int n, const struct device_program *const *programs, struct gpu_batch **out,
                    struct err *e)
{
  struct gpu_batch *b = *out = mem_handle(sizeof *b, &kind);
  size_t room = (size_t)n + 1;
  b->s = s, b->o = *o, b->n = n;
  b->programs = arena_copy(&b->mem, programs, sizeof(*programs) * (size_t)n);
  b->each = NEWS(&b->mem, struct arena, room);
  b->codes = NEWS(&b->mem, struct code, room), b->good = NEWS(&b->mem, struct code, room);
  b->had = NEWS(&b->mem, bool, room), b->err = NEWS(&b->mem, struct err, room), b->which = NEWS(&b->mem, int, room);
  b->results = NEWS(&b->mem, struct compile_result, room), b->race = NEW(&b->mem, struct gpu_race);
  b->race->result = NEWS(&b->mem, struct gpu_result, room);
  if (n < 1 || look_up(b, e) || b->recalled || start(b, e)) return (int)e->status;
  return OK;
}

bool gpu_batch_ready(const struct gpu_batch *b) { return !b->thread || !b->work || compile_ended(b->thread); }

// The race reports errors of the reference.
void gpu_batch_wait(struct gpu_batch *b)
{
  const struct problem *p;
  struct err later = {0};
  struct span s;
  if (b->work) session_problem(b->s, OWN_INPUTS, &p, &later);
  span_begin(&s, "stage", "compilers");
  batch_wait(b);
  span_note(&s, "%d programs", b->n);
  span_end(&s);
}

void gpu_batch_drop(struct gpu_batch *b)
{
  if (!b) return;
  __atomic_store_n(&b->dropped, 1, __ATOMIC_RELAXED);
  batch_wait(b);
  for (int i = 0; i < b->n && b->each; i++) arena_close(&b->each[i]);
  arena_close(&b->mem);
  mem_free(b);
}
