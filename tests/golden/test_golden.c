// Golden texts: the passes, tile text and C text of all examples and of the graphs of tests/lower, against the files in tests/golden/texts.
// A change of any of them shows here; `make golden` rewrites the files, and their diff is reviewed with the change. For most graphs of
// tests/lower only digests are kept; `build/tests/golden_test_golden print FILE GRAPH` prints their texts.
// test: release
// test: timeout 300
#include "../tables.h"
#include "front/front.h"
#include "golden.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXTS "tests/golden/texts"

enum { WHOLE = 10 }; // of so many graphs of a table the texts of one are kept

static const struct folder {
  const char *path, *prefix; // of names of golden texts
  bool table;                // files of several graphs, each by every scheme
} folders[] = {{"examples", "", false}, {"examples/graphs", "graph_", false}, {"tests/lower/graphs", "lower_", true}};

static int is_mica(const struct dirent *d)
{
  const char *dot = strrchr(d->d_name, '.');
  return dot && !strcmp(dot, ".mica");
}

static const char *stem(struct arena *mem, const char *file) { return arena_printf(mem, "%.*s", (int)strlen(file) - 5, file); }

// ---- the texts of a file of graphs ----

static void graph_texts(const char *path, const struct table_graph *x, bool every, struct str out[GOLDENS])
{
  struct arena mem = {0};
  struct graph *g;
  struct err e = {0};
  if (front_parse(&mem, x->text, strlen(x->text), path, 0, NULL, &g, &e)) fail_msg("%s:%d: %s", path, x->line + e.at.line - 1, e.text);
  golden_texts(g, every, out);
  arena_close(&mem);
}

// A graph of a table: its digests, and its texts under a heading.
static void row_texts(const char *path, const char *table, const struct table_graph *x, bool whole, struct str out[GOLDENS], struct str *digests)
{
  struct str own[GOLDENS] = {{0}};
  graph_texts(path, x, true, own);
  str_add(digests, "%s %s", table, x->name);
  for (int k = 0; k < GOLDENS; k++) {
    str_add(digests, " %016llx", (unsigned long long)hash_bytes(str_text(&own[k]), own[k].n, 0));
    if (whole) str_add(&out[k], "%s %s ====\n%s", k == GOLDEN_PASSES ? "====" : "// ====", x->name, str_text(&own[k]));
    str_free(&own[k]);
  }
  str_add(digests, "\n");
}

static void table_texts(const char *table, struct str out[GOLDENS], struct str *digests)
{
  struct table t;
  table_open(&t, table);
  for (int i = 0; i < t.n; i++) row_texts(t.path, table, &t.row[i], i % WHOLE == 0, out, digests);
  table_close(&t);
}

static void file_texts(const char *path, struct str out[GOLDENS])
{
  struct arena mem = {0};
  struct err e = {0};
  struct table_graph x = {.line = 1};
  char *text;
  size_t n;
  if (file_read(&mem, path, &text, &n, &e)) fail_msg("%s", e.text);
  x.text = text;
  graph_texts(path, &x, false, out);
  arena_close(&mem);
}

// ---- comparing ----

enum { SHOWN = 5 };

// The first lines that differ. In the digests a line is a graph, and more of them are of use.
static void show_differences(const char *name, const char *want, const char *have)
{
  for (int line = 1, shown = 0; shown < SHOWN && (*want || *have); line++) {
    size_t w = strcspn(want, "\n"), h = strcspn(have, "\n");
    bool equal = w == h && !strncmp(want, have, w);
    if (!equal) shown++, print_error("%s:%d: the text differs\n  file: %.*s\n  now:  %.*s\n", name, line, (int)w, want, (int)h, have);
    if (!equal && w != h && strcmp(name, TEXTS "/digests")) return; // lines may have moved
    want += w + (want[w] == '\n'), have += h + (have[h] == '\n');
  }
}

static bool same(const char *name, const char *have)
{
  struct arena mem = {0};
  struct err e = {0};
  char *want;
  size_t n;
  bool equal = false;
  if (file_read(&mem, name, &want, &n, &e))
    print_error("%s\n", e.text);
  else if (!(equal = !strcmp(want, have)))
    show_differences(name, want, have);
  arena_close(&mem);
  return equal;
}

// ---- all files ----

struct golden_set {
  int n, cap;
  const char **name; // of all texts
  bool write;
  int different;
  struct str digests;
  struct arena mem;
};

static void one_text(struct golden_set *s, const char *name, const char *text)
{
  struct err e = {0};
  PUSH(&s->mem, s->name, s->n, s->cap) = name;
  if (!s->write)
    s->different += !same(name, text);
  else if (file_write(name, text, strlen(text), &e) != OK)
    fail_msg("%s", e.text);
}

static void one_folder(struct golden_set *s, const struct folder *f)
{
  struct dirent **list;
  int n = scandir(f->path, &list, is_mica, alphasort);
  if (n <= 0) fail_msg("%s: no graphs", f->path);
  for (int i = 0; i < n; i++) {
    struct str out[GOLDENS] = {{0}};
    const char *name = stem(&s->mem, list[i]->d_name);
    if (f->table)
      table_texts(name, out, &s->digests);
    else
      file_texts(arena_printf(&s->mem, "%s/%s.mica", f->path, name), out);
    for (int k = 0; k < GOLDENS; k++) {
      one_text(s, arena_printf(&s->mem, TEXTS "/%s%s.%s", f->prefix, name, golden_suffix[k]), str_text(&out[k]));
      str_free(&out[k]);
    }
    free(list[i]);
  }
  free(list);
}

// Files whose graph is gone: removed, or errors.
static void check_leftovers(struct golden_set *s)
{
  DIR *d = opendir(TEXTS);
  assert_non_null(d);
  for (struct dirent *x; (x = readdir(d));) {
    const char *path = arena_printf(&s->mem, TEXTS "/%s", x->d_name);
    bool known = *x->d_name == '.';
    for (int i = 0; i < s->n; i++) known |= !strcmp(path, s->name[i]);
    if (known) continue;
    if (s->write)
      unlink(path);
    else
      s->different++, print_error("%s: there is no graph of this name\n", path);
  }
  closedir(d);
}

static void all_texts(struct golden_set *s)
{
  struct err e = {0};
  if (file_mkdirs(TEXTS, &e)) fail_msg("%s", e.text);
  for (size_t i = 0; i < COUNT(folders); i++) one_folder(s, &folders[i]);
  one_text(s, TEXTS "/digests", str_text(&s->digests));
  check_leftovers(s);
}

static bool writes;

static void golden(void **state)
{
  (void)state;
  struct golden_set s = {.write = writes};
  all_texts(&s);
  str_free(&s.digests);
  arena_close(&s.mem);
  if (s.different)
    fail_msg("%d of %d golden texts differ; `make golden` rewrites them, and `git diff tests/golden` shows what changed", s.different, s.n);
}

// Prints the texts of one graph of a table.
static void print_graph(const char *table, const char *name)
{
  struct table t;
  struct str out[GOLDENS] = {{0}};
  table_open(&t, table);
  graph_texts(t.path, table_row(&t, name), true, out);
  for (int k = 0; k < GOLDENS; k++) {
    printf("// ---- %s ----\n%s", golden_suffix[k], str_text(&out[k]));
    str_free(&out[k]);
  }
  table_close(&t);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden)};
  if (argc == 4 && !strcmp(argv[1], "print")) return print_graph(argv[2], argv[3]), 0;
  writes = argc > 1 && !strcmp(argv[1], "write");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
