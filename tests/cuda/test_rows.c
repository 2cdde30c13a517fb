// Every row of the instruction table, printed and compiled by NVRTC for each architecture that it is for. Needs no GPU;
// without NVRTC the rows are printed only.
// test: timeout 300
#include "rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static const int archs[] = {80, 86, 89, 90, 100};

static bool legal(const struct instr *row, int arch) { return row->arch_least <= arch && arch <= row->arch_most; }

// As text, in the arena.
static const char *printed(struct arena *mem, const struct instr *const *rows, int n, int arch)
{
  struct made m;
  struct err e = {0};
  struct str s = {0};
  made_open(&m, mem);
  for (int i = 0; i < n; i++) made_row(&m, rows[i]);
  made_close(&m);
  if (arch < 90) m.k->cluster = 1;
  if (cuda_print(m.p, m.k, arch, &s, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  const char *text = arena_strdup(mem, str_text(&s));
  str_free(&s);
  return text;
}

static void every_row_is_printed(void **state)
{
  (void)state;
  int n;
  const struct instr *rows = instr_rows(&n);
  assert_true(n > 100);
  for (int i = 0; i < n; i++) {
    struct arena mem = {0};
    const struct instr *row = &rows[i];
    const char *text = strstr(printed(&mem, &row, 1, row->arch_least), "extern \"C\"");
    assert_non_null(text);
    assert_null(strchr(text, '$'));
    arena_close(&mem);
  }
}

static struct nvrtc *compiler(void)
{
  struct nvrtc *r;
  struct err e = {0};
  if (nvrtc_open(&r, &e) == OK) return r;
  assert_int_equal(e.status, ENV);
  print_message("skipped: %s\n", e.text);
  return NULL;
}

enum { TOGETHER = 24 }; // rows of one source: NVRTC starts slowly

static void compiles(struct nvrtc *r, const struct instr *const *rows, int n, int arch)
{
  struct arena mem = {0};
  struct err e = {0};
  struct cubin c;
  if (nvrtc_compile(r, &mem, "rows", printed(&mem, rows, n, arch), arch, &c, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  assert_true(c.n > 0);
  arena_close(&mem);
}

static void every_row_compiles(void **state)
{
  (void)state;
  int n, tried = 0;
  const struct instr *rows = instr_rows(&n), *together[TOGETHER];
  struct nvrtc *r = compiler();
  if (!r) skip();
  for (size_t a = 0; a < COUNT(archs); a++) {
    int m = 0;
    for (int i = 0; i < n; i++) {
      if (legal(&rows[i], archs[a])) together[m++] = &rows[i], tried++;
      if (m == TOGETHER || (m && i == n - 1)) compiles(r, together, m, archs[a]), m = 0;
    }
  }
  print_message("%d rows compiled\n", tried);
  nvrtc_close(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_is_printed), cmocka_unit_test(every_row_compiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
