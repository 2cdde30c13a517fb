// Runs a row for one object; then checks, dumps and counts its values, if requested.
#include "drive/pass.h"

#include <string.h>

struct pass_place pass_place(const struct pass_on *on)
{
  const struct job *j = on->j;
  struct pass_place at = {0};
  if (on->c && j->contests && on->c >= j->contests && on->c < j->contests + j->split.n) at.part = (int)(on->c - j->contests) + 1;
  if (on->c && on->x && on->x >= on->c->cand && on->x < on->c->cand + on->c->ncand) at.cand = (int)(on->x - on->c->cand);
  return at;
}

static void note(struct span *s, const struct pass_on *on)
{
  struct pass_place at = pass_place(on);
  if (on->c) span_note(s, on->x ? "subprogram %d, candidate %d" : "subprogram %d", at.part, at.cand);
}

// A text form is checked by parsing it.
static int check_value(const struct ir *ir, const struct ir_value *v, struct err *e)
{
  struct arena mem = {0};
  struct str text = {0};
  int status = ir->check ? ir->check(v, e) : OK;
  if (status == OK && ir->parse) {
    ir->print(v, &text);
    status = ir->parse(&mem, v, str_text(&text), text.n, e);
  }
  str_free(&text);
  arena_close(&mem);
  return status;
}

static int fail(const struct job *j, int status, const struct err *e)
{
  struct undo u;
  guard_lock(&u, &j->watch->lock);
  if (j->watch->failed.status == OK) j->watch->failed = *e, j->watch->failed.at = NOWHERE;
  guard_unlock(&u, &j->watch->lock);
  return status;
}

static int check_values(int pass, const struct pass_on *on, struct err *e)
{
  const struct pass *p = pass_row(on->j, pass);
  struct ir_value v;
  for (int i = 0; p->values(on, i, &v); i++) {
    struct err why = {0};
    if (check_value(&irs[p->out], &v, &why) == OK) continue;
    err_set(e, ERR_WRONG, NOWHERE, "the pass %s made a %s that is not well-formed: %.400s", p->name, irs[p->out].name, why.text);
    return fail(on->j, (int)e->status, e);
  }
  return OK;
}

static int tell_values(int pass, const struct pass_on *on, int *n, size_t *bytes, struct err *e)
{
  const struct pass *p = pass_row(on->j, pass);
  struct ir_value v;
  for (*n = 0; p->values(on, *n, &v); ++*n)
    if (watch_value(pass, &v, bytes, e) != OK) return fail(on->j, (int)e->status, e);
  return OK;
}

static int look(int pass, const struct pass_on *on, int status, double seconds, struct err *e)
{
  const struct watch *w = on->j->watch;
  struct tally t = {.runs = 1, .seconds = seconds, .dropped = status != OK};
  if (status == OK && w->check) status = check_values(pass, on, e);
  if (status == OK && watch_asked(on->j, pass)) status = tell_values(pass, on, &t.values, &t.bytes, e);
  if (w->lines) watch_tally(on->j, pass, &t);
  return status;
}

int pass_run(int pass, const struct pass_on *on, struct err *e)
{
  const struct pass *p = pass_row(on->j, pass);
  struct watch *w = on->j->watch;
  struct span span;
  if (p->run) span_begin(&span, "pass", p->name), note(&span, on);
  double start = now_seconds();
  int status = p->run ? p->run(on, e) : OK;
  if (w) status = look(pass, on, status, now_seconds() - start, e);
  if (p->run) span_end(&span);
  if (w && w->lines && p->scope < OF_CANDIDATE) watch_lines(on->j, pass + 1);
  return status;
}

// ---- candidates ----

int pass_candidate(struct job *j, struct contest *c, struct candidate *x, int last, struct err *e)
{
  for (int p = x->passed + 1; p <= last; p++) {
    if (!pass_is(j, p, OF_CANDIDATE)) continue;
    int status = pass_run(p, &(struct pass_on){j, c, x}, e);
    if (status != OK) return x->by = p, status;
    x->passed = p;
  }
  return OK;
}

void pass_fell(struct job *j, struct contest *c, struct candidate *x, const struct err *e)
{
  x->dropped = arena_strdup(j->mem, e->text);
  dropped_keep(&(struct pass_on){j, c, x}, x->by);
}

bool pass_leader(struct job *j, struct contest *c, struct candidate *x)
{
  const struct pass_on on = {j, c, x};
  if (x->unproved) x->unproved = x->late = false;
  for (int p = 0; p < PASSES; p++) {
    struct err e = {0};
    if (!pass_is(j, p, OF_LEADER)) continue;
    if (pass_run(p, &on, &e) != OK) {
      if (!x->dropped) x->dropped = arena_strdup(j->mem, e.text);
      x->by = p;
      if (!job_ending(j, STOP_PROOF)) dropped_keep(&on, p);
      return false;
    }
    if (j->watch && p == j->watch->stop_after) return j->watch->halted = true, false;
  }
  return x->proven = true;
}
