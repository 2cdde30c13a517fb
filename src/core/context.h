// context: what a struct mica_context holds, for the files that make the public interface (api.c, layout.c).
#ifndef MICA_CORE_CONTEXT_H
#define MICA_CORE_CONTEXT_H

#include "core/core.h"
#include "tile/lay.h"

struct symbol { // an extent or stride of layouts that is not known
  const char *name;
  ex var;
};
struct mica_context {
  struct arena mem;
  struct err err;
  char message[1600];
  struct mica_report *reports; // their JSON documents are counted references
  struct lay_ctx lay;          // .ex is NULL until a layout is read
  struct symbol *symbol;
  int symbols, symbol_cap;
};
int context_finish(struct mica_context *m, int status); // writes the message of an error; returns status

#endif
