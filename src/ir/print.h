// Inside ir, and for the parser: what names look like in text, and the pieces of the printer that the drawing shares.
#ifndef MICA_IR_PRINT_H
#define MICA_IR_PRINT_H

#include "ir/ir.h"

enum { LONGEST_NAME = 128 };
bool print_is_name(const char *s); // an identifier that is no word of the language

struct ir_printer {
  const struct graph *g;
  const struct ir_printer *above; // of the graph around this one
  const struct node *node;        // this graph's node there
  struct arena *mem;
  const char **names; // of tensors; NULL until one is needed
  int *uses;          // of tensors
  bool *inlined;      // nodes that are written inside the expression that uses them
  bool *bare;         // inlined constants that are written as a number
  int invented, indent;
  struct str *out;
};
void print_open(struct ir_printer *pr, struct arena *mem, const struct graph *g, struct str *out);
const char *print_title(const struct ir_printer *pr);                             // the graph's name
const char *print_name(struct ir_printer *pr, int tensor);                        // given, or invented now
const char *print_iter_name(struct ir_printer *pr, int tensor, const char *from); // near the name of what it loads
void print_node(struct ir_printer *pr, const struct node *n, int tight);          // the expression; tight: binding it must have

#endif
