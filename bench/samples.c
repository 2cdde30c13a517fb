// Writes the changes that a climb made to a graph, and reads them again.
#include "samples.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

void samples_of_race(const struct raced *a, const struct gpu_race *r, FILE *out)
{
  for (int i = 0; i < a->n; i++) {
    const struct device_program *p = a->program[i];
    const struct gpu_result *x = &r->result[i];
    for (int k = 0; k < p->nlaunch; k++) {
      fprintf(out, "\"%s\",\"%s\",%d,%d,%d,\"%s\",%.3f,%.3f,", a->what, a->from[i], i, p->nlaunch, k, p->launch[k].how, 1e6 * p->launch[k].cost,
              1e6 * p->cost);
      if (x->cold.replays) fprintf(out, "%.3f", 1e6 * x->cold.median);
      fprintf(out, ",%d,%s,%d,%d,%d,,0\n", x->round, gpu_verdict_name(x->verdict), x->registers, x->spilled, a->dependent);
    }
  }
}

static void sizes_text(const struct graph *was, const struct graph *now, struct str *out)
{
  for (int n = 0; n < now->nnodes; n++) {
    const struct graph *x = was->nodes[n].sub, *y = now->nodes[n].sub;
    if (!y || (!memcmp(x->grid, y->grid, sizeof x->grid) && !memcmp(x->loop, y->loop, sizeof x->loop))) continue;
    str_add(out, "%d", n);
    for (int i = 0; i < y->ngrid; i++) str_add(out, " %lld", (long long)y->grid[i]);
    str_add(out, "/");
    for (int i = 0; i < y->nloop; i++) str_add(out, " %lld", (long long)y->loop[i]);
    str_add(out, ";");
  }
}

// A graph with other sizes has the name of the graph from which it was made.
static void sizes(const struct contest *c, int cand, struct str *out)
{
  int from = cand;
  while (from > 0 && (c->cand[from].tuned || c->cand[from].schedule != c->cand[cand].schedule)) from--;
  sizes_text(c->cand[from].found, c->cand[cand].found, out);
}

static int launches(const struct entrant *x)
{
  int n = 0;
  for (int u = 0; u < x->plan->p.nunits; u++) n += !lower_inside(&x->plan->p, x->pick, u);
  return n;
}

static void entrant(const char *what, const struct contest *c, int number, const struct entrant *x, FILE *out)
{
  struct str size = {0};
  sizes(c, x->cand, &size);
  for (int u = 0, launch = 0; u < x->plan->p.nunits; u++) {
    struct str how = {0};
    if (lower_inside(&x->plan->p, x->pick, u)) continue;
    scheme_text(&x->pick[u], &how);
    fprintf(out, "\"%s\",\"%s\",%d,%d,%d,\"%s\",%.3f,%.3f,", what, c->cand[x->cand].schedule, number, launches(x), launch++, str_text(&how),
            1e6 * x->pick[u].cost, 1e6 * x->model);
    if (x->state == TIMED && x->result->cold.replays) fprintf(out, "%.3f", 1e6 * x->seconds);
    fprintf(out, ",%d,%s,%d,%d,%d,%s,%d\n", x->result->round, gpu_verdict_name(x->result->verdict), x->result->registers, x->result->spilled,
            x->plan->p.dependent, str_text(&size), x->near_to >= 0);
    str_free(&how);
  }
  str_free(&size);
}

void samples_of_climb(const char *what, const struct entrants *f, FILE *out)
{
  for (int i = 0; i < f->n; i++)
    if (f->x[i].result) entrant(what, f->c, i, &f->x[i], out);
}

// Reads n positive numbers, and moves *at behind them. False: there are fewer.
static bool numbers(char **at, int n, int64_t *to)
{
  for (int i = 0; i < n; i++) {
    char *end;
    to[i] = strtoll(*at, &end, 10);
    if (end == *at || to[i] < 1) return false;
    *at = end;
  }
  return true;
}

int sizes_read(struct arena *mem, const char *text, const struct graph *was, const struct graph **now, struct err *e)
{
  char *at = arena_strdup(mem, text);
  for (*now = was; *at; at++) {
    int n = (int)strtol(at, &at, 10);
    const struct graph *sub = n >= 0 && n < was->nnodes ? was->nodes[n].sub : NULL;
    struct graph *next;
    struct axes a;
    if (!sub) return err_set(e, ERR_OPTION, NOWHERE, "%d in \"%.100s\" is no kernel", n, text);
    memcpy(a.grid, sub->grid, sizeof a.grid), memcpy(a.loop, sub->loop, sizeof a.loop);
    if (!numbers(&at, sub->ngrid, a.grid) || *at++ != '/' || !numbers(&at, sub->nloop, a.loop) || *at != ';')
      return err_set(e, ERR_OPTION, NOWHERE, "sizes are NODE GRID.../LOOP...; and not \"%.100s\"", text);
    TRY(plan_resize(mem, *now, n, &a, &next, e));
    *now = next;
  }
  return OK;
}
