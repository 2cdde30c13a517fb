// Failing allocations. For N = 1, 2, ... allocation number N of a call fails, alone or with all later ones. The call must return an error about
// memory, without ending the process and without leaks (the address sanitizer checks). The next call in the same context must succeed.
// The linker replaces Mica's allocations by functions of this file (__wrap_malloc and so on: tests/CMakeLists.txt). It replaces allocations from
// arenas too, because few of these allocate memory. jansson and SQLite use the same functions.
// test: timeout 300
#include "saved.h"
#include "thin.h"

#include <math.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);

static atomic_long count, from; // of allocations; from which one on they fail, 0: none
static atomic_bool once, refused;

static bool refuse(void)
{
  const long n = atomic_fetch_add(&count, 1) + 1, first = from;
  if (!first || n < first || (once && n > first)) return false;
  refused = true;
  return true;
}

void *__wrap_malloc(size_t n) { return refuse() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t each) { return refuse() ? NULL : __real_calloc(n, each); }
void *__wrap_realloc(void *p, size_t n) { return refuse() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t align, size_t n) { return refuse() ? NULL : __real_aligned_alloc(align, n); }

void *__real_arena_alloc(struct arena *a, size_t bytes);
void *__real_arena_copy(struct arena *a, const void *p, size_t bytes);
void *__real_arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes);

void *__wrap_arena_alloc(struct arena *a, size_t bytes)
{
  if (refuse()) mem_none(bytes);
  return __real_arena_alloc(a, bytes);
}

void *__wrap_arena_copy(struct arena *a, const void *p, size_t bytes)
{
  if (refuse()) mem_none(bytes);
  return __real_arena_copy(a, p, bytes);
}

void *__wrap_arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
  if (refuse()) mem_none(new_bytes);
  return __real_arena_grow(a, old, old_bytes, new_bytes);
}

static sqlite3_mem_methods usual;
static void *sql_malloc(int n) { return refuse() ? NULL : usual.xMalloc(n); }
static void *sql_realloc(void *p, int n) { return refuse() ? NULL : usual.xRealloc(p, n); }

// ---- what is done ----

static const char soft[] = "program soft() {\n  X: f32[8, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n";
static const char same[] = "program same() {\n  X: f32[8, 64]\n  return softmax(X, dim=1)\n}\n";

static const char built[] = "graph built {\n  X: f32[16, 8]\n  Z = block(x=2; i=2) {\n    x = iter(X, imap={x:0}, fmap={i:1})\n"
                            "    total = accum_sum(exp(x), dim=1)\n    save(total, omap={x:0})\n  }\n  return Z\n}\n";

struct scene {
  struct mica_context *m;
  struct mica_program *p, *q;
  struct mica_report *r;
  struct mica_layout *l;
  char db[300], saved[300];
};

static bool told(const struct scene *s) { return strstr(mica_error(s->m), "[memory]") && strstr(mica_error(s->m), "hint: "); }

static int reads(struct scene *s)
{
  struct mica_program *p;
  const char *text;
  int status = mica_load_text(s->m, soft, "soft.mica", 0, NULL, &p);
  return status ? status : mica_program_text(s->m, p, &text);
}

static int reads_file(struct scene *s)
{
  struct mica_program *p;
  return mica_load(s->m, "examples/m_gqa.mica", 0, NULL, &p);
}

static int reads_json(struct scene *s)
{
  struct mica_program *p;
  return mica_load(s->m, in_folder("saved/graph.json"), 0, NULL, &p);
}

static int optimizes(struct scene *s)
{
  struct mica_options o = mica_options_default();
  o.db = s->db, o.measure = 1, o.seconds = 0.001, o.threads = 1, o.search_threads = 2, o.fresh = true;
  return mica_optimize(s->m, s->p, &o, &s->r);
}

static int recalls(struct scene *s)
{
  struct mica_options o = mica_options_default();
  struct mica_report *r;
  o.db = s->db, o.measure = 1, o.seconds = 0.001, o.threads = 1, o.search_threads = 2;
  return mica_optimize(s->m, s->p, &o, &r);
}

static int saves(struct scene *s) { return mica_report_save(s->m, s->r, s->saved); }

static int shows(struct scene *s)
{
  const char *html;
  return mica_report_html(s->m, s->r, &html);
}

static int runs(struct scene *s)
{
  static float in[8 * 64], out[8 * 64];
  struct mica_module *x;
  int status = mica_module_load(s->m, s->saved, &x);
  if (status != MICA_OK) return status;
  status = mica_module_call(x, (const void *[]){in}, (void *[]){out}, NULL, NULL);
  return mica_module_close(x), status;
}

static int opens(struct scene *s)
{
  struct mica_module *x;
  int status = mica_module_of(s->m, s->r, &x);
  if (status == MICA_OK) mica_module_close(x);
  return status;
}

static int proves(struct scene *s)
{
  const char *json;
  return mica_verify(s->m, s->p, s->q, 1, &json);
}

static int lays(struct scene *s)
{
  struct mica_layout *a, *b, *c;
  int status = mica_layout_parse(s->m, "(8,n):(n,1)", false, &a);
  if (status == MICA_OK) status = mica_layout_parse(s->m, "(2,4):(4,1)", false, &b);
  if (status == MICA_OK) status = mica_layout_compose(s->m, s->l, b, &c);
  if (status == MICA_OK) assert_int_equal(mica_layout_at(c, 3), 40);
  return status;
}

// Builds the whole graph again. A step that failed is repeated on the unchanged graph.
static int builds(struct scene *s)
{
  const int64_t shape[] = {16, 8}, grid[] = {2}, loop[] = {2};
  const int cut = 0, along = 1;
  const char *text;
  struct mica_program *p;
  struct mica_graph *g, *b;
  int x, y, z, bt, status;
  bool left = false;
#define STEP(call)                               \
  do {                                           \
    if ((status = (call)) == MICA_ENVIRONMENT) { \
      left = told(s);                            \
      from = 0;                                  \
      status = (call);                           \
    }                                            \
    assert_int_equal(status, MICA_OK);           \
  } while (0)
  STEP(mica_graph_open(s->m, "built", &g));
  STEP(mica_graph_input(g, "X", MICA_F32, 2, shape, &x));
  STEP(mica_graph_block(g, 1, grid, 1, loop, &b));
  STEP(mica_block_input(b, x, &cut, &along, &bt));
  STEP(mica_graph_op(b, "exp", 1, &bt, NULL, &y, NULL));
  STEP(mica_graph_op(b, "accum_sum", 1, &y, "dim=1", &y, NULL));
  STEP(mica_graph_name(b, y, "total"));
  STEP(mica_block_output(b, y, &cut));
  STEP(mica_block_end(b, &z, NULL));
  STEP(mica_graph_name(g, z, "Z"));
  STEP(mica_graph_output(g, z));
  STEP(mica_graph_program(g, &p));
  STEP(mica_program_text(s->m, p, &text));
  assert_string_equal(text, built);
  return left ? MICA_ENVIRONMENT : MICA_OK;
}

// ---- how ----

static void fails(struct scene *s, int (*what)(struct scene *), const char *name, long n, bool only, bool strict, int *left)
{
  count = 0;
  once = only;
  refused = false;
  from = n;
  const int status = what(s);
  from = 0;
  if (!refused) assert_int_equal(status, MICA_OK);
  if (status != MICA_OK && what != builds && !told(s)) fail_msg("%s, allocation %ld: %d, %s", name, n, status, mica_error(s->m));
  if (refused && strict && status != MICA_ENVIRONMENT) fail_msg("%s, allocation %ld: %d in spite of it", name, n, status);
  *left += status == MICA_ENVIRONMENT;
}

// strict: there is nothing that the call could do without. Every allocation of a call that makes few; of others about `tries`, the nearer
// to its begin the closer together, since what a call does first differs most from step to step.
static void each(struct scene *s, int (*what)(struct scene *), const char *name, bool strict, int tries)
{
  int left = 0;
  count = 0;
  assert_int_equal(what(s), MICA_OK);
  const double all = (double)count, further = pow(all, (double)thinned(2) / tries);
  for (int only = 0; only < 2; only++)
    for (double n = 1; n <= all; n = fmax(n + 1, n * further)) fails(s, what, name, (long)n, only, strict, &left);
  assert_int_equal(what(s), MICA_OK);
  assert_true(left > 0);
}

static struct scene open_scene(void)
{
  struct scene s = {.m = mica_open()};
  snprintf(s.db, sizeof s.db, "%s/mica.db", folder), snprintf(s.saved, sizeof s.saved, "%s/saved", folder);
  if (mica_load_text(s.m, soft, "soft", 0, NULL, &s.p) || mica_load_text(s.m, same, "same", 0, NULL, &s.q)) fail_msg("%s", mica_error(s.m));
  assert_int_equal(mica_layout_parse(s.m, "(8,8):(8,1)", false, &s.l), MICA_OK);
  return s;
}

static void programs(void **state)
{
  (void)state;
  struct scene s = open_scene();
  each(&s, reads, "reading text", true, 400);
  each(&s, reads_file, "reading a file", true, 400);
  each(&s, builds, "building", true, 1000);
  each(&s, lays, "layouts", true, 400);
  each(&s, proves, "comparing", true, 8);
  mica_close(s.m);
}

static void results(void **state)
{
  (void)state;
  struct scene s = open_scene();
  assert_int_equal(optimizes(&s), MICA_OK);
  assert_int_equal(saves(&s), MICA_OK);
  each(&s, reads_json, "reading JSON", false, 40);
  each(&s, recalls, "recalling", false, 30);
  each(&s, saves, "saving", false, 6);
  each(&s, shows, "the page", false, 30);
  each(&s, runs, "loading and running", false, 30);
  each(&s, opens, "a module", false, 6);
  mica_close(s.m);
}

static void optimizing(void **state)
{
  (void)state;
  struct scene s = open_scene();
  each(&s, optimizes, "optimizing", false, 12);
  mica_close(s.m);
}

// The same sources are compiled again and again: the compiler here does so once.
static const char compiler[] = "#!/bin/sh\n"
                               "for a; do\n"
                               "  [ \"$before\" = -o ] && out=$a\n"
                               "  case $a in *.c) source=$a ;; esac\n"
                               "  before=$a\n"
                               "done\n"
                               "[ \"$source\" ] || exec cc \"$@\"\n"
                               "made=$0.$(cksum <\"$source\" | tr ' ' _)\n"
                               "[ -e \"$made\" ] || cc \"$@\" && { [ -e \"$made\" ] || cp \"$out\" \"$made\"; } && cp \"$made\" \"$out\"\n";

static int enter(void **state)
{
  if (folder_enter(state)) return 1;
  write_as("cc", compiler, sizeof compiler - 1);
  return chmod(in_folder("cc"), 0700) || setenv("CC", in_folder("cc"), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs), cmocka_unit_test(results), cmocka_unit_test(optimizing)};
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual);
  sqlite3_mem_methods mine = usual;
  mine.xMalloc = sql_malloc, mine.xRealloc = sql_realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
  json_set_alloc_funcs(__wrap_malloc, free);
  return cmocka_run_group_tests(tests, enter, folder_leave);
}
