// gen_driver: what the files of the generator's driver share: gen.c (kernels), gen_file.c (entry points), gen_ranks.c (one rank of a world).
#ifndef MICA_GEN_GEN_DRIVER_H
#define MICA_GEN_GEN_DRIVER_H

#include "gen/emit.h"

struct home {         // of a kernel tensor
  struct place place; // kind PLACE_NONE: another tensor's memory, or nothing
  int root;           // the tensor whose memory it is
  const char *ptr;    // in the entry function; NULL: workspace
  int buf;
};

struct gen {
  struct arena *mem;
  const struct graph *g;
  const char *name;
  const struct target *t;
  struct home *home;
  struct gen_space space;
  struct str kernels, calls;
  int64_t scratch;
  int nkernels;
  bool blas, timed;
  bool rank;    // one rank of a world: its operators of all ranks are meetings of processes or threads
  int meetings; // so far
  int64_t slot; // bytes of the largest operand of a meeting
  struct err *e;
};

// ---- gen.c ----
void gen_place(struct gen *c); // addresses of all tensors
int emit_kernels(struct gen *c);
struct place place_of(const struct gen *c, int t, const char *ptr); // tensor t in a function to which `ptr` is its memory
const char *address_of(const struct gen *c, int t);                 // text of its address in the entry function

// ---- gen_file.c ----
void entry_body(struct gen *c, struct str *s); // of the function with a workspace: names of all addresses, then the calls

// ---- gen_ranks.c ----
int emit_meeting(struct gen *c, int i, const char *out);

// gen_file.c: declarations of the library, where it is called
void print_blas(const struct gen *c, struct str *s);

#endif
