// Calls of compiled kernels that do not end: a stop leaves them, and what they use lives until they end, also where it is closed before. The clock of
// the day does not matter.
#include "rt/rt.h"
#include "../graphs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The clock of the day is set back by an hour after it was read: who waits until then by that clock waits an hour longer.
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
  int s = __real_clock_gettime(clock, t);
  if (clock == CLOCK_REALTIME) t->tv_sec += 3600;
  return s;
}

// The kernel finds the address of this in its input. It ends when it may, having read and written its buffers once more.
struct word {
  atomic_int began, may_end, ended;
  int stop;
};
static const char code[] = "#include <stdatomic.h>\n#include <stddef.h>\n#include <string.h>\n#include <unistd.h>\n"
                           "struct word { atomic_int began, may_end, ended; int stop; };\n"
                           "size_t mica_p_workspace(void) { return 4096; }\n"
                           "int mica_p(void *const *in, void *const *out, void *w) { struct word *x; memcpy(&x, in[0], sizeof x);\n"
                           "x->began++; while (!x->may_end) usleep(1000);\n"
                           "memcpy(out[0], in[0], 64); memset(w, 1, 4096); x->ended++; return 0; }\n";

struct fixture {
  struct arena mem;
  struct module *m;
  struct buffers *b;
  struct word *word;
};

static void start(struct fixture *f)
{
  struct err e = {0};
  memset(f, 0, sizeof *f);
  f->word = calloc(1, sizeof *f->word);
  if (module_build(code, "p", &f->m, &e)) fail_msg("%s", e.text);
  if (buffers_open(graph_of(&f->mem, "program p { X: f32[4, 8]\n return X * 2 }"), 1, &f->b, &e)) fail_msg("%s", e.text);
  memcpy(f->b->in[0], &f->word, sizeof f->word);
}

static void *stop_when_begun(void *arg)
{
  struct word *w = arg;
  while (!w->began) usleep(1000);
  __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void wait_for(atomic_int *x, int value)
{
  while (*x < value) usleep(1000);
}

static void a_stop_leaves_a_call(void **state)
{
  (void)state;
  for (int closes = 0; closes < 2; closes++) {
    struct fixture f;
    struct err e = {0};
    struct timing t;
    pthread_t other;
    start(&f);
    struct gauge *g = gauge_open();
    pthread_create(&other, NULL, stop_when_begun, f.word);
    assert_int_equal(measure(&f.m, 1, f.b, 0.01, &f.word->stop, g, &t, &e), ENV);
    assert_int_equal(e.id, ERR_STOPPED);
    pthread_join(other, NULL);
    assert_int_equal(f.word->ended, 0);
    const volatile int go = 0; // nothing else calls it meanwhile
    e = (struct err){0};
    assert_int_equal(caller_once(f.m, f.b, &go, &e), ENV);
    assert_int_equal(f.word->began, 1);
    if (closes) module_close(f.m), buffers_close(f.b);
    f.word->may_end = 1;
    wait_for(&f.word->ended, 1);
    if (!closes) {
      e = (struct err){0};
      while (caller_once(f.m, f.b, &go, &e)) usleep(1000); // its thread has not said so yet
      assert_int_equal(f.word->ended, 2);
      module_close(f.m), buffers_close(f.b);
    }
    gauge_close(g);
    free(f.word);
    arena_close(&f.mem);
  }
}

static void a_stop_before_a_call(void **state)
{
  (void)state;
  struct fixture f;
  struct err e = {0};
  start(&f);
  f.word->stop = 1;
  assert_int_equal(caller_once(f.m, f.b, &f.word->stop, &e), ENV);
  assert_int_equal(f.word->began, 0);
  module_close(f.m), buffers_close(f.b);
  free(f.word);
  arena_close(&f.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_stop_leaves_a_call), cmocka_unit_test(a_stop_before_a_call)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
