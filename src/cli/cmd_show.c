// mica show: a program or muGraph in another form.
#include "cli/cli.h"

static void print(const struct cli *c, const struct graph *g, void (*form)(const struct graph *, struct str *))
{
  struct str text = {0};
  form(g, &text);
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  str_free(&text);
}

int cmd_show(struct cli *c)
{
  struct graph *g, *plain;
  TRY(cli_load(c, c->args[0], &g));
  TRY(graph_check(g, &c->err));
  if (c->expand) TRY(graph_expand(&c->mem, g, false, &g, &c->err));
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
