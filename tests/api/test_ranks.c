// Programs of several devices from the public interface: a module of whole tensors, ranks as threads and as processes, and what is refused.
// test: timeout 300
// test: quick sanitized
#include "saved.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, M = 8, N = 32, K = 64 };
static const char mlp[] = "program mlp {\n  world 4\n  X: f32[8, 32]\n  A: f32[32, 64] shard(1)\n  B: f32[64, 32] shard(0)\n"
                          "  H = relu(matmul(X, A))\n  return X + all_reduce(matmul(H, B)), shard(H, 1)\n}\n";

static float x[M * N], a[N * K], b[K * N], y[M * N], h[M * K]; // whole tensors, and what one device would compute

static void fill(void)
{
  for (int i = 0; i < M * N; i++) x[i] = sinf((float)i);
  for (int i = 0; i < N * K; i++) a[i] = cosf((float)i) / 8;
  for (int i = 0; i < K * N; i++) b[i] = sinf((float)i * 3) / 8;
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++) {
      double sum = 0;
      for (int j = 0; j < N; j++) sum += (double)x[i * N + j] * (double)a[j * K + k];
      h[i * K + k] = (float)fmax(sum, 0);
    }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = (double)x[i * N + j];
      for (int k = 0; k < K; k++) sum += (double)h[i * K + k] * (double)b[k * N + j];
      y[i * N + j] = (float)sum;
    }
}

static bool close_to(const float *have, const float *want, int n)
{
  for (int i = 0; i < n; i++)
    if (!(fabsf(have[i] - want[i]) < 1e-4F)) return false;
  return true;
}

static int save(void **state)
{
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = mica_options_default();
  if (folder_enter(state)) return 1;
  fill();
  o.remember = false, o.seconds = 0.02, o.measure = 1, o.threads = 2, o.disturbed = true, o.max_block_ops = 3, o.max_values = 200;
  if (mica_load_text(m, mlp, "mlp.mica", 0, NULL, &p)) fail_msg("%s", mica_error(m));
  assert_int_equal(mica_program_world(p), RANKS);
  assert_int_equal(mica_program_input_shard(p, 0), -1);
  assert_int_equal(mica_program_input_shard(p, 1), 1);
  assert_int_equal(mica_program_input_shard(p, 2), 0);
  assert_int_equal(mica_program_input_shard(p, 3), -1);
  assert_int_equal(mica_program_output_shard(p, 0), -1);
  assert_int_equal(mica_program_output_shard(p, 1), 1);
  assert_int_equal(mica_program_output(p, 1).shape[1], K);
  if (mica_optimize(m, p, &o, &r) || mica_report_save(m, r, in_folder("mlp"))) fail_msg("%s", mica_error(m));
  return mica_close(m), 0;
}

static struct mica_module *loaded(struct mica_context *m)
{
  struct mica_module *f;
  if (mica_module_load(m, in_folder("mlp"), &f)) fail_msg("%s", mica_error(m));
  return f;
}

static void whole_tensors(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *f = loaded(m);
  float have[M * N], mid[M * K];
  assert_int_equal(mica_module_world(f), RANKS);
  assert_int_equal(mica_module_input_shard(f, 1), 1);
  assert_int_equal(mica_module_output_shard(f, 1), 1);
  assert_int_equal(mica_module_output_shard(f, 2), -1);
  assert_int_equal(mica_module_call(f, (const void *[]){x, a, b}, (void *[]){have, mid}, NULL, NULL), MICA_OK);
  assert_true(close_to(have, y, M * N));
  assert_true(close_to(mid, h, M * K));
  mica_close(m);
}

struct caller {
  struct mica_module *f;
  int rank, status;
  float y[M * N];
};

// The rank's parts of the whole tensors, and its call, several times.
static void *call(void *arg)
{
  struct caller *c = arg;
  float own_a[N * K / RANKS], own_h[M * K / RANKS];
  const int part = K / RANKS;
  for (int i = 0; i < N; i++) memcpy(own_a + i * part, a + i * K + c->rank * part, sizeof(float) * part);
  for (int turn = 0; turn < 20 && !c->status; turn++) {
    c->status = mica_module_call(c->f, (const void *[]){x, own_a, b + c->rank * part * N}, (void *[]){c->y, own_h}, NULL, NULL);
    if (!c->status && !close_to(c->y, y, M * N)) c->status = -1;
    for (int i = 0; i < M && !c->status; i++)
      if (!close_to(own_h + i * part, h + i * K + c->rank * part, part)) c->status = -2;
  }
  return NULL;
}

static void a_thread_a_rank(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *f = loaded(m);
  struct caller c[RANKS] = {0};
  pthread_t t[RANKS];
  for (int r = 0; r < RANKS; r++) {
    c[r].rank = r;
    if (mica_module_rank(f, r, NULL, 30, &c[r].f)) fail_msg("%s", mica_error(m));
  }
  assert_int_equal(mica_module_world(c[1].f), RANKS);
  assert_int_equal(mica_module_input(c[1].f, 1).shape[1], K / RANKS);
  assert_int_equal(mica_module_input(c[1].f, 0).shape[1], N);
  assert_int_equal(mica_module_output(c[1].f, 1).shape[1], K / RANKS);
  assert_int_equal(mica_module_output(c[1].f, 0).shape[1], N);
  mica_module_close(f); // ranks do not need it
  for (int r = 0; r < RANKS; r++) assert_int_equal(pthread_create(&t[r], NULL, call, &c[r]), 0);
  for (int r = 0; r < RANKS; r++) assert_int_equal(pthread_join(t[r], NULL), 0);
  for (int r = 0; r < RANKS; r++) assert_int_equal(c[r].status, MICA_OK);
  for (int r = 1; r < RANKS; r++) assert_memory_equal(c[r].y, c[0].y, sizeof c[0].y);
  mica_close(m);
}

static int in_a_process(int rank, const char *name)
{
  struct mica_context *m = mica_open();
  struct caller c = {.rank = rank};
  if (mica_module_rank(loaded(m), rank, name, 60, &c.f)) return fputs(mica_error(m), stderr), 3;
  call(&c);
  return mica_close(m), c.status ? 4 : 0;
}

static void a_process_a_rank(void **state)
{
  (void)state;
  char name[40];
  pid_t pid[RANKS];
  snprintf(name, sizeof name, "test-%d-ranks", (int)getpid());
  for (int r = 0; r < RANKS; r++)
    if (!(pid[r] = fork())) _exit(in_a_process(r, name));
  for (int r = 0; r < RANKS; r++) {
    int status;
    assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
    assert_int_equal(status, 0);
  }
}

// ---- built by calls ----

static void no(struct mica_context *m, int status, const char *says)
{
  assert_int_equal(status, MICA_USER);
  if (!strstr(mica_error(m), says)) fail_msg("%s", mica_error(m));
}

static void built_by_calls(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  struct mica_program *p, *text;
  struct mica_tensor part;
  const char *json;
  int t[8];
  assert_int_equal(mica_graph_open(m, "mlp", &g), MICA_OK);
  no(m, mica_graph_world(g, 3), "a world of 3 devices");
  assert_int_equal(mica_graph_world(g, RANKS), MICA_OK);
  assert_int_equal(mica_graph_input(g, "X", MICA_F32, 2, (const int64_t[]){M, N}, &t[0]), MICA_OK);
  no(m, mica_graph_world(g, 2), "has an input or an operator already");
  assert_int_equal(mica_graph_input(g, "A", MICA_F32, 2, (const int64_t[]){N, K}, &t[1]), MICA_OK);
  assert_int_equal(mica_graph_input(g, "B", MICA_F32, 2, (const int64_t[]){K, N}, &t[2]), MICA_OK);
  no(m, mica_graph_shard(g, t[1], 2), "shard(2) of a tensor of 2 dimensions");
  no(m, mica_graph_shard(g, 99, 0), "there is no tensor 99");
  assert_int_equal(mica_graph_shard(g, t[1], 1), MICA_OK);
  no(m, mica_graph_shard(g, t[1], 0), "is divided or used already");
  assert_int_equal(mica_graph_shard(g, t[2], -2), MICA_OK);
  assert_int_equal(mica_graph_tensor(g, t[1], &part), MICA_OK);
  assert_int_equal(part.shape[1], K / RANKS);
  assert_int_equal(mica_graph_op(g, "matmul", 2, (const int[]){t[0], t[1]}, NULL, &t[3], NULL), MICA_OK);
  no(m, mica_graph_shard(g, t[0], 0), "is divided or used already");
  no(m, mica_graph_shard(g, t[3], 0), "is no input");
  assert_int_equal(mica_graph_op(g, "relu", 1, &t[3], NULL, &t[3], NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "matmul", 2, (const int[]){t[3], t[2]}, NULL, &t[4], NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "all_reduce", 1, &t[4], NULL, &t[5], NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "add", 2, (const int[]){t[0], t[5]}, NULL, &t[6], NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "shard", 1, &t[3], "dim=1", &t[7], NULL), MICA_OK);
  assert_int_equal(mica_graph_output(g, t[6]), MICA_OK);
  assert_int_equal(mica_graph_output(g, t[7]), MICA_OK);
  assert_int_equal(mica_graph_program(g, &p), MICA_OK);
  assert_int_equal(mica_load_text(m, mlp, "mlp.mica", 0, NULL, &text), MICA_OK);
  assert_int_equal(mica_verify(m, p, text, 1, &json), MICA_OK);
  mica_close(m);
}

static void refused(struct mica_context *m, struct mica_module *f, int rank, const char *name, double seconds, const char *says)
{
  struct mica_module *r = f;
  assert_int_equal(mica_module_rank(f, rank, name, seconds, &r), MICA_USER);
  assert_null(r);
  if (!strstr(mica_error(m), says)) fail_msg("%s", mica_error(m));
}

static void what_is_no_rank(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *f = loaded(m), *r;
  refused(m, f, -1, NULL, 1, "has no rank -1");
  refused(m, f, RANKS, NULL, 1, "has no rank 4");
  refused(m, f, 0, NULL, -1, "cannot wait -1 seconds");
  refused(m, f, 0, NULL, NAN, "cannot wait nan seconds");
  refused(m, f, 0, "../x", 1, "is no name of a world");
  refused(m, f, 3, "test-nobody", 0.05, "rank 0 of the world `test-nobody` was not opened");
  assert_int_equal(mica_module_rank(f, 2, NULL, 0.05, &r), MICA_OK);
  refused(m, r, 2, NULL, 1, "is rank 2 already");
  float part[N * K], have[M * N], mid[M * K];
  assert_int_equal(mica_module_call(r, (const void *[]){x, NULL, part}, (void *[]){have, mid}, NULL, NULL), MICA_USER);
  assert_int_equal(mica_module_call(r, (const void *[]){x, part, part}, (void *[]){have, mid}, NULL, NULL), MICA_USER);
  if (!strstr(mica_error(m), "rank 0, 1, 3 did not reach the collective operation within 0.05 seconds")) fail_msg("%s", mica_error(m));
  mica_close(m);
}

// Files of a folder that say other things than the kernels.
static void folders_that_lie(void **state)
{
  (void)state;
  static const struct {
    const char *was, *now, *says;
  } lies[] = {
      {"\"shard\": 1", "\"shard\": 2", "`shard`"},
      {"\"shard\": 1", "\"shard\": -1", "`shard`"},
      {"\"shard\": 1", "\"shard\": \"x\"", "`shard`"},
      {"\"world\": 4", "\"world\": 0", "`world`"},
      {"\"world\": 4", "\"world\": 9", "`world`"},
      {"\"world\": 4", "\"world\": 3", "`shard`"},
      {"\"world\": 4", "\"world\": 2", "are not those of rank.json"},
      {"\"shard\": 1", "\"shard\": 0", "are not those of rank.json"},
      {", \"shard\": 1", "", "are not those of rank.json"},
  };
  for (size_t i = 0; i < COUNT(lies); i++) {
    struct mica_context *m = mica_open();
    struct mica_module *f = NULL;
    char from[512];
    snprintf(from, sizeof from, "%s", in_folder("mlp"));
    if (mica_folder_copy(m, from, in_folder("lie"))) fail_msg("%s", mica_error(m));
    replaced("lie/program.json", lies[i].was, lies[i].now);
    seal("lie");
    assert_int_equal(mica_module_load(m, in_folder("lie"), &f), MICA_USER);
    if (!strstr(mica_error(m), lies[i].says)) fail_msg("%s: %s", lies[i].now, mica_error(m));
    mica_close(m);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_tensors),   cmocka_unit_test(a_thread_a_rank),  cmocka_unit_test(a_process_a_rank),
      cmocka_unit_test(what_is_no_rank), cmocka_unit_test(folders_that_lie), cmocka_unit_test(built_by_calls),
  };
  return cmocka_run_group_tests(tests, save, folder_leave);
}
