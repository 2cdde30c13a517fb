// Run-time extents in texts: `n: dim <= 4096` declares one, and tensors and shapes name it. It is a scalar input too, so `n` in an expression
// is its value.
#include "front/parse.h"

#include <string.h>

int extent_of(const struct parser *p, const struct front_value *v)
{
  return v->kind == TENSORS && v->count == 1 ? p->scope->g->tensors[v->first].extent : 0;
}

int extent_define(struct parser *p, int extent)
{
  const char *name = extent_name(p->scope->g, extent);
  const struct front_value v = {.kind = TENSORS, .first = extent_input(p->scope->g, extent), .count = 1};
  if (!name) return OK;
  return scope_define(p, &(struct token){.kind = TOK_NAME, .p = name, .n = (int)strlen(name)}, &v);
}

int extent_statement(struct parser *p, const struct token *id)
{
  int64_t least = 1, most;
  struct front_value v = {.kind = TENSORS, .count = 1};
  parse_next(p);
  if (parse_take(p, TOK_GREATER_EQUAL)) TRY(parse_bound(p, &least));
  const bool below = p->t.kind == '<';
  if (!below && p->t.kind != TOK_LESS_EQUAL) {
    int s = parse_unexpected(p, "`<=` and the bound of a run-time extent");
    return err_hint(p->e, "write it as %.*s: dim <= 4096", MIN(id->n, 60), id->p), s;
  }
  parse_next(p);
  TRY(parse_bound(p, &most));
  TRY(graph_input(p->scope->g, NULL, I32, &(struct shape){0}, id->at, &v.first, p->e));
  p->tensors++;
  TRY(graph_declare_extent(p->scope->g, v.first, least, most - below, id->at, p->e));
  return scope_define(p, id, &v);
}

int expr_extent(struct parser *p, enum errid id, const char *what, int64_t lo, int64_t hi, int64_t *out, uint8_t *runs)
{
  struct front_value v;
  struct loc at = p->t.at;
  TRY(expr_parse(p, &v));
  *runs = (uint8_t)extent_of(p, &v);
  if (*runs) return *out = p->scope->g->tensors[v.first].range.most, OK;
  if (v.kind == NUMBER) return number_whole(p->e, id, at, &v.number, what, lo, hi, out);
  int s = err_set(p->e, id, at, "%s must be a number or a run-time extent, not a tensor", what);
  return err_hint(p->e, "a run-time extent stands alone: n, not 2 * n; declare another one, m: dim <= 64"), s;
}

int extent_runs(struct parser *p, int t, const uint8_t *runs, struct loc at)
{
  struct graph *g = p->scope->g;
  const struct tensor *x = &g->tensors[t];
  int64_t all[MAX_DIMS] = {0};
  bool some = false;
  for (int d = 0; d < x->shape.n; d++) {
    some |= runs[d] != 0;
    all[d] = runs[d] ? runs[d] : x->runs[d];
    if (runs[d] && x->runs[d] && x->runs[d] != runs[d])
      return err_set(p->e, ERR_SHAPE, at, "dimension %d has the run-time extent %.60s, not %.60s", d, extent_called(g, x->runs[d]),
                     extent_called(g, runs[d]));
  }
  return some ? graph_declare_runs(g, t, x->shape.n, all, at, p->e) : OK;
}
