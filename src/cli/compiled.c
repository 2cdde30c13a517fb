// Programs as compiled code for `mica run`. The default database keeps machine code by its source, so that the compiler runs once.
#include "cli/cli.h"
#include "export/package.h"

static int load(struct arena *mem, const char *source, const char *function, struct module **out, struct err *e)
{
  struct db *db = NULL;
  struct err none = {0}; // errors are ignored: the database is only a cache here
  const void *so;
  size_t n;
  db_open(NULL, &db, &none);
  int status = package_compile(mem, source, function, db, &so, &n, e);
  db_close(db);
  return status == OK ? module_load(so, n, function, out, e) : status;
}

int cli_compiled(struct cli *c, const struct graph *g, const struct graph *rank, const char *name, struct module **out)
{
  struct arena mem = {0};
  struct str source = {0};
  struct target t;
  char id[64];
  gen_identifier(id, name);
  TRY(target_open(c->target, cli_threads(c), true, &t, &c->err));
  int status = gen_c(g, id, &t, &source, NULL, NULL, &c->err);
  if (status == OK && rank) status = gen_c_ranks(rank, id, &t, &source, &c->err);
  if (status == OK) status = load(&mem, str_text(&source), id, out, &c->err);
  str_free(&source), arena_close(&mem);
  return status;
}
