// A job whose kernels do not end: the user's stop must end the job. The test's compiler compiles op-by-op unchanged, but replaces every kernel of a
// block graph by one that sleeps for longer than the test may take.
// test: release
#include "../graphs.h"
#include "drive/drive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char compiler[] = "#!/bin/bash\n"
                               "[ \"$1\" = --version ] && exec cc --version\n"
                               "for a; do [ \"${a##*/}\" != kernel.c ] || source=$a; done\n"
                               "if grep -q '= block(' \"$source\"; then\n"
                               "  sed -i -e '1i #include <fcntl.h>\\n#include <unistd.h>' -e '/^int mica_.*outputs, void \\*workspace)$/,/^{/ s|^{|"
                               "{ close(open(\"'$CALLED'\", O_CREAT \\| O_WRONLY, 0600)); sleep(1000);|' \"$source\"\n"
                               "fi\n"
                               "exec cc \"$@\"\n";

struct user {
  char called[300];
  atomic_bool over; // the job has ended
  int stop;
};

static void *stop_when_called(void *arg)
{
  struct user *u = arg;
  while (access(u->called, F_OK) && !u->over) usleep(5000);
  __atomic_store_n(&u->stop, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void a_stop_ends_the_job(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct user u = {0};
  struct err e = {0};
  pthread_t thread;
  json_t *r = NULL;
  bool recalled;
  char folder[] = "/tmp/mica-hang-XXXXXX", cc[300];
  assert_non_null(mkdtemp(folder));
  snprintf(cc, sizeof cc, "%s/cc", folder), snprintf(u.called, sizeof u.called, "%s/called", folder);
  assert_int_equal(file_write(cc, compiler, strlen(compiler), &e), OK);
  assert_int_equal(chmod(cc, 0700), 0);
  setenv("CC", cc, 1), setenv("CALLED", u.called, 1);
  pthread_create(&thread, NULL, stop_when_called, &u);
  struct mica_options o = mica_options_default();
  o.remember = false, o.threads = 2, o.measure = 1, o.seconds = 0.1, o.stop = &u.stop;
  int status = pipe_optimize(&mem, graph_of(&mem, "program soft() {\n X: f32[64, 256]\n return softmax(X, dim=1)\n}\n"), &o, &r, &recalled, &e);
  assert_int_equal(access(u.called, F_OK), 0);
  u.over = true;
  pthread_join(thread, NULL);
  if (status == OK) assert_true(json_is_true(json_object_get(r, "stopped")));
  if (status != OK && (status != ENV || e.id != ERR_STOPPED)) fail_msg("%s", e.text); // on a slow machine op-by-op is not checked by then
  json_decref(r);
  unlink(cc), unlink(u.called), rmdir(folder);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_stop_ends_the_job)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
