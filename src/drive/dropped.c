// Keeps dropped candidates in a folder, each with a command that reproduces the reason: the same subprogram, this graph instead of a search, and the
// same choices for its kernels.
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
  named->name = j->program->name; // messages use the name for kernels
  graph_print(named, &text);
  int status = file_write(path, str_text(&text), text.n, e);
  return str_free(&text), status;
}

// plan_stable recognizes a program's stable form only if it has no composites, so a whole program is written as it was given.
static int write_part(const struct job *j, const struct contest *c, const char *path, struct err *e)
{
  return write_graph(j, j->single ? j->program : c->part->g, path, e);
}

// One entry for each launch, in the form of --knobs; then whether launches are independent.
static const char *knobs_of(struct arena *mem, const struct lower_plan *p, const struct choice *pick)
{
  struct str s = {0};
  for (int u = 0; u < p->nunits; u++)
    if (!lower_inside(p, pick, u)) str_add(&s, s.n ? "; " : ""), scheme_text(&pick[u], &s);
  if (!p->dependent) str_add(&s, "; %s", INDEPENDENT);
  return str_keep(mem, &s);
}

static const char *command(const struct pass_on *on, int pass, const char *knobs, const char *part, const char *candidate)
{
  const struct job *j = on->j;
  struct str s = {0};
  str_add(&s, "mica optimize "), add_quoted(&s, part);
  str_add(&s, " --candidate "), add_quoted(&s, candidate);
  if (j->target.kind != TARGET_CPU) str_add(&s, " --target %s", j->target.name);
  if (j->opts->seed != 1) str_add(&s, " --seed %llu", (unsigned long long)j->opts->seed);
  if (j->opts->accept && *j->opts->accept) str_add(&s, " --accept %s", j->opts->accept);
  if (j->target.f32_products != F32_BF16X6) str_add(&s, " --f32-products %s", f32_products_name(j->target.f32_products));
  if (knobs) str_add(&s, " --knobs "), add_quoted(&s, knobs);
  str_add(&s, " --stop-after %s", passes[pass].name);
  return str_keep(j->mem, &s);
}

struct drop {
  int pass;
  const char *why, *knobs; // knobs NULL: the model's best
};

static int keep(const struct pass_on *on, const struct drop *d, const char **again, struct err *e)
{
  const struct job *j = on->j;
  struct watch *w = j->watch;
  int at = (int)(on->c - j->contests);
  const char *folder = folder_of(j), *part = arena_printf(j->mem, "%s/part%d.mica", folder, at + 1), *pass = passes[d->pass].name;
  const char *file = arena_printf(j->mem, "%s/dropped%03d-%s.mica", folder, w->ndropped + 1, pass);
  TRY(write_graph(j, on->x->found, file, e));
  TRY(write_part(j, on->c, part, e));
  *again = command(on, d->pass, d->knobs, part, file);
  w->ndropped++;
  str_add(&w->dropped, "# subprogram %d, candidate %d: %s: %.*s\n%s\n", at + 1, pass_place(on).cand, pass, (int)strcspn(d->why, "\n"), d->why,
          *again);
  return file_write(arena_printf(j->mem, "%s/dropped.sh", folder), str_text(&w->dropped), w->dropped.n, e);
}

static const char *kept(const struct pass_on *on, const struct drop *d)
{
  struct err e = {0};
  const struct job *j = on->j;
  const char *again = NULL;
  // a graph of the search, or a variant with other sizes
  bool own = on->c && pass_place(on).part && pass_place(on).cand && !on->x->of && !on->x->late;
  if (!j->watch || !folder_of(j) || !own) return NULL;
  if (keep(on, d, &again, &e) != OK && j->watch->failed.status == OK) j->watch->failed = e;
  return again;
}

void dropped_keep(const struct pass_on *on, int pass)
{
  const struct lowered *d = on->x->gpu.lowered;
  const char *how = d && d->program.nlaunch ? knobs_of(on->j->mem, &d->plan, d->pick) : on->j->opts->knobs; // the choices made, or requested
  const char *again = kept(on, &(struct drop){pass, on->x->dropped, how});
  if (again) on->x->again = again;
}

const char *dropped_way(const struct pass_on *on, int pass, const char *why, const struct lower_plan *p, const struct choice *pick)
{
  return kept(on, &(struct drop){pass, why, knobs_of(on->j->mem, p, pick)});
}
