// Makes a proved plan from the text of a model, and opens the engine that runs it.
#include "base/memory.h"
#include "serve/serve_device.h"

#include <string.h>

static int model_of(struct serve *s, const struct serve_given *g, const struct mega_sizes *sizes, struct err *e)
{
  size_t at = 0;
  while (at < g->n && strchr(" \t\r\n", g->text[at]) && g->text[at]) at++;
  if (at == g->n || g->text[at] != '{') {
    TRY(mega_parse(&s->mem, g->text, g->n, g->name, sizes, &s->m, e));
  } else {
    s->config = NEW(&s->mem, struct mega_config);
    TRY(mega_config_read(&s->mem, g->text, g->n, g->name, s->config, e));
    TRY(mega_from_config(&s->mem, s->config, sizes, &s->m, e));
  }
  return mega_plan_make(&s->mem, s->m, &s->p, e);
}

// On a GPU the pipeline has as many stages as fit into a block's shared memory.
static int plan_of(struct serve *s, const struct serve_given *g, struct err *e)
{
  struct mega_sizes sizes = g->sizes;
  const struct megacuda_given given = {.warps = MEGACUDA_WARPS, .steps = SERVE_STEPS};
  if (!g->gpu && !sizes.usual_workers) sizes.usual_workers = SERVE_WORKERS;
  for (;;) {
    struct megacuda_fit fit;
    TRY(model_of(s, g, &sizes, e));
    if (!g->gpu) return OK;
    TRY(megacuda_fit(&s->mem, s->p, &given, &fit, e));
    if (fit.stages == s->m->stages && fit.input_bytes == s->m->input_bytes) return OK;
    sizes.stages = fit.stages, sizes.input_bytes = fit.input_bytes;
  }
}

static int ready(struct serve *s, struct err *e)
{
  struct mega_proof proof;
  if (s->m->world != 1) return err_set(e, ERR_MEGA, NOWHERE, "%s has a world of %d; a model that is kept ready has one GPU", s->m->name, s->m->world);
  TRY(mega_prove(s->p, &proof, e));
  s->served = mega_served(s->m);
  s->value = NEWS(&s->mem, float *, s->m->ntensors), s->given = NEWS(&s->mem, bool, s->m->ntensors);
  s->ended = NEWS(&s->mem, double, s->m->workers * s->p->nnodes);
  return OK;
}

int serve_source(struct serve *s, struct str *out, struct err *e)
{
  const struct megacuda_given given = {.warps = MEGACUDA_WARPS, .steps = SERVE_STEPS};
  return megacuda_emit(&s->mem, s->p, &given, out, e);
}

int serve_on(struct serve *s, const struct serve_machine *m, struct err *e)
{
  s->machine = *m, s->gpu = true;
  return device_open(s, e);
}

static int on_device(struct serve *s, int device, struct err *e)
{
  struct str text = {0};
  struct serve_machine m = {0};
  int status = serve_source(s, &text, e);
  if (status == OK) status = serve_machine_cuda(str_text(&text), s->p, device, &m, e);
  str_free(&text);
  return status == OK ? serve_on(s, &m, e) : status;
}

int serve_open(const struct serve_given *g, struct serve **out, struct err *e)
{
  struct serve *s = mem_lasting(sizeof *s);
  *out = s; // the caller closes it after an error, too
  s->mem.lasting = true, s->traced = g->traced || !g->gpu;
  s->deadline = g->deadline > 0 ? g->deadline : 2;
  TRY(plan_of(s, g, e));
  TRY(ready(s, e));
  return g->gpu ? on_device(s, g->device, e) : OK;
}

void serve_close(struct serve *s)
{
  if (!s) return;
  if (s->machine.close) device_close(s), s->machine.close(s->machine.arg);
  arena_close(&s->mem);
  mem_free(s);
}

int serve_prove(struct serve *s, struct str *text, struct err *e)
{
  struct mega_proof proof;
  int status = mega_prove(s->p, &proof, e);
  if (status == OK || status == NO) mega_proof_text(&proof, text);
  return status;
}
