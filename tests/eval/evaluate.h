// Shared by the tests of src/eval: graphs from text, and values of their outputs.
#ifndef MICA_TEST_EVALUATE_H
#define MICA_TEST_EVALUATE_H

#include "eval/eval.h"
#include "front/front.h"

enum { TEST_INPUTS = 16 };

struct values { // of one run
  enum domain d;
  int nin, nout;
  void *in[TEST_INPUTS], *out[TEST_INPUTS];
  int64_t size[TEST_INPUTS]; // elements of the outputs
  struct shape shape[TEST_INPUTS];
};

// Parses and expands; an error fails the test with its text.
struct graph *test_graph(struct arena *mem, const char *text, bool stable);
struct graph *test_load(struct arena *mem, const char *path);
// Random inputs, the same ones for graphs of the same signature; reals times `scale`.
void test_inputs(struct arena *mem, const struct graph *g, enum domain d, struct field *F, double scale, struct values *v);
void test_run(struct arena *mem, const struct graph *g, struct field *F, struct values *v); // v->in -> v->out
double test_real(const struct values *v, int output, int64_t i);
// Fails unless all outputs agree: reals to a relative tolerance, field elements exactly (mod q where both are known).
void test_equal(const char *name, const struct values *a, const struct values *b, double tolerance);
#endif
