// The course of the climb for the report: the starts of its lines, and the change made by each step.
#include "drive/climb.h"

#include <string.h>

static int measured(const struct entrants *f)
{
  int n = 0;
  for (int i = 0; i < f->n; i++) n += f->x[i].result != NULL;
  return n;
}

static void add_knobs(struct str *out, const char **sep, const struct choice *a, const struct choice *b)
{
  const struct scheme *s = scheme_at(a->scheme);
  for (int k = 0; k < KNOBS && s->knob[k]; k++) {
    if (a->k.v[k] == b->k.v[k]) continue;
    str_add(out, "%s%s %d to %d", *sep, s->knob[k], a->k.v[k], b->k.v[k]);
    *sep = ", ";
  }
  if (a->tail != b->tail) str_add(out, "%s%s", *sep, b->tail ? "with the next kernel as its tail" : "without a tail"), *sep = ", ";
}

static const char *choice_text(struct arena *mem, const struct choice *c)
{
  struct str s = {0};
  scheme_text(c, &s);
  return str_keep(mem, &s);
}

// Text for one kernel: "kernel 2: warps 4 to 8".
static void add_unit(struct str *out, struct arena *mem, const struct entrant *from, const struct entrant *to, int unit)
{
  const struct choice *a = &from->pick[unit], *b = &to->pick[unit];
  const struct lower_plan *p = &to->plan->p;
  const char *sep = "";
  if (choice_same(a, b) || lower_inside(&from->plan->p, from->pick, unit) || lower_inside(p, to->pick, unit)) return;
  if (out->n) str_add(out, "; ");
  if (p->nunits > 1) str_add(out, "kernel %d: ", unit + 1);
  if (a->scheme == b->scheme && a->scheme != SCHEME_LIBRARY)
    add_knobs(out, &sep, a, b);
  else
    str_add(out, "%s instead of %s", choice_text(mem, b), choice_text(mem, a));
}

static bool same_units(const struct lower_plan *a, const struct lower_plan *b)
{
  bool same = a->nunits == b->nunits;
  for (int u = 0; u < a->nunits && same; u++) same = a->unit[u].product == b->unit[u].product;
  return same;
}

static const char *difference(struct entrants *f, const struct entrant *from, const struct entrant *to)
{
  struct arena *mem = f->j->mem;
  struct str out = {0};
  if (from->cand != to->cand) str_add(&out, "%s", course_sizes(mem, f->c->cand[from->cand].found, f->c->cand[to->cand].found));
  if (from->cand != to->cand && !out.n) str_add(&out, "another graph");
  if (from->plan->p.dependent != to->plan->p.dependent)
    str_add(&out, "%s%s", out.n ? "; " : "", to->plan->p.dependent ? "launches overlap the previous one" : "launches wait for the previous one");
  for (int u = 0; u < to->plan->p.nunits && same_units(&from->plan->p, &to->plan->p); u++) add_unit(&out, mem, from, to, u);
  return str_keep(mem, &out);
}

static const char *ways(struct entrants *f, const struct entrant *x)
{
  struct str out = {0};
  for (int u = 0; u < x->plan->p.nunits; u++)
    if (!lower_inside(&x->plan->p, x->pick, u)) str_add(&out, "%s%s", out.n ? "; " : "", choice_text(f->j->mem, &x->pick[u]));
  return str_keep(f->j->mem, &out);
}

void climb_begins(struct entrants *f, int line)
{
  const struct entrant *x = &f->x[f->line[line].centre];
  course_add(f->j->mem, &f->c->course, (struct course_step){.line = line + 1, .change = ways(f, x), .seconds = x->seconds, .measured = measured(f)});
}

void climb_steps(struct entrants *f, int line, int to)
{
  const struct entrant *a = &f->x[f->line[line].centre], *b = &f->x[to];
  course_add(
      f->j->mem, &f->c->course,
      (struct course_step){.line = line + 1, .change = difference(f, a, b), .before = a->seconds, .seconds = b->seconds, .measured = measured(f)});
}

void climb_ends(struct entrants *f, int at)
{
  const struct entrant *x = &f->x[at];
  bool climbed = x->line >= 0 && x->line < f->nlines;
  if (!f->nlines) return;
  course_add(f->j->mem, &f->c->course,
             (struct course_step){.line = climbed ? x->line + 1 : 0,
                                  .change = climbed ? difference(f, &f->x[f->line[x->line].centre], x) : ways(f, x),
                                  .seconds = x->seconds,
                                  .measured = measured(f),
                                  .exact = x->last});
}
