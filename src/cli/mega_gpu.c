// mica mega run --gpu: the emitted kernel, compiled by NVRTC and launched in this process.
#include "base/memory.h"
#include "cli/cli.h"
#include "serve/serve.h"

enum { MOST_COMPARED = 1 << 22 }; // elements of a model with a fast CPU reference

static int64_t weights_of(const struct mega_model *m)
{
  int64_t n = 0;
  for (int t = 0; t < m->ntensors; t++)
    if (m->tensor[t].kind == MEGA_WEIGHTS) n += mega_elements(&m->tensor[t]);
  return n;
}

// Each row is a separate request, with an equal share of the pages.
static void rows_of(struct cli *c, const struct serve *s, float *const *first, struct serve_row *rows)
{
  int64_t slots, pages = mega_pages_of(s->m, &slots), share = pages ? (pages - 1) / s->m->rows : 0;
  int token = serve_token(s);
  for (int r = 0; r < s->m->rows; r++) {
    int32_t *table = NEWS(&c->mem, int32_t, share + 1);
    for (int64_t i = 0; i < share; i++) table[i] = (int32_t)(1 + r * share + i);
    rows[r] = (struct serve_row){.request = r, .token = token >= 0 ? (int32_t)first[token][r] : 0, .npages = (int)share, .pages = table};
  }
}

static int compare_tokens(struct cli *c, const struct serve *s, float *const *first, int steps, const int32_t *got, const char **verdict)
{
  int32_t *want;
  *verdict = "not compared";
  if (!s->config || s->served || weights_of(s->m) > MOST_COMPARED) return OK;
  s->m->context -= steps; // of the first step
  TRY(mega_reference(&c->mem, s->config, s->m, first, steps, &want, &c->err));
  *verdict = "equal to the reference in float64";
  for (int i = 0; i < steps * s->m->rows; i++)
    if (want[i] != got[i])
      return err_set(&c->err, ERR_WRONG, NOWHERE, "row %d, step %d: token %d, and %d of the reference in float64", i % s->m->rows, i / s->m->rows,
                     got[i], want[i]);
  return OK;
}

static int run_steps(struct cli *c, struct serve *s, int steps)
{
  float **first;
  const char *verdict;
  struct serve_row *rows = NEWS(&c->mem, struct serve_row, s->m->rows);
  int32_t *tokens = NEWS(&c->mem, int32_t, steps * s->m->rows);
  bool small = weights_of(s->m) <= MOST_COMPARED;
  if (small) TRY(mega_values_make(&c->mem, s->m, c->seed, &first, &c->err));
  if (!small) first = NEWS(&c->mem, float *, s->m->ntensors);
  if (!small && serve_token(s) >= 0) mega_value_fill(s->m, serve_token(s), c->seed, first[serve_token(s)] = NEWS(&c->mem, float, s->m->rows));
  rows_of(c, s, first, rows);
  TRY(serve_random(s, c->seed, &c->err));
  TRY(serve_step(s, rows, steps, tokens, NULL, &c->err));
  for (int r = 0; r < s->m->rows && serve_token(s) >= 0 && output_wants_text(c); r++) {
    printf("row %d:", r);
    for (int i = 0; i < steps; i++) printf(" %d", tokens[i * s->m->rows + r]);
    printf("\n");
  }
  TRY(compare_tokens(c, s, first, steps, tokens, &verdict));
  if (output_wants_text(c)) printf("%d blocks, %d steps, %.1f us a step: %s\n", s->m->workers, steps, 1e6 * s->seconds / steps, verdict);
  return OK;
}

int mega_run_gpu(struct cli *c, const struct mega_sizes *sizes, double deadline)
{
  struct serve_given g = {.name = c->args[1], .sizes = *sizes, .gpu = true, .deadline = deadline};
  struct serve *s;
  char *text;
  TRY(file_read(&c->mem, c->args[1], &text, &g.n, &c->err));
  g.text = text;
  int status = serve_open(&g, &s, &c->err);
  if (status == OK) status = run_steps(c, s, sizes->steps);
  serve_close(s);
  return status;
}
