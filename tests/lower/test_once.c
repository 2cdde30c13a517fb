// Iterators that load the same tile become one where a scheme can read it in both ways: one room in shared memory.
#include "../lowered.h"
#include "given.h"

static int rooms_of(const char *text)
{
  int n = 0;
  for (const char *at = text; (at = strstr(at, ".fp16.SH")); at++) n++;
  return n;
}

static void one_room(void **state)
{
  (void)state;
  const struct target gpu = h200();
  struct table t;
  table_open(&t, "once");
  for (int i = 0; i < t.n; i++) {
    const char *name = t.row[i].title;
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    struct graph *out, *g = graph_of(&mem, t.row[i].text);
    int status = load_once(&mem, g, &out, &e);
    if ((status == OK) == !strcmp(table_field(&t.row[i], "changed"), "no")) fail_msg("%s: %s", name, e.text);
    if (status == OK) {
      must(graph_check(out, &e), name, &e);
      assert_same_function(name, g, out);
    }
    must(lower_program(&mem, g, &gpu, &(struct lower_opts){0}, &d, &e), name, &e);
    if (rooms_of(d.launch[0].text) != atoi(table_field(&t.row[i], "rooms"))) fail_msg("%s: %s", name, d.launch[0].text);
    run_launches(&mem, name, &d, -1);
    arena_close(&mem);
  }
  table_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_room)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
