// A remembered result with disturbed times is measured again by the next job, unless the caller accepts it.
#include "../folder.h"
#include "base/memory.h"
#include "drive/drive.h"
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "program pair() {\n  X: f32[4, 6]\n  Y: f32[4, 6]\n  return X + Y * 2\n}\n";
static const char why[] = "the reference loop ran 14.0 times slower than its best";

static struct mica_options options(const char *db)
{
  struct mica_options o = mica_options_default();
  o.db = db, o.measure = 1, o.seconds = 0.02, o.max_block_ops = 3, o.threads = 1;
  return o;
}

// As if the machine had been overloaded when the row was made.
static void mark(const char *db)
{
  struct arena mem = {0};
  struct mica_options o = options(db);
  struct graph *g;
  struct job j;
  struct str s = {0};
  struct err e = {0};
  char *row;
  assert_int_equal(load_text(&mem, text, "pair", 0, NULL, &g, &e), OK);
  assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
  assert_int_equal(db_get(j.db, j.key, &mem, &row, NULL, NULL, &e), OK);
  json_t *v = json_loads(row, 0, NULL);
  assert_int_equal(json_object_set_new(v, "disturbed", json_string(why)), 0);
  json_text(v, &s);
  assert_int_equal(db_put(j.db, j.key, str_text(&s), NULL, 0, &e), OK);
  json_decref(v), str_free(&s), job_close(&j), arena_close(&mem);
}

static struct mica_report *optimize(struct mica_context *m, const struct mica_options *o)
{
  struct mica_program *p;
  struct mica_report *r = NULL;
  if (mica_load_text(m, text, "pair", 0, NULL, &p) || mica_optimize(m, p, o, &r)) fail_msg("%s", mica_error(m));
  return r;
}

static void it_is_measured_again(void **state)
{
  (void)state;
  char db[64];
  snprintf(db, sizeof db, "%s/mica.db", folder);
  struct mica_context *m = mica_open();
  struct mica_options o = options(db), any = o;
  any.disturbed = true;
  assert_false(mica_report_recalled(optimize(m, &o)));
  assert_true(mica_report_recalled(optimize(m, &any)));
  mark(db);
  const struct mica_report *r = optimize(m, &any);
  assert_true(mica_report_recalled(r));
  assert_string_equal(mica_report_disturbed(r), why);
  assert_non_null(strstr(mica_report_text(r), why));
  r = optimize(m, &o);
  assert_false(mica_report_recalled(r));
  assert_string_not_equal(mica_report_disturbed(r), why);
  r = optimize(m, &any);
  assert_true(mica_report_recalled(r));
  assert_string_not_equal(mica_report_disturbed(r), why);
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_measured_again)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
