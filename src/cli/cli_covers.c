// mica search --covers: which graphs of a file are in the search space, and what excludes the others.
#include "cli/cli.h"

// Files of Mirage are arrays; files of Mica are programs or objects.
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

static const double EXPLAIN = 5; // seconds for finding reasons: searches with a rule off may take minutes

// The equivalent form in which it was found.
static const char *const as[] = {[ALIKE_SELF] = "",
                                 [ALIKE_AXES] = ", with one axis in place of two that partition alike",
                                 [ALIKE_JOINS] = ", without the loop that only joins parts"};

static json_t *cover_json(const struct cover *x)
{
  json_t *rules = json_array();
  for (int r = 0; r < PRUNES; r++)
    if (x->rules >> r & 1) json_array_append_new(rules, json_string(prune_rows[r].name));
  return json_pack("{s:b, s:s, s:o}", "held", x->held, "why", x->why, "rules", rules);
}

static int answer(struct cli *c, const struct cover *held, int n)
{
  json_t *list = json_array();
  int status = OK, count = 0;
  for (int i = 0; i < n; i++) {
    count += held[i].held;
    json_array_append_new(list, cover_json(&held[i]));
    if (!output_wants_text(c)) continue;
    if (held[i].held)
      printf("%d. in the space%s\n", i + 1, as[held[i].as]);
    else
      printf("%d. not in the space: %s\n", i + 1, held[i].why);
  }
  if (output_wants_text(c)) printf("%d of %d in the space\n", count, n);
  json_t *root =
      json_pack("{s:s, s:i, s:s, s:i, s:i, s:o}", "mica", mica_version(), "schema", 1, "file", c->covers, "graphs", n, "held", count, "covers", list);
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
  o.explain = EXPLAIN;
  struct cover *held = NEWS(&c->mem, struct cover, n + 1);
  TRY(search_covers(&c->mem, j->split.parts[0].g, &j->target, &o, n, g, held, &c->err));
  return answer(c, held, n);
}
