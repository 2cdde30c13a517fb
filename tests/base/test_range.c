// Ranges for profilers. The test compiles a library that records calls, and starts itself with this library as the profiler's. If CUDA's header is
// installed, constants are compared with it.
#include "base/range.h"
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    "#if __has_include(<nvtx3/nvToolsExt.h>)\n#include <nvtx3/nvToolsExt.h>\n"
    "_Static_assert(NVTX_CBID_CORE_RangePushA == 9 && NVTX_CBID_CORE_RangePop == 11 && NVTX_CBID_CORE_SIZE == 16, \"numbers\");\n"
    "_Static_assert(NVTX_CB_MODULE_CORE == 1 && NVTX_CB_MODULE_CORE2 == 5 && NVTX_CBID_CORE2_SIZE == 16, \"modules\");\n"
    "_Static_assert(NVTX_ETID_CALLBACKS == 1 && NVTX_ETID_VERSIONINFO == 3, \"tables\");\n"
    "_Static_assert(offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable) == 8, \"callbacks\");\n#endif\n"
    "typedef void f(void);\nstruct c { size_t n; int (*table)(int, f ***, unsigned *); };\n"
    "static void note(const char *s) { FILE *o = fopen(getenv(\"RANGE_NOTES\"), \"a\"); fprintf(o, \"%s\\n\", s); fclose(o); }\n"
    "static int push(const char *s) { note(s); return 0; }\nstatic int pop(void) { note(\"<\"); return 0; }\n"
    "int InitializeInjectionNvtx2(const void *(*get)(uint32_t))\n{\n  f **t; unsigned n; const struct c *c = get(1);\n"
    "  if (!c || c->n != sizeof *c || get(2) || !get(3) || c->table(2, &t, &n) || !c->table(1, &t, &n) || n != 16) return 0;\n"
    "  *(int (**)(const char *))t[9] = push, *(int (**)(void))t[11] = pop;\n  return 1;\n}\n";

static char folder[] = "/tmp/mica_range_XXXXXX";

static char *in_folder(char out[64], const char *name)
{
  snprintf(out, 64, "%s/%s", folder, name);
  return out;
}

// A second process, since the profiler is asked for once.
static int child(void)
{
  struct span s;
  struct trace *t = trace_open();
  span_begin(&s, "pass", "in a trace");
  span_end(&s);
  trace_close(t);
  span_begin(&s, "pass", "search");
  const bool pushed = range_push("softmax_1");
  if (pushed) range_pop();
  span_end(&s);
  span_end(&s); // once is enough
  return pushed ? 0 : 1;
}

static void a_profiler_is_told(void **state)
{
  (void)state;
  char path[64], command[400], *text;
  size_t n;
  struct arena mem = {0};
  struct err e = {0};
  assert_int_equal(file_write(in_folder(path, "tool.c"), source, strlen(source), &e), OK);
  snprintf(command, sizeof command, "cc -std=gnu11 -shared -fPIC -I/usr/local/cuda/include %s/tool.c -o %s/tool.so", folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "RANGE_NOTES=%s/notes NVTX_INJECTION64_PATH=%s/tool.so /proc/%d/exe child", folder, folder, (int)getpid());
  assert_int_equal(system(command), 0);
  assert_int_equal(file_read(&mem, in_folder(path, "notes"), &text, &n, &e), OK);
  assert_string_equal(text, "in a trace\n<\nsearch\nsoftmax_1\n<\n<\n");
  arena_close(&mem);
}

static void nobody_listens(void **state)
{
  (void)state;
  char command[400];
  static const char *const paths[] = {"", "/nowhere/tool.so", "/proc/self/exe"};
  for (size_t i = 0; i < COUNT(paths); i++) {
    snprintf(command, sizeof command, "NVTX_INJECTION64_PATH=%s /proc/%d/exe child", paths[i], (int)getpid());
    assert_int_equal(WEXITSTATUS(system(command)), 1);
  }
}

int main(int argc, char **argv)
{
  if (argc == 2 && !strcmp(argv[1], "child")) return child();
  if (!mkdtemp(folder)) return 3;
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_profiler_is_told), cmocka_unit_test(nobody_listens)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[80];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) || failed;
}
