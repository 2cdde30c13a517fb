// Inside the room: the task bodies of layer.def, in C. A body sees the elements of its regions, packed, and nothing else.
#ifndef MICA_MEGA_BODIES_H
#define MICA_MEGA_BODIES_H

#include "mega/mega.h"

enum { MEGA_MOST_GROUP = 64 }; // query heads of a kv head

// One work tile while it runs. Arrays are packed: the elements of a box in the order of its dimensions.
struct mega_task {
  const struct mega_op *op;
  const struct mega_model *m;
  int64_t step;                       // of the launch
  int64_t position;                   // of the tile's row in its request
  float *data[MEGA_ACCESSES];         // by access that is no stream: what it reads; zeros, where it writes
  struct mega_box box[MEGA_ACCESSES]; // which elements these are
  int slots;                          // that lie one after another where the access takes slots
  int64_t columns;                    // of the first tensor on the ranks before this one
  float *spare;                       // zeros: twice as many as all boxes have
  const float *table;                 // the whole tensor of the access whose elements data decide
  int64_t table_stride;               // elements from one of its rows to the next
  struct mega_box piece;              // of the stream, after next
  int piece_rank;
  const float *(*next)(struct mega_task *t); // the next piece of the stream; NULL: there is none, or the run ends
  void *runner;
  const char *fault; // data that the layer cannot take
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
// Key and value of the tile's position, as the cache has them. `spare`: as many as a head has.
void mega_append(const struct mega_task *t, const float *gain, const float *key, const float *value, float *spare, float *to);
// The heads of a tile: begun with their queries, which take `queries` of twice their size; over all pieces of the stream; over one more key and
// value; divided.
int64_t mega_heads_begin(const struct mega_task *t, const float *gain, float *queries, float *y, struct mega_softmax *head);
void mega_heads_stream(struct mega_task *t, struct mega_softmax *head, int64_t heads);
void mega_heads_see(const struct mega_task *t, struct mega_softmax *head, int64_t heads, const float *key, const float *value);
void mega_heads_end(const struct mega_task *t, struct mega_softmax *head, int64_t heads);
void mega_heads_divisors(const struct mega_softmax *head, int64_t heads, float *to); // of parts: a maximum and a divisor a head
void mega_attention_merge(float *x, const float *m, int64_t parts, int64_t heads, int64_t dim);

#endif
