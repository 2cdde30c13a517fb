// Bars, whiskers and marks of the HTML page. Their lengths follow from the report, as fractions of one box. Disturbed times are marked.
#include "base/memory.h"
#include "drive/drive.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char report[] =
    "{'target': 'cpu', 'speedup': 4, 'disturbed': 'a thread <waited>',"
    " 'baseline': {'us': 200, 'p25': 150, 'p75': 250, 'least': 140, 'runs': 9, 'kernels': 2, 'disturbed': ''},"
    " 'best': {'us': 50, 'p25': 40, 'p75': 60, 'least': 39, 'runs': 9, 'kernels': 1, 'disturbed': 'a thread <waited>'},"
    " 'parts': [{'baseline_us': 200, 'candidates': [{'us': 50, 'disturbed': 'times lie apart'}, {'model_us': 300}, {'us': 9000}]}]}";

static char *page_of(const char *text)
{
  struct arena mem = {0};
  struct str page = {0};
  char *json = strdup(text);
  for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p;
  json_t *v = json_loads(json, 0, NULL);
  assert_non_null(v);
  report_html(&mem, v, &page);
  char *copy = strdup(str_text(&page));
  json_decref(v), str_free(&page), arena_close(&mem), free(json);
  return copy;
}

static void has(const char *page, const char *what)
{
  if (!strstr(page, what)) fail_msg("the page has no %s", what);
}

// The longest time is 250, of the upper whisker; of candidates it is twice that of op-by-op.
static void one_scale(void **state)
{
  (void)state;
  char *page = page_of(report);
  has(page,
      "<span class=\"track\"><span class=\"bar\" style=\"width:80.0%\"></span><span class=\"range\" style=\"left:60.0%;width:40.0%\"></span></span>");
  has(page,
      "<span class=\"track\"><span class=\"bar\" style=\"width:20.0%\"></span><span class=\"range\" style=\"left:16.0%;width:8.0%\"></span></span>");
  has(page, "<span class=\"track\"><span class=\"bar\" style=\"width:12.5%\"></span><span class=\"mark\" style=\"left:50.0%\" "
            "title=\"op-by-op\"></span></span>");
  has(page, "<span class=\"track\"><span class=\"bar model\" style=\"width:75.0%\"></span><span class=\"mark\"");
  has(page, "<span class=\"track\"><span class=\"bar\" style=\"width:100.0%\"></span><span class=\"mark\"");
  free(page);
}

// A share of the length is one of the same box: the one around them is what both are placed in, and it has no padding.
static void one_box(void **state)
{
  (void)state;
  char *page = page_of(report);
  for (const char *p = page; (p = strstr(p, "<td class=\"barcell\">")); p++)
    if (strncmp(p, "<td class=\"barcell\"><span class=\"track\">", 39)) fail_msg("%.60s", p);
  has(page, ".track { display: block; position: relative; height: .8rem; margin-top: .3rem; }");
  const char *cell = strstr(page, ".barcell {"), *end = cell ? strchr(cell, '}') : NULL;
  assert_non_null(end);
  const char *position = strstr(cell, "position");
  assert_true(!position || position > end);
  free(page);
}

static void disturbed(void **state)
{
  (void)state;
  char *page = page_of(report);
  has(page, "<p class=\"notice\">Disturbed: a thread &lt;waited&gt;. Times and choice are uncertain; a later run measures again.</p>");
  has(page, "least 39.0 us, <strong>disturbed</strong>: a thread &lt;waited&gt;</td>");
  has(page, "least 140 us</td>");
  has(page, "<small>disturbed: times lie apart</small>");
  free(page);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_scale), cmocka_unit_test(one_box), cmocka_unit_test(disturbed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
