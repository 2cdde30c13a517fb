// Every kernel of tests/sim/good runs without a report. Every kernel of tests/sim/broken is reported with the class and the line in its first line,
// "// expect: CLASS LINE". Other classes of reports must be in its line "// also: CLASS ...": they follow from the mistake in some orders of warps.
// Without the interpreter's shortcuts the reports are the same. Other comments at the head:
//   // set: NAME=VALUE,...   sizes      // fresh: A,B   buffers that hold nothing before
//   // zero: A               holds zeros      // shift: A 4   begins so many bytes after a multiple of 256
#include "tiles.h"

#include <dirent.h>

enum { MOST = 256 };
static int removed;
static int failures; // of this file's kernels, so that one run shows all of them

static const char *head(const char *text, const char *what, char out[128])
{
  char key[32];
  snprintf(key, sizeof key, "// %s: ", what);
  const char *p = strstr(text, key);
  *out = 0;
  if (p) snprintf(out, 128, "%.*s", (int)strcspn(p + strlen(key), "\n"), p + strlen(key));
  return out;
}

static void prepare(struct tile_run *t, const char *text)
{
  char fresh[128], zero[128], shift[128], name[64];
  int by;
  tile_fill(t, 7, head(text, "fresh", fresh));
  if (*head(text, "zero", zero)) {
    int64_t n;
    char *p = tile_data(t, zero, &n);
    memset(p, 0, (size_t)n * 4);
  }
  if (sscanf(head(text, "shift", shift), "%63s %d", name, &by) == 2) tile_shift(t, name, by);
}

static void read_file(struct arena *mem, const char *path, char **text)
{
  size_t n;
  struct err e = {0};
  if (file_read(mem, path, text, &n, &e)) fail_msg("%s", e.text);
}

static void show(const struct tile_run *t, const char *path, const char *what)
{
  struct str s = {0};
  sim_print_errors(&t->r, &s);
  fprintf(stderr, "%s: %s\n%s", path, what, str_text(&s));
  str_free(&s);
  failures++;
}

static void run_once(const char *path, const char *text, bool slow, struct tile_run *t, struct str *said)
{
  char set[128];
  tile_open(t, path, text, head(text, "set", set));
  prepare(t, text);
  t->slow = slow;
  if (tile_go(t)) fail_msg("%s:%d: %s", path, t->e.at.line, t->e.text);
  sim_print_errors(&t->r, said), sim_print_counts(&t->r, said);
  str_add(said, "%lld found, %lld element operations\n", (long long)t->r.found, (long long)t->r.counts.elements);
}

// Runs it, and again without shortcuts, which must say the same word by word.
static void run_text(const char *path, const char *text, struct tile_run *t)
{
  struct tile_run slow;
  struct str said = {0}, slowly = {0};
  run_once(path, text, true, &slow, &slowly);
  run_once(path, text, false, t, &said);
  if (strcmp(str_text(&said), str_text(&slowly)) != 0) show(&slow, path, "differs without shortcuts"), show(t, path, "from this");
  str_free(&said), str_free(&slowly);
  tile_close(&slow);
}

static void run(const char *path, struct tile_run *t, char expect[128], char also[128])
{
  struct arena mem = {0};
  char *text;
  read_file(&mem, path, &text);
  run_text(path, text, t);
  head(text, "expect", expect), head(text, "also", also);
  arena_close(&mem);
}

static void good(const char *path)
{
  struct tile_run t;
  char expect[128], also[128];
  run(path, &t, expect, also);
  if (t.r.found) show(&t, path, "something is reported");
  tile_close(&t);
}

static void broken(const char *path)
{
  struct tile_run t;
  char expect[128], also[128], kind[64];
  int line;
  bool found = false, other = false;
  run(path, &t, expect, also);
  if (sscanf(expect, "%63s %d", kind, &line) != 2) fail_msg("%s: no expectation", path);
  for (int i = 0; i < t.r.nerrors; i++) {
    const char *name = sim_class_name[t.r.errors[i].kind];
    bool same = !strcmp(name, kind);
    found |= same && t.r.errors[i].at.line == line;
    other |= !same && !strstr(also, name);
  }
  if (!found || other) show(&t, path, expect);
  tile_close(&t);
}

// Without any one of its barriers, waits and fences a good kernel is reported.
static void needs_every_sync(const char *path)
{
  struct arena mem = {0};
  char *text;
  read_file(&mem, path, &text);
  for (char *p = text; (p = strstr(p, "Sync<")); p++) {
    size_t n = strcspn(p, "\n");
    char *line = arena_printf(&mem, "%.*s", (int)n, p);
    if (strstr(line, "// to spare")) continue;
    memset(p, ' ', n);
    struct tile_run t;
    run_text(path, text, &t);
    if (!t.r.found) show(&t, path, line);
    tile_close(&t);
    memcpy(p, line, n);
    removed++;
  }
  arena_close(&mem);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int all(const char *folder, void (*one)(const char *path))
{
  char *names[MOST], path[512];
  int n = 0;
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d)) && n < MOST;)
    if (strstr(f->d_name, ".tile")) names[n++] = strdup(f->d_name);
  closedir(d);
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    one(path);
    free(names[i]);
  }
  return n;
}

static void good_kernels(void **state)
{
  (void)state;
  assert_true(all("tests/sim/good", good) >= 11);
  assert_int_equal(failures, 0);
}

static void synchronizations(void **state)
{
  (void)state;
  all("tests/sim/good", needs_every_sync);
  assert_int_equal(failures, 0);
  assert_true(removed >= 50);
}

static void broken_kernels(void **state)
{
  (void)state;
  assert_true(all("tests/sim/broken", broken) >= 60);
  assert_int_equal(failures, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(good_kernels), cmocka_unit_test(broken_kernels), cmocka_unit_test(synchronizations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
