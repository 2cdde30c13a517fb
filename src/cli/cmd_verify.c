// mica verify, and the loading of programs that most subcommands share.
#include "cli/cli.h"

int cli_load(struct cli *c, const char *path, struct graph **g)
{
  enum dtype t;
  TRY(load_file(&c->mem, path, c->nset, c->set, g, &c->err));
  if (!c->dtype) return OK;
  TRY(dtype_read(c->dtype, &t, &c->err));
  return graph_cast(&c->mem, *g, t, g, &c->err);
}

// Limits of tests at full size: seconds on a few cores, or minutes if a certain answer is required.
static const int64_t FULL_OPS = 20000000000, STRICT_OPS = 200000000000;

static void print(const struct certificate *r)
{
  struct str text = {0};
  certificate_text(r, &text);
  fputs(str_text(&text), stdout);
  str_free(&text);
}

int cmd_verify(struct cli *c)
{
  struct graph *a, *b;
  struct certificate r = {0};
  struct verify_opts o = {.seed = c->seed, .full_size_ops = c->strict ? STRICT_OPS : FULL_OPS, .threads = cli_threads(c), .stop = cli_stop};
  TRY(cli_load(c, c->args[0], &a));
  TRY(cli_load(c, c->args[1], &b));
  TRY(verify_equal(a, b, &o, &r, &c->err));
  if (output_wants_text(c)) print(&r);
  int answer = r.equal ? OK : NO;
  if (c->strict && (r.scope == EVIDENCE_REDUCED || r.finding == FOUND_UNDECIDED)) answer = UNSURE;
  json_t *v = certificate_json(&r);
  int status = output_json(c, v);
  json_decref(v);
  return status != OK ? status : answer;
}
