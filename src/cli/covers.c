// mica search --covers: which graphs of a file the search space holds, and what excludes the others.
#include "cli/cli.h"

// Files of Mirage's are arrays; Mica's are programs or objects.
static int load(struct cli *c, struct graph ***g, int *n)
{
  char *text;
  size_t bytes, i = 0;
  TRY(file_read(&c->mem, c->covers, &text, &bytes, &c->err));
  while (i < bytes && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n')) i++;
  if (i < bytes && text[i] == '[') return cli_load_mirage(c, c->covers, g, n);
  *g = NEWS(&c->mem, struct graph *, 1), *n = 1;
  TRY(load_file(&c->mem, c->covers, 0, NULL, *g, &c->err));
  enum dtype t;
  return c->dtype && dtype_parse(c->dtype, &t) ? graph_cast(&c->mem, **g, t, *g, &c->err) : OK;
}

static int answer(struct cli *c, const struct cover *held, int n)
{
  json_t *list = json_array();
  int status = OK, count = 0;
  for (int i = 0; i < n; i++) {
    count += held[i].held;
    json_array_append_new(list, json_pack("{s:b, s:s}", "held", held[i].held, "why", held[i].why));
    if (output_wants_text(c)) printf("%d. %s%s\n", i + 1, held[i].held ? "in the space" : "not in the space: ", held[i].held ? "" : held[i].why);
  }
  if (output_wants_text(c)) printf("%d of %d in the space\n", count, n);
  json_t *root = json_pack("{s:s, s:i, s:s, s:i, s:i, s:o}", "mica", mica_version(), "schema", 1, "file", c->covers, "graphs", n,
                           "held", count, "covers", list);
  status = output_json(c, root);
  json_decref(root);
  return status != OK ? status : count == n ? OK : NO;
}

int cli_covers(struct cli *c, struct job *j)
{
  struct graph **g;
  int n;
  TRY(load(c, &g, &n));
  if (j->split.n != 1 || !j->split.parts[0].searchable)
    return err_set(&c->err, ERR_OPTION, NOWHERE, "--covers needs a program that is one subprogram; this one is %d", j->split.n);
  for (int i = 0; i < n; i++) g[i] = cli_match_inputs(c, j->split.parts[0].g, g[i]);
  struct search_opts o = job_part_opts(j, &j->contests[0]);
  struct cover *held = NEWS(&c->mem, struct cover, n + 1);
  TRY(search_covers(&c->mem, j->split.parts[0].g, &j->target, &o, n, g, held, &c->err));
  return answer(c, held, n);
}
