// Help, from the rows of cmd.def and opt.def.
#include "cli/cli.h"

#include <string.h>

const struct option_row option_rows[OPTS] = {
#define OPT(id, name, kind, field, argument, doc) {#name, argument, doc},
#include "cli/opt.def"
#undef OPT
};

enum { WIDEST = 100, NARROWEST = 60, OPTION_AT = 27, COMMAND_AT = 17 }; // columns

// The width of the window, within readable limits.
static int help_width(FILE *f)
{
  int n = terminal_columns(fileno(f));
  return n ? MAX(MIN(n, WIDEST), NARROWEST) : WIDEST;
}

// Prints words from column `at` on; the first line is already at that column.
static void wrapped(FILE *f, const char *text, int at)
{
  const int width = help_width(f);
  int column = at;
  for (size_t n; *text; text += n + strspn(text + n, " ")) {
    n = strcspn(text, " ");
    if (column > at && column + 1 + (int)n > width) column = at, fprintf(f, "\n%*s", at, "");
    column += fprintf(f, "%s%.*s", column > at ? " " : "", (int)n, text);
  }
  fprintf(f, "\n");
}

void help_overview(FILE *f)
{
  fprintf(f, "mica %s, a superoptimizer for tensor programs\n\n", mica_version());
  for (int i = 0; i < cmd_count; i++) fprintf(f, "  mica %-9s ", cmds[i].name), wrapped(f, cmds[i].summary, COMMAND_AT);
  fprintf(f, "\n`mica help COMMAND` has the options and examples, `mica help passes` the passes of `mica optimize`.\n"
             "Exit status: 0 done, 1 the answer is no, 2 the program or an option is wrong, 3 the environment is,\n4 the answer is not certain "
             "(`mica verify --strict`).\n");
}

static void example_lines(FILE *f, const char *text)
{
  for (const char *end; *text; text = end) {
    end = strchr(text, '\n');
    end = end ? end + 1 : text + strlen(text);
    fprintf(f, "  %.*s", (int)(end - text), text);
  }
  fprintf(f, "\n");
}

void help_command(FILE *f, const struct cmd *cmd)
{
  fprintf(f, "mica %s%s%s [OPTIONS]\n\n  ", cmd->name, *cmd->args ? " " : "", cmd->args);
  wrapped(f, cmd->summary, 2);
  fprintf(f, "\n"), terminal_title(f, "options"), fprintf(f, "\n");
  for (int i = 0; i < OPTS; i++) {
    if (!(cmd->options >> i & 1)) continue;
    char left[64];
    snprintf(left, sizeof left, "--%s %s", option_rows[i].name, option_rows[i].argument);
    if (strlen(left) < OPTION_AT - 2)
      fprintf(f, "  %-24s ", left);
    else
      fprintf(f, "  %s\n%*s", left, OPTION_AT, "");
    wrapped(f, option_rows[i].doc, OPTION_AT);
  }
  fprintf(f, "\n"), terminal_title(f, "examples"), fprintf(f, "\n");
  example_lines(f, cmd->examples);
}

int cmd_help(struct cli *c)
{
  const struct cmd *cmd = c->nargs ? cmd_find(c->args[0]) : NULL;
  if (c->nargs && !strcmp(c->args[0], "passes")) return watch_list(stdout), OK;
  if (c->nargs && !cmd) return cmd_unknown(c, c->args[0]);
  if (cmd)
    help_command(stdout, cmd);
  else
    help_overview(stdout);
  return OK;
}
