// The precompiled header. The second compilation makes it, objects are the same with it, and it is not used if other users could have written it.
// test: quick sanitized
#include "front/front.h"
#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/mica-test-XXXXXX", headers[100], script[100], words[100];

// The object of one program; *used: whether the compiler that made it was given the header.
static struct module *build(bool *used)
{
  static const char program[] = "program p { X: f32[3, 50]\n return X + 1 }";
  const struct target t = {.name = "cpu", .cores = 1, .lanes = 16};
  struct arena mem = {0};
  struct err e = {0};
  struct str s = {0};
  struct graph *g;
  struct module *m = NULL;
  char *text;
  size_t n;
  if (front_parse(&mem, program, strlen(program), "p", 0, NULL, &g, &e) || gen_c(g, "p", &t, &s, NULL, NULL, &e) || module_build(s.p, "p", &m, &e))
    fail_msg("%s", e.text);
  assert_int_equal(file_read(&mem, words, &text, &n, &e), OK);
  *used = strstr(text, "-include");
  str_free(&s);
  arena_close(&mem);
  return m;
}

// A compiler of its own key, for it has another flag.
static void compiler(const char *flag)
{
  char cc[200];
  snprintf(cc, sizeof cc, "%s %s", script, flag);
  setenv("CC", cc, 1);
}

static int command(const char *format)
{
  char line[300];
  snprintf(line, sizeof line, format, headers);
  return system(line);
}

static bool builds_with(void)
{
  bool used;
  module_close(build(&used));
  return used;
}

static void second_makes_it(void **state)
{
  (void)state;
  bool used;
  size_t n[2];
  compiler("-DPARSED_A");
  struct module *first = build(&used);
  assert_false(used);
  assert_int_not_equal(command("ls %s/*.gch >/dev/null 2>&1"), 0);
  assert_true(builds_with());
  assert_int_equal(command("test `stat -c %%a %s/*.h.gch` = 600"), 0);
  struct module *third = build(&used);
  assert_true(used);
  const void *a = module_bytes(first, &n[0]), *b = module_bytes(third, &n[1]);
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(a, b, n[0]);
  float in[150] = {1}, out[150];
  assert_int_equal(module_call(third, (void *[]){in}, (void *[]){out}), 0);
  assert_true(out[0] == 2 && out[149] == 1);
  module_close(first), module_close(third);
}

static void damaged_is_harmless(void **state)
{
  (void)state;
  compiler("-DPARSED_B");
  assert_false(builds_with());
  assert_true(builds_with());
  assert_int_equal(command("for f in %s/*.gch; do echo damaged >$f; done"), 0);
  builds_with(); // fails the test where it does not build
}

static void folder_of_others(void **state)
{
  (void)state;
  compiler("-DPARSED_C");
  assert_int_equal(chmod(headers, 0777), 0);
  for (int i = 0; i < 3; i++) assert_false(builds_with());
  assert_int_equal(chmod(headers, 0700), 0);
  assert_false(builds_with()); // not in this process any more
}

static int headers_there(void)
{
  char line[300], *text;
  size_t n;
  struct arena mem = {0};
  struct err e = {0};
  snprintf(line, sizeof line, "ls %s | grep -c 'gch$' >%s/count", headers, dir);
  const int status = system(line);
  snprintf(line, sizeof line, "%s/count", dir);
  assert_int_equal(status < 0 ? ERR_FILE : file_read(&mem, line, &text, &n, &e), OK);
  const int count = atoi(text);
  arena_close(&mem);
  return count;
}

// As in CC="ccache gcc": the first word starts the compiler that is the second. Another compiler of the same name has another header.
static void behind_another_word(void **state)
{
  (void)state;
  static const char *const versions[] = {"one", "one", "two"};
  char cc[300], line[600];
  const int before = headers_there();
  snprintf(cc, sizeof cc, "/usr/bin/env %s -DPARSED_E", script);
  for (int i = 0; i < 3; i++) {
    snprintf(line, sizeof line, "printf '#!/bin/sh\\n# %s\\necho \"$@\" >%s/words\\nexec cc \"$@\"\\n' >%s", versions[i], dir, script);
    if (i != 1) assert_int_equal(system(line), 0);
    setenv("CC", cc, 1);
    builds_with(), builds_with();
    assert_int_equal(headers_there() - before, i == 2 ? 2 : 1);
  }
}

// A compiler that does not say its version gets no header.
static void mute_compiler(void **state)
{
  (void)state;
  static const char mute[] = "#!/bin/sh\ncase \"$*\" in *--version*) exit 1;; esac\necho \"$@\" >%s/words\nexec cc \"$@\"\n";
  FILE *f = fopen(script, "w");
  fprintf(f, mute, dir);
  fclose(f);
  compiler("-DPARSED_F");
  for (int i = 0; i < 3; i++) assert_false(builds_with());
}

// A compiler that fails where it reads the header.
static void refused_once(void **state)
{
  (void)state;
  static const char refuses[] = "#!/bin/sh\ncase \"$*\" in *-include*) exit 1;; esac\necho \"$@\" >%s/words\nexec cc \"$@\"\n";
  FILE *f = fopen(script, "w");
  fprintf(f, refuses, dir);
  fclose(f);
  compiler("-DPARSED_D");
  for (int i = 0; i < 3; i++) assert_false(builds_with());
}

static int open_folder(void **state)
{
  (void)state;
  if (!mkdtemp(dir)) return 1;
  snprintf(headers, sizeof headers, "%s/mica/headers", dir);
  snprintf(script, sizeof script, "%s/cc", dir);
  snprintf(words, sizeof words, "%s/words", dir);
  setenv("XDG_CACHE_HOME", dir, 1);
  FILE *f = fopen(script, "w");
  fprintf(f, "#!/bin/sh\necho \"$@\" >%s/words\nexec cc \"$@\"\n", dir);
  fclose(f);
  return chmod(script, 0700);
}

static int remove_folder(void **state)
{
  (void)state;
  char line[200];
  snprintf(line, sizeof line, "rm -rf %s", dir);
  return system(line);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(second_makes_it),     cmocka_unit_test(damaged_is_harmless), cmocka_unit_test(folder_of_others),
      cmocka_unit_test(behind_another_word), cmocka_unit_test(mute_compiler),       cmocka_unit_test(refused_once),
  };
  return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
