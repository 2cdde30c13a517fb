// test: quick release
// test: timeout 300
// Float64 references by GPU code. The text of each plain kernel is compiled for the CPU, and its results are compared with the CPU's reference. The test
// covers each operator, inputs of each dtype, and rounded or moved values. The referee must find a wrong kernel.
#include "graphs.h"
#include "gpu/plain.h"
#include "pretend.h"
#include "referenced.h"

static void evaluator(struct referenced *f, struct gpu_evaluator_opts *o)
{
  const struct gpu_worker_opts w = {.inside = true, .stage = pretend_stage()};
  assert_int_equal(gpu_worker_open(&w, &o->with, &f->e), OK);
  o->forge = f->forge;
  f->v = gpu_evaluator_open(o);
}

static void start(struct referenced *f, enum gpu_reference which)
{
  *f = (struct referenced){.forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &pretend_plain})};
  evaluator(f, &(struct gpu_evaluator_opts){.which = which});
}

static void end(struct referenced *f)
{
  gpu_evaluator_close(f->v);
  gpu_forge_close(f->forge);
  assert_int_equal(pretend.allocated, pretend.released);
  assert_int_equal(pretend.modules, 0);
  arena_close(&f->mem);
}

static void each_operator(void **state)
{
  (void)state;
  struct referenced f;
  start(&f, REFERENCE_GPU);
  const int graphs = referenced_operators(&f);
  assert_true(graphs >= 100);
  assert_true(gpu_evaluator_evidence(f.v).checked >= graphs);
  assert_int_equal(gpu_evaluator_evidence(f.v).differs, 0);
  end(&f);
}

static void each_dtype(void **state)
{
  (void)state;
  struct referenced f;
  start(&f, REFERENCE_GPU);
  referenced_dtypes(&f);
  end(&f);
}

static const char *const texts[] = {
    "program attention(n = 133) {\n Q: f16[2, 6, 3, 8]\n K: f16[2, 2, n, 8]\n k = repeat(K, dim=1, times=3)\n"
    " return matmul(softmax(matmul(Q, transpose(k)), dim=3), k)\n}\n",
    "program norm(n = 70) {\n X: bf16[4, n]\n W: bf16[n, 50]\n y = rms_norm(X)\n return silu(matmul(y, W)), y, X, y\n}\n",
    "program chosen(n = 70) {\n X: f32[4, n]\n v, i = topk(X, k=5, dim=1)\n return softmax(v, dim=1), i, cumsum(X, dim=1), argmax(X, dim=1)\n}\n",
    "program memory(n = 70) {\n X: f32[60, n]\n a = exp(X) * 2\n b = a + a\n c = sqrt(b) * 3\n d = sqrt(c) + c\n return softmax(X, dim=1) * sum(d, "
    "dim=1)\n}\n"};

static struct graph *program(struct referenced *f, const char *text)
{
  struct graph *g;
  if (graph_expand(&f->mem, graph_of(&f->mem, text), true, &g, &f->e)) fail_msg("%s", f->e.text);
  return g;
}

static void programs(void **state)
{
  (void)state;
  struct referenced f;
  start(&f, REFERENCE_GPU);
  for (size_t i = 0; i < COUNT(texts); i++) referenced_as_on_cpu(&f, program(&f, texts[i]), texts[i], false);
  end(&f);
}

// Ten values of a program need the memory of few.
static void memory_is_taken_again(void **state)
{
  (void)state;
  struct referenced f = {0};
  struct code c;
  const struct graph *g = program(&f, texts[3]);
  int64_t all = 0;
  for (int t = 0; t < g->ntensors; t++) all += 8 * shape_size(&g->tensors[t].shape);
  assert_int_equal(plain_code(&f.mem, g, PLAIN_AS_IT_IS, &c, &f.e), OK);
  assert_true(c.workspace > 0 && c.workspace < all / 2);
  arena_close(&f.mem);
}

// A result outside the range of its dtype is reported, and no output is compared.
static void range_is_told(void **state)
{
  (void)state;
  struct referenced f;
  struct buffers *b;
  struct reference64 r = {0};
  start(&f, REFERENCE_GPU);
  const struct graph *g = program(&f, "program large() {\n X: f16[9, 70]\n return exp(X * 100)\n}\n");
  assert_int_equal(buffers_open(g, 5, &b, &f.e), OK);
  struct referenced_reading reading = {.g = g, .b = b};
  const struct reference64_from from = {.read = referenced_read, .arg = &reading, .b = b, .in_range = true};
  graph_inputs(g, reading.ins);
  b->device = gpu_evaluator_device(f.v);
  assert_int_equal(reference64_run(&r, g, &from, &f.e), OK);
  assert_true(r.overflow && gpu_evaluator_evidence(f.v).computed == 1);
  reference64_close(&r), buffers_close(b);
  end(&f);
}

// Products along a dimension depend on the order of their factors, and small programs are not worth it: the CPU computes them.
static void some_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text, *why;
    enum gpu_reference which;
  } cases[] = {{"program p() {\n X: f32[9, 70]\n return prod(X, dim=1)\n}\n", "products along a dimension", REFERENCE_GPU},
               {"program p() {\n X: f32[9, 70]\n return exp(X)\n}\n", "it is small", REFERENCE_AUTO}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct referenced f;
    struct buffers *b;
    struct reference64 r = {0};
    start(&f, cases[i].which);
    const struct graph *g = program(&f, cases[i].text);
    assert_int_equal(buffers_open(g, 5, &b, &f.e), OK);
    struct referenced_reading reading = {.g = g, .b = b};
    const struct reference64_from from = {.read = referenced_read, .arg = &reading, .b = b, .in_range = true};
    graph_inputs(g, reading.ins);
    b->device = gpu_evaluator_device(f.v);
    assert_int_equal(reference64_run(&r, g, &from, &f.e), OK);
    const struct gpu_evidence seen = gpu_evaluator_evidence(f.v);
    assert_true(seen.refused == 1 && !seen.computed && strstr(seen.why, cases[i].why));
    reference64_close(&r), buffers_close(b);
    end(&f);
  }
}

// Another number in an output, as a faulty kernel leaves it, is seen, and the CPU's numbers count from then on.
static void a_wrong_kernel_is_seen(void **state)
{
  (void)state;
  struct referenced f;
  struct buffers *b;
  struct reference64 r = {0};
  start(&f, REFERENCE_GPU);
  const struct graph *g = program(&f, texts[1]);
  assert_int_equal(buffers_open(g, 5, &b, &f.e), OK);
  struct referenced_reading reading = {.g = g, .b = b};
  const struct reference64_from from = {.read = referenced_read, .arg = &reading, .b = b, .in_range = true};
  graph_inputs(g, reading.ins);
  b->device = gpu_evaluator_device(f.v);
  pretend.plain_off = 1e-6;
  assert_int_equal(reference64_run(&r, g, &from, &f.e), OK);
  struct gpu_evidence seen = gpu_evaluator_evidence(f.v);
  assert_true(seen.differs > 0 && !seen.computed && strstr(seen.why, "differ from the CPU's"));
  reference64_close(&r);
  pretend.plain_off = 0;
  assert_int_equal(reference64_run(&r, g, &from, &f.e), OK);
  assert_int_equal(gpu_evaluator_evidence(f.v).computed, 0);
  reference64_close(&r), buffers_close(b);
  end(&f);
}

struct asked { // a program and inputs, asked about more than once
  struct referenced f;
  const struct graph *g;
  struct buffers *b;
  struct referenced_reading reading;
  struct reference64_from from;
};

static void ask_about(struct asked *q, const char *text)
{
  start(&q->f, REFERENCE_GPU);
  q->g = program(&q->f, text);
  assert_int_equal(buffers_open(q->g, 5, &q->b, &q->f.e), OK);
  q->reading = (struct referenced_reading){.g = q->g, .b = q->b};
  q->from = (struct reference64_from){.read = referenced_read, .arg = &q->reading, .b = q->b};
  graph_inputs(q->g, q->reading.ins);
  q->b->device = gpu_evaluator_device(q->f.v);
}

static struct gpu_evidence ask(struct asked *q)
{
  struct reference64 r = {0};
  if (reference64_run(&r, q->g, &q->from, &q->f.e)) fail_msg("%s", q->f.e.text);
  reference64_close(&r);
  return gpu_evaluator_evidence(q->f.v);
}

static void end_of(struct asked *q)
{
  buffers_close(q->b);
  end(&q->f);
}

static const char far[] = "program far() {\n A: f32[512, 700]\n B: f32[700, 512]\n return sum(sum(matmul(A, B), dim=1), dim=0)\n}\n";

// An element that depends on all others is checked by way of checkpoints.
static void deep_programs_have_checkpoints(void **state)
{
  (void)state;
  struct asked q;
  ask_about(&q, far);
  const struct gpu_evidence seen = ask(&q);
  assert_true(seen.computed == 1 && seen.checked > 8 && !seen.differs);
  q.from.nudge = NUDGE_DOWN; // without checkpoints
  assert_int_equal(ask(&q).computed, 2);
  end_of(&q);
  ask_about(&q, far);
  pretend.plain_off = 1e-3;
  const struct gpu_evidence wrong = ask(&q);
  pretend.plain_off = 0;
  assert_true(wrong.differs > 0 && !wrong.computed);
  end_of(&q);
}

// One element takes the referee too many steps: neither the values nor moved ones are the GPU's, however often they are asked for.
static void unchecked_inputs_are_the_cpus(void **state)
{
  (void)state;
  struct asked q;
  ask_about(&q, far);
  gpu_evaluator_close(q.f.v);
  evaluator(&q.f, &(struct gpu_evaluator_opts){.which = REFERENCE_GPU, .steps = 100});
  q.b->device = gpu_evaluator_device(q.f.v);
  for (int i = 1; i <= 2; i++) {
    const struct gpu_evidence seen = ask(&q);
    assert_true(seen.refused == i && !seen.computed && !seen.checked && strstr(seen.why, "could check no element"));
  }
  q.from.nudge = NUDGE_DOWN;
  const struct gpu_evidence seen = ask(&q);
  assert_true(seen.refused == 3 && !seen.computed && strstr(seen.why, "its inputs were not checked"));
  end_of(&q);
}

static void inputs_are_checked_once(void **state)
{
  (void)state;
  struct asked q;
  ask_about(&q, texts[1]);
  q.from.rounds = true;
  assert_true(ask(&q).refused == 1);
  q.from.rounds = false;
  const struct gpu_evidence once = ask(&q);
  assert_true(once.computed == 1 && once.checked > 0);
  q.from.nudge = NUDGE_DOWN;
  ask(&q);
  q.from.nudge = NUDGE_NONE;
  const struct gpu_evidence seen = ask(&q);
  assert_true(seen.computed == 3 && seen.refused == 1 && seen.checked == once.checked);
  end_of(&q);
}

// A number that dwarfs all others does not hide itself.
static void a_huge_number_is_seen(void **state)
{
  (void)state;
  struct asked q;
  ask_about(&q, texts[1]);
  pretend.plain_off = 1e200;
  const struct gpu_evidence seen = ask(&q);
  pretend.plain_off = 0;
  assert_true(seen.differs > 0 && !seen.computed);
  end_of(&q);
}

// Memory of the device is given back, and what was checked stays so.
static void rest_gives_memory_back(void **state)
{
  (void)state;
  struct asked q = {0};
  for (int rests = 0; rests <= 1; rests++) {
    ask_about(&q, texts[1]);
    gpu_evaluator_close(q.f.v);
    evaluator(&q.f, &(struct gpu_evaluator_opts){.which = REFERENCE_GPU, .rest = rests});
    q.b->device = gpu_evaluator_device(q.f.v);
    ask(&q);
    const int held = pretend.allocated - pretend.released;
    gpu_evaluator_rest(q.f.v);
    const int left = pretend.allocated - pretend.released;
    assert_true(held > 0 && (rests ? left < held : left == held));
    q.from.rounds = true;
    assert_int_equal(ask(&q).computed, 2);
    end_of(&q);
  }
}

// A run that is stopped leaves nothing half made: the next one is the GPU's.
static void stopped_and_asked_again(void **state)
{
  (void)state;
  struct asked q;
  struct reference64 r = {0};
  int stop = 1;
  ask_about(&q, texts[1]);
  q.from.stop = &stop;
  assert_int_not_equal(reference64_run(&r, q.g, &q.from, &q.f.e), OK);
  assert_int_equal(q.f.e.id, ERR_STOPPED);
  reference64_close(&r);
  q.f.e = (struct err){0}, q.from.stop = NULL;
  assert_int_equal(ask(&q).computed, 1);
  end_of(&q);
}

static void names_are_read(void **state)
{
  (void)state;
  enum gpu_reference which;
  struct err e = {0};
  assert_true(gpu_reference_read("gpu", &which, &e) == OK && which == REFERENCE_GPU);
  assert_true(gpu_reference_read(NULL, &which, &e) == OK && which == REFERENCE_AUTO);
  assert_int_equal(gpu_reference_read("tpu", &which, &e), USER);
  assert_non_null(strstr(e.hint, "auto, cpu and gpu"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_operator),
      cmocka_unit_test(each_dtype),
      cmocka_unit_test(programs),
      cmocka_unit_test(memory_is_taken_again),
      cmocka_unit_test(range_is_told),
      cmocka_unit_test(some_are_refused),
      cmocka_unit_test(a_wrong_kernel_is_seen),
      cmocka_unit_test(deep_programs_have_checkpoints),
      cmocka_unit_test(unchecked_inputs_are_the_cpus),
      cmocka_unit_test(inputs_are_checked_once),
      cmocka_unit_test(a_huge_number_is_seen),
      cmocka_unit_test(rest_gives_memory_back),
      cmocka_unit_test(stopped_and_asked_again),
      cmocka_unit_test(names_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
