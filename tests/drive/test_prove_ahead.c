// test: quick release
// Near the end of its time a job proves the leaders of several parts at the same time. The GPU, the clock of turns and the interpreter are simulated: the
// time jumps to the end when all parts are measured, and a proof waits for another one.
#include "pretended_gpu.h"
#include "sim/device_proof.h"

static const char two[] = "program two() {\n X: f16[16, 64]\n W: f16[64, 32]\n return softmax(matmul(softmax(X, dim=1), W), dim=1)\n}\n";
static const char large[] = "program large() {\n X: f32[65536, 16384]\n return relu(X)\n}\n"; // its results take too long to check
enum { PARTS = 2, MOST = 64, ALL = 600, HURRY = 590 };                                        // the last two are seconds

static _Atomic double jump; // seconds that the clock is ahead; read by the thread of the clock
double turn_waited(void) { return -jump; }
double turn_clock(void) { return now_seconds() + jump; }
void turn_work_begin(void) {}
void turn_work_end(void) {}
void turn_take(struct gpu_turn *t, stop_flag stop) { (void)t, (void)stop; }
void turn_give(struct gpu_turn *t) { (void)t; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int n, in, together; // proofs; those under way, the most of them
  const struct lower_unit *of[MOST];
  bool refuses, refused;
  double work; // of each proof; one that is not begun has no entry
  double start;
  int parts;
  const struct graph *part[MOST];
} told;

double device_proof_work(const struct lower_plan *p, const struct choice *pick) { return (void)p, (void)pick, told.work; }

// The first proof under way at the end of the time waits for a second one.
int device_prove(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int only, uint64_t seed, int threads, stop_flag stop,
                 struct device_proof *out, const char **why, struct err *e)
{
  (void)mem, (void)pick, (void)only, (void)seed, (void)threads, (void)stop, (void)e;
  *out = (struct device_proof){.kernels = p->nunits, .run = p->nunits, .note = ""};
  pthread_mutex_lock(&lock);
  const bool first = jump > 0 && !told.n, no = told.refuses && first;
  told.of[told.n++] = p->unit, told.in++, told.together = MAX(told.together, told.in);
  assert_true(told.n < MOST);
  told.refused |= no;
  pthread_mutex_unlock(&lock);
  for (int ms = 0; first && ms < 20000; ms++) {
    pthread_mutex_lock(&lock);
    const bool alone = told.together < 2;
    pthread_mutex_unlock(&lock);
    if (!alone) break;
    usleep(1000);
  }
  pthread_mutex_lock(&lock);
  told.in--;
  pthread_mutex_unlock(&lock);
  return no ? *why = "planted", NO : OK;
}

static double until_all_are_measured(const struct device_program *d)
{
  int k = 0;
  while (k < told.parts && told.part[k] != seen.reference) k++;
  told.part[k] = seen.reference, told.parts = MAX(told.parts, k + 1);
  if (told.parts == PARTS && !jump) jump = HURRY - (now_seconds() - told.start);
  return made_up(d);
}

static json_t *optimize_in_time(struct arena *mem)
{
  jump = 0;
  told.n = told.together = told.parts = 0, told.refused = false, told.start = now_seconds();
  most_time = ALL;
  return optimize(mem, two, 0, until_all_are_measured, 1e-3);
}

// text: of the report, or NULL. The next test begins without a wrong proof, and proofs that take no time.
static void end(struct arena *mem, json_t *r, char *text)
{
  mem_free(text);
  json_decref(r);
  arena_close(mem);
  told.refuses = false, told.work = 0;
}

static void leaders_are_proved_together(void **state)
{
  (void)state;
  struct arena mem = {0};
  json_t *r = optimize_in_time(&mem);
  assert_true(jump > 0);
  assert_true(told.together >= 2);
  for (int i = 0; i < told.n; i++) // nothing is proved twice
    for (int k = 0; k < i; k++) assert_ptr_not_equal(told.of[i], told.of[k]);
  assert_true(json_is_true(json_object_get(json_object_get(r, "certificate"), "equal")));
  end(&mem, r, NULL);
}

// A leader whose kernel is wrong is dropped, and another candidate takes its place.
static void a_wrong_leader_is_dropped(void **state)
{
  (void)state;
  struct arena mem = {0};
  told.refuses = true;
  json_t *r = optimize_in_time(&mem);
  char *text = json_dumps(r, 0);
  assert_true(told.refused);
  assert_non_null(strstr(text, "interpreter: planted"));
  end(&mem, r, text);
}

// A proof that takes longer than the remaining time is not begun. Its candidates are neither wrong nor proved, and the program is op-by-op.
static void a_proof_without_time_is_not_begun(void **state)
{
  (void)state;
  struct arena mem = {0};
  told.work = 1e8 * ALL; // at the usual speed
  json_t *r = optimize_in_time(&mem);
  char *text = json_dumps(r, 0);
  const char *left = json_string_value(json_object_get(r, "left"));
  assert_true(jump > 0);
  assert_int_equal(told.n, 0);
  if (!strstr(left, "not proved for lack of time")) fail_msg("%s", left);
  if (!strstr(text, "not checked: its proof in the interpreter takes about 6e+02 s, and ")) fail_msg("%s", text);
  assert_null(strstr(text, "interpreter: "));
  end(&mem, r, text);
}

// If nothing is measured, the model chooses. Without time for a proof the result is op-by-op, and nothing is wrong.
static void nothing_is_proved_without_time(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *r = NULL;
  bool recalled;
  jump = 0;
  told.n = 0, told.work = 1e8 * ALL;
  o.target = "sm_90a", o.remember = false, o.threads = 2, o.time = 10;
  const int status = pipe_optimize(&mem, graph_of(&mem, large), &o, &r, &recalled, &e);
  char *text = r ? json_dumps(r, 0) : NULL;
  assert_int_equal(told.n, 0);
  if (status != OK || !text || strstr(text, "interpreter: ")) fail_msg("%s%s", e.text, text ? text : "");
  if (!strstr(text, "is too short to check") || !json_is_true(json_object_get(r, "stopped"))) fail_msg("%s", text);
  const char *left = json_string_value(json_object_get(r, "left"));
  if (!strstr(left, "operator by operator was not checked: its proof in the interpreter takes about 6e+02 s, and ")) fail_msg("%s", left);
  end(&mem, r, text);
}

// The measured speed counts, once a proof took long enough.
static void proofs_tell_how_long_others_take(void **state)
{
  (void)state;
  struct job j = {0};
  assert_true(proof_seconds(&j, 2e8) == 2);
  proof_took(&j, 1e6, 1); // too little work
  assert_true(proof_seconds(&j, 2e8) == 2);
  proof_took(&j, 1e8, 0.25);
  proof_took(&j, 3e8, 0.75);
  assert_true(proof_seconds(&j, 2e8) == 0.5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(leaders_are_proved_together), cmocka_unit_test(a_wrong_leader_is_dropped),
                                     cmocka_unit_test(a_proof_without_time_is_not_begun), cmocka_unit_test(nothing_is_proved_without_time),
                                     cmocka_unit_test(proofs_tell_how_long_others_take)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
