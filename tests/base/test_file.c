// Files are written whole. The next write of a file removes the temporary file that a killed process left beside it, and nothing else.
#include "../folder.h"
#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

static const char *put(struct arena *mem, const char *name)
{
  const char *path = arena_printf(mem, "%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0 && write(fd, "half", 4) == 4);
  close(fd);
  return path;
}

static void what_was_left_is_removed(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const char *left = put(&mem, "a.json.0123456789abcdef.tmp"), *locked = put(&mem, "a.json.fedcba9876543210.tmp");
  static const char *const others[] = {"a.json.tmp", "a.json.0123.tmp", "b.json.0123456789abcdef.tmp", "a.json.0123456789abcdeg.tmp",
                                       "a.json.0123456789abcdef.tmp2"};
  for (size_t i = 0; i < COUNT(others); i++) put(&mem, others[i]);
  int writing = open(locked, O_RDONLY); // by another process
  assert_int_equal(flock(writing, LOCK_EX), 0);
  const char *path = arena_printf(&mem, "%s/a.json", folder);
  char *text;
  size_t n;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(file_write(path, "whole", 5, &e), OK);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(access(locked, F_OK), i ? -1 : 0);
    for (size_t k = 0; k < COUNT(others); k++) assert_int_equal(access(arena_printf(&mem, "%s/%s", folder, others[k]), F_OK), 0);
    assert_int_equal(file_read(&mem, path, &text, &n, &e), OK);
    assert_true(n == 5 && !memcmp(text, "whole", 5));
    close(writing), writing = -1;
  }
  assert_int_equal(chdir(folder), 0); // a name without a folder
  put(&mem, "a.json.0123456789abcdef.tmp");
  assert_int_equal(file_write("a.json", "other", 5, &e), OK);
  assert_int_equal(access(left, F_OK), -1);
  assert_int_equal(chdir("/"), 0);
  arena_close(&mem);
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const char *path = arena_printf(&mem, "%s/taken", folder);
  assert_int_equal(file_mkdirs(path, &e), OK);
  assert_int_equal(file_write(path, "x", 1, &e), ENV);
  assert_non_null(strstr(e.text, "taken"));
  int others = 0;
  DIR *d = opendir(folder);
  for (const struct dirent *x; (x = readdir(d));) others += !strncmp(x->d_name, "taken.", 6);
  closedir(d);
  assert_int_equal(others, 0);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_left_is_removed), cmocka_unit_test(what_cannot_be_written_leaves_nothing)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
