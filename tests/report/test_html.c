// The report as an HTML page. It is well-formed for any report, never uses text of a report as markup, refers to no other file, and is deterministic.
// Checks of the markup: elements nest, attributes are quoted, ids are unique, and every link has a target.
// test: quick release
#include "../thin.h"
#include "base/memory.h"
#include "report/html.h"
#include "front/front.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- a reader of markup ----

enum { DEPTH = 200, IDS = 8000 };
struct markup {
  const char *p, *start;
  int depth, nids, nlinks, scripts, handlers, elements;
  char open[DEPTH][16];
  char id[IDS][48], link[IDS][48];
};

static void fail_at(const struct markup *m, const char *what) { fail_msg("%s at byte %ld: %.80s", what, (long)(m->p - m->start), m->p); }

static bool is_void(const char *tag)
{
  static const char *const all[] = {"meta", "link", "br", "img", "path", "rect", "circle"};
  for (size_t i = 0; i < COUNT(all); i++)
    if (!strcmp(tag, all[i])) return true;
  return false;
}

static void word(struct markup *m, char *out, size_t room, const char *more)
{
  size_t n = 0;
  while (isalnum((unsigned char)*m->p) || (*m->p && strchr(more, *m->p))) {
    if (n + 1 >= room) fail_at(m, "a long name");
    out[n++] = *m->p++;
  }
  out[n] = 0;
  if (!n) fail_at(m, "no name");
}

static void attribute(struct markup *m)
{
  char name[32];
  word(m, name, sizeof name, "-:");
  m->handlers += !strncmp(name, "on", 2);
  if (!strcmp(name, "src") || !strcmp(name, "srcset")) fail_at(m, "something is loaded");
  if (*m->p != '=') return;
  if (m->p[1] != '"') fail_at(m, "an attribute without quotes");
  const char *value = m->p + 2, *end = strchr(value, '"');
  if (!end || memchr(value, '<', (size_t)(end - value))) fail_at(m, "an attribute that does not end");
  size_t n = (size_t)(end - value);
  if (!strcmp(name, "id")) {
    assert_true(m->nids < IDS && n < 48);
    snprintf(m->id[m->nids++], 48, "%.*s", (int)n, value);
  }
  if (!strcmp(name, "href") && *value == '#') {
    assert_true(m->nlinks < IDS && n < 48);
    snprintf(m->link[m->nlinks++], 48, "%.*s", (int)n - 1, value + 1);
  } else if (!strcmp(name, "href") && strncmp(value, "data:,\"", 7))
    fail_at(m, "a link to elsewhere");
  m->p = end + 1;
}

static void close_tag(struct markup *m)
{
  char tag[16];
  m->p += 2;
  word(m, tag, sizeof tag, "");
  if (!m->depth || strcmp(m->open[m->depth - 1], tag) || *m->p != '>') fail_at(m, "an end that does not fit");
  m->depth--, m->p++;
}

static void raw_text(struct markup *m, const char *end)
{
  const char *to = strstr(m->p, end);
  if (!to) fail_at(m, "no end of raw text");
  m->p = to;
}

static void open_tag(struct markup *m)
{
  char tag[16];
  m->p++;
  word(m, tag, sizeof tag, "");
  m->elements++;
  for (m->p += strspn(m->p, " \n"); *m->p && *m->p != '>' && *m->p != '/'; m->p += strspn(m->p, " \n")) attribute(m);
  bool closed = *m->p == '/';
  m->p += closed;
  if (*m->p++ != '>') fail_at(m, "a tag that does not end");
  m->scripts += !strcmp(tag, "script");
  if (closed || is_void(tag)) return;
  assert_true(m->depth < DEPTH);
  snprintf(m->open[m->depth++], 16, "%s", tag);
  if (!strcmp(tag, "script")) raw_text(m, "</script>");
  if (!strcmp(tag, "style")) raw_text(m, "</style>");
}

static void reference(struct markup *m)
{
  const char *p = m->p + 1;
  while (isalnum((unsigned char)*p) || *p == '#') p++;
  if (*p != ';' || p == m->p + 1) fail_at(m, "an & that is no reference");
  m->p = p + 1;
}

static void check_links(const struct markup *m)
{
  for (int i = 0; i < m->nids; i++)
    for (int k = 0; k < i; k++)
      if (!strcmp(m->id[i], m->id[k])) fail_msg("two elements with id %s", m->id[i]);
  for (int i = 0; i < m->nlinks; i++) {
    int k = 0;
    while (k < m->nids && strcmp(m->id[k], m->link[i])) k++;
    if (k == m->nids) fail_msg("a link to #%s, which is not there", m->link[i]);
  }
}

static struct markup *read_markup(const char *page)
{
  struct markup *m = calloc(1, sizeof *m);
  static const char doctype[] = "<!DOCTYPE html>";
  assert_non_null(m);
  assert_memory_equal(page, doctype, sizeof doctype - 1);
  m->start = page, m->p = page + sizeof doctype - 1;
  while (*m->p) {
    if (*m->p == '<' && m->p[1] == '/')
      close_tag(m);
    else if (*m->p == '<')
      open_tag(m);
    else if (*m->p == '&')
      reference(m);
    else if (*m->p == '>')
      fail_at(m, "a bare >");
    else
      m->p++;
  }
  if (m->depth) fail_msg("<%s> does not end", m->open[m->depth - 1]);
  check_links(m);
  assert_int_equal(m->scripts, 2);
  assert_int_equal(m->handlers, 0);
  return m;
}

static int check_page(const json_t *report)
{
  struct arena mem = {0};
  struct str page = {0};
  report_html(&mem, report, &page);
  assert_true(page.n < 2 << 20);
  struct markup *m = read_markup(str_text(&page));
  int elements = m->elements;
  free(m);
  str_free(&page);
  arena_close(&mem);
  return elements;
}

// ---- reports ----

static const char soft[] = "program soft(n = 64) {\n  X: f32[32, n]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n";
static const char attention[] = "program att() {\n  Q: f16[2, 64, 64]\n  K: f16[2, 64, 256]\n  V: f16[2, 256, 64]\n"
                                "  return matmul(softmax(matmul(Q, K), dim=2), V)\n}\n";
static const char two[] =
    "program two() {\n  X: f32[32, 32]\n  W: f32[32, 32]\n  A = relu(matmul(X, W))\n  B = gelu(matmul(A, W))\n  return B, A\n}\n";

static const char found[] =
    "graph found {\n  Q: f32[2, 64, 64]\n  K: f32[2, 64, 256]\n  V: f32[2, 256, 64]\n  t0 = block(x=2, y=2; i=4) {\n"
    "    v = iter(V, imap={x:0}, fmap={i:1})\n    k = iter(K, imap={x:0}, fmap={i:2})\n    q = iter(Q, imap={x:0, y:1})\n"
    "    t0 = matmul(q, k)\n    t2, t3 = accum_max(max(t0, dim=2))\n    t4 = thread(x=1; i=32) {\n      t0 = iter(t0, fmap={i:1})\n"
    "      t2 = iter(t2, fmap={i:1})\n      save(accum(exp(t0 - t2), fmap={i:1}))\n    }\n    t6 = exp(t3)\n"
    "    t7 = accum_rescale(matmul(t4, v), t6)\n    t8 = accum_sum_rescale(t4, t6, dim=2)\n    save(t7 / t8, omap={x:0, y:1})\n  }\n  return t0\n}\n";

static struct reports {
  json_t *cpu, *parts, *gpu;
  json_t *levels; // of the CPU, with a graph of three levels whichever was the fastest
} reports;

static json_t *make(const char *text, const char *target)
{
  struct mica_context *m = mica_open();
  struct mica_options o = mica_options_default();
  struct mica_program *p;
  struct mica_report *r = NULL;
  o.target = target, o.remember = false, o.seconds = 0.02, o.measure = 2, o.max_block_ops = 8, o.threads = 2;
  if (mica_load_text(m, text, "test", 0, NULL, &p) != OK || mica_optimize(m, p, &o, &r) != OK) fail_msg("%s", mica_error(m));
  json_t *v = json_loads(mica_report_json(r), 0, NULL);
  assert_non_null(v);
  mica_close(m);
  return v;
}

static json_t *with_graph(const json_t *report, const char *text)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  json_t *v = json_copy((json_t *)report);
  if (load_text(&mem, text, "found", 0, NULL, &g, &e) != OK) fail_msg("%s", e.text);
  json_object_set_new(v, "graph", graph_json(g));
  arena_close(&mem);
  return v;
}

static int setup(void **state)
{
  (void)state;
  reports.cpu = make(soft, "cpu"), reports.parts = make(two, "cpu"), reports.gpu = make(attention, "sm_90a");
  reports.levels = with_graph(reports.cpu, found);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  json_decref(reports.cpu), json_decref(reports.parts), json_decref(reports.gpu), json_decref(reports.levels);
  return 0;
}

static char *page_of(const json_t *report)
{
  struct arena mem = {0};
  struct str page = {0};
  report_html(&mem, report, &page);
  arena_close(&mem);
  char *copy = strdup(str_text(&page));
  str_free(&page);
  return copy;
}

static int count(const char *page, const char *what)
{
  int n = 0;
  for (const char *p = page; (p = strstr(p, what)); p += strlen(what)) n++;
  return n;
}

// ---- tests ----

static void well_formed(void **state)
{
  (void)state;
  check_page(reports.cpu), check_page(reports.parts), check_page(reports.gpu), check_page(reports.levels);
}

static void all_sections(void **state)
{
  static const char *const ids[] = {"result", "graph", "candidates", "climb", "roofline", "search", "certificate", "checks", "program", "again"};
  (void)state;
  char *page = page_of(reports.gpu);
  for (size_t i = 0; i < COUNT(ids); i++) {
    char text[64];
    snprintf(text, sizeof text, "<section id=\"%s\"", ids[i]);
    assert_int_equal(count(page, text), 1);
  }
  assert_int_equal(count(page, "http:") + count(page, "https:"), 0);
  assert_int_equal(count(page, "aria-label=\"tile program\""),
                   (int)json_array_size(json_object_get(json_object_get(reports.gpu, "gpu"), "launches")));
  assert_int_equal(count(page, "No texts of kernels"), 0);
  free(page);
}

// A row of the table for each candidate, a bar for each counter that is not 0.
static void counts_match(void **state)
{
  (void)state;
  const json_t *parts = json_object_get(reports.cpu, "parts"), *p, *rule;
  const char *key;
  char *page = page_of(reports.cpu), text[64];
  size_t i;
  int n = 0;
  json_array_foreach(parts, i, p) n += (int)json_array_size(json_object_get(p, "candidates"));
  assert_true(n > 0);
  assert_int_equal(count(page, "<tr class=\"v-"), n);
  json_object_foreach(json_object_get(json_object_get(reports.cpu, "search"), "pruned"), key, rule)
  {
    char number[32];
    snprintf(text, sizeof text, "<th scope=\"row\">%s</th><td class=\"num\">%s</td>", key, report_grouped(number, json_number_value(rule)));
    assert_int_equal(count(page, text), 1);
  }
  free(page);
}

static void same_every_time(void **state)
{
  (void)state;
  const json_t *all[] = {reports.cpu, reports.parts, reports.gpu, reports.levels};
  for (size_t i = 0; i < COUNT(all); i++) {
    char *a = page_of(all[i]), *b = page_of(all[i]);
    assert_string_equal(a, b);
    free(a), free(b);
  }
}

// Lines of listings with the key among theirs.
static int lines_about(const char *page, const char *key, size_t n)
{
  int lines = 0;
  for (const char *p = page; (p = strstr(p, "<span class=\"l")); p++) {
    const char *end = strchr(p, '>'), *at = p;
    while (at && at < end && (at = strstr(at, "k")) && at < end && (strncmp(at, key, n) || (at[n] != '"' && at[n] != ' '))) at++;
    lines += at && at < end;
  }
  return lines;
}

// Every operator of the found graphs is somewhere in the kernels' texts: in the C, and in the tile programs and the CUDA.
static void nodes_in_texts(void **state)
{
  (void)state;
  const json_t *all[] = {reports.levels, reports.gpu};
  for (size_t r = 0; r < COUNT(all); r++) {
    char *page = page_of(all[r]);
    int linked = 0;
    for (const char *p = page; (p = strstr(p, "<g class=\"n ")); p++) {
      const char *key = strstr(p, "data-n=\"") + 8;
      size_t n = strcspn(key, "\"");
      bool block = memchr(key, 'b', n) && !memchr(key, 't', n), quiet = !strncmp(p + 12, "view", 4);
      if (!block || quiet) continue;
      int lines = lines_about(page, key, n);
      if (lines < 2) fail_msg("node %.*s is in %d lines", (int)n, key, lines); // one is that of the graph as text
      linked++;
    }
    assert_true(linked > 1);
    free(page);
  }
}

// Labels of loops stand inside their drawings, with room for the letters.
static void labels_of_loops(void **state)
{
  (void)state;
  static const char label[] = "<text class=\"f\" x=\"8\" y=\"";
  const json_t *all[] = {reports.levels, reports.gpu};
  for (size_t r = 0; r < COUNT(all); r++) {
    char *page = page_of(all[r]);
    assert_true(count(page, label) > 0);
    for (const char *p = page; (p = strstr(p, label)); p++) assert_true(strtod(p + sizeof label - 1, NULL) >= 12);
    free(page);
  }
}

static const char *const hostile[] = {"<script>alert(1)</script>",
                                      "\"><img src=x onerror=alert(1)>",
                                      "' onmouseover='alert(1)",
                                      "]]>--><!--",
                                      "</style></title></svg><b>",
                                      "&lt;&amp;&#x3c;",
                                      "\xd1\x82\xd0\xb5\xd0\xbd\xd0\xb7\xd0\xbe\xd1\x80 \xe5\xbc\xa0\xe9\x87\x8f \xf0\x9f\xa6\x86",
                                      "\xe2\x80\xae evil \xe2\x80\xa6",
                                      "a\x01\x1b[31mb\nc\td",
                                      "%s%n%d",
                                      "javascript:alert(1)",
                                      "\\u003c/script\\u003e",
                                      "{{x}}${y}`"};

static void poison(json_t *v, const char *with, bool names)
{
  const char *key;
  void *next;
  json_t *child;
  size_t i;
  json_object_foreach_safe(v, next, key, child)
  {
    bool graph = !strcmp(key, "source") || !strcmp(key, "graph");
    if (json_is_string(child) && !names)
      json_object_set_new(v, key, json_string(with));
    else if (!graph || !names)
      poison(child, with, names);
  }
  json_array_foreach(v, i, child)
  {
    if (json_is_string(child))
      json_array_set_new(v, i, json_string(with));
    else
      poison(child, with, names);
  }
}

// All strings of the report but those of its graphs and its target, and keys of objects.
static json_t *with_strings(const json_t *report, const char *with)
{
  json_t *v = json_deep_copy(report), *source = json_incref(json_object_get(v, "source")), *graph = json_incref(json_object_get(v, "graph")),
         *target = json_incref(json_object_get(v, "target"));
  poison(v, with, false);
  json_object_set_new(v, "source", source), json_object_set_new(v, "graph", graph), json_object_set_new(v, "target", target);
  json_object_set_new(json_object_get(json_object_get(v, "search"), "pruned"), with, json_integer(7));
  json_object_set_new(v, "warning", json_string(with)), json_object_set_new(v, "left", json_string(with));
  return v;
}

// A name for the graph, and one for each input and what reads it.
static json_t *with_names(const json_t *report, const char *with)
{
  json_t *v = json_deep_copy(report);
  const char *const graphs[] = {"source", "graph"};
  for (size_t g = 0; g < COUNT(graphs); g++) {
    json_t *graph = json_object_get(v, graphs[g]), *nodes = json_object_get(graph, "nodes"), *n;
    size_t i;
    json_object_set_new(graph, "name", json_string(with));
    struct str text = {0}, quoted = {0}, out = {0};
    json_array_foreach(nodes, i, n)
    {
      const char *own = json_string_value(json_array_get(json_object_get(n, "out"), 0));
      if (strcmp(json_string_value(json_object_get(n, "op")), "input") || !own) continue;
      json_t *name = json_sprintf("%s%d", with, (int)i);
      char *old_text, *new_text = json_dumps(name, JSON_ENCODE_ANY);
      json_t *old = json_string(own);
      old_text = json_dumps(old, JSON_ENCODE_ANY);
      json_text(nodes, &text);
      for (const char *p = str_text(&text); *p;) { // everywhere, as a whole string
        size_t k = strlen(old_text);
        if (!strncmp(p, old_text, k))
          str_add(&out, "%s", new_text), p += k;
        else
          str_raw(&out, p++, 1);
      }
      json_t *renamed = json_loads(str_text(&out), 0, NULL);
      assert_non_null(renamed);
      json_object_set_new(graph, "nodes", renamed);
      mem_free(old_text), mem_free(new_text);
      json_decref(name), json_decref(old);
      str_free(&text), str_free(&quoted), str_free(&out);
      break;
    }
  }
  return v;
}

static void hostile_text(void **state)
{
  (void)state;
  const json_t *all[] = {reports.cpu, reports.parts, reports.levels, reports.gpu};
  for (size_t r = 0; r < COUNT(all); r++)
    for (size_t i = r % (size_t)quick_step(2); i < (all[r] == reports.gpu ? 3 : COUNT(hostile)); i += (size_t)quick_step(2)) {
      json_t *strings = with_strings(all[r], hostile[i]), *names = with_names(all[r], hostile[i]);
      check_page(strings), check_page(names);
      json_decref(strings), json_decref(names);
    }
}

// The names reach the page, as text.
static void hostile_names_shown(void **state)
{
  (void)state;
  json_t *v = with_names(reports.cpu, hostile[0]);
  char *page = page_of(v);
  assert_true(count(page, "<code>&lt;script&gt;alert(1)&lt;/script&gt;") > 0);
  free(page);
  json_decref(v);
}

static const char *const other[] = {"null", "7", "\"x\"", "[[1], null, \"a\"]", "{}", "-1e300", "123456789012345678"};

static void without(const json_t *report, const char *key, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    json_t *v = json_copy((json_t *)report);
    json_object_set_new(v, key, json_loads(other[i], JSON_DECODE_ANY, NULL));
    check_page(v);
    json_decref(v);
  }
}

// Pages of a GPU take a while, because kernels are made for them.
static void anything_missing(void **state)
{
  (void)state;
  static const char *const of_gpu[] = {"gpu", "target", "graph", "machine"};
  const char *key;
  json_t *child, *empty = json_object();
  check_page(empty);
  json_decref(empty);
  json_object_foreach(reports.levels, key, child) without(reports.levels, key, COUNT(other));
  for (size_t k = 0; k < COUNT(of_gpu); k++) without(reports.gpu, of_gpu[k], 3);
}

static void wrong_inside(const json_t *report, const char *object)
{
  const char *key;
  json_t *was = json_object_get(report, object), *child;
  json_object_foreach(was, key, child)
  {
    json_t *v = json_copy((json_t *)report), *o = json_copy(was);
    json_object_set_new(o, key, json_is_string(child) ? json_real(-1e308) : json_is_number(child) ? json_string("<b>") : json_real(1e-308));
    json_object_set_new(v, object, o);
    check_page(v);
    json_decref(v);
  }
}

// The same with nested objects: numbers, lists and words in each other's places.
static void anything_wrong(void **state)
{
  (void)state;
  static const char *const inner[] = {"search", "baseline", "best", "certificate", "machine", "options", "share"};
  for (size_t k = 0; k < COUNT(inner); k++) wrong_inside(reports.levels, inner[k]);
  wrong_inside(reports.gpu, "gpu");
}

// A row and a disc for each step of a climb, on whatever axes they may need; lines have strokes where they begin with a time.
static void courses(void **state)
{
  static const struct {
    const char *steps;
    int n, strokes;
  } t[] = {
      {"[{'line': 1, 'change': 'rows vec=4', 'us': 12.5, 'measured': 30}, {'line': 1, 'change': 'vec 4 to 8', 'before_us': 12.5, 'us': 11, "
       "'measured': 60},"
       " {'line': 2, 'change': 'mma <b>', 'us': 14, 'measured': 30}, {'line': 2, 'change': '', 'us': 10.9, 'measured': 90, 'exact': true}]",
       4, 2},
      {"[{'line': 1, 'change': 'a', 'us': 5, 'measured': 0}]", 1, 1},
      {"[{'line': 0, 'change': 'a', 'us': 0, 'measured': 1e300, 'exact': true}, {'line': -3, 'us': -7}, {'line': 1e18, 'us': 1e300}, 'x', null, {}]",
       6, 0},
      {"[{'line': 1, 'us': 1e-9, 'measured': 1}, {'line': 1, 'us': 1e9, 'before_us': 1e-300, 'measured': 2}]", 2, 1},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(t); i++) {
    char *text = strdup(t[i].steps);
    for (char *p = text; *p; p++) *p = *p == '\'' ? '"' : *p;
    json_t *v = json_deep_copy(reports.cpu), *part = json_array_get(json_object_get(v, "parts"), 0), *steps = json_loads(text, 0, NULL);
    assert_non_null(steps);
    json_object_set_new(part, "climb", steps);
    check_page(v);
    char *page = page_of(v), *section = strstr(page, "<section id=\"climb\""), *end = section ? strstr(section, "</section>") : NULL;
    assert_non_null(end);
    *end = 0;
    assert_int_equal(count(section, "<g class=\"pt"), t[i].n);
    assert_int_equal(count(section, "<tr><td"), t[i].n);
    assert_int_equal(count(section, "<path class=\"course"), t[i].strokes);
    assert_int_equal(count(section, "nan") + count(section, "inf\""), 0);
    json_decref(v);
    free(page), free(text);
  }
}

// A report with very many steps at one place.
static void long_course(void **state)
{
  (void)state;
  json_t *v = json_deep_copy(reports.cpu), *steps = json_array();
  for (int i = 0; i < 5000; i++) json_array_append_new(steps, json_pack("{s:i, s:s, s:i, s:i}", "line", i, "change", "x", "us", 5, "measured", 7));
  json_object_set_new(v, "climb", steps);
  check_page(v);
  json_decref(v);
}

// The CPU race's record, and times of each kernel by itself, which the page shows.
static void own_figures(void **state)
{
  (void)state;
  const json_t *all[] = {reports.cpu, reports.parts};
  for (size_t i = 0; i < COUNT(all); i++) {
    const json_t *kernels = json_object_get(json_object_get(all[i], "cpu"), "kernels"), *k;
    size_t n;
    assert_int_equal(json_array_size(kernels), json_integer_value(json_object_get(json_object_get(all[i], "best"), "kernels")));
    json_array_foreach(kernels, n, k)
    {
      char name[64];
      snprintf(name, sizeof name, "%s_k%zu", json_string_value(json_object_get(all[i], "program")), n);
      assert_string_equal(json_string_value(json_object_get(k, "name")), name);
      assert_true(json_number_value(json_object_get(k, "us")) > 0);
    }
    char *page = page_of(all[i]);
    assert_int_equal(count(page, "<dt>Own time</dt>"), (int)json_array_size(kernels));
    free(page);
  }
  assert_null(json_object_get(reports.gpu, "cpu"));
}

static void escapes(void **state)
{
  static const struct {
    const char *in, *out;
  } t[] = {{"<a b=\"c\" d='e'>&", "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;"},
           {"\xff\xc0\x80", "&#xfffd;&#xfffd;&#xfffd;"},
           {"\xed\xa0\x80", "&#xfffd;&#xfffd;&#xfffd;"}, // half of a surrogate pair
           {"\xe2\x80\xae", "\\u{202e}"},
           {"a\x1b", "a\\u{1b}"},
           {"\xe5\xbc\xa0", "\xe5\xbc\xa0"},
           {"\xe5\xbc", "&#xfffd;&#xfffd;"},
           {"\n\t", "\n\t"}};
  (void)state;
  for (size_t i = 0; i < COUNT(t); i++) {
    struct str s = {0};
    html_escape(&s, t[i].in, strlen(t[i].in));
    assert_string_equal(str_text(&s), t[i].out);
    str_free(&s);
  }
}

// ---- the layout ----

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static struct sheet random_sheet(struct arena *mem, unsigned seed, int n)
{
  struct sheet s = {.nboxes = n, .box = NEWS(mem, struct sheet_box, n), .edge = NEWS(mem, struct sheet_edge, 3 * n)};
  for (int i = 0; i < n; i++) {
    s.box[i] = (struct sheet_box){.w = 30 + next(&seed) % 200, .h = 30 + (next(&seed) % 5 ? 10 : next(&seed) % 300), .late = next(&seed) % 2};
    for (int k = 0; k < 3 && i; k++)
      if (next(&seed) % 2) s.edge[s.nedges++] = (struct sheet_edge){.from = (int)(next(&seed) % (unsigned)i), .to = i};
    for (int e = 0; e < s.nedges; e++)
      if (s.edge[e].to == i) s.box[i].stage = MAX(s.box[i].stage, s.box[s.edge[e].from].stage);
    if (next(&seed) % 6 == 0) s.box[i].stage = MIN(2, s.box[i].stage + 1);
  }
  return s;
}

static void check_sheet(const struct sheet *s)
{
  for (int i = 0; i < s->nboxes; i++) {
    const struct sheet_box *a = &s->box[i];
    assert_true(a->x >= 0 && a->y >= 0 && a->x + a->w <= s->w && a->y + a->h <= s->h);
    for (int k = 0; k < i; k++) {
      const struct sheet_box *b = &s->box[k];
      bool apart = a->x + a->w <= b->x + 0.01 || b->x + b->w <= a->x + 0.01 || a->y + a->h <= b->y || b->y + b->h <= a->y;
      if (!apart) fail_msg("boxes %d and %d overlap", i, k);
      if (a->stage < b->stage) assert_true(a->y + a->h <= b->y);
    }
  }
  for (int e = 0; e < s->nedges; e++) {
    const struct sheet_edge *d = &s->edge[e];
    const struct sheet_box *from = &s->box[d->from], *to = &s->box[d->to];
    assert_true(d->n >= 2 && d->y[0] == from->y + from->h && d->y[d->n - 1] == to->y);
    assert_true(d->x[0] >= from->x && d->x[0] <= from->x + from->w && d->x[d->n - 1] >= to->x && d->x[d->n - 1] <= to->x + to->w);
    for (int i = 1; i < d->n; i++) assert_true(d->y[i] >= d->y[i - 1]);
  }
}

static void sheets(void **state)
{
  (void)state;
  for (unsigned seed = 1; seed <= 60; seed++) {
    struct arena mem = {0};
    struct sheet a = random_sheet(&mem, seed, 1 + (int)(seed % 40)), b = random_sheet(&mem, seed, 1 + (int)(seed % 40));
    sheet_arrange(&mem, &a), sheet_arrange(&mem, &b);
    check_sheet(&a);
    for (int i = 0; i < a.nboxes; i++) assert_true(a.box[i].x == b.box[i].x && a.box[i].y == b.box[i].y);
    arena_close(&mem);
  }
}

// A chain hangs straight down, and the two sides of a diamond stand beside each other.
static void sheet_of_diamond(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct sheet_box box[] = {{.w = 60, .h = 20}, {.w = 60, .h = 20}, {.w = 60, .h = 20}, {.w = 60, .h = 20}, {.w = 60, .h = 20}};
  struct sheet_edge edge[] = {{.from = 0, .to = 1}, {.from = 0, .to = 2}, {.from = 1, .to = 3}, {.from = 2, .to = 3}, {.from = 3, .to = 4}};
  struct sheet s = {.nboxes = 5, .nedges = 5, .box = box, .edge = edge};
  sheet_arrange(&mem, &s);
  check_sheet(&s);
  assert_true(box[1].y == box[2].y && box[3].y > box[1].y && box[4].y > box[3].y);
  assert_true(box[0].x > MIN(box[1].x, box[2].x) && box[0].x < MAX(box[1].x, box[2].x));
  assert_true(box[3].x - box[4].x < 1 && box[4].x - box[3].x < 1);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(well_formed),      cmocka_unit_test(all_sections),    cmocka_unit_test(counts_match), cmocka_unit_test(same_every_time),
      cmocka_unit_test(nodes_in_texts),   cmocka_unit_test(labels_of_loops), cmocka_unit_test(hostile_text), cmocka_unit_test(hostile_names_shown),
      cmocka_unit_test(anything_missing), cmocka_unit_test(anything_wrong),  cmocka_unit_test(courses),      cmocka_unit_test(long_course),
      cmocka_unit_test(own_figures),      cmocka_unit_test(escapes),         cmocka_unit_test(sheets),       cmocka_unit_test(sheet_of_diamond),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
