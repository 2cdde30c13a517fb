// A warp executes steps until it ends or has to wait. Lanes that a condition or a loop excludes are masked. If none is
// active, the steps are skipped.
#include "sim/machine.h"

static void push(struct warp *w, uint32_t other)
{
  if (w->depth == w->cap) {
    w->frames = arena_grow(w->s->mem, w->frames, sizeof *w->frames * (size_t)w->cap, sizeof *w->frames * (size_t)(w->cap + 32));
    w->cap += 32;
  }
  w->frames[w->depth++] = (struct sim_frame){w->active, other};
}

static uint32_t nonzero(const struct vec *v)
{
  uint32_t m = 0;
  if (v->uniform) return v->v[0] ? FULL : 0;
  for (int l = 0; l < LANES; l++) m |= (uint32_t)(v->v[l] != 0) << l;
  return m;
}

static uint32_t less(const struct vec *a, const struct vec *b)
{
  uint32_t m = 0;
  if (a->uniform && b->uniform) return a->v[0] < b->v[0] ? FULL : 0;
  for (int l = 0; l < LANES; l++) m |= (uint32_t)(a->v[l] < b->v[l]) << l;
  return m;
}

static void step_let(struct warp *w, const struct sim_step *t)
{
  for (int i = 0; i < t->nvars; i++)
    if (t->vars[i] >= 0) code_set(w, t->vars[i], code_eval(w, t->slots[i]));
  w->pc++;
}

// value(%v), with the same checks as a move of one element.
static void step_value(struct warp *w, const struct sim_step *t)
{
  const struct sim_atom *a = &w->s->atoms[t->atom];
  struct walk it = walk_begin(w, a);
  uint8_t tmp[LANES * 8];
  struct vec out = {0};
  num_load_int(a->op[0].type, walk_load(&it, 0, 1, tmp), out.v);
  code_set(w, t->vars[0], &out);
  w->pc++;
}

static void step_loop(struct warp *w, const struct sim_step *t)
{
  const struct vec *v = code_eval(w, t->slots[0]);
  int var = t->vars[0];
  if (t->kind == STEP_FOR) {
    push(w, 0);
    code_set(w, var, v);
    w->pc++;
    return;
  }
  if (t->kind == STEP_NEXT) {
    code_add(w, var, v);
    w->pc = t->jump;
    w->s->stopped |= stop_set(w->s->in->stop);
    return;
  }
  w->active &= less(&w->vars[var], v); // STEP_TEST
  w->pc++;
  if (w->active) return;
  w->active = w->frames[--w->depth].saved;
  w->pc = t->jump;
}

static void step_if(struct warp *w, const struct sim_step *t)
{
  uint32_t yes = nonzero(code_eval(w, t->slots[0]));
  push(w, w->active & ~yes);
  w->active &= yes;
  w->pc = w->active ? w->pc + 1 : t->jump;
}

static void step_else(struct warp *w, const struct sim_step *t)
{
  w->active = w->frames[w->depth - 1].other;
  w->pc = w->active ? w->pc + 1 : t->jump;
}

static void step_end(struct warp *w)
{
  struct sim *s = w->s;
  for (int i = s->natoms - 1; i >= 0; i--) {
    const struct sim_atom *a = &s->atoms[i];
    enum sem sem = a->t->row ? a->t->row->sem : SEM_MOVE;
    bool store = sem == SEM_TMA_STORE || sem == SEM_TMA_RED, product = sem == SEM_WGMMA;
    if (!(store && (w->bulk.n || w->bulk.used)) && !(product && w->wgmma.n)) continue;
    report(w, a, SIM_WAIT, 0, "ends while a %s of warp %d may still be under way", store ? "bulk store" : "wgmma", w->number);
    break;
  }
  w->cta->left--;
  w->pc = -1;
}

static bool step_atom(struct warp *w, const struct sim_step *t)
{
  struct sim_atom *a = &w->s->atoms[t->atom];
  if (!w->again) a->issued++;
  enum go go = a->run(w, a);
  if (go != GO_AGAIN) w->pc++;
  return go == GO_ON;
}

void warp_run(struct warp *w)
{
  struct sim *s = w->s;
  while (!s->stopped && w->pc >= 0) {
    const struct sim_step *t = &s->steps[w->pc];
    switch (t->kind) {
    case STEP_LET: step_let(w, t); break;
    case STEP_VALUE: step_value(w, t); break;
    case STEP_ALLOC:
      if (s->k->buffers[t->atom].mem == MEM_RF) regs_alloc(w, t->atom);
      w->pc++;
      break;
    case STEP_FOR:
    case STEP_TEST:
    case STEP_NEXT: step_loop(w, t); break;
    case STEP_IF: step_if(w, t); break;
    case STEP_ELSE: step_else(w, t); break;
    case STEP_ENDIF:
      w->active = w->frames[--w->depth].saved;
      w->pc++;
      break;
    case STEP_ATOM:
      if (!step_atom(w, t)) return;
      break;
    case STEP_END: step_end(w); break;
    }
  }
}
