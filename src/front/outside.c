// Calls made through the API, to build a graph call by call. They go through the parser, so operators, attributes and error messages are the
// same as in programs. Only the attributes are text.
#include "front/parse.h"
#include "ir/constants.h"

#include <string.h>

int front_call(struct arena *mem, struct graph *g, const struct front_call *x, int *first, int *count, struct err *e)
{
  const char *attributes = x->attributes ? x->attributes : "";
  struct front_scope scope = {.g = g};
  struct parser p = {.mem = mem, .e = e, .scope = &scope, .tensors = g->ntensors, .blocks = true, .masks = true};
  const struct token id = {.kind = TOK_NAME, .p = x->op, .n = (int)strnlen(x->op, LONGEST_NAME)};
  const int nodes = g->nnodes, tensors = g->ntensors;
  struct front_value v = {0};
  for (int i = 1; i <= graph_extents(g); i++) TRY(extent_define(&p, i));
  lex_open(&p.lex, mem, attributes, strnlen(attributes, FRONT_BYTES), "attributes");
  p.lex.inside = 1; // as if the text stood between parentheses
  p.ahead = lex_next(&p.lex), parse_next(&p);
  int s = call_outside(&p, &id, x->n, x->tensors, &v);
  if (!s) s = constants_check_from(g, nodes, e);
  if (s) g->nnodes = nodes, g->ntensors = tensors; // removes constants that the attributes added
  *first = v.first, *count = v.count;
  return s;
}
