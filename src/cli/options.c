// Argument list -> struct cli, by the rows of opt.def.
#include "cli/cli.h"
#include "front/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum options_kind { KIND_FLAG, KIND_INT, KIND_WHOLE, KIND_TEXT, KIND_LIST };

static const struct {
  const char *name, *argument;
  enum options_kind kind;
  size_t offset;
} rows[OPTS] = {
#define OPT(id, name, kind, field, argument, doc) {#name, argument, KIND_##kind, offsetof(struct cli, field)},
#include "cli/opt.def"
#undef OPT
};

int option_unknown(struct cli *c, const char *what, const char *word, const char *nearest, const char *all)
{
  err_set(&c->err, ERR_OPTION, NOWHERE, "there is no %s %.80s", what, word);
  if (nearest)
    err_hint(&c->err, "did you mean %s? %s", nearest, all);
  else
    err_hint(&c->err, "%s", all);
  return USER;
}

// Commands with this option; "" for none.
static const char *those_with(struct cli *c, int opt)
{
  const char *s = "";
  for (int i = 0; i < cmd_count; i++)
    if (cmds[i].options >> opt & 1) s = arena_printf(&c->mem, "%s%s`mica %s`", s, *s ? ", " : "", cmds[i].name);
  return s;
}

static int find(struct cli *c, const char *word, size_t n, int *opt)
{
  const char *all = arena_printf(&c->mem, "`mica help %s` lists the options", c->cmd->name);
  char *name = arena_printf(&c->mem, "%.*s", (int)n, word);
  struct near near = near_start(name);
  bool elsewhere = false;
  for (int i = 0; i < OPTS; i++) {
    bool mine = c->cmd->options >> i & 1, same = !strcmp(rows[i].name, name);
    if (mine && same) return *opt = i, OK;
    if (mine) near_try(&near, rows[i].name);
    if (same) elsewhere = true, all = arena_printf(&c->mem, "it is one of %s; %s", those_with(c, i), all);
  }
  const char *best = near.best ? arena_printf(&c->mem, "--%s", near.best) : NULL;
  return option_unknown(c, "option", arena_printf(&c->mem, "--%s", name), elsewhere ? NULL : best, all);
}

static int integer(struct cli *c, int opt, const char *value, bool positive, void *field)
{
  char *end;
  errno = 0;
  unsigned long long x = strtoull(value, &end, 0);
  bool bad = errno || end == value || *end || strchr(value, '-') || (positive && (x < 1 || x > 1000000));
  if (bad) {
    err_set(&c->err, ERR_OPTION, NOWHERE, "--%s takes %s, not %.40s", rows[opt].name, positive ? "an integer from 1 to 1000000" : "an integer from 0",
            value);
    return USER;
  }
  if (positive)
    *(int *)field = (int)x;
  else
    *(uint64_t *)field = x;
  return OK;
}

static int store(struct cli *c, int opt, const char *value)
{
  void *field = (char *)c + rows[opt].offset;
  c->given[opt] = true;
  switch (rows[opt].kind) {
  case KIND_FLAG: *(bool *)field = true; return OK;
  case KIND_INT: return integer(c, opt, value, true, field);
  case KIND_WHOLE: return integer(c, opt, value, false, field);
  case KIND_LIST: c->set[c->nset++] = value; return OK;
  case KIND_TEXT: *(const char **)field = value; return OK;
  }
  return OK;
}

static int needs_value(struct cli *c, int opt)
{
  err_set(&c->err, ERR_OPTION, NOWHERE, "--%s needs a value: --%s %s", rows[opt].name, rows[opt].name, rows[opt].argument);
  return err_hint(&c->err, "`mica help %s` lists the options", c->cmd->name), USER;
}

// "--name value", "--name=value", "--flag"; *used is the number of words.
static int option(struct cli *c, int left, char **argv, int *used)
{
  const char *word = argv[0] + 2, *eq = strchr(word, '='), *value = eq ? eq + 1 : NULL;
  int opt;
  TRY(find(c, word, eq ? (size_t)(eq - word) : strlen(word), &opt));
  *used = 1;
  bool flag = rows[opt].kind == KIND_FLAG;
  if (flag && value) return err_set(&c->err, ERR_OPTION, NOWHERE, "--%s takes no value", rows[opt].name);
  if (!flag && !value) {
    if (left < 2) return needs_value(c, opt);
    value = argv[1], *used = 2;
  }
  return store(c, opt, value);
}

int cli_threads(const struct cli *c)
{
  int wanted = c->threads ? c->threads : pool_cores(), n = pool_most(wanted);
  if (n < wanted) fprintf(stderr, "warning: %d threads can be used here, not %d\n", n, wanted);
  return n;
}

static void defaults(struct cli *c, int most)
{
  struct mica_options o = mica_options_default();
  c->target = o.target, c->engine = "f64";
  c->max_block_ops = o.max_block_ops, c->max_kernel_ops = o.max_kernel_ops, c->max_part_ops = o.max_part_ops;
  c->max_values = o.max_values;
  c->measure = o.measure, c->tune = (int)o.tune, c->top = 8, c->seed = o.seed;
  c->set = NEWS(&c->mem, const char *, most);
  c->args = NEWS(&c->mem, const char *, most);
}

int options_parse(struct cli *c, int argc, char **argv)
{
  defaults(c, argc);
  bool only_args = false;
  for (int i = 0, used; i < argc; i += used) {
    used = 1;
    if (only_args || argv[i][0] != '-' || !argv[i][1])
      c->args[c->nargs++] = argv[i];
    else if (!strcmp(argv[i], "--"))
      only_args = true;
    else if (argv[i][1] != '-')
      return option_unknown(c, "option", argv[i], NULL, "options are long: --name value");
    else
      TRY(option(c, argc - i, argv + i, &used));
  }
  if (c->entry) c->set[c->nset++] = arena_printf(&c->mem, "entry=%s", c->entry);
  if (c->nargs >= c->cmd->least && c->nargs <= c->cmd->most) return OK;
  err_set(&c->err, ERR_OPTION, NOWHERE, "mica %s takes %s, not %d argument%s", c->cmd->name, *c->cmd->args ? c->cmd->args : "no argument", c->nargs,
          c->nargs == 1 ? "" : "s");
  err_hint(&c->err, "`mica help %s` has examples", c->cmd->name);
  return USER;
}
