// mica man: manual pages in the language of man(7), made from the rows of cmd.def, opt.def and env.def.
#include "cli/cli.h"

#include <string.h>

static const struct {
  const char *name, *doc;
} variables[] = {
#define ENVIRONMENT(name, doc) {#name, doc},
#include "cli/env.def"
};

// Literal text: roff gives a meaning to a backslash, a minus, and a control character at the start of a line.
static void escaped(struct str *out, const char *text)
{
  for (bool begins = true; *text; begins = *text++ == '\n')
    if (*text == '\\')
      str_add(out, "\\e");
    else if (*text == '-')
      str_add(out, "\\-");
    else if (begins && (*text == '.' || *text == '\''))
      str_add(out, "\\&%c", *text);
    else
      str_raw(out, text, 1);
}

static void title(struct str *out, const char *page, const char *summary)
{
  str_add(out, ".TH \"%s\" 1 \"\" \"mica %s\" \"User Commands\"\n.SH NAME\n", page, mica_version());
  escaped(out, page);
  str_add(out, " \\- ");
  escaped(out, summary);
  str_add(out, "\n");
}

static void item(struct str *out, const char *head, const char *more, const char *doc)
{
  str_add(out, ".TP\n\\fB");
  escaped(out, head);
  str_add(out, "\\fR%s\\fI", *more ? " " : "");
  escaped(out, more);
  str_add(out, "\\fR\n");
  escaped(out, doc);
  str_add(out, "\n");
}

static void page_of(const struct cmd *cmd, struct str *out)
{
  char name[64];
  snprintf(name, sizeof name, "mica-%s", cmd->name);
  title(out, name, cmd->summary);
  str_add(out, ".SH SYNOPSIS\n\\fBmica %s\\fR ", cmd->name);
  escaped(out, cmd->args);
  str_add(out, " [OPTIONS]\n.SH OPTIONS\n");
  for (int i = 0; i < OPTS; i++) {
    char option[64];
    snprintf(option, sizeof option, "--%s", option_rows[i].name);
    if (cmd->options >> i & 1) item(out, option, option_rows[i].argument, option_rows[i].doc);
  }
  str_add(out, ".SH EXAMPLES\n.EX\n");
  escaped(out, cmd->examples);
  str_add(out, "\n.EE\n.SH SEE ALSO\n.BR mica (1)\n");
}

static void overview(struct str *out)
{
  title(out, "mica", "superoptimizer for tensor programs");
  str_add(out, ".SH SYNOPSIS\n\\fBmica\\fR \\fICOMMAND\\fR [OPTIONS]\n.SH DESCRIPTION\n.B mica\nreads tensor programs, finds faster equivalents of "
               "them, proves "
               "that they are equal, and makes kernels for CPUs and NVIDIA GPUs.\n.SH COMMANDS\n");
  for (int i = 0; i < cmd_count; i++) item(out, cmds[i].name, cmds[i].args, cmds[i].summary);
  str_add(out, ".SH EXIT STATUS\n0: done. 1: the answer is no. 2: the program or an option is wrong. 3: something is missing on the machine. "
               "4: the answer is not certain\n.RB ( mica\n.BR verify\n.BR \\-\\-strict ).\n.SH ENVIRONMENT\n");
  for (size_t i = 0; i < COUNT(variables); i++) item(out, variables[i].name, "", variables[i].doc);
  str_add(out, ".SH SEE ALSO\n");
  for (int i = 0; i < cmd_count; i++) str_add(out, ".BR mica\\-%s (1)%s\n", cmds[i].name, i + 1 < cmd_count ? "," : "");
}

int cmd_man(struct cli *c)
{
  const struct cmd *cmd = c->nargs ? cmd_find(c->args[0]) : NULL;
  struct str out = {0};
  if (c->nargs && !cmd) return cmd_unknown(c, c->args[0]);
  if (cmd)
    page_of(cmd, &out);
  else
    overview(&out);
  int status = output_write("-", str_text(&out), out.n, &c->err);
  return str_free(&out), status;
}
