// Saved folders are replaced as a whole. If a save fails or is killed at any step, the older folder or the new one remains. The next save removes all
// other files. Concurrent saves and reads see complete folders. The linker replaces the steps' system calls by functions of this file.
// test: quick sanitized
#include "export/folder.h"
#include "drive/drive.h"
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// ---- steps that go wrong ----

static int steps, wrong_at; // of this save; which one goes wrong, 0: none
static int wrong_errno;     // 0: the process is killed there
static bool no_exchange;    // the file system has no such renaming
static bool counting;

static bool wrong(void)
{
  if (!counting || ++steps != wrong_at) return false;
  if (!wrong_errno) kill(getpid(), SIGKILL);
  return errno = wrong_errno, true;
}

int __real_mkdirat(int at, const char *name, mode_t mode);
int __wrap_mkdirat(int at, const char *name, mode_t mode) { return wrong() ? -1 : __real_mkdirat(at, name, mode); }
int __real_openat(int at, const char *name, int how, ...);
int __wrap_openat(int at, const char *name, int how, ...)
{
  va_list ap;
  va_start(ap, how);
  const mode_t mode = how & O_CREAT ? va_arg(ap, mode_t) : 0;
  va_end(ap);
  return wrong() ? -1 : __real_openat(at, name, how, mode);
}
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n) { return wrong() ? -1 : __real_write(fd, p, counting ? MIN(n, 3) : n); }
int __wrap_fsync(int fd) { return (void)fd, wrong() ? -1 : 0; } // no machine is switched off here
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode) { return wrong() ? -1 : __real_fchmod(fd, mode); }
int __real_linkat(int a, const char *from, int b, const char *to, int how);
int __wrap_linkat(int a, const char *from, int b, const char *to, int how) { return wrong() ? -1 : __real_linkat(a, from, b, to, how); }
int __real_unlinkat(int at, const char *name, int how);
int __wrap_unlinkat(int at, const char *name, int how) { return wrong() ? -1 : __real_unlinkat(at, name, how); }
static void (*before_lock)(void); // another process acts between an opening and its lock
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
  if (before_lock) before_lock();
  return __real_flock(fd, how);
}
int __real_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to) { return wrong() ? -1 : __real_renameat(a, from, b, to); }
int __real_renameat2(int a, const char *from, int b, const char *to, unsigned how);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned how)
{
  if (no_exchange && how) return errno = EINVAL, -1;
  return wrong() ? -1 : __real_renameat2(a, from, b, to, how);
}

// ---- what is saved ----

static const char *in(struct arena *mem, const char *name) { return arena_printf(mem, "%s/%s", folder, name); }

// Version `v`: its files have names and texts by it.
static int save(const char *path, int v, struct err *e)
{
  struct arena mem = {0};
  const char *text = arena_printf(&mem, "version %d", v);
  const struct folder_file file[] = {{"a", text, strlen(text)}, {"b", text, strlen(text)}, {arena_printf(&mem, "only_%d", v), text, strlen(text)}};
  const int status = folder_write(&mem, path, &(struct folder_files){COUNT(file), file}, e);
  return arena_close(&mem), status;
}

// The version of a whole folder; -1: none is there. Returns a complaint, or NULL. Readers in threads call it too, so nothing fails in it.
static const char *look(const char *path, int *v)
{
  static _Thread_local char text[sizeof(((struct err *)0)->text)];
  struct arena mem = {0};
  struct folder_files f;
  struct err e = {0};
  const char *wrong = NULL;
  *v = -1;
  if (folder_read(&mem, path, &f, &e) == OK) {
    bool same = f.n == 3 && sscanf(f.file[0].bytes, "version %d", v) == 1 && !strcmp(f.file[2].name, arena_printf(&mem, "only_%d", *v));
    for (int i = 0; i < 3 && same; i++) same = !strcmp(f.file[i].bytes, f.file[0].bytes);
    if (!same) wrong = "files of several versions";
  } else if (e.id != ERR_FILE)
    snprintf(text, sizeof text, "%s", e.text), wrong = text;
  return arena_close(&mem), wrong;
}

static int version(const char *path)
{
  int v;
  const char *wrong = look(path, &v);
  if (wrong) fail_msg("%s", wrong);
  return v;
}

static void saves(const char *path, int v)
{
  struct err e = {0};
  if (save(path, v, &e) != OK) fail_msg("%s", e.text);
  assert_int_equal(version(path), v);
}

static int entries(const char *path)
{
  int n = 0;
  DIR *d = opendir(path);
  assert_non_null(d);
  for (const struct dirent *x; (x = readdir(d));) n += strcmp(x->d_name, ".") && strcmp(x->d_name, "..");
  return closedir(d), n;
}

// ---- the tests ----

static void replaces(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct stat s;
  const char *around = in(&mem, "one"), *path = in(&mem, "one/saved"), *notes = in(&mem, "one/saved/notes");
  char *text;
  size_t n;
  const mode_t was = umask(0);
  saves(path, 1);
  umask(was);
  assert_true(!stat(path, &s) && (s.st_mode & 07777) == 0755);
  assert_true(!stat(in(&mem, "one/saved/a"), &s) && (s.st_mode & 07777) == 0644);
  assert_int_equal(file_write(notes, "mine", 4, &e), OK);
  chmod(path, 0700);
  saves(arena_printf(&mem, "%s//", path), 2);
  assert_int_equal(file_read(&mem, notes, &text, &n, &e), OK);
  assert_string_equal(text, "mine");
  assert_int_equal(entries(path), 5); // of version 1 nothing
  assert_true(!stat(path, &s) && (s.st_mode & 07777) == 0700);
  assert_int_equal(symlink("saved", in(&mem, "one/link")), 0);
  saves(in(&mem, "one/link"), 3);
  assert_int_equal(version(path), 3);
  assert_int_equal(entries(around), 2);
  arena_close(&mem);
}

static void refuses(struct arena *mem, const char *path, const char *why)
{
  struct err e = {0}, early = {0};
  if (save(path, 9, &e) != ENV || !strstr(e.text, why)) fail_msg("%s: %s", path, e.text);
  if (folder_check(mem, path, &early) != ENV || !strstr(early.text, why)) fail_msg("%s: %s", path, early.text);
}

static void not_everywhere(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const char *path = in(&mem, "two");
  saves(path, 1);
  assert_int_equal(folder_check(&mem, path, &e), OK);
  assert_int_equal(mkdir(in(&mem, "two/more"), 0755), 0);
  refuses(&mem, path, "it holds the folder more");
  assert_int_equal(rmdir(in(&mem, "two/more")), 0);
  assert_int_equal(version(path), 1);
  refuses(&mem, in(&mem, "two/a"), "Not a directory");
  refuses(&mem, in(&mem, "two/a/b"), "Not a directory");
  refuses(&mem, "", "No such file");
  refuses(&mem, "/", "");
  char *here = getcwd(NULL, 0);
  assert_int_equal(chdir(path), 0);
  refuses(&mem, ".", "the current folder");
  refuses(&mem, path, "the current folder");
  assert_int_equal(chdir(here), 0);
  free(here);
  assert_int_equal(version(path), 1);
  arena_close(&mem);
}

// Each step in turn fails, or ends the process. Returns the number of steps.
static int each_step(struct arena *mem, const char *path, int how)
{
  const char *around = arena_printf(mem, "%s_around", path), *at = arena_printf(mem, "%s/saved", around);
  for (int i = 1;; i++) {
    struct err e = {0};
    int status = ENV, all;
    saves(at, 1);
    steps = 0, wrong_at = i, wrong_errno = how;
    if (how)
      counting = true, status = save(at, 2, &e), counting = false, all = steps;
    else {
      const pid_t pid = fork();
      if (!pid) counting = true, _exit(save(at, 2, &e) == OK ? 0 : 1);
      int ended;
      assert_int_equal(waitpid(pid, &ended, 0), pid);
      status = WIFEXITED(ended) ? WEXITSTATUS(ended) : ENV, all = status == OK ? 0 : i;
    }
    const int v = version(at);
    if (status == OK ? v != 2 : v != 1 && v != 2)
      fail_msg("step %d, %s: version %d, status %d, %s", i, how ? strerror(how) : "killed", v, status, e.text);
    saves(at, 3);
    assert_int_equal(entries(around), 1);
    if (all < i) return i - 1;
  }
}

static void at_every_step(void **state)
{
  (void)state;
  struct arena mem = {0};
  static const int how[] = {0, ENOSPC, EIO, EPERM};
  for (int exchange = 0; exchange < 2; exchange++)
    for (size_t i = 0; i < COUNT(how); i++) {
      no_exchange = !exchange;
      const int n = each_step(&mem, arena_printf(&mem, "%s/steps%d%zu", folder, exchange, i), how[i]);
      if (n < 40) fail_msg("only %d steps", n);
    }
  no_exchange = false;
  arena_close(&mem);
}

// Files that a killed save has left beside are found; files that another user has put there are not.
static void left_beside(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct folder_place p;
  struct err e = {0};
  char older[64];
  const char *at = in(&mem, "left/saved");
  saves(at, 1);
  assert_int_equal(folder_place(&mem, at, false, &p, &e), OK);
  folder_aside(&p, ASIDE_OLD, 7, older);
  assert_int_equal(renameat(p.parent, p.name, p.parent, older), 0);
  assert_int_equal(version(at), 1);
  if (!geteuid()) {
    assert_int_equal(fchownat(p.parent, older, 65534, 65534, 0), 0);
    assert_int_equal(version(at), -1);
    assert_int_equal(fchownat(p.parent, older, 0, 0, 0), 0);
  }
  saves(at, 2);
  assert_int_equal(entries(in(&mem, "left")), 1);
  close(p.parent);
  arena_close(&mem);
}

// A sweep opens a folder that another process is writing. That process puts it in place before the sweep has the lock: it stays whole.
static struct folder_place swept;
static char from[64];
static void put_in_place(void)
{
  before_lock = NULL;
  assert_int_equal(renameat(swept.parent, from, swept.parent, swept.name), 0);
}

static void put_in_place_meanwhile(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const char *at = in(&mem, "meanwhile/saved");
  saves(at, 1);
  assert_int_equal(folder_place(&mem, at, false, &swept, &e), OK);
  folder_aside(&swept, ASIDE_NEW, 7, from);
  assert_int_equal(renameat(swept.parent, swept.name, swept.parent, from), 0);
  before_lock = put_in_place;
  folder_sweep(&swept);
  assert_null(before_lock);
  assert_int_equal(version(at), 1);
  close(swept.parent);
  arena_close(&mem);
}

// ---- at the same time ----

enum { SAVERS = 3, ROUNDS = 25 };
static const char *shared;
static int running;

static void *saver(void *number)
{
  struct err e = {0};
  for (int i = 0; i < ROUNDS; i++)
    if (save(shared, (int)(intptr_t)number * ROUNDS + i, &e) != OK) return arena_strdup(&(struct arena){.lasting = true}, e.text);
  return NULL;
}

static void *reader(void *arg)
{
  (void)arg;
  int v;
  while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
    const char *wrong = look(shared, &v);
    if (wrong) return arena_strdup(&(struct arena){.lasting = true}, wrong);
    if (v < 0) return (void *)"nothing was there";
  }
  return NULL;
}

static void savers_and_readers(void)
{
  pthread_t thread[SAVERS], reads;
  const char *said;
  struct err e = {0};
  assert_int_equal(save(shared, 0, &e), OK);
  running = true;
  const pid_t pid = fork(); // before there are threads, whose locks the child would inherit
  if (!pid) _exit(saver((void *)SAVERS) ? 1 : 0);
  assert_int_equal(pthread_create(&reads, NULL, reader, NULL), 0);
  for (intptr_t i = 0; i < SAVERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, saver, (void *)i), 0);
  for (int i = 0; i < SAVERS; i++) {
    assert_int_equal(pthread_join(thread[i], (void **)&said), 0);
    if (said) fail_msg("%s", said);
  }
  int ended;
  assert_int_equal(waitpid(pid, &ended, 0), pid);
  assert_true(WIFEXITED(ended) && !WEXITSTATUS(ended));
  __atomic_store_n(&running, false, __ATOMIC_RELEASE);
  assert_int_equal(pthread_join(reads, (void **)&said), 0);
  if (said) fail_msg("%s", said);
}

static void at_the_same_time(void **state)
{
  (void)state;
  struct arena mem = {0};
  for (int exchange = 0; exchange < 2; exchange++) {
    no_exchange = !exchange;
    const char *around = arena_printf(&mem, "%s/same%d", folder, exchange);
    shared = arena_printf(&mem, "%s/saved", around);
    savers_and_readers();
    saves(shared, 1);
    assert_int_equal(entries(around), 1);
  }
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(replaces),    cmocka_unit_test(not_everywhere),         cmocka_unit_test(at_every_step),
                                     cmocka_unit_test(left_beside), cmocka_unit_test(put_in_place_meanwhile), cmocka_unit_test(at_the_same_time)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
