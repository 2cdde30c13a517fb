// eval: the interpreter. It executes programs and muGraphs exactly as written (blocks, iterations, partitions,
// accumulators, thread graphs) over float64, float32 or a pair of prime fields, from the rows of op.def. It
// defines the meaning of operators; generated code and the search are tested against it.
//
//   field.h, field.c   the pair of prime fields; primes.h, primes.c draw the primes
//   domain.inc         the index rules over one domain, compiled three times: f64.c, f32.c, ff.c
//   close.c            comparisons that take nearly equal numbers as equal
//   extreme.c          products in the two extreme orders; infinities.c: infinities of both signs in a sum
//   eval_at.c          data-dependent indices
//   eval_move.c        copies boxes of elements between tensors: tiles, parts, views
//   run.c              kernel graphs; eval_nest.c: block and thread graphs
//   eval_element.c     single elements of kernel graphs
//   random.c           inputs
#ifndef MICA_EVAL_H
#define MICA_EVAL_H

#include "eval/field.h"
#include "ir/ir.h"

// DOM_RISING, DOM_FALLING: float64, but products along a dimension have the range of fp32 and multiply the smallest or the largest factors first.
// DOM_MEETING: float64, but infinities of both signs in a sum are no NaN. DOM_ROUNDED: float64, but what an operator gives is rounded to its dtype.
// DOM_CLOSE: float64, but comparisons, topk and floor take numbers that are nearly equal as equal, and comparisons keep NaN.
// DOM_APART: float64, but within blocks a product of matrices makes NaN of an infinity by a sum, as the sum of products by its terms may do.
enum domain { DOM_F64, DOM_F32, DOM_FIELD, DOM_RISING, DOM_FALLING, DOM_MEETING, DOM_ROUNDED, DOM_APART, DOM_CLOSE };
size_t domain_bytes(enum domain d);            // of one element: 8, 4, sizeof(struct ffv)
bool eval_orders_count(const struct graph *g); // it has products along a dimension: DOM_RISING and DOM_FALLING may differ from DOM_F64

// Runs a checked kernel graph without composites. inputs[i] holds the i-th INPUT tensor, row-major, elements of
// the domain; outputs[i] is allocated in mem for the i-th OUTPUT. `F` is the field of DOM_FIELD, used by this run
// alone (it counts events), else NULL. Matrix products that no exponential follows have no part mod q, so compare
// the parts mod p. `stop` may be NULL; a set flag ends with ERR_STOPPED. Graphs whose tensors would take more than
// 16 GiB are refused with ERR_MEMORY.
int eval_run(struct arena *mem, const struct graph *g, enum domain d, struct field *F, void *const *inputs, void **outputs, stop_flag stop,
             struct err *e);
// The same, with large matrix products of the kernel level on `threads` threads. The result does not depend on the number.
int eval_run_on(int threads, struct arena *mem, const struct graph *g, enum domain d, struct field *F, void *const *inputs, void **outputs,
                stop_flag stop, struct err *e);

// Fresh random inputs for every INPUT of g. Reals are normal(0, 1), rounded to the tensor's dtype; field elements
// are uniform. Different for every tensor and seed. Whole numbers are uniform in their range. Over fields, they are so only in graphs with
// data-dependent indices.
void eval_random(struct arena *mem, const struct graph *g, enum domain d, struct field *F, uint64_t seed, void **inputs);
// *out: element i, row-major, of tensor t of a kernel graph without composites, in float64. At most `steps` elements are visited. NO: that was not
// enough, an index is out of range, or the graph has blocks. Several threads may call it at once.
struct eval_reader {
  double (*element)(const void *arg, int input, int64_t i); // element i, row-major, of input number `input`
  const void *arg;
};
int eval_element(const struct graph *g, const struct eval_reader *in, int64_t steps, int t, int64_t i, double *out);
// Random elements of an input of whole numbers. By `draw` modulo 3: uniform, all equal, or alternately the least and the greatest of its range.
// Distinct numbers are always uniform. Every second uniform number is not negative if the range has such numbers: negative ones may select nothing,
// as classes that a loss ignores do, and the mean of none is 0 / 0.
void eval_whole_numbers(const struct tensor *t, struct rng *r, int draw, double *out);
#endif
