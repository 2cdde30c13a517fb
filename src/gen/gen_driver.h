// gen_driver: shared declarations of gen.c (kernels), gen_file.c (entry points) and gen_ranks.c (one rank of a world).
#ifndef MICA_GEN_GEN_DRIVER_H
#define MICA_GEN_GEN_DRIVER_H

#include "gen/emit.h"

struct home {         // memory of a kernel tensor
  struct place place; // PLACE_NONE: it shares another tensor's memory, or has none
  int root;           // the tensor whose memory it is
  const char *ptr;    // in the entry function; NULL: workspace
  int buf;
  bool frozen;  // computed of frozen inputs and numbers alone
  int64_t kept; // offset in the frozen memory, if a kernel computes it
};
struct pack {       // a second operand of products
  const char *text; // the statement that packs it
  int64_t offset;   // in the frozen memory
};

struct gen {
  struct arena *mem;
  const struct graph *g;
  const char *name;
  const struct target *t;
  struct home *home;
  struct gen_space space;
  struct str kernels, calls;
  struct str freezing; // calls that write the frozen memory
  int64_t frozen;      // its bytes
  int nfrozen;         // its tensors
  struct pack *packs;
  int npacks, packs_cap;
  int64_t scratch;
  int nkernels;
  bool blas, timed;
  bool rank;    // one rank of a world: collectives become exchanges between threads or processes
  int meetings; // number of collectives so far
  int64_t slot; // bytes of the largest operand of a collective
  struct err *e;
};

// ---- gen.c ----
void gen_place(struct gen *c); // addresses of all tensors
int emit_kernels(struct gen *c);
struct place place_of(const struct gen *c, int t, const char *ptr); // tensor t in a function whose parameter `ptr` points to its memory
const char *address_of(const struct gen *c, int t);                 // text of its address in the entry function

// ---- gen_file.c ----
// Prints the body of a function with a workspace: names of all addresses, then c->calls or c->freezing.
void entry_body(struct gen *c, struct str *s, const struct str *calls);

// ---- gen_frozen.c ----
void frozen_find(struct gen *c);         // sets home.frozen
void frozen_place(struct gen *c, int t); // the result of a kernel
// The offset of what the operand of a kernel is packed to. from: the tensor, in the entry function.
int64_t frozen_pack(struct gen *c, const struct packed_operand *x, const struct view *from);

// ---- gen_ranks.c ----
int emit_meeting(struct gen *c, int i, const char *out);

// in gen_file.c: declarations of BLAS functions, if they are called
void print_blas(const struct gen *c, struct str *s);
void sizes_print(struct arena *mem, const char *kernels, struct str *source); // M_PRODUCTS: the products of these kernels

#endif
