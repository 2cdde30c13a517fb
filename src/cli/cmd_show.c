// mica show: a program or muGraph in another form.
#include "cli/cli.h"

static void print(const struct cli *c, const struct graph *g, void (*form)(const struct graph *, struct str *))
{
  struct str text = {0};
  form(g, &text);
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  str_free(&text);
}

// A report.json of a folder of --out.
static int page(struct cli *c)
{
  char *text;
  size_t n;
  json_error_t at;
  struct str html = {0};
  TRY(output_check(c->html, &c->err));
  TRY(file_read(&c->mem, c->args[0], &text, &n, &c->err));
  json_t *report = json_loadb(text, n, 0, &at);
  bool fits = json_is_object(report) && json_object_get(report, "schema") && json_object_get(report, "source");
  if (!report)
    err_set(&c->err, ERR_JSON, ((struct loc){c->args[0], at.line, at.column}), "%s", at.text);
  else if (!fits)
    err_set(&c->err, ERR_JSON, NOWHERE, "%s is no report", c->args[0]);
  if (!fits) err_hint(&c->err, "--html takes the report.json that `mica optimize --out DIR` writes");
  if (fits) report_html(&c->mem, report, &html);
  json_decref(report);
  int status = fits ? output_write(c->html, str_text(&html), html.n, &c->err) : (int)c->err.status;
  return str_free(&html), status;
}

int cmd_show(struct cli *c)
{
  struct graph *g, *plain;
  if (c->html) return page(c);
  TRY(cli_load(c, c->args[0], &g));
  TRY(graph_check(g, &c->err));
  if (c->expand) TRY(graph_expand(&c->mem, g, false, &g, &c->err));
  if (c->unfold) TRY(graph_unfold(&c->mem, g, &g, &c->err));
  if (c->text) print(c, g, graph_print);
  if (c->abstract) {
    struct str text = {0};
    TRY(graph_expand(&c->mem, g, false, &plain, &c->err));
    TRY(abstract_text(&c->mem, plain, &text, &c->err));
    if (output_wants_text(c)) fputs(str_text(&text), stdout);
    str_free(&text);
  }
  if (c->draw || (!c->text && !c->abstract)) print(c, g, graph_draw);
  if (!c->json) return OK;
  json_t *v = graph_json(g);
  int status = output_json(c, v);
  json_decref(v);
  return status;
}
