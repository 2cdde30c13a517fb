// Small kernel graphs of one operator each, made of the rows of op.def.
#ifndef TESTS_EACH_OP_H
#define TESTS_EACH_OP_H

#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { EACH_OP_FORMS = 3 }; // of an operator: along another dimension, with operands that broadcast

static inline int each_op_input(struct graph *g, enum dtype t, struct shape s, const struct whole_range *range)
{
  struct err e = {0};
  int out = -1;
  if (graph_input(g, NULL, t, &s, NOWHERE, &out, &e) || (range && graph_declare(g, out, range, false, NOWHERE, &e))) fail_msg("%s", e.text);
  return out;
}

// The operator on inputs of the dtype, in one of its forms; NULL: it is none of a kernel graph without composites, or has no such form.
static inline struct graph *each_op_graph(struct arena *mem, enum op op, enum dtype t, int form)
{
  const struct op_row *row = &op_rows[op];
  static const struct shape usual = {3, {3, 70, 90}}, row_of = {1, {90}}, column = {3, {3, 1, 90}}, left = {3, {2, 70, 35}}, right = {2, {35, 130}},
                            other = {3, {2, 35, 5}}, turned = {4, {2, 3, 5, 7}}, long_row = {2, {5, 1100}}, long_column = {2, {5000, 3}};
  struct graph *g = graph_new(mem, KERNEL, "one");
  struct attrs a = attrs_default(op);
  struct err e = {0};
  struct shape x = usual, y = form == 1 ? column : form == 2 ? row_of : usual;
  int in[3], n = 0, out = 0;
  if (!(row->levels & IS_K) || row->rule == RULE_IO || row->rule == RULE_COMPOSITE || row->rule == RULE_GRAPH || row->rule == RULE_WORLD) return NULL;
  if (num_whole(t) && row->rule != RULE_VIEW && row->rule != RULE_CONCAT) return NULL;
  a.dim = form % 3, a.scalar = 0.75, a.lo = -0.5, a.hi = 1.5, a.slope = 0.1;
  if (row->rule == RULE_REDUCE && form == 1) x = long_row, a.dim = 1;
  if (row->rule == RULE_REDUCE && form == 2) x = long_column, a.dim = 0;
  if (row->attrs & A_GROUP && !form) a.dim = 1, a.group = 7;
  if (row->rule == RULE_CONTRACT) x = left, y = form ? right : other;
  if (row->attrs & A_PERM)
    x = turned, a.perm = form == 0 ? (struct shape){0} : form == 1 ? (struct shape){4, {3, 1, 0, 2}} : (struct shape){4, {0, 2, 1, 3}};
  if (row->attrs & A_SHAPE) a.shape = form ? (struct shape){2, {210, 90}} : (struct shape){1, {18900}};
  if (row->attrs & A_TIMES) a.times = 4;
  if (row->attrs & A_START) a.start = 1, a.end = 3;
  if (row->attrs & A_PARTS) a.dim = 1 + form % 2, a.parts = 5, a.index = form;
  if (row->attrs & A_K) a.k = form == 0 ? 2 : 7;
  if (row->least == 0) {
    if (graph_add(g, op, 0, NULL, &a, NOWHERE, &out, &e)) fail_msg("%s: %s", row->name, e.text);
    if (row->rule == RULE_CONST) { // which meets a tensor
      in[0] = out, in[1] = each_op_input(g, t, usual, NULL);
      if (graph_add(g, OP_MUL, 2, in, NULL, NOWHERE, &out, &e)) fail_msg("%s: %s", row->name, e.text);
    }
  } else {
    in[n++] = each_op_input(g, t, x, NULL);
    if (row->flags & (READS_SLICES | WRITES_SLICES)) {
      const struct whole_range range = {row->flags & WRITES_SLICES ? -1 : 0, x.d[a.dim] - 1, row->flags & WRITES_SLICES};
      in[n++] = each_op_input(g, I32, (struct shape){1, {row->flags & WRITES_SLICES ? 3 : 11}}, &range);
    }
    if (row->flags & WRITES_SLICES) {
      struct shape slices = x;
      slices.d[a.dim] = 3;
      in[n++] = each_op_input(g, t, slices, NULL);
    }
    if (row->rule == RULE_CONCAT) y = usual, y.d[a.dim] = 4;
    while (n < MAX(row->least, row->rule == RULE_CONCAT ? 2 : 0)) in[n++] = each_op_input(g, t, y, NULL);
    if (graph_add(g, op, n, in, &a, NOWHERE, &out, &e)) fail_msg("%s: %s", row->name, e.text);
  }
  const struct node *made = &g->nodes[g->tensors[out].node];
  for (int i = 0, results = made->nout; i < results; i++) {
    const int result = out + i;
    if (graph_add(g, OP_OUTPUT, 1, &result, NULL, NOWHERE, NULL, &e)) fail_msg("%s: %s", row->name, e.text);
  }
  return g;
}
#endif
