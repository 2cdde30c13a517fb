// Candidates that were dropped are kept in a folder, each with the command that shows by itself why: the same subprogram, this graph in place
// of a search, the same ways to make its kernels.
#include "drive/pass.h"

#include <string.h>

static const char *folder_of(const struct job *j) { return j->opts->keep_dropped ? j->opts->keep_dropped : j->opts->dump_dir; }

int dropped_open(struct job *j, struct err *e) { return j->opts->keep_dropped ? file_mkdirs(j->opts->keep_dropped, e) : OK; }

static void add_quoted(struct str *out, const char *s)
{
  str_add(out, "'");
  for (; *s; s++)
    if (*s == '\'')
      str_add(out, "'\\''");
    else
      str_raw(out, s, 1);
  str_add(out, "'");
}

static int write_graph(const struct job *j, const struct graph *g, const char *path, struct err *e)
{
  struct graph *named = graph_copy(j->mem, g);
  struct str text = {0};
  named->name = j->program->name; // messages name kernels by it
  graph_print(named, &text);
  int status = file_write(path, str_text(&text), text.n, e);
  return str_free(&text), status;
}

// Without composites a program's stable form is known by plan_stable alone, so a whole program is written as it was given.
static int write_part(const struct job *j, const struct contest *c, const char *path, struct err *e)
{
  return write_graph(j, j->single ? j->program : c->part->g, path, e);
}

// How kernels were made, or where none came of it how they were asked for.
static void add_knobs(const struct pass_on *on, struct str *out)
{
  const struct lowered *d = on->x->gpu.lowered;
  struct str how = {0};
  for (int i = 0; d && i < d->program.nlaunch; i++) str_add(&how, "%s%s", i ? "; " : "", d->program.launch[i].how);
  if (!how.n && on->j->opts->knobs) str_add(&how, "%s", on->j->opts->knobs);
  if (how.n) str_add(out, " --knobs "), add_quoted(out, str_text(&how));
  str_free(&how);
}

static const char *command(const struct pass_on *on, int pass, const char *part, const char *candidate)
{
  const struct job *j = on->j;
  struct str s = {0};
  str_add(&s, "mica optimize "), add_quoted(&s, part);
  str_add(&s, " --candidate "), add_quoted(&s, candidate);
  if (j->target.kind != TARGET_CPU) str_add(&s, " --target %s", j->target.name);
  if (j->opts->seed != 1) str_add(&s, " --seed %llu", (unsigned long long)j->opts->seed);
  if (j->opts->accept && *j->opts->accept) str_add(&s, " --accept %s", j->opts->accept);
  add_knobs(on, &s);
  str_add(&s, " --stop-after %s", passes[pass].name);
  const char *text = arena_strdup(j->mem, str_text(&s));
  return str_free(&s), text;
}

static int keep(const struct pass_on *on, int pass, struct err *e)
{
  const struct job *j = on->j;
  struct watch *w = j->watch;
  int at = (int)(on->c - j->contests);
  const char *folder = folder_of(j), *part = arena_printf(j->mem, "%s/part%d.mica", folder, at + 1);
  const char *file = arena_printf(j->mem, "%s/dropped%03d-%s.mica", folder, w->ndropped + 1, passes[pass].name);
  TRY(write_graph(j, on->x->found, file, e));
  TRY(write_part(j, on->c, part, e));
  on->x->again = command(on, pass, part, file);
  w->ndropped++;
  str_add(&w->dropped, "# subprogram %d, candidate %d: %s: %.*s\n%s\n", at + 1, pass_place(on).cand, passes[pass].name,
          (int)strcspn(on->x->dropped, "\n"), on->x->dropped, on->x->again);
  return file_write(arena_printf(j->mem, "%s/dropped.sh", folder), str_text(&w->dropped), w->dropped.n, e);
}

void dropped_keep(const struct pass_on *on, int pass)
{
  struct err e = {0};
  const struct job *j = on->j;
  bool own = on->c && pass_place(on).cand && !on->x->of && !on->x->late; // a graph that the search gave
  if (!j->watch || !folder_of(j) || !own) return;
  if (keep(on, pass, &e) != OK && j->watch->failed.status == OK) j->watch->failed = e;
}
