// Two processes with the same MICA_GPU_LOCK: the second waits until the first releases the lock, or until it is stopped.
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int *shared; // 0; 1: the first has its turn; 2: it is about to give it

static void first(void)
{
  struct gpu_turn t;
  turn_take(&t, NULL);
  __atomic_store_n(shared, 1, __ATOMIC_SEQ_CST);
  usleep(100000);
  __atomic_store_n(shared, 2, __ATOMIC_SEQ_CST);
  turn_give(&t);
  _exit(0);
}

static void *waits(void *none)
{
  struct gpu_turn t;
  turn_take(&t, NULL);
  turn_give(&t);
  return none;
}

static void one_after_the_other(void **state)
{
  (void)state;
  char lock[] = "/tmp/mica_turn_XXXXXX";
  struct gpu_turn t;
  int stop = 1, status;
  close(mkstemp(lock));
  setenv("MICA_GPU_LOCK", lock, 1);
  const pid_t child = fork();
  if (!child) first();
  while (!__atomic_load_n(shared, __ATOMIC_SEQ_CST)) usleep(1000);
  turn_take(&t, &stop); // does not wait
  turn_give(&t);
  const double before = turn_waited();
  turn_take(&t, NULL);
  assert_int_equal(__atomic_load_n(shared, __ATOMIC_SEQ_CST), 2);
  assert_true(turn_waited() - before > 0.01 && turn_waited() - before < 60);
  turn_give(&t);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  unlink(lock);
}

// The clock of a job stands still only while all of its threads wait.
static void work_goes_on(void **state)
{
  (void)state;
  static const struct {
    int working; // threads, with the one that waits
    bool stands;
  } rows[] = {{0, true}, {1, true}, {2, false}, {3, false}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    char lock[] = "/tmp/mica_turn_XXXXXX";
    struct gpu_turn mine;
    pthread_t other;
    close(mkstemp(lock));
    setenv("MICA_GPU_LOCK", lock, 1);
    turn_take(&mine, NULL);
    for (int k = 0; k < rows[i].working; k++) turn_work_begin();
    const double before = turn_waited();
    assert_int_equal(pthread_create(&other, NULL, waits, NULL), 0);
    for (int ms = 0; ms < (rows[i].stands ? 60000 : 50) && turn_waited() == before; ms++) usleep(1000);
    assert_true((turn_waited() > before) == rows[i].stands);
    turn_give(&mine);
    assert_int_equal(pthread_join(other, NULL), 0);
    for (int k = 0; k < rows[i].working; k++) turn_work_end();
    unlink(lock);
  }
}

static void without_a_lock(void **state)
{
  (void)state;
  struct gpu_turn t;
  unsetenv("MICA_GPU_LOCK");
  turn_take(&t, NULL);
  assert_int_equal(t.fd, -1);
  turn_give(&t);
  setenv("MICA_GPU_LOCK", "/nowhere/at/all", 1);
  turn_take(&t, NULL);
  assert_int_equal(t.fd, -1);
  turn_give(&t);
  const double waited = turn_waited();
  usleep(1000);
  assert_true(turn_waited() == waited); // nobody waits
}

int main(void)
{
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_the_other), cmocka_unit_test(work_goes_on), cmocka_unit_test(without_a_lock)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
