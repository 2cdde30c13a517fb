// The formal check: what it must prove, what it must not, and why it does not decide.
#include "cases.h"
#include "graphs.h"

static void test_cases(void **state)
{
  (void)state;
  for (int i = 0; i < equal_count; i++) {
    struct arena mem = {0};
    char why[160];
    double t = now_seconds();
    bool yes = verify_prove(graph_of(&mem, equal_cases[i].program), graph_of(&mem, equal_cases[i].graph), why);
    printf("%-50s %s %s %.1f ms\n", equal_cases[i].name, yes ? "proved" : "-", why, 1e3 * (now_seconds() - t));
    arena_close(&mem);
  }
}

static void test_rows(void **state)
{
  (void)state;
  char line[20000];
  FILE *f = fopen("/tmp/exp_pairs.txt", "r");
  while (f && fgets(line, sizeof line, f)) {
    struct arena mem = {0};
    char why[160], *b = strstr(line, "@@");
    *b = 0, b += 2;
    for (char *q = line; *q; q++) if (*q == '~') *q = '\n';
    for (char *q = b; *q; q++) if (*q == '~') *q = '\n';
    double t = now_seconds();
    bool yes = verify_prove(graph_of(&mem, line), graph_of(&mem, b), why);
    printf("%s %s %.1f ms: %.60s | %.60s\n", yes ? "PROVED" : "-", why, 1e3 * (now_seconds() - t), line, b);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
