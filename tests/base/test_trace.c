// Traces: spans nest, each thread of a loop has its own line, names are escaped, and a thread without a trace records nothing.
#include "base/doc.h"
#include "base/memory.h"
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char HOSTILE[] = "\"},\\ \n\x1b[31m \xff \xe2\x80\xae";

static void job(void *arg, int i, int worker)
{
  struct span s;
  (void)arg, (void)worker;
  span_begin(&s, "test", "inner");
  span_note(&s, "index %d", i);
  span_end(&s);
}

static json_t *taken(const struct trace *t)
{
  struct str text = {0};
  json_error_t why;
  trace_text(t, &text);
  json_t *root = json_loads(str_text(&text), 0, &why);
  assert_non_null(root);
  return str_free(&text), root;
}

static double number(const json_t *e, const char *key) { return json_number_value(json_object_get(e, key)); }

// Two events of one thread: one is inside the other, or they are apart.
static void hold_nesting(const json_t *list)
{
  for (size_t i = 0; i < json_array_size(list); i++)
    for (size_t k = 0; k < i; k++) {
      const json_t *a = json_array_get(list, i), *b = json_array_get(list, k);
      if (!json_object_get(a, "dur") || !json_object_get(b, "dur") || number(a, "tid") != number(b, "tid")) continue;
      double a0 = number(a, "ts"), a1 = a0 + number(a, "dur"), b0 = number(b, "ts"), b1 = b0 + number(b, "dur"), slack = 0.002;
      bool apart = a1 <= b0 + slack || b1 <= a0 + slack, inside = (a0 >= b0 - slack && a1 <= b1 + slack) || (b0 >= a0 - slack && b1 <= a1 + slack);
      assert_true(apart || inside);
    }
}

static void test_events(void **state)
{
  (void)state;
  struct span outer, name;
  struct trace *t = trace_open();
  span_begin(&outer, "test", "outer");
  span_begin(&name, "test", HOSTILE);
  span_end(&name);
  pool_run(3, 40, job, NULL);
  span_end(&outer);
  json_t *root = taken(t), *list = json_object_get(root, "traceEvents");
  int inner = 0, threads = 0, hostile = 0;
  double first = 1e18, last = 0, outer_time = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *e = json_array_get(list, i);
    const char *what = json_string_value(json_object_get(e, "name"));
    inner += !strcmp(what, "inner"), threads += !strcmp(what, "thread_name"), hostile += strstr(what, "\"},\\") != NULL;
    if (!json_object_get(e, "dur")) continue;
    first = MIN(first, number(e, "ts")), last = MAX(last, number(e, "ts") + number(e, "dur"));
    if (!strcmp(what, "outer") && !number(e, "tid")) outer_time = number(e, "dur");
  }
  assert_int_equal(inner, 40);
  assert_int_equal(hostile, 1);
  assert_in_range(threads, 1, 3);
  assert_true(last - first <= outer_time + 0.01);
  hold_nesting(list);
  json_decref(root);
  trace_close(t);
}

static void test_no_trace(void **state)
{
  (void)state;
  struct span s;
  span_begin(&s, "test", "nobody notes it");
  span_note(&s, "%d", 1);
  span_end(&s);
  pool_run(2, 4, job, NULL);
  assert_null(trace_here().trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_events), cmocka_unit_test(test_no_trace)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
