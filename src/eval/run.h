// run: for the files of this room only. One domain is one table of functions; everything else moves bytes.
#ifndef MICA_EVAL_RUN_H
#define MICA_EVAL_RUN_H

#include "eval/eval.h"

// A dense row-major tensor.
struct eval_value {
  struct shape s;
  char *p;
};

// [outer, groups, len, inner] folded along len into [outer, groups, inner].
struct fold {
  int64_t outer, groups, len, inner;
};

struct domain_row {
  size_t bytes;
  void (*constant)(struct field *F, double c, void *out);
  // elementwise; y is x for operators of one argument. Broadcasts to o's shape.
  void (*map)(struct field *F, enum op op, const struct attrs *a, struct eval_value o, struct eval_value x, struct eval_value y);
  // Adds to o. `exps`: an exponential follows; without, the part mod q may get lost. A large product uses that many
  // threads, and is left unfinished soon after `stop` is set.
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
// infinities.c: over doubles, infinities of both signs in a sum
void fold_meeting(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x);
void contract_meeting(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                      struct eval_value y);

struct run {
  const struct domain_row *dom;
  struct field *F;
  struct arena *mem;
  int threads;
  bool rounds; // what a node gives, to its dtype
  bool apart;  // DOM_APART
  bool close;  // DOM_CLOSE
  stop_flag stop;
  struct err *e;
};

// infinities.c: adds NaN to o where an infinity of x or y meets a sum that is the other operand.
void contract_apart(const struct run *r, const struct graph *g, const struct node *n, int term, struct eval_value o, struct eval_value x,
                    struct eval_value y);

// The tensors of one graph while it runs. A nest's frame is allocated once and serves all its blocks.
struct eval_frame {
  const struct graph *g;
  const struct graph *above; // of a block graph: the kernel graph, and its node there
  const struct node *kernel;
  struct eval_value *v;     // by tensor
  bool *exps;               // by tensor: an exponential follows somewhere
  struct eval_frame **nest; // by node; frames of BLOCK and THREAD nodes
};

// `saved` says of every saver in order whether an exponential follows what it saves; NULL at the kernel level.
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
// A tile at `at` (elements, by dimension) out of or into a whole.
void move_cut(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile);
void move_paste(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile);
void move_view(size_t bytes, const struct node *n, struct eval_value o, struct eval_value x); // RULE_VIEW
#endif
