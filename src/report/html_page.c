// The page. It loads nothing, and a policy in its head forbids that, so no text in a report can. The report itself is embedded as data; characters
// that could end a script element are JSON escapes.
#include "report/html.h"
#include "base/visible.h"

#include <string.h>

extern const char html_style_text[], html_script_text[]; // html_page.css, html_page.js

static const struct {
  const char *id, *title;
  void (*write)(struct html *h);
} sections[] = {{"result", "Result", html_summary},
                {"graph", "Found graph", html_kernels},
                {"candidates", "Candidates", html_candidates},
                {"climb", "Climb", html_climb},
                {"roofline", "Roofline", html_roofline},
                {"search", "Search", html_counters},
                {"certificate", "Certificate", html_certificate},
                {"checks", "Numbers", html_checks},
                {"program", "Program", html_program},
                {"again", "Reproduce", html_again}};

// ---- contents ----

static struct graph *graph_of(struct arena *mem, const json_t *v)
{
  struct graph *g = NULL;
  struct err e = {0};
  struct str text = {0};
  if (!json_is_object(v)) return NULL;
  json_text(v, &text);
  if (graph_from_json(mem, str_text(&text), text.n, "report", &g, &e) != OK || graph_check(g, &e) != OK) g = NULL;
  str_free(&text);
  return g && g->level == KERNEL ? g : NULL;
}

static int make_device(struct html *h, const struct target *t, struct err *e)
{
  struct graph *g;
  struct lower_plan p;
  struct choice *pick;
  struct device_program *d = NEW(h->mem, struct device_program);
  struct target *gpu = NEW(h->mem, struct target);
  TRY(launches_target(h->r, t, gpu, e));
  TRY(launches_graph(h->mem, h->r, &g, e));
  g->name = html_txt(h->r, "program");
  const json_t *made = json_object_get(h->r, "gpu");
  TRY(launches_read(h->mem, json_object_get(made, "launches"), json_object_get(made, "stored"), g, gpu, &p, &pick, e));
  TRY(lower_make(h->mem, &p, pick, d, e));
  return h->d = d, OK;
}

static int make_source(struct html *h, const struct target *t, const struct graph *g, struct err *e)
{
  struct gen_info info = {0};
  char id[64];
  struct str source = {0};
  gen_identifier(id, g->name ? g->name : "program");
  int status = gen_c(g, id, t, &source, NULL, &info, e);
  if (status == OK) h->c = arena_strdup(h->mem, str_text(&source));
  return str_free(&source), status;
}

static void make_kernels(struct html *h, struct graph *g)
{
  struct target t;
  struct err e = {0};
  int status = target_open(*html_txt(h->r, "target") ? html_txt(h->r, "target") : "cpu", MAX(1, html_int(h->r, "threads")), true, &t, &e);
  if (status == OK) status = t.kind == TARGET_GPU ? make_device(h, &t, &e) : make_source(h, &t, g, &e);
  if (status != OK) h->no_kernels = arena_strdup(h->mem, e.text);
}

// ---- the page ----

static void data(struct html *h)
{
  struct str text = {0};
  json_text(h->r, &text);
  html_raw(h, "<script type=\"application/json\" id=\"report\">");
  for (size_t i = 0, len; i < text.n; i += MAX(len, 1)) {
    unsigned code;
    len = visible_decode(text.p + i, text.n - i, &code);
    if (!len)
      str_add(h->out, "\\ufffd");
    else if (len == 1 && strchr("<>&", text.p[i]))
      str_add(h->out, "\\u%04x", code);
    else if (!visible_hidden(code))
      str_raw(h->out, text.p + i, len);
    else if (code < 0x10000)
      str_add(h->out, "\\u%04x", code);
    else
      str_add(h->out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
  }
  html_raw(h, "</script>\n");
  str_free(&text);
}

static void head(struct html *h)
{
  html_raw(h, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, "
              "initial-scale=1\">\n");
  html_raw(h, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
              "img-src data:; base-uri 'none'; form-action 'none'\">\n");
  html_add(h, "<meta name=\"generator\" content=\"Mica %s\">\n<title>%s on %s: Mica</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n",
           MICA_VERSION, html_txt(h->r, "program"), html_txt(h->r, "target"));
  html_raw(h, html_style_text);
  html_raw(h, "</style>\n</head>\n<body>\n");
}

static void top(struct html *h)
{
  html_raw(h, "<a class=\"skip\" href=\"#main\">To the report</a>\n<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\" "
              "focusable=\"false\"><defs>"
              "<marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerUnits=\"userSpaceOnUse\" markerWidth=\"8\" markerHeight=\"8\" "
              "orient=\"auto-start-reverse\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs></svg>\n");
  html_add(h, "<header><h1>%s</h1><p>%s &middot; %s &middot; %d thread%s &middot; Mica %s</p></header>\n<nav aria-label=\"Sections\"><ul>\n",
           html_txt(h->r, "program"), html_txt(h->r, "target"), html_txt(h->r, "device"), html_int(h->r, "threads"),
           html_int(h->r, "threads") == 1 ? "" : "s", html_txt(h->r, "mica"));
  for (size_t i = 0; i < COUNT(sections); i++) html_add(h, "<li><a href=\"#%s\">%s</a></li>\n", sections[i].id, sections[i].title);
  html_raw(h, "</ul></nav>\n<main id=\"main\">\n");
}

void html_page(struct arena *mem, const json_t *report, const struct device_program *d, const char *c, struct str *out)
{
  struct html h = {.mem = mem, .out = out, .r = report, .d = d, .c = c};
  struct graph *g = graph_of(mem, json_object_get(report, "graph"));
  h.source = graph_of(mem, json_object_get(report, "source"));
  if (g && !d && !c) make_kernels(&h, g);
  h.g = h.d ? h.d->g : g;
  head(&h);
  top(&h);
  for (size_t i = 0; i < COUNT(sections); i++) sections[i].write(&h);
  html_raw(&h, "</main>\n<p id=\"said\" class=\"said\" aria-live=\"polite\"></p>\n");
  data(&h);
  html_raw(&h, "<script>\n");
  html_raw(&h, html_script_text);
  html_raw(&h, "</script>\n</body>\n</html>\n");
}

void report_html(struct arena *mem, const json_t *report, struct str *out) { html_page(mem, report, NULL, NULL, out); }
