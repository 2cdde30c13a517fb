// A launch. The rows of a caller become seats (mega_seat), which are checked. Then threads of this machine or a GPU run the steps.
#include "serve/serve_device.h"

#include <math.h>
#include <string.h>

#include "mega/mega_noise.h"

static bool tokens_of(const struct mega_tensor *t) { return t->kind == MEGA_STATE && t->rank == 1 && t->type == mega_type_find("i32"); }

int serve_token(const struct serve *s)
{
  for (int t = 0; t < s->m->ntensors; t++)
    if (tokens_of(&s->m->tensor[t])) return t;
  return -1;
}

int serve_output(const struct serve *s)
{
  for (int t = 0; t < s->m->ntensors; t++)
    if (s->m->tensor[t].kind == MEGA_OUTPUT) return t;
  return -1;
}

const struct mega_op *serve_ordered(const struct serve *s)
{
  for (int o = 0; o < s->m->nops; o++)
    if (mega_ordered(s->m, &s->m->op[o])) return &s->m->op[o];
  return NULL;
}

int serve_plant(struct serve *s, bool planted, struct err *e)
{
  int event = device_planted(s->p);
  if (event < 0) return err_set(e, ERR_MEGA, NOWHERE, "%s has no counter that could fail to come", s->m->name);
  if (s->gpu) return device_plant(s, planted, e);
  s->p->event[event].count += planted - s->planted;
  return s->planted = planted, OK;
}

// ---- rows ----

static int64_t table_rows(const struct serve *s)
{
  int64_t rows = 0;
  int t = serve_token(s);
  if (t >= 0) mega_value_scale(s->m, t, &rows);
  return rows;
}

static int bad_setting(int row, const char *what, double is, struct err *e) { return err_set(e, ERR_MEGA, NOWHERE, "row %d: %s %g", row, what, is); }

static int settings_of(const struct serve_row *x, int row, float *to, struct err *e)
{
  if (!(x->temperature >= 0 && x->temperature < 1e6f)) return bad_setting(row, "the temperature is from 0 on, and is", (double)x->temperature, e);
  if (x->top < 0 || x->top > MEGA_TOP) return bad_setting(row, "sampling chooses from 1 to 64 tokens, or with 0 from all; asked for are", x->top, e);
  to[NOISE_INVERSE] = x->temperature > 0 ? 1 / x->temperature : 0;
  to[NOISE_TOP] = x->temperature > 0 ? (float)x->top : 0;
  for (int i = 0; i < 4; i++) to[NOISE_SEED + i] = (float)(x->seed >> (48 - 16 * i) & 0xffff);
  return OK;
}

// Adjacent rows of a request are parts of its prompt. Each attends to the earlier ones.
static void seat_of_row(const struct serve_row *rows, int row, int steps, struct mega_seat *to)
{
  const struct serve_row *x = &rows[row];
  struct mega_seat s = {.live = x->request >= 0, .moves = true, .position = x->position, .past = x->position, .pages = x->pages};
  if (!s.live) {
    to[row] = (struct mega_seat){.position = row};
    return;
  }
  if (row && rows[row - 1].request == x->request) {
    s.before = to[row - 1].before + 1, s.past = x->position - s.before, s.pages = to[row - 1].pages;
    s.moves = to[row - 1].moves = false;
  }
  (void)steps;
  to[row] = s;
}

static int requests_once(const struct serve_row *rows, int n, struct err *e)
{
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++)
      if (rows[a].request >= 0 && rows[a].request == rows[b].request && rows[b - 1].request != rows[b].request)
        return err_set(e, ERR_MEGA, NOWHERE, "row %d: request %d has rows before it that are not its neighbours", b, rows[b].request);
  return OK;
}

static int seats_of(struct serve *s, struct arena *own, const struct serve_row *rows, int steps, struct serve_launch *l, struct err *e)
{
  int n = s->m->rows;
  struct mega_seat *seat = NEWS(own, struct mega_seat, n);
  int *npages = NEWS(own, int, n);
  float *settings = NEWS(own, float, n *NOISE_SETTINGS);
  TRY(requests_once(rows, n, e));
  for (int r = 0; r < n; r++) {
    if (rows[r].request >= 0 && (rows[r].npages < 0 || (rows[r].npages && !rows[r].pages)))
      return err_set(e, ERR_MEGA, NOWHERE, "row %d has no page table", r);
    seat_of_row(rows, r, steps, seat);
    npages[r] = !seat[r].live ? 0 : seat[r].before ? npages[r - 1] : rows[r].npages;
    if (seat[r].live) TRY(settings_of(&rows[r], r, settings + r * NOISE_SETTINGS, e));
  }
  TRY(mega_seats_check(s->m, seat, npages, steps, e));
  l->seat = seat, l->npages = npages, l->settings = settings;
  const struct mega_op *attend = serve_ordered(s);
  if (!attend) return OK;
  l->tiles = attend->tiles, l->order = NEWS(own, uint16_t, attend->tiles);
  mega_order_make(own, s->m, attend, seat, l->order);
  return OK;
}

static int tokens_fit(struct serve *s, const struct serve_row *rows, int32_t *to, struct err *e)
{
  int64_t most = table_rows(s);
  for (int r = 0; r < s->m->rows; r++) {
    to[r] = rows[r].request < 0 && s->served ? 0 : rows[r].token;
    if (to[r] < 0 || (most && to[r] >= most))
      return err_set(e, ERR_MEGA, NOWHERE, "row %d: token %d is none of 0 to %lld", r, to[r], (long long)most - 1);
  }
  return OK;
}

// ---- threads of this machine ----

static int cpu_open(struct serve *s, struct err *e)
{
  for (int t = 0; t < s->m->ntensors; t++) {
    bool other = s->m->tensor[t].kind == MEGA_INPUT || (int)t == serve_token(s);
    if (other && !s->value[t]) s->value[t] = NEWS(&s->mem, float, mega_elements(&s->m->tensor[t]));
  }
  return mega_run_open(&s->mem, s->p, s->value, &s->run, e);
}

static int cpu_launch(struct serve *s, struct arena *own, const struct serve_launch *l, struct err *e)
{
  struct mega_answer a;
  int token = serve_token(s), logits = serve_output(s), settings = mega_tensor_find(s->m, "settings"), rows = s->m->rows;
  for (int r = 0; r < rows && token >= 0; r++) mega_run_tensor(s->run, token)[r] = (float)l->token[r];
  if (l->seat && settings >= 0) memcpy(mega_run_tensor(s->run, settings), l->settings, sizeof(float) * (size_t)(rows * NOISE_SETTINGS));
  s->m->seat = l->seat, s->m->order = l->order;
  double start = now_seconds();
  int status = mega_run_steps(own, s->run, l->steps, s->deadline, &a, e);
  s->m->seat = NULL, s->m->order = NULL, s->seconds = now_seconds() - start;
  if (status != OK) return s->hung = a.hung, snprintf(s->record, sizeof s->record, "%s", a.record), status;
  for (int i = 0; i < l->steps * rows && l->tokens && a.tokens; i++) l->tokens[i] = a.tokens[i];
  if (l->logits && logits >= 0) memcpy(l->logits, a.output[logits], sizeof(float) * (size_t)mega_elements(&s->m->tensor[logits]));
  for (int i = 0; i < s->m->workers * s->p->nnodes; i++) s->ended[i] = mega_run_ends(s->run)[i] ? mega_run_ends(s->run)[i] - start : 0;
  return OK;
}

// ---- both ----

static int get_ready(struct serve *s, struct err *e)
{
  if (s->weights_ready) return OK;
  TRY(serve_complete(s, e));
  if (!s->gpu) TRY(cpu_open(s, e));
  return s->weights_ready = true, OK;
}

static int step(struct serve *s, struct arena *own, const struct serve_row *rows, int steps, int32_t *tokens, float *logits, struct err *e)
{
  int32_t *first = NEWS(own, int32_t, s->m->rows);
  struct serve_launch l = {.token = first, .steps = steps, .tokens = tokens, .logits = logits};
  s->hung = false, *s->record = 0;
  if (steps < 1 || steps > SERVE_STEPS) return err_set(e, ERR_MEGA, NOWHERE, "a launch has 1 to %d steps, and %d are asked for", SERVE_STEPS, steps);
  TRY(get_ready(s, e));
  TRY(tokens_fit(s, rows, first, e));
  if (s->served) TRY(seats_of(s, own, rows, steps, &l, e));
  TRY(s->gpu ? device_launch(s, &l, e) : cpu_launch(s, own, &l, e));
  if (!s->served) s->m->context += steps;
  return OK;
}

int serve_step(struct serve *s, const struct serve_row *rows, int steps, int32_t *tokens, float *logits, struct err *e)
{
  struct arena own = {0};
  int status = step(s, &own, rows, steps, tokens, logits, e);
  return arena_close(&own), status;
}
