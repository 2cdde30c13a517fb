// Ranks of a world as threads. Their results together equal the program of all ranks. Errors of the shared memory are tested: wrong names, programs
// and ranks, and missing ranks.
// test: timeout 300
// test: quick sanitized
// test: threads call candidates
#include "front/front.h"
#include "rt/rt.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct graph *parse(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  if (front_parse(mem, text, strlen(text), "p", 0, NULL, &g, &e)) fail_msg("%s: %s", text, e.text);
  if (graph_expand(mem, g, true, &g, &e)) fail_msg("%s", e.text);
  return g;
}

static struct module *build(struct arena *mem, const struct graph *g)
{
  const struct target t = {.name = "cpu", .cores = 2, .lanes = 16};
  struct err e = {0};
  struct str s = {0};
  struct graph *all;
  struct module *m = NULL;
  if (graph_unfold(mem, g, &all, &e) || gen_c(all, "p", &t, &s, NULL, NULL, &e)) fail_msg("%s", e.text);
  if (g->world > 1 && gen_c_ranks(g, "p", &t, &s, &e)) fail_msg("%s", e.text);
  if (module_build(s.p, "p", &m, &e)) fail_msg("%s", e.text);
  str_free(&s);
  return m;
}

static struct module *built(const char *text)
{
  struct arena mem = {0};
  struct module *m = build(&mem, parse(&mem, text));
  arena_close(&mem);
  return m;
}

// ---- what ranks compute ----

static const struct {
  const char *inputs, *results;
  bool rounds; // a sum of all ranks is rounded once, and in the program of all ranks after each addition
} rows[] = {
    {"A: f32[8, 16] shard(0)", "all_reduce(A)"},
    {"A: f32[8, 16] shard(1)", "all_reduce(exp(A)), all_gather(A, 0), all_gather(A, 1)"},
    {"A: f32[8, 16] shard(0)\n B: f32[16, 8]", "shard(matmul(A, B), 0), B, all_reduce(matmul(A, B))"},
    {"A: f32[8, 16] shard(1)\n B: f32[16, 24] shard(0)", "all_reduce(matmul(A, B)), shard(transpose(A), 0), shard(A, 1)"},
    {"A: f32[8, 16]", "shard(reduce_scatter(A * 2, 0), 0), all_gather(reduce_scatter(A, 1), 1)"},
    {"A: f32[3, 8, 5] shard(1)", "shard(reduce_scatter(all_gather(A, 1), 1), 1), all_reduce(sum(A, 1))"},
    {"A: f16[8, 16] shard(0)", "all_reduce(A), shard(A + A, 1)", true},
    {"A: bf16[8, 16] shard(0)", "all_reduce(A), all_gather(A, 1)", true},
    {"A: f8e4m3[8, 16] shard(0)", "all_gather(A, 0), shard(A, 0)"},
    {"A: i32[8, 16] < 100 shard(0)\n B: i32[8] < 5", "all_reduce(A), all_gather(A, 0), all_reduce(B)"},
    {"A: f32[8, 16] shard(0)\n T: i32[4] < 8", "all_gather(A, 0)[T], shard(A, 0)"},
    {"A: f32[8] shard(0)", "shard(A * A, 0)"},
    {"A: f32[8, 16]", "all_reduce(all_reduce(A)), A * 3"},
    {"A: f32[8, 16]\n B: f32[8, 16] shard(0)", "A, shard(B, 0), A"},
    {"A: f32[1, 16] shard(1)\n T: i32[1] < 6\n K: f32[6, 16] shard(1) state\n K[T] = A * 2", "all_reduce(sum(K, 1)), shard(K * 1, 1)"},
    {"A: f32[8, 1, 4] shard(0)\n T: i32[1] < 6\n K: f32[8, 6, 4] shard(0) state\n K[:, T] = A\n V: f32[6, 4] state\n V[T] = all_reduce(sum(A, 0))[0]",
     "all_gather(matmul(K, transpose(K)), 0), V * 2"},
    {"A: f32[8, 40] shard(1)", "all_gather(softmax(all_reduce(A), 1), 0), shard(rms_norm(A), 1)"},
};

static const char *program(struct arena *mem, int ranks, int row)
{
  return arena_printf(mem, "program p {\n world %d\n %s\n return %s\n}", ranks, rows[row].inputs, rows[row].results);
}

static void one_row(int ranks, int row)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = parse(&mem, program(&mem, ranks, row)), *all;
  struct module *m = build(&mem, g);
  struct buffers *b;
  double rel = 0;
  assert_int_equal(graph_unfold(&mem, g, &all, &e), OK);
  assert_true(module_exchange(m) >= M_EXCHANGE);
  assert_int_equal(module_world(m), ranks);
  assert_int_equal(buffers_open(all, 7, &b, &e), OK);
  void **out = NEWS(&mem, void *, b->nout);
  int *outs = NEWS(&mem, int, b->nout);
  graph_outputs(all, outs);
  for (int i = 0; i < b->nout; i++) out[i] = arena_alloc(&mem, b->out_bytes[i]), memset(out[i], 0x55, b->out_bytes[i]);
  assert_int_equal(module_call(m, b->in, b->out), 0);
  for (int turn = 0; turn < 3; turn++) {
    assert_int_equal(module_call_ranks(m, ranks_form_of(&mem, g), b->in, out), 0);
    for (int i = 0; i < b->nout && !rows[row].rounds; i++)
      if (memcmp(out[i], b->out[i], b->out_bytes[i]) != 0) {
        const float *x = out[i], *y = b->out[i]; // products may add up in another order
        assert_int_equal(all->tensors[outs[i]].dtype, F32);
        for (size_t k = 0; k < b->out_bytes[i] / 4; k++)
          if (!(fabsf(x[k] - y[k]) <= 1e-4F * (1 + fabsf(y[k])))) fail_msg("row %d of %d ranks: result %d differs", row, ranks, i);
      }
  }
  buffers_close(b);
  module_as_ranks(m, ranks_form_of(&mem, g));
  if (check_numeric(m, all, 3, 2, NULL, &rel, &e)) fail_msg("row %d of %d ranks: %s", row, ranks, e.text);
  module_close(m);
  arena_close(&mem);
}

static void ranks_compute_the_program(void **state)
{
  (void)state;
  for (int row = 0; row < (int)COUNT(rows); row++) one_row(2, row);
  for (int row = 0; row < (int)COUNT(rows); row += 3) one_row(4, row), one_row(8, row);
}

static void other_programs_have_no_ranks(void **state)
{
  (void)state;
  struct module *m = built("program p { A: f32[8]\n return A * 2 }");
  assert_int_equal(module_exchange(m), 0);
  assert_int_equal(module_world(m), 1);
  module_close(m);
}

static void parts_of_tensors(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = parse(&mem, "program p {\n world 2\n A: f32[2, 4, 3] shard(1)\n B: f16[5]\n return shard(A * 1, 2), B\n}");
  const struct ranks_form *f = ranks_form_of(&mem, g);
  float whole[24], part[12], back[24] = {0};
  assert_int_equal(f->ranks, 2);
  assert_int_equal(f->nin + f->nout, 4);
  assert_true(f->in[0].divided && f->in[0].outer == 2 && f->in[0].inner == 24);
  assert_true(!f->in[1].divided && f->in[1].outer * f->in[1].inner == 10);
  assert_true(f->out[0].divided && f->out[0].outer == 4 && f->out[0].inner == 12); // [2, 2, 6]: each rank has [2, 2, 3]
  for (int i = 0; i < 24; i++) whole[i] = (float)i;
  for (int r = 0; r < 2; r++) {
    ranks_part(&f->in[0], 2, r, whole, part, false);
    assert_true(part[0] == 6.0F * (float)r && part[6] == 12.0F + 6.0F * (float)r);
    ranks_part(&f->in[0], 2, r, back, part, true);
  }
  assert_memory_equal(whole, back, sizeof whole);
  arena_close(&mem);
}

// One graph for the verifier must be one result: a kernel that computes with its rank is found.
static void different_bits_are_told(void **state)
{
  (void)state;
  static const char wrong[] = "#include <stddef.h>\nstruct m_exchange;\n"
                              "int mica_p(void *const *in, void *const *out, void *w) { return 0; }\nsize_t mica_p_workspace(void) { return 0; }\n"
                              "size_t mica_p_rank_workspace(void) { return 0; }\nsize_t mica_p_rank_exchange(void) { return 256; }\n"
                              "int mica_p_rank_world(void) { return 2; }\n"
                              "int mica_p_rank(int rank, void *const *in, void *const *out, void *w, struct m_exchange *x)\n"
                              "{ ((float *)out[0])[0] = (float)rank; return 0; }\n";
  struct err e = {0};
  struct module *m;
  struct ranks_tensor x = {.outer = 1, .inner = 4};
  const struct ranks_form f = {2, 0, 1, NULL, &x};
  float y = 0;
  assert_int_equal(module_build(wrong, "p", &m, &e), OK);
  assert_int_equal(module_call_ranks(m, &f, NULL, (void *[]){&y}), EBADMSG);
  assert_int_equal(module_failed(EBADMSG, "p", &e), NO);
  assert_non_null(strstr(e.text, "results of different bits"));
  module_close(m);
}

// ---- the exchange ----

static const char sums[] = "program p {\n world 2\n A: f32[8] shard(0)\n return all_reduce(A)\n}";

static struct exchange_worlds here;

static struct exchange_wish wish(const char *name, int rank, double seconds)
{
  return (struct exchange_wish){.name = name, .here = &here, .rank = rank, .ranks = 2, .key = 42, .bytes = 4096, .seconds = seconds};
}

static void refused(const struct exchange_wish *w, enum errid id, const char *says)
{
  struct err e = {0};
  struct exchange *x = NULL;
  assert_int_not_equal(exchange_open(w, &x, &e), OK);
  assert_null(x);
  assert_int_equal(e.id, id);
  if (!strstr(e.text, says)) fail_msg("%s", e.text);
}

static void names_that_are_none(void **state)
{
  (void)state;
  static const char *const names[] = {"", "a/b", "../x", "a b", "\xc3\xa4", "%s"};
  char longest[200];
  memset(longest, 'a', sizeof longest), longest[sizeof longest - 1] = 0;
  for (size_t i = 0; i < COUNT(names); i++) {
    const struct exchange_wish w = wish(names[i], 0, 0.05);
    refused(&w, ERR_OPTION, "is no name of a world");
  }
  const struct exchange_wish w = wish(longest, 0, 0.05);
  refused(&w, ERR_OPTION, "is no name of a world");
}

static const char *own_name(struct arena *mem, const char *what) { return arena_printf(mem, "test-%d-%s", (int)getpid(), what); }

static void a_rank_that_does_not_come(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct exchange_wish first = wish(own_name(&mem, "lonely"), 0, 0.05), second = wish(own_name(&mem, "late"), 1, 0.05);
  refused(&first, ERR_WORLD, "rank 1 of the world");
  refused(&second, ERR_WORLD, "rank 0 of the world");
  refused(&first, ERR_WORLD, "rank 1 of the world"); // the first attempt left nothing
  arena_close(&mem);
}

// Opens a rank in a process of its own and ends with 0 where that went as wanted.
static pid_t process(const struct exchange_wish *w, const char *error)
{
  pid_t pid = fork();
  if (pid) return pid;
  struct err e = {0};
  struct exchange *x = NULL;
  int status = exchange_open(w, &x, &e);
  bool good = error ? status != OK && strstr(e.text, error) : status == OK;
  if (status == OK) good = good && m_meet(exchange_memory(x), w->rank) == 0 && m_meet(exchange_memory(x), w->rank) == 0;
  exchange_close(x);
  _exit(good ? 0 : 1);
}

static void ended_well(pid_t pid)
{
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void processes(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct exchange_wish w[2] = {wish(own_name(&mem, "both"), 0, 30), wish(own_name(&mem, "both"), 1, 30)};
  for (int turn = 0; turn < 3; turn++) { // the same name again and again
    const pid_t a = process(&w[turn % 2], NULL), b = process(&w[1 - turn % 2], NULL);
    ended_well(a), ended_well(b);
  }
  w[1].key = 43;
  const pid_t a = process(&w[0], "different programs"), b = process(&w[1], "another program than rank 0");
  ended_well(a), ended_well(b);
  arena_close(&mem);
}

// An object that a process left which is gone is replaced.
static void leftovers(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *name = own_name(&mem, "left");
  struct exchange_wish w[2] = {wish(name, 0, 30), wish(name, 1, 30)};
  const pid_t gone = fork();
  if (!gone) {
    struct exchange *x;
    struct err e = {0};
    alarm(1); // it is killed while it waits
    exchange_open(&w[0], &x, &e);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(gone, &status, 0), gone);
  assert_true(WIFSIGNALED(status));
  const pid_t b = process(&w[1], NULL), a = process(&w[0], NULL);
  ended_well(a), ended_well(b);
  arena_close(&mem);
}

// Until rank 0 has made it, with a limit that only a hang reaches.
static void wait_for_object(const char *name)
{
  char path[200];
  snprintf(path, sizeof path, "/mica-%u-%s", (unsigned)geteuid(), name);
  for (int i = 0; i < 30000; i++, usleep(1000)) {
    int fd = shm_open(path, O_RDWR, 0);
    if (fd < 0) continue;
    const struct m_exchange *x = mmap(NULL, M_EXCHANGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const bool there = x != MAP_FAILED && __atomic_load_n(&x->magic, __ATOMIC_ACQUIRE);
    if (x != MAP_FAILED) munmap((void *)x, M_EXCHANGE);
    close(fd);
    if (there) return;
  }
  fail_msg("rank 0 does not come");
}

// Several processes open rank 0 at the same time, and an object of an earlier process exists. One process gets the rank, and the others get an error.
static void all_at_once(void **state)
{
  (void)state;
  enum { TURNS = 30, SAME = 4 };
  struct arena mem = {0};
  for (int turn = 0; turn < TURNS; turn++) {
    const char *name = own_name(&mem, arena_printf(&mem, "race%d", turn)), *path = arena_printf(&mem, "/mica-%u-%s", (unsigned)geteuid(), name);
    const struct exchange_wish w[2] = {wish(name, 0, 30), wish(name, 1, 30)};
    pid_t pid;
    int began[2], status;
    const int left = shm_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(left >= 0 && !ftruncate(left, 4096) && !close(left) && !pipe(began));
    for (int i = 0; i < SAME; i++)
      if (!(pid = fork())) {
        struct exchange *x;
        struct err e = {0};
        char go;
        close(began[1]);
        if (read(began[0], &go, 1)) _exit(9); // until all are there
        if (exchange_open(&w[0], &x, &e) != OK) _exit(strstr(e.text, "is open already") ? 2 : 3);
        _exit(m_meet(exchange_memory(x), 0) || m_meet(exchange_memory(x), 0) ? 4 : 1);
      }
    close(began[1]), close(began[0]);
    for (int i = 0; i <= SAME; i++) { // the one that has it waits for rank 1
      if (i == SAME - 1) pid = process(&w[1], NULL);
      const pid_t ended = waitpid(i < SAME - 1 ? -1 : i == SAME - 1 ? pid : -1, &status, 0);
      assert_true(ended > 0 && WIFEXITED(status));
      if (WEXITSTATUS(status) != (i < SAME - 1 ? 2 : i == SAME - 1 ? 0 : 1))
        fail_msg("turn %d: process %d ended with %d", turn, i, WEXITSTATUS(status));
    }
  }
  arena_close(&mem);
}

static void two_of_one_rank(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *name = own_name(&mem, "twice");
  const struct exchange_wish w = wish(name, 0, 30), other = wish(name, 1, 30);
  const pid_t a = process(&w, NULL);
  wait_for_object(name);
  refused(&w, ERR_WORLD, "rank 0 of this world is open already");
  const pid_t b = process(&other, NULL);
  ended_well(a), ended_well(b);
  arena_close(&mem);
}

static void worlds_of_this_process(void **state)
{
  (void)state;
  struct exchange *x, *y, *z;
  struct err e = {0};
  const struct exchange_wish own = wish(NULL, 0, 1), peer = wish(NULL, 1, 1);
  assert_int_equal(exchange_open(&own, &x, &e), OK);
  assert_int_equal(exchange_open(&own, &y, &e), OK); // of a second world
  assert_ptr_not_equal(exchange_memory(x), exchange_memory(y));
  assert_int_equal(exchange_open(&peer, &z, &e), OK);
  assert_true(exchange_memory(z) == exchange_memory(x) || exchange_memory(z) == exchange_memory(y));
  exchange_close(x), exchange_close(y), exchange_close(z);
  assert_null(here.first);
}

// Two ranks come to each meeting about when the patience of the first ends. It ends in the same way for both.
enum { CLOSE_CALLS = 3000, CLOSE_PATIENCE = 100000 };
struct close_call {
  struct m_exchange *x; // of all turns
  pthread_barrier_t *begin;
  int rank, status[CLOSE_CALLS];
};

static void *come_late(void *arg)
{
  struct close_call *c = arg;
  for (int i = 0; i < CLOSE_CALLS; i++) {
    pthread_barrier_wait(c->begin);
    const uint64_t until = m_nanoseconds() + (c->rank ? CLOSE_PATIENCE - 5000 + (uint64_t)(i % 200) * 50 : 0);
    while (m_nanoseconds() < until) continue;
    c->status[i] = m_meet(&c->x[i], c->rank);
  }
  return NULL;
}

static void meetings_end_alike(void **state)
{
  (void)state;
  static struct m_exchange x[CLOSE_CALLS];
  static struct close_call c[2];
  pthread_t thread[2];
  pthread_barrier_t begin;
  for (int i = 0; i < CLOSE_CALLS; i++) x[i] = (struct m_exchange){.patience = CLOSE_PATIENCE, .ranks = 2};
  pthread_barrier_init(&begin, NULL, 2);
  for (int r = 0; r < 2; r++) c[r] = (struct close_call){.x = x, .begin = &begin, .rank = r};
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&thread[r], NULL, come_late, &c[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
  int met = 0;
  for (int i = 0; i < CLOSE_CALLS; i++) {
    if (!c[0].status[i] != !c[1].status[i]) fail_msg("turn %d: rank 0 %d, rank 1 %d", i, c[0].status[i], c[1].status[i]);
    met += !c[0].status[i];
  }
  assert_true(met > 0);
  pthread_barrier_destroy(&begin);
}

// Objects of another user, which only root can make.
static void objects_of_others(void **state)
{
  (void)state;
  struct arena mem = {0};
  if (geteuid()) skip();
  for (int rank = 0; rank < 2; rank++) {
    const char *name = own_name(&mem, "others"), *path = arena_printf(&mem, "/mica-%u-%s", (unsigned)geteuid(), name);
    const struct exchange_wish w = wish(name, rank, 1);
    const int fd = shm_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && !ftruncate(fd, 4096) && !fchown(fd, 1, 1));
    refused(&w, ERR_FILE, "it is another user's");
    assert_true(!close(fd) && !shm_unlink(path)); // it is there
  }
  arena_close(&mem);
}

static void calls_that_wait_in_vain(void **state)
{
  (void)state;
  struct module *m = built(sums);
  struct err e = {0};
  struct exchange *x, *y;
  float in[4] = {1, 2, 3, 4}, out[4];
  struct exchange_wish w[2] = {wish(NULL, 0, 0.05), wish(NULL, 1, 0.05)};
  for (int i = 0; i < 2; i++) w[i].bytes = module_exchange(m);
  assert_int_equal(exchange_open(&w[0], &x, &e), OK);
  assert_int_equal(exchange_open(&w[1], &y, &e), OK);
  int status = module_call_rank(m, 0, exchange_memory(x), (void *[]){in}, (void *[]){out});
  assert_int_equal(status, ETIMEDOUT);
  assert_int_equal(exchange_failed(x, status, &e), USER);
  if (!strstr(e.text, "rank 1 did not reach the collective operation within 0.05 seconds")) fail_msg("%s", e.text);
  assert_int_equal(module_call_rank(m, 1, exchange_memory(y), (void *[]){in}, (void *[]){out}), ECANCELED); // and so it stays
  exchange_close(x), exchange_close(y);
  e = (struct err){0};
  assert_int_equal(exchange_open(&w[0], &x, &e), OK);
  assert_int_equal(exchange_open(&w[1], &y, &e), OK);
  exchange_close(y);
  status = module_call_rank(m, 0, exchange_memory(x), (void *[]){in}, (void *[]){out});
  assert_int_equal(status, ECANCELED);
  exchange_failed(x, status, &e);
  if (!strstr(e.text, "was closed before the call of rank 0 ended")) fail_msg("%s", e.text);
  exchange_close(x);
  module_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_compute_the_program),
      cmocka_unit_test(other_programs_have_no_ranks),
      cmocka_unit_test(parts_of_tensors),
      cmocka_unit_test(different_bits_are_told),
      cmocka_unit_test(names_that_are_none),
      cmocka_unit_test(a_rank_that_does_not_come),
      cmocka_unit_test(processes),
      cmocka_unit_test(leftovers),
      cmocka_unit_test(all_at_once),
      cmocka_unit_test(two_of_one_rank),
      cmocka_unit_test(meetings_end_alike),
      cmocka_unit_test(objects_of_others),
      cmocka_unit_test(calls_that_wait_in_vain),
      cmocka_unit_test(worlds_of_this_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
