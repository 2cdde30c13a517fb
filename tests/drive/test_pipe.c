// The pipeline by its public interface, and parts of it that no other test covers.
// test: quick sanitized
#include "folder.h"
#include "drive/drive.h"
#include "front/front.h"
#include "report/report.h"

#include <setjmp.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char soft[] = "program soft(n = 64) {\n"
                           "  X: f32[32, n]\n"
                           "  E = exp(X)\n"
                           "  return E / sum(E, dim=1)\n"
                           "}\n";

static void json_forms(void **state)
{
  static const char *const same[] = {
      "{}\n", "[]\n", "0.1\n", "[1, 2.5, \"a\\\"b\", null, true]\n", "{\"a\": {\"b\": [1e-05, 3]}}\n",
  };
  (void)state;
  for (size_t i = 0; i < COUNT(same); i++) {
    struct str out = {0};
    json_t *v = json_loads(same[i], JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    json_text(v, &out);
    assert_string_equal(str_text(&out), same[i]);
    str_free(&out);
    json_decref(v);
  }
}

static void json_breaks_long_lines(void **state)
{
  (void)state;
  struct str out = {0};
  json_t *v = json_object();
  for (int i = 0; i < 12; i++) {
    char key[32];
    snprintf(key, sizeof key, "a_long_key_%d", i);
    json_object_set_new(v, key, json_integer(i));
  }
  json_text(v, &out);
  assert_non_null(strstr(out.p, "{\n  \"a_long_key_0\": 0,\n  \"a_long_key_1\": 1,"));
  json_t *again = json_loads(out.p, 0, NULL);
  assert_true(json_equal(v, again));
  json_decref(again);
  json_decref(v);
  str_free(&out);
}

static void prune_names(void **state)
{
  (void)state;
  unsigned off;
  struct err e = {0};
  assert_int_equal(prune_parse(NULL, &off, &e), OK);
  assert_int_equal(off, 0);
  assert_int_equal(prune_parse("expr,canon", &off, &e), OK);
  assert_int_equal(off, 1u << PRUNE_EXPR | 1u << PRUNE_CANON);
  assert_int_equal(prune_parse("expr,exp", &off, &e), USER);
  assert_non_null(strstr(e.hint, "expr"));
  struct err f = {0};
  assert_int_equal(prune_parse("phase", &off, &f), USER);
  assert_non_null(strstr(f.text, "cannot be switched off: phase"));
}

static void messages(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  const char *bad[][2] = {{"n", "name=integer"},
                          {"=3", "name=integer"},
                          {"n=", "name=integer"},
                          {"n=3x", "name=integer"},
                          {"n=99999999999999999999", "the integer is too large"}};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(mica_load_text(m, soft, "soft.mica", 1, &bad[i][0], &p), MICA_USER);
    assert_non_null(strstr(mica_error(m), bad[i][1]));
  }
  assert_int_equal(mica_load_text(m, "program p() {\n  X: f32[2]\n  return epx(X)\n}\n", "p.mica", 0, NULL, &p), MICA_USER);
  assert_non_null(strstr(mica_error(m), "p.mica:3:"));
  assert_int_equal(mica_load_text(m, soft, "soft.mica", 0, NULL, &p), MICA_OK);
  assert_string_equal(mica_error(m), "");
  mica_close(m);
}

static void optimize_and_recall(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r, *again;
  struct mica_options o = mica_options_default();
  char path[64];
  snprintf(path, sizeof path, "%s/mica.db", folder);
  o.db = path, o.seconds = 0.05, o.measure = 2, o.threads = 2, o.disturbed = true;
  assert_int_equal(mica_load_text(m, soft, "soft.mica", 0, NULL, &p), MICA_OK);
  assert_int_equal(mica_optimize(m, p, &o, &r), MICA_OK);
  assert_false(mica_report_recalled(r));
  json_t *v = json_loads(mica_report_json(r), 0, NULL);
  assert_string_equal(json_string_value(json_object_get(v, "program")), "soft");
  assert_true(json_number_value(json_object_get(v, "speedup")) >= 1);
  assert_true(json_is_true(json_object_get(json_object_get(v, "certificate"), "equal")));
  assert_true(json_is_true(json_object_get(json_object_get(v, "certificate"), "proved")));
  assert_true(json_number_value(json_object_get(v, "max_rel_err")) < 1e-4);
  json_decref(v);
  assert_int_equal(mica_optimize(m, p, &o, &again), MICA_OK);
  assert_true(mica_report_recalled(again));
  assert_string_equal(mica_report_json(r), mica_report_json(again));
  assert_string_equal(mica_report_text(r), mica_report_text(again));
  snprintf(path, sizeof path, "%s/out", folder);
  assert_int_equal(mica_report_save(m, again, path), MICA_OK);
  assert_int_equal(mica_report_save(m, again, "/dev/null/out"), MICA_ENVIRONMENT);
  mica_close(m);
}

// The result of a finished search is there for the next one. It is not there for a search that starts afresh, nor for
// another program. It goes when the search has ended. The first moments of a search are not worth keeping.
static void units_kept(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct job j;
  struct graph *g, *other;
  struct mica_options o = mica_options_default();
  struct keeper k, k2;
  void *bytes;
  size_t n;
  o.db = arena_printf(&mem, "%s/units.db", folder);
  assert_int_equal(load_text(&mem, soft, "soft.mica", 0, NULL, &g, &e), OK);
  assert_int_equal(load_text(&mem, soft, "soft.mica", 1, (const char *[]){"n=32"}, &other, &e), OK);
  assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
  const struct search_store *s = keeper_open(&k, &j, g), *s2 = keeper_open(&k2, &j, other);
  s->put(s->arg, 1, "early", 5);
  assert_false(s->get(s->arg, 1, &mem, &bytes, &n));
  k.start -= 10;
  s->put(s->arg, 2, "bytes", 5);
  assert_true(s->get(s->arg, 2, &mem, &bytes, &n));
  assert_int_equal(n, 5);
  assert_memory_equal(bytes, "bytes", 5);
  assert_false(s2->get(s2->arg, 2, &mem, &bytes, &n));
  o.fresh = true;
  assert_false(s->get(s->arg, 2, &mem, &bytes, &n));
  o.fresh = false;
  keeper_drop(&k2);
  assert_true(s->get(s->arg, 2, &mem, &bytes, &n));
  keeper_drop(&k);
  assert_false(s->get(s->arg, 2, &mem, &bytes, &n));
  job_close(&j);
  o.remember = false;
  assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
  assert_null(keeper_open(&k, &j, g));
  job_close(&j);
  arena_close(&mem);
}

// Messages of a crew's processes, as if three of them sat in one.
struct table_talk {
  const void *bytes[3];
  size_t n[3];
};

static void overhear(void *arg, const void *mine, size_t bytes, struct arena *mem, void **all, size_t *n)
{
  struct table_talk *t = arg;
  t->bytes[2] = mine, t->n[2] = bytes;
  for (int i = 0; i < 3; i++) all[i] = arena_copy(mem, t->bytes[i] ? t->bytes[i] : mine, n[i] = t->bytes[i] ? t->n[i] : bytes);
}

static int agree(struct job *j, struct table_talk *t, int status, struct err *e)
{
  static struct crew c;
  *e = (struct err){0};
  c = (struct crew){2, 3, t, overhear};
  return job_agree(j, &c, status, e);
}

static void processes_agree(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct job a, b;
  struct graph *g;
  struct mica_options o = mica_options_default(), p = o;
  struct table_talk t = {0};
  o.remember = p.remember = false, o.threads = 3, p.threads = 5, p.seed = 2;
  assert_int_equal(load_text(&mem, soft, "soft.mica", 0, NULL, &g, &e), OK);
  assert_int_equal(job_open(&a, &mem, g, &o, &e), OK);
  assert_int_equal(agree(&a, &t, OK, &e), OK);
  struct table_talk first = {{arena_copy(&mem, t.bytes[2], t.n[2])}, {t.n[2]}}; // now the first process says what this one said
  assert_int_equal(job_open(&b, &mem, g, &p, &e), OK);
  assert_int_equal(agree(&b, &first, OK, &e), ENV); // another seed
  assert_non_null(strstr(e.text, "other limits"));
  p.seed = o.seed;
  assert_int_equal(agree(&b, &first, OK, &e), OK);
  assert_int_equal(b.threads, 3); // the target is that of the first
  assert_int_equal(b.target.cores, 3);
  assert_int_equal(agree(&b, &first, USER, &e), USER); // this one failed by itself
  assert_int_equal(agree(&a, &t, USER, &e), USER);
  struct table_talk failed = {{arena_copy(&mem, t.bytes[2], t.n[2])}, {t.n[2]}};
  assert_int_equal(agree(&b, &failed, OK, &e), USER); // the first one failed and says why itself
  assert_int_equal(e.id, ERR_NONE);
  job_close(&a);
  job_close(&b);
  arena_close(&mem);
}

static void no_words(void *arg, const char *pass, const char *title, const char *text)
{
  (void)arg, (void)pass, (void)text;
  assert_string_not_equal(title, "no data reached it");
}

// With a report and without.
static void stopped_at_once(void **state)
{
  (void)state;
  volatile int stop = 1;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = mica_options_default();
  o.remember = false, o.stop = &stop;
  assert_int_equal(mica_load_text(m, soft, "soft.mica", 0, NULL, &p), MICA_OK);
  assert_int_equal(mica_optimize(m, p, &o, &r), MICA_ENVIRONMENT);
  assert_non_null(strstr(mica_error(m), "stopped"));
  o.stop_after = "pick", o.told = no_words;
  assert_int_equal(mica_optimize(m, p, &o, &r), MICA_ENVIRONMENT);
  assert_non_null(strstr(mica_error(m), "stopped before all passes had ended"));
  mica_close(m);
}

static void numbers_of_options(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  static const double reals[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
  static const int integers[] = {-1, INT_MIN, INT_MAX};
  assert_int_equal(mica_load_text(m, soft, "soft.mica", 0, NULL, &p), MICA_OK);
  for (size_t i = 0; i < COUNT(reals); i++)
    for (int which = 0; which < 3; which++) {
      struct mica_options o = mica_options_default();
      *(which == 0 ? &o.time : which == 1 ? &o.tune : &o.seconds) = reals[i];
      assert_int_equal(mica_optimize(m, p, &o, &r), MICA_USER);
      assert_non_null(strstr(mica_error(m), "is a number from 0 to 1000000"));
    }
  for (size_t i = 0; i < COUNT(integers); i++)
    for (int which = 0; which < 4; which++) {
      struct mica_options o = mica_options_default();
      *(which == 0 ? &o.threads : which == 1 ? &o.search_threads : which == 2 ? &o.measure : &o.max_values) = integers[i];
      assert_int_equal(mica_optimize(m, p, &o, &r), MICA_USER);
      assert_non_null(strstr(mica_error(m), "is an integer from 0 to 1000000"));
    }
  mica_close(m);
}

static void no_compiler(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = mica_options_default();
  o.remember = false;
  setenv("CC", "/nonexistent/cc", 1);
  assert_int_equal(mica_load_text(m, soft, "soft.mica", 0, NULL, &p), MICA_OK);
  assert_int_equal(mica_optimize(m, p, &o, &r), MICA_ENVIRONMENT);
  assert_non_null(strstr(mica_error(m), "compiler"));
  unsetenv("CC");
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_forms),      cmocka_unit_test(json_breaks_long_lines), cmocka_unit_test(prune_names),
      cmocka_unit_test(messages),        cmocka_unit_test(optimize_and_recall),    cmocka_unit_test(stopped_at_once),
      cmocka_unit_test(no_compiler),     cmocka_unit_test(numbers_of_options),     cmocka_unit_test(units_kept),
      cmocka_unit_test(processes_agree),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
