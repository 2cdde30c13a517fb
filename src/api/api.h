// api: the public C interface, include/mica.h: what its handles hold.
//
//   api.c          contexts, reports, optimizing
//   api_options.c  options of callers who know another version
//   api_graph.c    programs built call by call
//   api_program.c  programs looked at
//   api_module.c   programs that run; api_ranks.c: those of several devices (module.h)
//   api_extents.c  run-time extents: which there are, and calls with arrays that have their values as shapes
//   api_model.c    several programs in one text
//   api_mega.c     persistent kernels of language models
//   api_layout.c   layouts, and `mica layout` (api_layout.h)
#ifndef MICA_API_H
#define MICA_API_H

#include "base/memory.h"
#include "drive/drive.h"
#include "tile/lay.h"

struct symbol { // an extent or stride of layouts that is not known
  const char *name;
  ex var;
};
struct mica_context {
  struct arena mem;
  struct err err;
  char message[1600];
  const char *said; // by a call of a module, which may come from another thread: atomic. NULL: `message` is the last
  struct mica_module *modules;
  struct exchange_worlds worlds; // of ranks that are threads
  struct mica_mega *megas;
  struct mica_report *reports; // their JSON documents are counted references
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
  struct mica_graph *above; // of a block
  bool ended;
  int *from, nfrom, from_cap; // of a block: tensors of the graph around, in the order of its iterators
};
struct mica_report {
  json_t *json;
  bool recalled;
  const char *text, *json_text;
  struct gpu_forge *forge; // what has compiled, for the folder
  bool has_db;
  const char *db; // of options
  struct mica_report *next;
};
int context_finish(struct mica_context *m, int status);                              // writes the message of an error; returns status
int context_left(struct mica_context *m, struct guard *g, struct arena_mark before); // the same for a call that found no memory

// status = a call's work, which may be left from anywhere within. The call's data in the context's arena are then gone. So anything else of the
// context that refers to them is set as the last step, or is in an arena of its own.
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
// Options as this library knows them, of a caller who may know fewer or more; NULL: the default.
int options_take(const struct mica_options *o, struct mica_options *out, struct err *e);

#endif
