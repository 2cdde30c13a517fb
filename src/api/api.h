// api: the public C interface, include/mica.h. This header has the contents of its handles.
//
//   api.c          contexts, reports, optimization
//   api_options.c  options from callers compiled against another version
//   api_graph.c    programs built call by call
//   api_program.c  inputs and outputs of programs
//   api_module.c   programs that run; api_ranks.c: those of several devices (module.h)
//   api_extents.c  run-time extents: their list, and calls with arrays shaped by their values
//   api_model.c    several programs in one text
//   api_mega.c     persistent kernels of language models
//   api_layout.c   layouts, and `mica layout` (api_layout.h)
#ifndef MICA_API_H
#define MICA_API_H

#include "base/memory.h"
#include "drive/drive.h"
#include "tile/lay.h"

struct symbol { // a symbolic extent or stride of layouts
  const char *name;
  ex var;
};
struct mica_context {
  struct arena mem;
  struct err err;
  char message[1600];
  const char *said; // atomic: last message of a module's call, which any thread may make. NULL: `message` is the last one
  struct mica_module *modules;
  struct exchange_worlds worlds; // worlds whose ranks are threads of this process
  struct mica_mega *megas;
  struct mica_report *reports; // their JSON documents are reference-counted
  struct arena layouts;        // never reset: layouts refer to each other's expressions
  struct lay_ctx lay;          // .ex is NULL until a layout is read
  struct symbol *symbol;
  int symbols, symbol_cap;
};
struct mica_program {
  struct graph *g;
};
struct mica_graph {
  struct mica_context *m;
  struct graph *g;
  struct mica_graph *above; // the enclosing graph of a block or thread graph
  bool ended;
  int *from, nfrom, from_cap; // tensors of `above` that the iterators read, in their order
};
struct mica_report {
  json_t *json;
  bool recalled;
  const char *text, *json_text;
  struct gpu_forge *forge; // compiled kernels, for mica_save
  bool has_db;
  const char *db; // database of the options
  struct mica_report *next;
};
int context_finish(struct mica_context *m, int status);                              // formats the message of an error; returns status
int context_left(struct mica_context *m, struct guard *g, struct arena_mark before); // the same for a call that ran out of memory

// Sets status to the result of an expression, the work of a public call. If memory runs out, the work is left by longjmp and its allocations in the
// context's arena are freed. So pointers to them are stored in the context in the last step only, or point into another arena.
#define CALL(m, status, ...)                                 \
  do {                                                       \
    struct guard guard_;                                     \
    const struct arena_mark before_ = arena_mark(&(m)->mem); \
    (m)->err = (struct err){0};                              \
    guard_open(&guard_);                                     \
    if (!setjmp(guard_.back)) {                              \
      (status) = (__VA_ARGS__);                              \
      guard_leave(&guard_);                                  \
      context_finish(m, status);                             \
    } else                                                   \
      (status) = context_left(m, &guard_, before_);          \
  } while (0)
struct mica_tensor tensor_tell(const struct tensor *t);

void modules_close(struct mica_context *m); // api_module.c
void megas_close(struct mica_context *m);   // api_mega.c

// ---- api_options.c ----
// Copies the options of a caller who may know fewer or more of them into this version's struct; o == NULL: the defaults.
int options_take(const struct mica_options *o, struct mica_options *out, struct err *e);

#endif
