// mica completion: completion scripts for shells, made from the rows of cmd.def and opt.def.
#include "cli/cli.h"
#include "drive/pass.h"
#include "front/parse.h"
#include "gpu/gpu.h"

#include <string.h>

// ---- values ----

static void list_targets(struct str *out)
{
  for (int i = 0; i < target_count(); i++) str_add(out, "%s%s", i ? " " : "", target_name(i));
}

static void list_archs(struct str *out)
{
  for (int i = 0; i < target_gpus(); i++) str_add(out, "%s%s", i ? " " : "", target_gpu_at(i)->name);
  str_add(out, " c");
}

static void list_dtypes(struct str *out)
{
  for (int i = 0; i < DTYPES; i++) str_add(out, "%s%s", i ? " " : "", num_rows[i].dtype);
}

static void list_rules(struct str *out)
{
  for (int i = 0; i < PRUNES; i++) str_add(out, "%s%s", i ? " " : "", prune_rows[i].name);
}

static void list_passes(struct str *out)
{
  for (int i = 0; i < PASSES; i++) str_add(out, "%s%s", i ? " " : "", passes[i].name);
}

static void list_references(struct str *out)
{
#define REFERENCE(id, name, doc) str_add(out, "%s" name, out->n ? " " : "");
  REFERENCES(REFERENCE)
#undef REFERENCE
}

static void list_f32_products(struct str *out)
{
#define ROW(id, name, doc) str_add(out, "%s" name, out->n ? " " : "");
  F32_PRODUCTS(ROW)
#undef ROW
}

static const struct {
  int option;
  const char *words; // or NULL, and `list`
  void (*list)(struct str *out);
} values[] = {{OPT_TARGET, NULL, list_targets},        {OPT_ARCH, NULL, list_archs},
              {OPT_DTYPE, NULL, list_dtypes},          {OPT_OFF, NULL, list_rules},
              {OPT_STOP_AFTER, NULL, list_passes},     {OPT_DUMP, NULL, list_passes},
              {OPT_ENGINE, "f64 f32 field cpu", NULL}, {OPT_ACCEPT, "proved full reduced", NULL},
              {OPT_REFERENCE, NULL, list_references},  {OPT_F32_PRODUCTS, NULL, list_f32_products}};

static void values_of(int option, struct str *out)
{
  for (size_t i = 0; i < COUNT(values); i++)
    if (values[i].option == option && values[i].list) {
      values[i].list(out);
    } else if (values[i].option == option)
      str_add(out, "%s", values[i].words);
  if (!out->n && strchr(option_rows[option].argument, '|')) // "row|column"
    for (const char *p = option_rows[option].argument; *p; p++) str_raw(out, *p == '|' ? " " : p, 1);
}

static bool takes_file(int option)
{
  const char *a = option_rows[option].argument;
  return !strncmp(a, "FILE", 4) || !strncmp(a, "DIR", 3);
}

// Possible values of the first argument: "check|print FILE...", and for `mica help` the commands.
static void words_of(const struct cmd *cmd, struct str *out)
{
  const char *a = cmd->args + strspn(cmd->args, "[");
  const size_t n = strcspn(a, " ]");
  const bool verbs = memchr(a, '|', n);
  for (size_t i = 0; verbs && i < n; i++) {
    if (a[i] == '|')
      str_add(out, " ");
    else if ((a[i] >= 'a' && a[i] <= 'z') || (a[i] >= '0' && a[i] <= '9'))
      str_raw(out, a + i, 1);
  }
  if (strncmp(a, "COMMAND", strlen("COMMAND"))) return;
  for (int i = 0; i < cmd_count; i++) str_add(out, " %s", cmds[i].name);
}

// ---- shells ----

// Text within quotes: the quote and the backslash are escaped for the shell, and so are the characters of `more`.
static void quoted(struct str *out, const char *text, const char *quote, const char *more)
{
  for (; *text; text++)
    if (*text == '\'')
      str_add(out, "%s", quote);
    else if (strchr(more, *text))
      str_add(out, "\\%c", *text);
    else
      str_raw(out, text, 1);
}

static void bash(struct str *out)
{
  str_add(out, "# bash completion for mica, from `mica completion bash`\n_mica() {\n  local cur prev cmd options words\n  COMPREPLY=()\n"
               "  cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}\n"
               "  if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W '");
  for (int i = 0; i < cmd_count; i++) str_add(out, "%s%s", i ? " " : "", cmds[i].name);
  str_add(out, "' -- \"$cur\")); return; fi\n  case $prev in\n");
  for (int i = 0; i < OPTS; i++) {
    struct str v = {0};
    values_of(i, &v);
    if (v.n) str_add(out, "  --%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", option_rows[i].name, str_text(&v));
    if (!v.n && takes_file(i)) str_add(out, "  --%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", option_rows[i].name);
    if (!v.n && !takes_file(i) && *option_rows[i].argument) str_add(out, "  --%s) return ;;\n", option_rows[i].name);
    str_free(&v);
  }
  str_add(out, "  esac\n  case $cmd in\n");
  for (int i = 0; i < cmd_count; i++) {
    str_add(out, "  %s) options='", cmds[i].name);
    for (int k = 0; k < OPTS; k++)
      if (cmds[i].options >> k & 1) str_add(out, "--%s ", option_rows[k].name);
    str_add(out, "' words='");
    words_of(&cmds[i], out);
    str_add(out, "' ;;\n");
  }
  str_add(out, "  esac\n  case $cur in\n  -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
               "  *) [ \"$COMP_CWORD\" = 2 ] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
               "     COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n  esac\n}\ncomplete -o filenames -F _mica mica\n");
}

static void zsh_option(struct str *out, int k)
{
  struct str v = {0};
  values_of(k, &v);
  str_add(out, "    '--%s%s[", option_rows[k].name, *option_rows[k].argument ? "=" : "");
  quoted(out, option_rows[k].doc, "'\\''", "[]:\\");
  str_add(out, "]");
  if (v.n)
    str_add(out, ":value:(%s)", str_text(&v));
  else if (takes_file(k))
    str_add(out, ":file:_files");
  else if (*option_rows[k].argument)
    str_add(out, ":value:");
  str_add(out, "'\n");
  str_free(&v);
}

static void zsh(struct str *out)
{
  str_add(out, "#compdef mica\n# zsh completion for mica, from `mica completion zsh`\nlocal -a commands options\ncommands=(\n");
  for (int i = 0; i < cmd_count; i++) {
    str_add(out, "  '%s:", cmds[i].name);
    quoted(out, cmds[i].summary, "'\\''", "\\");
    str_add(out, "'\n");
  }
  str_add(out, ")\nif (( CURRENT == 2 )); then _describe command commands; return; fi\ncase $words[2] in\n");
  for (int i = 0; i < cmd_count; i++) {
    struct str first = {0};
    words_of(&cmds[i], &first);
    str_add(out, "%s)\n  options=(\n", cmds[i].name);
    for (int k = 0; k < OPTS; k++)
      if (cmds[i].options >> k & 1) zsh_option(out, k);
    str_add(out, "  )\n  (( CURRENT == 3 )) && compadd -- %s\n  ;;\n", str_text(&first));
    str_free(&first);
  }
  str_add(out, "esac\nshift words; (( CURRENT-- ))\n_arguments -S $options '*:file:_files'\n");
}

static void fish_option(struct str *out, const struct cmd *cmd, int k)
{
  struct str v = {0};
  values_of(k, &v);
  str_add(out, "complete -c mica -n '__fish_seen_subcommand_from %s' -l %s -d '", cmd->name, option_rows[k].name);
  quoted(out, option_rows[k].doc, "\\'", "\\");
  str_add(out, "'%s", takes_file(k) ? " -rF" : *option_rows[k].argument ? " -x" : "");
  if (v.n) str_add(out, " -a '%s'", str_text(&v));
  str_add(out, "\n");
  str_free(&v);
}

static void fish(struct str *out)
{
  str_add(out, "# fish completion for mica, from `mica completion fish`\n");
  for (int i = 0; i < cmd_count; i++) {
    struct str first = {0};
    words_of(&cmds[i], &first);
    str_add(out, "complete -c mica -n __fish_use_subcommand -f -a %s -d '", cmds[i].name);
    quoted(out, cmds[i].summary, "\\'", "\\");
    str_add(out, "'\n");
    if (first.n) str_add(out, "complete -c mica -n '__fish_seen_subcommand_from %s' -a '%s'\n", cmds[i].name, str_text(&first));
    for (int k = 0; k < OPTS; k++)
      if (cmds[i].options >> k & 1) fish_option(out, &cmds[i], k);
    str_free(&first);
  }
}

static const struct {
  const char *name;
  void (*print)(struct str *out);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

int cmd_completion(struct cli *c)
{
  struct near n = near_start(c->args[0]);
  for (size_t i = 0; i < COUNT(shells); i++) {
    near_try(&n, shells[i].name);
    if (strcmp(shells[i].name, c->args[0])) continue;
    struct str out = {0};
    shells[i].print(&out);
    int status = output_write("-", str_text(&out), out.n, &c->err);
    return str_free(&out), status;
  }
  return option_unknown(c, "shell", c->args[0], n.best, "scripts are for bash, zsh and fish");
}
