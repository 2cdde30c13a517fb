// Divides a block's shared memory between stages of the pipeline and pieces of inputs with many rows, by the modelled time of a step.
#include "megacuda/megacuda.h"

enum { ROUNDING = 256 };
enum { LEAST_STAGES = 2, FEW_PIECES = 2 }; // with so few pieces of an input, one more may be worth the stages whose memory it takes

// Bytes of shared memory of a block without its stages. Must agree with struct block_memory of mega_device.cuh.
static int64_t beside_stages(const struct mega_plan *p, const struct megacuda_given *g, const struct megacuda_most *m)
{
  int64_t rows = p->m->rows, attend = 4 * (m->query * (1 + g->warps) + 2 * m->head + (4 + 2 * g->warps) * m->heads), x = 4 * m->x_rows * m->x;
  int64_t tables = p->nnodes * MEGACUDA_NODE_ROW + m->waits * MEGACUDA_WAIT_ROW + m->publishes * MEGACUDA_PUBLISH_ROW;
  int64_t barriers = m->panel ? 8 * (2 * MEGACUDA_PANEL_SLOTS + 1) : 0; // barriers of pieces of an input
  return MAX(MAX(x, 4 * m->one), MAX(attend, m->panel)) + 8 * m->part + 4 * rows * m->merge + 4 * m->choices + 8 * rows * g->warps + 8 * g->warps +
         tables + barriers + ROUNDING;
}

static int stages_of(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, int *stages, struct err *e)
{
  struct megacuda_most m;
  TRY(megacuda_most_of(mem, p, g->warps * 32, &m, e));
  int64_t left = MEGACUDA_SHARED - beside_stages(p, g, &m);
  *stages = (int)MIN(p->m->stages, left / (m.stage_room + 2 * 8));
  if (*stages >= LEAST_STAGES) return OK;
  err_set(e, ERR_MEGA, NOWHERE, "%s: only %lld bytes of shared memory are left for stages of %lld bytes", p->m->name, (long long)left,
          (long long)m.stage_room);
  return err_hint(e, "use fewer rows, or smaller stages in a text of the model: `pipeline N x BYTES`"), NO;
}

struct fitting { // a plan with a division of the shared memory
  struct mega_model m;
  struct mega_plan p;
  bool feeds;    // it has products that copy pieces of their input
  int64_t piece; // bytes of the largest piece of an input of which a block has few
};

// Sets *f to the plan with so many bytes for inputs, and with the stages that then fit.
static int fit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, int64_t input_bytes, struct fitting *f, struct err *e)
{
  int stages;
  f->m = *p->m, f->p = *p, f->p.m = &f->m, f->piece = 0, f->feeds = false;
  f->m.input_bytes = (int)input_bytes;
  TRY(stages_of(mem, &f->p, g, &stages, e));
  f->m.stages = stages;
  for (int o = 0; o < f->m.nops; o++) {
    int64_t bytes = megacuda_feed(mem, &f->p, o, g->warps * 32, &f->p.feed[o]);
    f->feeds |= bytes > 0;
    if (bytes && f->p.feed[o].slots <= FEW_PIECES) f->piece = MAX(f->piece, bytes);
  }
  return OK;
}

static double time_of(const struct mega_plan *p)
{
  struct arena own = {0};
  struct mega_price price;
  mega_price(&own, p, &price);
  arena_close(&own);
  return price.step;
}

int megacuda_fit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, struct megacuda_fit *out, struct err *e)
{
  struct fitting *f = NEWS(mem, struct fitting, 2);
  TRY(fit(mem, p, g, p->m->input_bytes ? p->m->input_bytes : MEGACUDA_PANELS, &f[0], e));
  *out = (struct megacuda_fit){f[0].m.stages, f[0].feeds ? f[0].m.input_bytes : p->m->input_bytes};
  if (p->m->input_bytes || !f[0].piece) return OK;
  struct err none = {0};
  if (fit(mem, p, g, (FEW_PIECES + 1) * f[0].piece, &f[1], &none) != OK || f[1].m.stages <= LEAST_STAGES) return OK;
  if (time_of(&f[1].p) < time_of(&f[0].p)) *out = (struct megacuda_fit){f[1].m.stages, f[1].m.input_bytes};
  return OK;
}
