// Mirage's muGraph JSON: graphs that are read equal their programs, and errors explain why others cannot be read.
#include "graphs.h"

#define TENSOR(guid, a, b) "{\"guid\":" #guid ",\"num_dims\":2,\"dim\":[" #a "," #b ",0,0],\"data_type\":921}"
#define INPUT(t) "{\"op_type\":\"kn_input_op\",\"input_tensors\":[],\"output_tensors\":[" t "]}"
#define OUTPUT(t) "{\"op_type\":\"kn_output_op\",\"input_tensors\":[" t "],\"output_tensors\":[]}"
#define OP(type, in, out) "{\"op_type\":\"" type "\",\"input_tensors\":[" in "],\"output_tensors\":[" out "]}"
#define MAP(x) "{\"x\":" #x ",\"y\":-1,\"z\":-1}"
#define ITER(from, x, i, out)                                                                                                                       \
  "{\"op_type\":\"tb_input_op\",\"dtensor\":" from ",\"input_map\":" MAP(x) ",\"forloop_dim\":" #i ",\"input_tensors\":[],\"output_tensors\":[" out \
                                                                            "]}"
#define SAVE(in, x) "{\"op_type\":\"tb_output_op\",\"output_map\":" MAP(x) ",\"input_tensors\":[" in "],\"output_tensors\":[]}"
#define BLOCK(x, i, ops, out)                                                                                               \
  "{\"op_type\":\"kn_customized_op\",\"input_tensors\":[],\"output_tensors\":[" out "],\"bgraph\":{\"grid_dim\":{\"x\":" #x \
  ",\"y\":1,\"z\":1},\"forloop_range\":" #i ",\"reduction_dimx\":4,\"operators\":[" ops "]}}"

// rms_norm(X) W, with the mean of squares in the loop of the product.
#define X TENSOR(1, 4, 16)
#define W TENSOR(2, 16, 8)
#define NORM_OPS                                                                                                                           \
  ITER(X, -1, 1, TENSOR(10, 4, 8))                                                                                                         \
  "," ITER(W, 1, 0, TENSOR(11, 8, 4)) "," OP("tb_matmul_op", TENSOR(10, 4, 8) "," TENSOR(11, 8, 4), TENSOR(12, 4, 4)) "," OP(              \
      "tb_accum_red_ld_rms_op", TENSOR(10, 4, 8), TENSOR(13, 4, 1)) "," OP("tb_forloop_accum_no_red_op", TENSOR(12, 4, 4),                 \
                                                                           TENSOR(14, 4, 4)) "," OP("tb_div_op",                           \
                                                                                                    TENSOR(14, 4, 4) "," TENSOR(13, 4, 1), \
                                                                                                    TENSOR(15, 4, 4)) "," SAVE(TENSOR(15, 4, 4), 1)
#define NORM "[" INPUT(X) "," INPUT(W) "," BLOCK(2, 2, NORM_OPS, TENSOR(3, 4, 8)) "," OUTPUT(TENSOR(3, 4, 8)) "]"

// sum(exp(X)) in two steps: down to four partial sums, then in a second kernel.
#define PART_OPS                                                                                                   \
  ITER(X, 0, -1, TENSOR(20, 2, 16))                                                                                \
  "," OP("tb_exp_op", TENSOR(20, 2, 16), TENSOR(21, 2, 16)) "," OP("tb_accum_redtox_ld_sum_op", TENSOR(21, 2, 16), \
                                                                   TENSOR(22, 2, 4)) "," SAVE(TENSOR(22, 2, 4), 0)
#define PARTS                                                                                          \
  "[" INPUT(X) "," BLOCK(2, 1, PART_OPS, TENSOR(4, 4, 4)) "," OP("kn_reduction_1_op", TENSOR(4, 4, 4), \
                                                                 TENSOR(5, 4, 1)) "," OUTPUT(TENSOR(5, 4, 1)) "]"

static const struct {
  const char *json, *program;
} good[] = {
    {"[" NORM "]", "program p { X: f16[4, 16]\n W: f16[16, 8]\n return matmul(rms_norm(X), W) }"},
    {"[" PARTS "]", "program p { X: f16[4, 16]\n return sum(exp(X), dim=1) }"},
};

static void test_equal(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(good); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph **g;
    int n;
    if (front_mirage(&mem, good[i].json, strlen(good[i].json), "m.json", F16, &g, &n, &e)) fail_msg("%zu: %s", i, e.text);
    assert_int_equal(n, 1);
    assert_same_function(good[i].program, graph_of(&mem, good[i].program), g[0]);
    arena_close(&mem);
  }
}

static const struct {
  const char *json;
  enum errid id;
  const char *says;
} wrong[] = {
    {"[[", ERR_JSON, "not JSON"},
    {"{}", ERR_JSON, "array of up to"},
    {"[3]", ERR_JSON, "graph 1, operator 0: a graph should be an array"},
    {"[[{}]]", ERR_JSON, "`op_type`"},
    {"[" PARTS ", [" INPUT(X) "," OUTPUT(TENSOR(9, 4, 16)) "]]", ERR_GRAPH, "graph 2, operator 1: reads a tensor that no operator before it makes"},
    {"[[" INPUT(X) "," OP("kn_exp_op", X, TENSOR(5, 4, 8)) "]]", ERR_SHAPE, "the file says [4, 8], but the operator makes [4, 16]"},
    {"[[" INPUT(X) "," OP("kn_frob_op", X, X) "]]", ERR_FUNCTION, "`kn_frob_op` is not an operator"},
    {"[[" INPUT(X) "," OP("kn_mul_scalar_op", X, TENSOR(5, 4, 16)) "]]", ERR_ATTRIBUTE, "Mirage does not save it"},
    {"[[" INPUT(TENSOR(1, 4, 0)) "]]", ERR_JSON, "is no extent"},
    {"[[" INPUT(X) "," BLOCK(3, 1, ITER(X, 0, -1, TENSOR(20, 2, 16)), TENSOR(5, 4, 4)) "]]", ERR_SHAPE, "block operator 0: iter of [4, 16]"},
    {"[[" INPUT(X) "," BLOCK(0, 1, "", TENSOR(5, 4, 4)) "]]", ERR_JSON, "`x` is 0, outside"},
    {"[[" INPUT(X) "," BLOCK(2, 1, "{\"op_type\":7}", TENSOR(5, 4, 4)) "]]", ERR_JSON, "block operator 0: `op_type`"},
};

static void test_wrong(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(wrong); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph **g;
    int n;
    if (!front_mirage(&mem, wrong[i].json, strlen(wrong[i].json), "m.json", F16, &g, &n, &e)) fail_msg("%zu is read", i);
    if (e.id != wrong[i].id || !strstr(e.text, wrong[i].says)) fail_msg("%zu: %s: %s", i, err_name(e.id), e.text);
    assert_string_equal(e.at.file, "m.json");
    arena_close(&mem);
  }
}

// Every prefix, and every byte changed: an error or a graph, never a crash.
static void test_damaged(void **state)
{
  (void)state;
  const char *whole = "[" NORM "]";
  size_t n = strlen(whole), read = 0;
  struct rng r = {7};
  for (size_t i = 0; i < n; i++) {
    struct arena mem = {0};
    struct err e = {0}, f = {0};
    struct graph **g;
    int count;
    char *text = arena_copy(&mem, whole, n);
    assert_int_not_equal(front_mirage(&mem, text, i, NULL, F16, &g, &count, &e), OK);
    text[i] = (char)(33 + rng_next(&r) % 90);
    read += front_mirage(&mem, text, n, NULL, F16, &g, &count, &f) == OK;
    arena_close(&mem);
  }
  assert_in_range(read, 1, n - 1); // some digits of keys that nobody reads
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal), cmocka_unit_test(test_wrong), cmocka_unit_test(test_damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
