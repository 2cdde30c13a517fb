// Private to ir, except for print_is_name, which the parser uses: names in text, and functions shared by printer and drawing.
#ifndef MICA_IR_PRINT_H
#define MICA_IR_PRINT_H

#include "ir/ir.h"

enum { LONGEST_NAME = 128 };
bool print_is_name(const char *s); // is it an identifier and no reserved word?

struct ir_printer {
  const struct graph *g;
  const struct ir_printer *above; // printer of the enclosing graph
  const struct node *node;        // this graph's node in it
  struct arena *mem;
  const char **names; // by tensor; NULL until a name is needed
  int *uses;          // by tensor: number of uses
  bool *inlined;      // by node: written inside the expression that uses it
  bool *bare;         // by node: an inlined constant written as a number
  int invented, indent;
  struct str *out;
};
void print_open(struct ir_printer *pr, struct arena *mem, const struct graph *g, struct str *out);
const char *print_title(const struct ir_printer *pr);                             // the graph's name
const char *print_name(struct ir_printer *pr, int tensor);                        // its name, or a new one
const char *print_iter_name(struct ir_printer *pr, int tensor, const char *from); // derived from the name of the tensor that it loads
void print_node(struct ir_printer *pr, const struct node *n, int tight); // prints the expression; tight: least precedence without parentheses

#endif
