// front: programs and muGraphs as text, read into graphs. docs/language.md describes the language to its users.
//
// Glossary
//   setting    a value for a parameter of the program, from `--set name=value`, or the entry point that is read
//   entry      an entry point of a model: one of several programs in a text, which share declarations
//   scope      the names of one graph; a block (thread) graph has a scope of its own inside the one around it
//   value      the result of an expression: a number known while parsing, or tensors of the graph being built
//
// Files
//   lex.c      text -> tokens with places
//   number.c   arithmetic on numbers: exact integers while they stay integers, doubles after that
//   near.c     the nearest name, for "did you mean"
//   scope.c    names and their values
//   front_expr.c  expressions: precedence, operators on tensors and numbers
//   call.c     function calls: arguments and attributes as the operator's row declares them
//   outside.c  calls made through the API, without program text
//   extent.c   run-time extents in texts
//   items.c    subscripts
//   masks.c    operators of tensors with run-time extents: padding is masked
//   block.c    block and thread statements
//   entry.c    several programs in one text
//   parse.c    the program: header, parameters, statements
//   load.c     files, told apart by content
//   source.c   programs from files and text, with their parameters as text
//   format.c   the usual form of a text
//   mirage.c   muGraphs that the public Mirage project saved
#ifndef MICA_FRONT_H
#define MICA_FRONT_H

#include "ir/ir.h"

struct setting {
  const char *name;
  int64_t value;
  const char *entry; // from "entry=NAME": the entry point to read; NULL otherwise
};

// Limits of one text. The limits keep hostile input cheap; generated programs stay far below them.
enum { FRONT_BYTES = 1 << 20, FRONT_DEPTH = 200, FRONT_TENSORS = 8192, FRONT_ENTRIES = 64 };

// Reads a program or muGraph of n bytes into a checked kernel graph in mem. `file` names it in errors and may be
// NULL. A setting that names no parameter is an error. Any bytes are safe.
int front_parse(struct arena *mem, const char *text, size_t n, const char *file, int nset, const struct setting *set, struct graph **out,
                struct err *e);
// Reads a file: JSON if its first character other than white space is '{', this language otherwise.
int front_load(struct arena *mem, const char *path, int nset, const struct setting *set, struct graph **out, struct err *e);

// ---- entry.c ----
struct front_entry {
  const char *name;
  struct loc at;
};
struct front_model { // the entry points of a text; a text with one program has none
  const char *name;
  int nentries, nshared;
  struct front_entry *entry;
  const char **shared; // names of the tensors declared for all entry points
};
// Lists the entry points. ERR_LIMIT: more than FRONT_ENTRIES, or the text is larger than FRONT_BYTES.
int front_model_of(struct arena *mem, const char *text, size_t n, const char *file, struct front_model *out, struct err *e);
int front_check(struct arena *mem, const char *text, size_t n, const char *file, struct err *e); // parses every entry point

// ---- source.c ----
int load_settings(struct arena *mem, int n, const char *const *set, struct setting **out, struct err *e); // from "name=value"
int load_file(struct arena *mem, const char *path, int nset, const char *const *set, struct graph **out, struct err *e);
int load_text(struct arena *mem, const char *text, const char *name, int nset, const char *const *set, struct graph **out, struct err *e);

// Adds op(tensors..., attributes) to g, as a call in a program would. `attributes` is text as in a call, or NULL. The added tensors have no source
// location. After an error g is unchanged. Any bytes are safe.
struct front_call {
  const char *op, *attributes;
  int n;
  const int *tensors;
};
int front_call(struct arena *mem, struct graph *g, const struct front_call *x, int *first, int *count, struct err *e);
// Reads muGraphs saved by Mirage, n bytes of JSON, into checked graphs (*out)[0..*count). Inputs get dtype t, because these
// files do not record it reliably. After an error, *out has the graphs before it.
int front_mirage(struct arena *mem, const char *text, size_t n, const char *file, enum dtype t, struct graph ***out, int *count, struct err *e);

#endif
