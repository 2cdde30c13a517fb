// mica verify, and the loading that most subcommands share.
#include "cli/cli.h"

int cli_load(struct cli *c, const char *path, struct graph **g)
{
  enum dtype t;
  TRY(load_file(&c->mem, path, c->nset, c->set, g, &c->err));
  if (!c->dtype) return OK;
  if (!dtype_parse(c->dtype, &t)) return err_set(&c->err, ERR_DTYPE, NOWHERE, "there is no dtype %.40s", c->dtype);
  return graph_cast(&c->mem, *g, t, g, &c->err);
}

static void print(const struct certificate *r)
{
  if (!r->equal) {
    printf("not equal: %s\n", r->note);
    printf("  test %d of seed %llu\n", r->tests, (unsigned long long)r->seed);
    return;
  }
  printf(r->proved ? "equal: proved by normal forms at full size, for all inputs on which both are defined\n" : "equal\n");
  if (r->delta < 1) printf("  an unequal pair passes with probability at most %.1e\n", r->delta);
  else printf("  no theorem bounds the error here\n");
  printf("  %d tests over Z_%llu, exponents over Z_%llu, seed %llu\n", r->tests, (unsigned long long)r->p,
         (unsigned long long)r->q, (unsigned long long)r->seed);
  if (r->reduced) printf("  at reduced extents %s%s\n", r->extents, r->full_size ? ", and once at full size" : "");
  if (*r->note) printf("  %s\n", r->note);
  if (!r->proved) printf("  no proof by normal forms: %s\n", r->proof);
}

int cmd_verify(struct cli *c)
{
  struct graph *a, *b;
  struct certificate r = {0};
  struct verify_opts o = {.seed = c->seed, .threads = cli_threads(c), .stop = cli_stop};
  TRY(cli_load(c, c->args[0], &a));
  TRY(cli_load(c, c->args[1], &b));
  TRY(verify_equal(a, b, &o, &r, &c->err));
  if (output_wants_text(c)) print(&r);
  json_t *v = certificate_json(&r);
  int status = output_json(c, v);
  json_decref(v);
  return status != OK ? status : r.equal ? OK : NO;
}
