// Private header: the task bodies of layer.def in C. A body accesses the elements of its regions, packed, and nothing else.
#ifndef MICA_MEGA_BODIES_H
#define MICA_MEGA_BODIES_H

#include "mega/mega.h"

enum { MEGA_MOST_GROUP = 64 }; // query heads of a kv head

// One work tile during its execution. Arrays are packed: the elements of a box in the order of its dimensions.
struct mega_task {
  const struct mega_op *op;
  const struct mega_model *m;
  int64_t step;                       // number of the step in the launch
  int64_t position;                   // of the tile's row in its request
  float *data[MEGA_ACCESSES];         // by access, except streams: the elements that it reads; zeros for writes
  struct mega_box box[MEGA_ACCESSES]; // the indices of these elements
  int slots;                          // number of slots, packed in order, of an access of slots
  int64_t columns;                    // columns of the first tensor on the ranks before this one
  float *spare;                       // zeros, twice the size of all boxes
  const float *table;                 // the whole tensor of the access whose elements data choose
  int64_t table_stride;               // elements from one of its rows to the next
  struct mega_box piece;              // of the stream, after next()
  int piece_rank;
  const float *(*next)(struct mega_task *t); // the next piece of the stream; NULL: no more pieces, or the run ends
  void *runner;
  const char *fault; // a message if data are out of the layer's range
};
static inline int64_t mega_extent(const struct mega_box *b, int d) { return b->hi[d] - b->lo[d]; }

#define LAYER(name, ...) void mega_body_##name(struct mega_task *t);
#include "mega/layer.def"
#undef LAYER

// ---- mega_body.c ----
float mega_norm_factor(const float *x, int64_t n, double eps); // of a root-mean-square norm
float mega_silu(float x);

// ---- mega_attend.c ----
double mega_rotary_angle(const double *attr, int64_t pair, int64_t position);
struct mega_softmax { // of one query head: maximum, sum of exponentials, weighted values
  float most, sum, *value;
  const float *query;
};
// Computes key and value of the tile's position as the cache stores them. `spare`: room for one head.
void mega_append(const struct mega_task *t, const float *gain, const float *key, const float *value, float *spare, float *to);
// The heads of a tile. `begin` rotates their queries into `queries`, room of twice their size, and returns the number of heads. `stream` adds all
// pieces of the stream, and `add` one more key and value. `end` divides by the sums; for a part of the positions, `divisors` stores maxima and sums.
int64_t mega_heads_begin(const struct mega_task *t, const float *gain, float *queries, float *y, struct mega_softmax *head);
void mega_heads_stream(struct mega_task *t, struct mega_softmax *head, int64_t heads);
void mega_heads_add(const struct mega_task *t, struct mega_softmax *head, int64_t heads, const float *key, const float *value);
void mega_heads_end(const struct mega_task *t, struct mega_softmax *head, int64_t heads);
void mega_heads_divisors(const struct mega_softmax *head, int64_t heads, float *to);
void mega_attention_merge(float *x, const float *m, int64_t parts, int64_t heads, int64_t dim); // merges parts into the first

#endif
