// A forked child calls modules that its parent called before. The child does not have the parent's OpenMP threads.
#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 1000, LONGEST = 60 }; // seconds, which only a call that waits for ever reaches

static const char code[] = "#include <stddef.h>\n"
                           "size_t mica_p_workspace(void) { return 64; }\n"
                           "int mica_p(void *const *in, void *const *out, void *w)\n"
                           "{\n"
                           "  const float *x = in[0];\n"
                           "  float *y = out[0];\n"
                           "  (void)w;\n"
                           "#pragma omp parallel for num_threads(2) schedule(static)\n"
                           "  for (int i = 0; i < 1000; i++) y[i] = x[i] + 1;\n"
                           "  return 0;\n"
                           "}\n";

static bool adds_one(struct module *m)
{
  float x[N], y[N] = {0};
  for (int i = 0; i < N; i++) x[i] = (float)i;
  if (module_call(m, (void *const[]){x}, (void *const[]){y})) return false;
  for (int i = 0; i < N; i++)
    if (y[i] != x[i] + 1) return false;
  return true;
}

static int in_child(struct module *m)
{
  const pid_t pid = fork();
  if (!pid) {
    alarm(LONGEST);
    _exit(adds_one(m) && adds_one(m) ? 7 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_child_calls_what_its_parent_called(void **state)
{
  (void)state;
  struct err e = {0};
  struct module *m = NULL;
#ifdef __SANITIZE_THREAD__
  skip(); // which ends a child of fork that starts a thread
#endif
  if (module_build(code, "p", &m, &e)) fail_msg("%s", e.text);
  assert_int_equal(in_child(m), 7);
  assert_true(adds_one(m));
  assert_int_equal(in_child(m), 7);
  assert_true(adds_one(m));
  module_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_calls_what_its_parent_called)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
