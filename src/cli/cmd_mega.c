// mica mega: a model's decode step as one persistent kernel (docs/mega.md). The first argument is a verb, a row of the table below. MODEL is
// a .mega text or the config.json of a transformer.
#include "cli/cli.h"
#include "front/parse.h"
#include "mega/mega_run.h"
#include "megacuda/megacuda.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_WORKERS = 4, RUN_STEPS = 8, RUN_DEADLINE = 2, EMIT_STEPS = 32, MOST_CONTEXT = 1 << 24 };

struct mega_loaded {
  struct mega_model *m;
  struct mega_config *config; // NULL: the model is a text
  struct mega_plan *p;
};

// MEGA_MERGE_ANY: no merge has this name.
static enum mega_merge merge_of(const char *name)
{
  static const char *const names[] = {
#define X(id, name) name,
      MEGA_MERGES(X)
#undef X
  };
  for (int i = MEGA_MERGE_ANY + 1; i < (int)COUNT(names); i++)
    if (!strcmp(names[i], name)) return (enum mega_merge)i;
  return MEGA_MERGE_ANY;
}

static struct mega_sizes sizes_of(const struct cli *c)
{
  return (struct mega_sizes){.rows = c->rows,
                             .world = c->world,
                             .workers = c->workers,
                             .pages = c->pages,
                             .parts = c->attention_parts,
                             .merge = c->attention_merge ? merge_of(c->attention_merge) : MEGA_MERGE_ANY,
                             .context = c->given[OPT_CONTEXT] ? (int64_t)c->context : -1};
}

static int check_sizes(struct cli *c)
{
  if (c->attention_merge && merge_of(c->attention_merge) == MEGA_MERGE_ANY)
    return err_set(&c->err, ERR_OPTION, NOWHERE, "--attention-merge takes operator or product, not %.60s", c->attention_merge);
  if (c->context <= MOST_CONTEXT) return OK;
  return err_set(&c->err, ERR_OPTION, NOWHERE, "--context takes an integer from 0 to %d, not %llu", MOST_CONTEXT, (unsigned long long)c->context);
}

static int load(struct cli *c, bool runs, struct mega_loaded *l)
{
  struct mega_sizes s = sizes_of(c);
  if (runs) s.steps = c->steps ? c->steps : RUN_STEPS, s.usual_workers = RUN_WORKERS;
  TRY(mega_load(&c->mem, c->args[1], &s, &l->m, &l->config, &c->err));
  return mega_plan_make(&c->mem, l->m, &l->p, &c->err);
}

// Takes ownership of the document.
static int print_json(struct cli *c, json_t *v)
{
  int status = output_json(c, v);
  json_decref(v);
  return status;
}

static int plan(struct cli *c)
{
  struct mega_loaded l;
  struct str text = {0};
  TRY(load(c, false, &l));
  int status = OK;
  if (c->dump)
    status = mega_dump(&c->mem, l.p, c->dump, &text, &c->err);
  else if (c->text)
    mega_print(l.m, l.p, &text);
  else
    mega_plan_text(l.p, &text);
  if (status == OK && output_wants_text(c)) fputs(str_text(&text), stdout);
  str_free(&text);
  if (status == OK && c->json) status = print_json(c, mega_plan_json(l.p));
  return status;
}

static int check(struct cli *c)
{
  struct mega_loaded l;
  TRY(load(c, false, &l));
  if (output_wants_text(c))
    printf("%s: ok, %d operators, %d tensors, %d nodes a step, %d events\n", l.m->name, l.m->nops, l.m->ntensors, l.p->nnodes, l.p->nevents);
  return c->json ? print_json(c, mega_model_json(l.m)) : OK;
}

static int prove(struct cli *c)
{
  struct mega_loaded l;
  struct mega_proof r;
  struct str text = {0};
  TRY(load(c, false, &l));
  double start = now_seconds();
  int status = mega_prove(l.p, &r, &c->err);
  if (status != OK && status != NO) return status;
  mega_proof_text(&r, &text);
  if (output_wants_text(c))
    printf("%s: %s, %d tasks in two steps, %.2f s\n%s", l.m->name, status == OK ? "proved" : "not proved", 2 * l.p->nnodes * l.m->workers,
           now_seconds() - start, str_text(&text));
  str_free(&text);
  return c->json && print_json(c, mega_proof_json(&r)) != OK ? ENV : status;
}

static json_t *tokens_json(const struct mega_model *m, const struct mega_answer *a)
{
  json_t *rows = json_array();
  for (int r = 0; r < m->rows && a->tokens; r++) {
    json_t *one = json_array();
    for (int s = 0; s < a->steps; s++) json_array_append_new(one, json_integer(a->tokens[s * m->rows + r]));
    json_array_append_new(rows, one);
  }
  return rows;
}

// The same model on one device.
static int whole_model(struct cli *c, int steps, struct mega_model **m, float *const **first)
{
  struct mega_sizes s = sizes_of(c);
  struct mega_config *config;
  float **values;
  s.steps = steps, s.world = 1;
  TRY(mega_load(&c->mem, c->args[1], &s, m, &config, &c->err));
  TRY(mega_values_make(&c->mem, *m, c->seed, &values, &c->err));
  *first = values;
  return OK;
}

// Compares with the float64 reference, which needs the configuration of a transformer.
static int compare(struct cli *c, const struct mega_loaded *l, float *const *first, const struct mega_answer *a, const char **verdict)
{
  int32_t *want;
  struct mega_model *whole = l->m;
  *verdict = "not compared: a reference needs the configuration of a transformer";
  if (!l->config) return OK;
  if (l->m->world > 1) TRY(whole_model(c, a->steps, &whole, &first));
  TRY(mega_reference(&c->mem, l->config, whole, first, a->steps, &want, &c->err));
  *verdict = "equal to the reference in float64";
  for (int i = 0; i < a->steps * l->m->rows; i++)
    if (want[i] != a->tokens[i])
      return err_set(&c->err, ERR_WRONG, NOWHERE, "row %d, step %d: token %d, and %d of the reference in float64", i % l->m->rows, i / l->m->rows,
                     a->tokens[i], want[i]);
  return OK;
}

static int run_on_gpu(struct cli *c)
{
  struct mega_sizes s = sizes_of(c);
  s.steps = c->steps ? c->steps : RUN_STEPS;
  return mega_run_gpu(c, &s, c->deadline ? c->deadline : RUN_DEADLINE);
}

static int run(struct cli *c)
{
  struct mega_loaded l;
  struct mega_proof proof;
  struct mega_answer a;
  float **first;
  const char *verdict = "";
  if (c->gpu) return run_on_gpu(c);
  TRY(load(c, true, &l));
  TRY(mega_prove(l.p, &proof, &c->err));
  TRY(mega_values_make(&c->mem, l.m, c->seed, &first, &c->err));
  TRY(mega_run(&c->mem, l.p, first, c->steps ? c->steps : RUN_STEPS, c->deadline ? c->deadline : RUN_DEADLINE, &a, &c->err));
  for (int r = 0; r < l.m->rows && a.tokens && output_wants_text(c); r++) {
    printf("row %d:", r);
    for (int s = 0; s < a.steps; s++) printf(" %d", a.tokens[s * l.m->rows + r]);
    printf("\n");
  }
  TRY(compare(c, &l, first, &a, &verdict));
  if (l.m->world > 1 && output_wants_text(c)) printf("%d ranks of ", l.m->world);
  if (output_wants_text(c)) printf("%d workers, %d steps: %s\n", l.m->workers, a.steps, verdict);
  return c->json ? print_json(c, json_pack("{s:o, s:s}", "tokens", tokens_json(l.m, &a), "verdict", verdict)) : OK;
}

// A plan whose pipeline fits a block's memory.
static int plan_for_cuda(struct cli *c, const struct megacuda_given *g, struct mega_loaded *l)
{
  struct mega_sizes s = sizes_of(c);
  s.steps = g->steps;
  for (;;) {
    struct megacuda_fit fit;
    TRY(mega_load(&c->mem, c->args[1], &s, &l->m, &l->config, &c->err));
    TRY(mega_plan_make(&c->mem, l->m, &l->p, &c->err));
    TRY(megacuda_fit(&c->mem, l->p, g, &fit, &c->err));
    if (fit.stages == l->m->stages && fit.input_bytes == l->m->input_bytes) return OK;
    s.stages = fit.stages, s.input_bytes = fit.input_bytes;
  }
}

// The proved plan as CUDA C++, and the header that compiles it for a CPU.
static int emit(struct cli *c)
{
  struct megacuda_given g = {.seed = c->seed, .warps = MEGACUDA_WARPS, .steps = c->steps ? c->steps : EMIT_STEPS};
  struct mega_loaded l;
  struct mega_proof proof;
  struct str text = {0};
  const char *dir = c->out ? c->out : ".";
  TRY(plan_for_cuda(c, &g, &l));
  TRY(mega_prove(l.p, &proof, &c->err));
  const char *path = arena_printf(&c->mem, "%s/%s.cu", dir, l.m->name), *shim = arena_printf(&c->mem, "%s/mega_shim.h", dir);
  int status = megacuda_emit(&c->mem, l.p, &g, &text, &c->err);
  if (status == OK) status = file_mkdirs(dir, &c->err);
  if (status == OK) status = file_write(path, text.p, text.n, &c->err);
  if (status == OK) status = file_write(shim, megacuda_shim(), strlen(megacuda_shim()), &c->err);
  if (status == OK && output_wants_text(c))
    printf("%s: proved; %s, pipeline of %d stages of %d bytes\n", l.m->name, path, l.m->stages, l.m->stage_bytes);
  str_free(&text);
  return status;
}

static const struct mega_verb {
  const char *name;
  int (*run)(struct cli *c);
} verbs[] = {{"plan", plan}, {"check", check}, {"prove", prove}, {"run", run}, {"emit", emit}};

int cmd_mega(struct cli *c)
{
  struct near near = near_start(c->args[0]);
  for (size_t i = 0; i < COUNT(verbs); i++) {
    if (!strcmp(verbs[i].name, c->args[0])) return check_sizes(c) == OK ? verbs[i].run(c) : USER;
    near_try(&near, verbs[i].name);
  }
  return option_unknown(c, "verb of `mica mega`", c->args[0], near.best, "there are plan, check, prove, run and emit");
}
