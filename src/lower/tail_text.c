// Text of a tail. Of a cluster each block leaves what it saves in its own shared memory, and after a barrier of the cluster reads
// that of the others; another barrier keeps it there until all have. By the last block to come: what all threads of a block have
// saved is in device memory before one of them counts, and whoever counts last reads it, and sets the counter back.
#include "lower/tail.h"

#include <string.h>

static bool is_left(const struct tail *x, int tensor)
{
  for (int i = 0; i < x->j->n->nsave; i++)
    if (x->j->n->save[i].tensor == tensor) return true;
  return false;
}

bool tail_keeps(const struct tail *x, int tensor) { return x->way == TAIL_CLUSTER && is_left(x, tensor); }

bool tail_reads(const struct tail *x, int tensor)
{
  for (int i = 0; i < x->r.k.nvalues; i++)
    if (x->r.k.v[i].live && x->r.k.v[i].kind == KERN_LOAD && !x->r.k.v[i].at.left && x->r.k.v[i].at.tensor == tensor) return true;
  return false;
}

// The grid axes of the head in `axes`, from a number that counts them alone, x fastest.
static void spread(const struct tail *x, const char *number, int64_t below, bool split, struct str *out)
{
  const struct graph *b = x->j->n->block;
  int64_t weight = 1;
  for (int i = 0; i < b->ngrid; weight *= b->grid[i++]) {
    if ((x->split >> i & 1) != split || b->grid[i] == 1) continue;
    str_add(out, "%s%s / %lld %% %lld * %lld", out->n ? " + " : "", number, (long long)below, (long long)b->grid[i], (long long)weight);
    below *= b->grid[i];
  }
}

void tail_blocks(const struct tail *x, struct text *t)
{
  const struct graph *b = x->j->n->block;
  if (x->way == TAIL_CLUSTER) {
    struct str bid = {0};
    text_line(t, "@block = #grid.indices()");
    text_line(t, "@rank = @block %% %lld", (long long)x->parts);
    spread(x, "@block", x->parts, false, &bid), spread(x, "@rank", 1, true, &bid);
    text_line(t, "@bid = %s", str_text(&bid));
    str_free(&bid);
  } else
    text_line(t, "@bid = #grid.indices()");
  for (int k = 0; k < x->nbases; k++) {
    int64_t below = x->base[k].below;
    for (int i = 0; i < x->base[k].grid; i++) below *= b->grid[i];
    text_line(t, "@base%d = @bid / %lld %% %lld", k, (long long)below, (long long)x->base[k].extent);
  }
}

// ---- buffers ----

static bool has_argument(const struct lower_out *out, int tensor)
{
  for (int i = 0; i < out->nargs; i++)
    if (out->arg[i] == tensor) return true;
  return false;
}

static void argument(struct text *t, const char **global, const struct kern_access *a, struct lower_out *out, struct str *list)
{
  if (a->left) return;
  bool known = has_argument(out, a->tensor);
  if (!known) text_line(t, "%%%s:[%lld].%s.GL", global[a->tensor], (long long)a->elements, tile_dtype(a->type)), out->arg[out->nargs++] = a->tensor;
  str_add(list, "%s%%%s", list->n ? ", " : "", global[a->tensor]);
}

void tail_arguments(const struct tail *x, struct text *t, const char **global, struct lower_out *out, struct str *reads, struct str *writes)
{
  int *arg = NEWS(x->j->mem, int, out->nargs + x->r.k.nvalues + x->r.k.nsaves + 1);
  memcpy(arg, out->arg, sizeof *arg * (size_t)out->nargs);
  out->arg = arg;
  for (int i = 0; i < x->r.k.nvalues; i++) {
    const struct kern_value *v = &x->r.k.v[i];
    if (v->live && v->kind == KERN_LOAD && !has_argument(out, v->at.tensor)) argument(t, global, &v->at, out, reads);
  }
  for (int i = 0; i < x->r.k.nsaves; i++) argument(t, global, &x->r.k.save[i].at, out, writes);
  if (x->way != TAIL_LAST) return;
  text_line(t, "%%counters:[%lld].i32.GL", (long long)x->groups);
  out->arg[out->nargs++] = ARG_COUNTERS;
  str_add(writes, ", %%counters");
  out->counters = 4 * x->groups;
}

void tail_rooms(const struct tail *x, struct text *t, const char **global)
{
  for (int i = 0; i < x->j->n->nsave && x->way == TAIL_CLUSTER; i++) {
    int tensor = x->j->n->save[i].tensor;
    global[tensor] = arena_printf(x->j->mem, "room%d", i);
    text_line(t, "%%room%d:[%lld].%s.SH", i, (long long)x->room[i].elements, tile_dtype(x->j->store[tensor]));
  }
}

// ---- the team ----

// Chunks of the plan's axes, by the number of the item.
static void chunks(const struct tail *x, struct text *t)
{
  int64_t below = 1;
  for (int a = 0; a < x->r.k.naxes; a++) {
    int64_t n = x->p.chunks[a];
    if (n == 1 || x->p.rounds >> a & 1) continue;
    text_line(t, "@c%d = @item / %lld %% %lld", a, (long long)below, (long long)n);
    below *= n;
  }
}

static void item(const struct tail *x, struct text *t, const char **global)
{
  struct row_text r = row_text_new(x->j, &x->p, t->out);
  r.t.indent = t->indent, r.t.marks = t->marks, r.t.tail = true, r.team = "team", r.buffer = global;
  row_coordinates(&r);
  text_line(&r.t, "%s = #team.indices()", r.coordinate);
  chunks(x, &r.t);
  row_begin(&r);
  row_passes(&r);
  text_about(t, -1);
  if (x->rounds > 1 && x->p.threads > 32) text_line(&r.t, "Sync<barrier><<<#grid, #team>>>()");
}

static void items(const struct tail *x, struct text *t, const char **global)
{
  bool cluster = x->way == TAIL_CLUSTER, some = cluster && x->p.blocks % x->parts;
  text_open(t, "for (z = 0; z < %lld; z += 1)", (long long)x->rounds); // also of one: names of the head are hidden
  if (cluster)
    text_line(t, "@item = z * %lld + @rank", (long long)x->parts);
  else
    text_line(t, "@item = z");
  if (some) text_open(t, "if (@item < %lld)", (long long)x->p.blocks);
  item(x, t, global);
  if (some) text_close(t);
  text_close(t);
}

static void team(const struct tail *x, struct text *t, const char **global, int threads)
{
  struct row_text r = row_text_new(x->j, &x->p, t->out);
  row_coordinates(&r);
  bool part = x->p.threads < threads;
  if (part) text_open(t, "if (@tid < %d)", x->p.threads);
  text_line(t, "#team = #t.tile([%d])[0].reshape(0, [%s])", x->p.threads, r.threads);
  items(x, t, global);
  if (part) text_close(t);
}

// ---- who does it ----

// Before it blocks read what others left; after it, when nothing more is handed over, they may end.
static void meet(struct text *t, bool hands_over)
{
  text_line(t, "Sync<cluster.arrive%s><<<#grid, #t>>>()", hands_over ? "" : ".relaxed");
  text_line(t, "Sync<cluster.wait><<<#grid, #t>>>()");
}

// The number of the group, by the grid axes that are not split.
static const char *group(const struct tail *x)
{
  const struct graph *b = x->j->n->block;
  struct str s = {0};
  int64_t below = 1, weight = 1;
  str_add(&s, "0");
  for (int i = 0; i < b->ngrid; below *= b->grid[i++])
    if (!(x->split >> i & 1))
      str_add(&s, " + @bid / %lld %% %lld * %lld", (long long)below, (long long)b->grid[i], (long long)weight), weight *= b->grid[i];
  const char *text = arena_strdup(x->j->mem, str_text(&s));
  return str_free(&s), text;
}

static void by_the_last(const struct tail *x, struct text *t, const char **global, int threads)
{
  const char *counter = arena_printf(x->j->mem, "%%counters[%s]", group(x));
  text_line(t, "#all = #t.tile([%d])[0]", threads);
  text_line(t, "%%order:[1].i32.SH");
  text_line(t, "%%count:[].i32.RF");
  text_line(t, "Sync<barrier><<<#grid, #all>>>()");
  text_open(t, "if (@tid == 0)");
  text_line(t, "%%one:[].i32.RF");
  text_line(t, "%%one <- Init<1><<<#grid, #me>>>()");
  text_line(t, "Sync<fence.gpu><<<#grid, #me>>>()");
  text_line(t, "%%count <- Move<atom.add><<<#grid, #me>>>(%s, %%one)", counter);
  text_line(t, "Sync<fence.gpu><<<#grid, #me>>>()");
  text_line(t, "%%order[0] <- Move<<<#grid, #me>>>(%%count)");
  text_close(t);
  text_line(t, "Sync<barrier><<<#grid, #all>>>()");
  text_line(t, "@order = value(%%order[0])");
  text_open(t, "if (@order == %lld)", (long long)x->parts - 1);
  text_open(t, "if (@tid == 0)");
  text_line(t, "%%count <- Init<0><<<#grid, #me>>>()");
  text_line(t, "%s <- Move<<<#grid, #me>>>(%%count)", counter);
  text_close(t);
  team(x, t, global, threads);
  text_close(t);
}

void tail_emit(const struct tail *x, struct text *t, const char **global, int threads)
{
  if (x->way == TAIL_LAST) {
    by_the_last(x, t, global, threads);
    return;
  }
  meet(t, true);
  team(x, t, global, threads);
  meet(t, false);
}

void tail_accompany(const struct tail *x, struct text *t)
{
  if (x->way == TAIL_CLUSTER) meet(t, false), meet(t, false);
}
