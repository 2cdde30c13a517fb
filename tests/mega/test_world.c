// A world of 1, 2, 4 and 8 ranks: plans are proved, threads make the tokens of one device in float64, planted mistakes of each rule between
// ranks are found by the check that the row names, and a rank that waits for ever ends all.
// test: quick sanitized
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LLAMA "examples/mega/tiny_world.json"
#define QWEN3 "tests/mega/world_qwen3.json"

static struct mega_sizes sizes_of(int world, int rows, int workers, int64_t context, int steps)
{
  struct mega_sizes s = mega_tiny(rows, workers, context, steps);
  s.world = world;
  return s;
}

// The tokens of the same model on one device.
static int32_t *want_of(struct megas *x, const char *file, const struct mega_sizes *given, uint64_t seed)
{
  struct mega_sizes s = *given;
  struct mega_model *whole;
  struct mega_config *config;
  float **first;
  int32_t *want;
  char path[300];
  s.world = 1;
  snprintf(path, sizeof path, "%s/%s", MICA_SOURCE_DIR, file);
  assert_int_equal(mega_load(&x->mem, path, &s, &whole, &config, &x->err), OK);
  assert_int_equal(mega_values_make(&x->mem, whole, seed, &first, &x->err), OK);
  assert_int_equal(mega_reference(&x->mem, config, whole, first, s.steps, &want, &x->err), OK);
  return want;
}

// ---- tokens ----

static const struct world_row {
  const char *file;
  int world, rows, workers;
  int64_t context;
  int steps;
  uint64_t seed;
} rows[] = {
    {LLAMA, 1, 1, 3, 0, 12, 1}, {LLAMA, 2, 1, 3, 0, 12, 1}, {LLAMA, 4, 3, 2, 70, 6, 2},
    {LLAMA, 8, 1, 2, 9, 12, 3}, {LLAMA, 2, 12, 3, 5, 6, 4}, // too many rows for tagged data of one rank: words between ranks, counters and flags within
    {QWEN3, 2, 1, 5, 62, 8, 5}, {QWEN3, 4, 2, 3, 0, 8, 6},  {QWEN3, 4, 9, 2, 3, 5, 7},
};

static void one_row(const struct world_row *r)
{
  struct megas x;
  struct mega_sizes s = sizes_of(r->world, r->rows, r->workers, r->context, r->steps);
  struct mega_answer a = {0};
  struct mega_proof proof;
  float **first;
  mega_open(&x, r->file, &s);
  int status = mega_prove(x.p, &proof, &x.err);
  if (status == OK) status = mega_values_make(&x.mem, x.m, r->seed, &first, &x.err);
  if (status == OK) status = mega_run(&x.mem, x.p, first, r->steps, 60, &a, &x.err);
  if (status != OK) fail_msg("%s, world %d: %s", r->file, r->world, x.err.text);
  assert_memory_equal(a.tokens, want_of(&x, r->file, &s, r->seed), sizeof *a.tokens * (size_t)(r->rows * r->steps));
  mega_close(&x);
}

static void tokens_of_all_worlds(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) one_row(&rows[i]);
}

// Every element of a whole tensor belongs to as many ranks as have it: one, or all.
static void parts_make_the_whole(void **state)
{
  struct megas x;
  struct mega_sizes s = sizes_of(4, 1, 3, 5, 4);
  int split = 0;
  (void)state;
  mega_open(&x, LLAMA, &s);
  for (int t = 0; t < x.m->ntensors; t++) {
    struct mega_tensor whole;
    mega_whole(x.m, &x.m->tensor[t], &whole);
    int *times = NEWS(&x.mem, int, mega_elements(&whole));
    for (int r = 0; r < 4; r++)
      for (int64_t i = 0; i < mega_elements(&x.m->tensor[t]); i++) times[mega_whole_at(x.m, &x.m->tensor[t], r, i)]++;
    for (int64_t i = 0; i < mega_elements(&whole); i++) assert_int_equal(times[i], x.m->tensor[t].shard.n ? 1 : 4);
    split += x.m->tensor[t].shard.n > 0;
  }
  assert_int_equal(split, 7);
  mega_close(&x);
}

// ---- planted mistakes ----

static int node(const struct mega_plan *p, const char *op, int layer)
{
  for (int n = 0; n < p->nnodes; n++)
    if (!strcmp(mega_op_of(p, n)->name, op) && p->node[n].layer == layer) return n;
  fail();
  return -1;
}
static struct mega_held *held(struct mega_plan *p, const char *tensor) { return &p->held[mega_tensor_find(p->m, tensor)]; }

// Waits of a node for another, and the events that nobody waits for then.
static void lose_waits(struct mega_plan *p, bool (*lost)(const struct mega_plan *p, const struct mega_wait *x, int of, int from), int of, int from)
{
  int n = 0;
  for (int i = 0; i < p->nwaits; i++)
    if (!lost(p, &p->wait[i], of, from)) p->wait[n++] = p->wait[i];
  p->nwaits = n;
  for (int e = p->nevents - 1; e >= 0; e--) {
    bool used = false;
    for (int i = 0; i < p->nwaits; i++) used |= p->wait[i].event == e;
    if (used) continue;
    memmove(&p->event[e], &p->event[e + 1], sizeof *p->event * (size_t)(p->nevents - e - 1));
    p->nevents--;
    for (int i = 0; i < p->nwaits; i++) p->wait[i].event -= p->wait[i].event > e;
  }
}

static bool between(const struct mega_plan *p, const struct mega_wait *x, int of, int from)
{
  return x->node == of && p->event[x->event].node == from;
}
static bool for_reuse(const struct mega_plan *p, const struct mega_wait *x, int of, int from)
{
  (void)from;
  return x->node == of && p->event[x->event].reuse;
}
static void lose(struct mega_plan *p, const char *op, int layer, const char *from, int from_layer)
{
  lose_waits(p, between, node(p, op, layer), node(p, from, from_layer));
}

static struct mega_event *of_shared(struct mega_plan *p, const char *tensor)
{
  for (int e = 0; e < p->nevents; e++)
    if (p->event[e].tensor == mega_tensor_find(p->m, tensor) && !p->event[e].reuse) return &p->event[e];
  fail();
  return NULL;
}

#define PLANT(name) static void name(struct mega_plan *p)
PLANT(slot_missing) { p->world.push[1][0] = false; }
PLANT(own_slot_missing) { p->world.push[1][1] = false; }
PLANT(other_order) { p->world.order[1][0] = 1, p->world.order[1][1] = 0; }
PLANT(slot_added_twice)
{
  for (int r = 0; r < MEGA_MOST_WORLD; r++) p->world.order[r][1] = 0;
}
PLANT(order_of_no_rank)
{
  for (int r = 0; r < MEGA_MOST_WORLD; r++) p->world.order[r][1] = 200;
}
PLANT(abort_missing) { p->world.stop[0][1] = false; }
PLANT(begin_missing) { p->world.begin[1][0] = false; }
PLANT(end_missing) { p->world.end[0][1] = false; }
PLANT(other_world) { p->world.n = 3; }
PLANT(shared_without_epochs) { held(p, "o_parts")->tagged = false, held(p, "o_parts")->load = MEGA_LOAD_PLAIN; }
PLANT(never_taken) { lose(p, "down_sum", 1, "down", 1); }
PLANT(one_tile_never_taken)
{
  struct mega_event *ev = of_shared(p, "down_parts");
  ev->span[ev->nspans - 1].hi--, ev->count--;
}
PLANT(own_slot_awaited_alone) { of_shared(p, "o_parts")->ranks = 1; }
PLANT(tokens_of_own_rank_alone) { of_shared(p, "best")->ranks = 1; }
PLANT(local_awaited_of_all) { of_shared(p, "inner")->ranks = p->world.n; }
PLANT(stale_slot) // the parts of the layer before
{
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node == node(p, "o_sum", 1) && p->event[p->wait[i].event].node == node(p, "o", 1)) p->wait[i].write = 0;
}
PLANT(torn_between_ranks) { p->whole_words = false; }
PLANT(too_few_versions_of_slots) { held(p, "o_parts")->versions = 1; }
PLANT(too_few_versions_of_down) { held(p, "down_parts")->versions = 1; }
PLANT(no_release_on_the_way) // tagged words alone lead from the readers to the writer
{
  for (int i = 0; i < p->nevents; i++)
    if (p->event[i].reuse) p->event[i].release = false;
}
PLANT(cycle_between_pipelines)
{
  int a = node(p, "gate_up", 0), b = node(p, "down", 0);
  p->pipe[a] = b, p->pipe[b] = a;
}
PLANT(sum_before_its_slots) { lose(p, "gate_up", 1, "o_sum", 1); }
PLANT(counter_before_the_exchange_lost) { lose_waits(p, for_reuse, node(p, "part", 5), -1); } // readers on other ranks are ordered by it, and h too

static const struct planted {
  const char *name;
  void (*plant)(struct mega_plan *p);
  enum mega_check check;
  const char *says, *file;
} mistakes[] = {
#define ROW(name, check, says) {#name, name, MEGA_CHECK_##check, says, LLAMA},
    ROW(slot_missing, WORLD, "rank 1 writes no slots on rank 0")                       //
    ROW(own_slot_missing, WORLD, "rank 1 writes no slots on rank 1")                   //
    ROW(other_order, WORLD, "so results differ")                                       //
    ROW(slot_added_twice, WORLD, "adds the slot of rank 0 2 times")                    //
    ROW(order_of_no_rank, WORLD, "adds the slot of rank 1 0 times")                    //
    ROW(abort_missing, WORLD, "a fault of rank 0 does not stop rank 1")                //
    ROW(begin_missing, WORLD, "rank 1 does not tell rank 0 its epoch")                 //
    ROW(end_missing, WORLD, "rank 0 does not tell rank 1 that it has ended")           //
    ROW(other_world, WORLD, "the plan is of 3 ranks")                                  //
    ROW(shared_without_epochs, WORLD, "o_parts is shared, but its words")              //
    ROW(never_taken, WORLD, "writes down_parts on all ranks, but none waits")          //
    ROW(one_tile_never_taken, WORLD, "writes down_parts on all ranks, but none")       //
    ROW(own_slot_awaited_alone, COUNTS, "it is awaited from 1 ranks, but 2 publish")   //
    ROW(tokens_of_own_rank_alone, COUNTS, "it is awaited from 1 ranks, but 2 publish") //
    ROW(local_awaited_of_all, COUNTS, "it is awaited from 2 ranks, but 1 publish")     //
    ROW(stale_slot, EPOCHS, "waits for write 0 of o_parts")                            //
    ROW(torn_between_ranks, WORDS, "may tear")                                         //
    ROW(too_few_versions_of_slots, REUSE, "of o_sum[0] reads it on another rank")      //
    ROW(too_few_versions_of_down, REUSE, "of down_sum[0] reads it on another rank")    //
    ROW(no_release_on_the_way, REUSE, "overwrites")                                    //
    ROW(cycle_between_pipelines, DEADLOCK, "waits for")                                //
    ROW(sum_before_its_slots, ORDER, "gate_up[1]")                                     //
#undef ROW
    {"counter_before_the_exchange_lost", counter_before_the_exchange_lost, MEGA_CHECK_REUSE, "overwrites", "tests/mega/world_chain.mega"},
};

static bool found(const struct planted *x)
{
  struct megas m;
  struct mega_proof proof;
  struct mega_sizes s = sizes_of(2, 1, 3, strcmp(x->file, LLAMA) ? -1 : 5, 4);
  mega_open(&m, x->file, &s);
  if (mega_prove(m.p, &proof, &m.err) != OK) fail_msg("%s", m.err.text);
  x->plant(m.p);
  int status = mega_prove(m.p, &proof, &m.err);
  bool right = status == NO && proof.fault[0].check == x->check && strstr(proof.fault[0].text, x->says);
  if (!right)
    print_error("%s: wanted %s, `%s`; got %s: %s\n", x->name, mega_checks[x->check].name, x->says,
                status == NO ? mega_checks[proof.fault[0].check].name : "no fault", status == NO ? proof.fault[0].text : "");
  mega_close(&m);
  return right;
}

static void mistakes_between_ranks_are_found(void **state)
{
  int missed = 0;
  (void)state;
  for (size_t i = 0; i < COUNT(mistakes); i++) missed += !found(&mistakes[i]);
  assert_int_equal(missed, 0);
}

// ---- runs ----

// Without the proof a run finds it: all ranks end, and the next run is right.
static void hangs(void (*plant)(struct mega_plan *p), const char *says)
{
  struct megas x;
  struct mega_sizes s = sizes_of(4, 1, 2, 3, 4);
  struct mega_answer a;
  float **first;
  mega_open(&x, LLAMA, &s);
  struct mega_world whole = x.p->world;
  assert_int_equal(mega_values_make(&x.mem, x.m, 9, &first, &x.err), OK);
  plant(x.p);
  assert_int_equal(mega_run(&x.mem, x.p, first, s.steps, 0.3, &a, &x.err), NO);
  assert_int_equal(x.err.id, ERR_HUNG);
  if (!strstr(a.record, says)) fail_msg("%s: no `%s`", a.record, says);
  x.p->world = whole, x.err = (struct err){0};
  assert_int_equal(mega_run(&x.mem, x.p, first, s.steps, 60, &a, &x.err), OK);
  assert_memory_equal(a.tokens, want_of(&x, LLAMA, &s, 9), sizeof *a.tokens * (size_t)s.steps);
  mega_close(&x);
}

static void a_rank_that_hangs_ends_all(void **state)
{
  (void)state;
  hangs(slot_missing, "rank 0, worker");
  hangs(begin_missing, "the beginning of rank 1");
  hangs(end_missing, "the end of rank 0");
}

// ---- what is refused ----

static void refused(const char *file, struct mega_sizes s, const char *says)
{
  struct arena mem = {0};
  struct err e = {0};
  struct mega_model *m;
  struct mega_config *config;
  char path[300];
  snprintf(path, sizeof path, "%s/%s", MICA_SOURCE_DIR, file);
  assert_int_equal(mega_load(&mem, path, &s, &m, &config, &e), USER);
  if (!strstr(e.text, says)) fail_msg("%s: no `%s`", e.text, says);
  arena_close(&mem);
}

static void text_refused(const char *text, const char *says)
{
  struct arena mem = {0};
  struct err e = {0};
  struct mega_model *m;
  struct mega_sizes s = {.context = -1};
  assert_int_equal(mega_parse(&mem, text, strlen(text), "a.mega", &s, &m, &e), USER);
  if (!strstr(e.text, says)) fail_msg("%s: no `%s`", e.text, says);
  arena_close(&mem);
}

static void worlds_that_do_not_fit(void **state)
{
  struct mega_sizes served = sizes_of(2, 1, 3, -1, 4);
  served.pages = 9;
  (void)state;
  refused("examples/mega/tiny_llama.json", sizes_of(4, 1, 3, 5, 4), "num_key_value_heads, which is 2; vocab_size, which is 101");
  refused(LLAMA, sizes_of(3, 1, 3, 5, 4), "a world of 3 does not divide num_key_value_heads, which is 8");
  refused(LLAMA, sizes_of(9, 1, 3, 5, 4), "1 to 8 are supported");
  refused(LLAMA, served, "--pages needs one GPU");
  refused("examples/mega/mlp.mega", sizes_of(2, 0, 0, -1, 4), "the text is for a world of 1");
#define HEAD "mega m() {\n  world 2\n  x: f32[1, 8] state\n  w: f32[8, 8] weights\n"
  text_refused("mega m() {\n  world 9\n", "9 is not an integer from 1 to 8");
  text_refused("mega m() {\n  x: f32[1, 8] state\n  world 2\n", "must come before all tensors");
  text_refused(HEAD "  y: f32[1, 8] state shared\n", "only 32-bit activations");
  text_refused(HEAD "  y: f32[1, 8] weights split 2\n", "there is no dimension 2");
  text_refused(HEAD "  y: f32[1, 8] weights split 1 by 3, 4\n", "do not add up to dimension 1");
  text_refused(HEAD "  y: f32[1, 8] weights split 1 by 1, 1, 3, 3\n", "at most 3 sections");
  text_refused(HEAD "  y: f32[8, 8] weights split 0 like w\n", "not a tensor that this tensor can be");
  text_refused(HEAD
               "  y: f32[1, 8] activation shared\n  z: f32[1, 8] output\n  operator a {\n    layer silu_mul\n    reads y, y\n    writes z\n  }\n}\n",
               "silu_mul takes no slots");
}

static void a_text_of_a_world_reads_back(void **state)
{
  struct megas x;
  struct mega_sizes s = sizes_of(4, 2, 3, 7, 4), as_stated = {.context = -1};
  struct mega_model *again;
  struct mega_plan *plan;
  struct mega_proof proof;
  struct str first = {0}, second = {0};
  (void)state;
  mega_open(&x, LLAMA, &s);
  mega_print(x.m, x.p, &first);
  int status = mega_parse(&x.mem, str_text(&first), first.n, "again.mega", &as_stated, &again, &x.err);
  if (status == OK) status = mega_plan_make(&x.mem, again, &plan, &x.err);
  if (status == OK) status = mega_prove(plan, &proof, &x.err);
  if (status != OK) fail_msg("%s", x.err.text);
  mega_print(again, plan, &second);
  assert_string_equal(str_text(&first), str_text(&second));
  assert_int_equal(again->world, 4);
  str_free(&first), str_free(&second);
  mega_close(&x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_of_all_worlds),       cmocka_unit_test(parts_make_the_whole),   cmocka_unit_test(mistakes_between_ranks_are_found),
      cmocka_unit_test(a_rank_that_hangs_ends_all), cmocka_unit_test(worlds_that_do_not_fit), cmocka_unit_test(a_text_of_a_world_reads_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
