// run: private declarations of eval. A domain is a table of functions; all other code only moves bytes.
#ifndef MICA_EVAL_RUN_H
#define MICA_EVAL_RUN_H

#include "eval/eval.h"

// A dense row-major tensor.
struct eval_value {
  struct shape s;
  char *p;
};

// A reduction of [outer, groups, len, inner] along len to [outer, groups, inner].
struct fold {
  int64_t outer, groups, len, inner;
};

struct domain_row {
  size_t bytes;
  void (*constant)(struct field *F, double c, void *out);
  // Elementwise; y is x for operators of one argument. Operands are broadcast to o's shape.
  void (*map)(struct field *F, enum op op, const struct attrs *a, struct eval_value o, struct eval_value x, struct eval_value y);
  // Adds the product of x and y to o. `exps`: an exponential follows; otherwise the part mod q may be lost. A large product
  // uses `threads` threads, and ends unfinished soon after `stop` is set.
  void (*contract)(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                   struct eval_value y);
  void (*fold)(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x);
  void (*finish)(struct field *F, bool root, int64_t count, int64_t n, void *o); // o / count, or its root
};
extern const struct domain_row domain_f64, domain_f32, domain_ff, domain_close;
bool eval_close(double x, double y); // close.c: nearly equal
// extreme.c: over doubles, products as the extreme orders have them
void fold_rising(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x);
void fold_falling(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x);
// infinities.c: over doubles, infinities of both signs in a sum give no NaN
void fold_meeting(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x);
void contract_meeting(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                      struct eval_value y);

struct run {
  const struct domain_row *dom;
  struct field *F;
  struct arena *mem;
  int threads;
  bool rounds; // the result of each node is rounded to its dtype
  bool apart;  // DOM_APART
  bool close;  // DOM_CLOSE
  stop_flag stop;
  struct err *e;
};

// infinities.c: adds NaN to o for each product of an infinity in one operand with the other operand, if that is a sum.
void contract_apart(const struct run *r, const struct graph *g, const struct node *n, int term, struct eval_value o, struct eval_value x,
                    struct eval_value y);

// The tensors of one graph while it runs. The frame of a block graph is allocated once and used for all blocks.
struct eval_frame {
  const struct graph *g;
  const struct graph *above; // for a block graph: the kernel graph; `kernel` is its node there
  const struct node *kernel;
  struct eval_value *v;     // by tensor
  bool *exps;               // by tensor: an exponential follows somewhere
  struct eval_frame **nest; // by node; frames of BLOCK and THREAD nodes
};

// saved[i]: an exponential follows the tensor that the i-th saver stores. NULL at the kernel level.
struct eval_frame *frame_new(struct run *r, const struct graph *g, const struct eval_frame *above, const struct node *kernel, const bool *saved);
bool run_stopped(const struct run *r);                                                           // sets the error
int run_node(struct run *r, struct eval_frame *f, int node);                                     // run.c: every rule but IO and ACCUM
int run_at(struct run *r, struct eval_frame *f, const struct node *n);                           // eval_at.c: RULE_AT
int run_nest(struct run *r, struct eval_frame *f, const struct node *n, struct eval_frame *sub); // eval_nest.c
struct fold fold_of(const struct node *n, const struct shape *from, const struct shape *to);     // along the node's dim
struct eval_value frame_arg(const struct eval_frame *f, const struct node *n, int i);

// eval_move.c: copies a box of elements; strides count elements.
void move_strides(const struct shape *s, int64_t st[MAX_DIMS]);
void move_box(size_t bytes, const struct shape *box, char *to, const int64_t *ts, const char *from, const int64_t *fs);
// Copies a tile out of or into a whole tensor; `at` is its offset in elements along each dimension.
void move_cut(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile);
void move_paste(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile);
void move_view(size_t bytes, const struct node *n, struct eval_value o, struct eval_value x); // RULE_VIEW
#endif
