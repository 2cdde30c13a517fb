// Programs of several parts on a simulated GPU. The simulated clock makes the winners of the parts slow together, and another combination fast. The
// race of the whole must find that one.
// test: quick release
#include "pretended_gpu.h"
#include "thin.h"

static const char several[] = "program several() {\n X: f16[16, 64]\n W: f16[64, 32]\n return softmax(matmul(softmax(X, dim=1), W), dim=1)\n}\n";

// The fastest programs of the parts alone: kernels as they were made, and their graphs.
enum { MOST_WON = 16 };
static struct {
  double least;
  int n;
  uint64_t how[MOST_WON], graph[MOST_WON];
} won[4];
static const struct graph *of_part[4];
static bool by_graphs;             // it is the graphs that must differ
static double together, otherwise; // the time of the winners, if they were timed; the least of all others

// The program of a part is in mathematics' own operators.
static bool is_whole(void)
{
  for (int i = 0; i < seen.reference->nnodes; i++)
    if (seen.reference->nodes[i].op == OP_SOFTMAX) return true;
  return false;
}

static int part_now(void)
{
  int p = 0;
  while (of_part[p] && of_part[p] != seen.reference) p++;
  assert_true(p < 4);
  return of_part[p] = seen.reference, p;
}

static uint64_t how_of(const struct launch *l) { return hash_bytes(l->how, strlen(l->how), 1); }
static uint64_t graph_at(const struct device_program *d, const struct launch *l)
{
  const struct graph *sub = d->g->nodes[l->first].sub;
  return sub ? graph_hash(sub) : 0;
}

static bool has_won(const struct device_program *d, const struct launch *l)
{
  bool made_so = false, same_graph = false;
  for (int p = 0; p < 4; p++)
    for (int i = 0; i < won[p].n; i++) {
      bool graph = won[p].graph[i] == graph_at(d, l);
      same_graph |= graph, made_so |= graph && won[p].how[i] == how_of(l);
    }
  return by_graphs ? same_graph : made_so;
}

static double in_company(const struct device_program *d)
{
  double t = made_up(d);
  if (is_whole()) {
    bool winners = true;
    for (int i = 0; i < d->nlaunch; i++) winners &= has_won(d, &d->launch[i]);
    if (winners) return together = fmin(together, t + 1), t + 1;
    otherwise = fmin(otherwise, t);
    return t;
  }
  int p = part_now();
  t = 10e-6 + t * 1e-3; // all are nearly as fast
  if (!won[p].n || t < won[p].least) {
    won[p].least = t, won[p].n = MIN(d->nlaunch, MOST_WON);
    for (int i = 0; i < won[p].n; i++) won[p].how[i] = how_of(&d->launch[i]), won[p].graph[i] = graph_at(d, &d->launch[i]);
  }
  return t;
}

static void the_whole_is_raced_too(void **state)
{
  (void)state;
  for (int graphs = thinned(2) - 1; graphs < 2; graphs++) {
    struct arena mem = {0};
    memset(won, 0, sizeof won), memset(of_part, 0, sizeof of_part);
    by_graphs = graphs, together = otherwise = INFINITY;
    json_t *r = optimize(&mem, several, 0, in_company, 1e-3);
    assert_true(isfinite(together)); // the winners took part
    assert_true(fabs(number(r, "best", "us") * 1e-6 - otherwise) < 1e-12);
    assert_true(json_is_true(json_object_get(json_object_get(r, "certificate"), "equal")));
    const json_t *parts = json_object_get(r, "parts");
    assert_true(json_array_size(parts) > 1);
    const json_t *proof = json_object_get(json_object_get(r, "gpu"), "interpreter");
    const json_t *launches = json_object_get(json_object_get(r, "gpu"), "launches");
    assert_int_equal(json_integer_value(json_object_get(proof, "run")), json_array_size(launches)); // as they are in the whole
    json_decref(r);
    arena_close(&mem);
  }
}

// A search opens a session for the race of the part operator by operator. The first batch of the part before is compiled then.
static void kernels_are_compiled_while_the_next_part_is_searched(void **state)
{
  (void)state;
  struct arena mem = {0};
  if (thinned(2) > 1) skip();
  json_t *r = optimize(&mem, several, 0, made_up, 1e-3);
  const json_t *parts = json_object_get(r, "parts");
  int own = 0;
  for (size_t i = 0; i < json_array_size(parts); i++) own += !json_object_get(json_array_get(parts, i), "same_as");
  assert_true(own > 1);
  assert_int_equal(seen.beside, own - 1);
  assert_int_equal(seen.compiling, 0);
  json_decref(r);
  arena_close(&mem);
}

static const char four[] = "program four() {\n X: f16[16, 64]\n W: f16[64, 32]\n V: f16[32, 128]\n"
                           " A = softmax(matmul(softmax(X, dim=1), W), dim=1)\n return softmax(matmul(A, V), dim=1)\n}\n";

// Many threads compile batches of several parts at once. The result is the same.
static void batches_of_several_parts_are_compiled_at_once(void **state)
{
  (void)state;
  struct arena mem = {0};
  if (thinned(2) > 1) skip();
  json_t *few = optimize(&mem, four, 0, made_up, 1e-3);
  assert_int_equal(seen.most, 2); // that of a part, and of the part before
  pretended_threads = 16;
  json_t *many = optimize(&mem, four, 0, made_up, 1e-3);
  pretended_threads = 2;
  assert_true(seen.most > 2 && !seen.compiling && !seen.candidates);
  assert_true(fabs(number(few, "best", "us") - number(many, "best", "us")) < 1e-9);
  json_decref(few), json_decref(many);
  arena_close(&mem);
}

static double faster_than_the_model(const struct device_program *d) { return d->cost / 2; }

// A part has the race beside its search, its first batch and its finals, and no other.
static void parts_without_an_expected_gain_are_not_raced_further(void **state)
{
  (void)state;
  struct arena mem = {0};
  int more = 0;
  json_decref(optimize(&mem, several, 0, faster_than_the_model, 1e-3));
  const int sessions = seen.sessions; // the last one is the whole's
  assert_true(sessions > 2);
  for (int s = 1; s < sessions; s++) {
    int n = 0;
    for (int b = 0; b < MIN(seen.batches, (int)COUNT(seen.of)); b++) n += seen.of[b] == s;
    assert_int_equal(n, 3);
  }
  arena_close(&mem);
  if (thinned(2) > 1) return;
  json_decref(optimize(&mem, several, 0, made_up, 1e-3));
  for (int b = 0; b < MIN(seen.batches, (int)COUNT(seen.of)); b++) more += seen.of[b] < seen.sessions;
  assert_true(more > 3 * (sessions - 1));
  arena_close(&mem);
}

static const char devices[] = "program devices() {\n world 2\n X: f16[64, 256] shard(0)\n W: f16[256, 128]\n"
                              " return softmax(all_gather(matmul(softmax(X, dim=1), W), 0), dim=1)\n}\n";
static bool several_ranks; // some race was of a program of several devices

static double of_parts(const struct device_program *d)
{
  several_ranks |= d->g->world > 1 || seen.reference->world > 1;
  return made_up(d);
}

// One GPU does not run all ranks: the parts are raced, and the whole is put together of their winners.
static void ranks_are_raced_by_parts(void **state)
{
  (void)state;
  struct arena mem = {0};
  several_ranks = false;
  json_t *r = optimize(&mem, devices, 0, of_parts, 1e-3);
  const json_t *gpu = json_object_get(r, "gpu"), *launches = json_object_get(gpu, "launches");
  assert_true(seen.races > 0 && !several_ranks);
  assert_non_null(strstr(json_string_value(json_object_get(gpu, "unmeasured")), "a race uses one GPU"));
  int meetings = 0;
  for (size_t i = 0; i < json_array_size(launches); i++)
    meetings += !strcmp(json_string_value(json_object_get(json_array_get(launches, i), "how")), "ranks");
  assert_int_equal(meetings, 1);
  json_decref(r);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_whole_is_raced_too), cmocka_unit_test(kernels_are_compiled_while_the_next_part_is_searched),
                                     cmocka_unit_test(batches_of_several_parts_are_compiled_at_once),
                                     cmocka_unit_test(parts_without_an_expected_gain_are_not_raced_further),
                                     cmocka_unit_test(ranks_are_raced_by_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
