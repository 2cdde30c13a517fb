// The text of a tail. In a cluster, each block leaves its results in its own shared memory. After a barrier of the cluster it reads those of the
// others, and a second barrier keeps the memory alive until all have read. By the last block: a block first makes its results visible in device
// memory, then increments a counter. The block that counts last resets the counter and reads all results.
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

// Prints the digits of `number` that belong to split grid axes, or to the other axes (split: false), as a new number. x is the fastest digit.
// packed: `number` counts these axes alone, and the new number counts all axes. Otherwise it is the reverse.
static void regroup(const struct tail *x, const char *number, int64_t below, bool split, bool packed, struct str *out)
{
  const struct graph *b = x->j->n->block;
  int64_t weight = 1;
  for (int i = 0; i < b->ngrid; i++) {
    bool own = (x->split >> i & 1) == split;
    if (own && !(packed && b->grid[i] == 1))
      str_add(out, "%s%s / %lld %% %lld * %lld", out->n ? " + " : "", number, (long long)below, (long long)b->grid[i], (long long)weight);
    below *= own || !packed ? b->grid[i] : 1;
    weight *= own || packed ? b->grid[i] : 1;
  }
}

void tail_blocks(const struct tail *x, struct text *t)
{
  const struct graph *b = x->j->n->block;
  bool cluster = x->way == TAIL_CLUSTER;
  struct str bid = {0};
  if (cluster) regroup(x, "@block", x->parts, false, true, &bid), regroup(x, "@rank", 1, true, true, &bid);
  text_fill(t,
            "?cluster @block = #grid.indices()\n"
            "?cluster @rank = @block % $parts\n"
            "?cluster @bid = $bid\n"
            "?!cluster @bid = #grid.indices()",
            HOLES(NULL, INT(cluster, cluster), INT(parts, x->parts), STR(bid, str_text(&bid))));
  str_free(&bid);
  for (int k = 0; k < x->nbases; k++) {
    int64_t below = x->base[k].below;
    for (int i = 0; i < x->base[k].grid; i++) below *= b->grid[i];
    text_line(t, "@base%d = @bid / %lld %% %lld", k, (long long)below, (long long)x->base[k].extent);
  }
}

// ---- buffers ----

void tail_arguments(const struct tail *x, struct text *t, const char **global, struct lower_out *out, struct str *reads, struct str *writes)
{
  emit_arguments(t, x->j->mem, &x->r.k, global, out, reads, writes);
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

// Prints the tail's chunk numbers for an item.
static void chunks(const struct tail *x, struct text *t)
{
  int64_t below = 1;
  EACH_AXIS(a, x->p.grid) {
    text_line(t, "@c%d = @item / %lld %% %lld", a, (long long)below, (long long)x->p.chunks[a]);
    below *= x->p.chunks[a];
  }
}

static void item(const struct tail *x, struct text *t, const char **global)
{
  struct row_text r = row_text_new(&x->p, (struct text){t->out, t->indent, .marks = t->marks, .tail = true});
  r.team = "team", r.buffer = global;
  row_coordinates(&r);
  text_line(&r.t, "%s = #team.indices()", r.coordinate);
  chunks(x, &r.t);
  row_begin(&r);
  row_passes(&r);
  text_about(t, 0);
  if (x->rounds > 1 && x->p.threads > 32) text_line(&r.t, "Sync<barrier>#team()");
}

static void items(const struct tail *x, struct text *t, const char **global)
{
  bool cluster = x->way == TAIL_CLUSTER;
  TEXT_SCOPE(t);
  text_begin(t,
             "for (z = 0; z < $rounds; z += 1) {\n" // a loop even for one round: it hides the head's names
             "?cluster @item = z * $parts + @rank\n"
             "?!cluster @item = z\n"
             "?some if (@item < $blocks) {",
             HOLES(NULL, INT(rounds, x->rounds), INT(cluster, cluster), INT(parts, x->parts), INT(some, cluster && x->p.blocks % x->parts),
                   INT(blocks, x->p.blocks)));
  item(x, t, global);
}

static void team(const struct tail *x, struct text *t, const char **global, int threads)
{
  struct row_text r = row_text_new(&x->p, *t);
  TEXT_SCOPE(t);
  row_coordinates(&r);
  text_begin(t,
             "?part if (@tid < $threads) {\n"
             "#team = #t.tile([$threads])[0].reshape(0, [$extents])",
             HOLES(NULL, INT(part, x->p.threads < threads), INT(threads, x->p.threads), STR(extents, r.threads)));
  items(x, t, global);
}

// ---- which threads compute it ----

// A barrier of the cluster. hands_over: results written before it are read after it; otherwise blocks only wait before they end.
static void meet(struct text *t, bool hands_over)
{
  text_line(t, "Sync<cluster.arrive%s>#t()", hands_over ? "" : ".relaxed");
  text_line(t, "Sync<cluster.wait>#t()");
}

void tail_open_last(struct text *t, const char *group, int threads, int64_t parts)
{
  text_begin(t,
             "#all = #t.tile([$threads])[0]\n"
             "%order:[1].i32.SH\n"
             "%count:[].i32.RF\n"
             "Sync<barrier>#all()\n"
             "if (@tid == 0) {\n"
             "%one:[].i32.RF <- Init<1>()\n"
             "Sync<fence.gpu>()\n"
             "%count <- Move<atom.add>(%counters[$group], %one)\n"
             "Sync<fence.gpu>()\n"
             "%order[0] <- Move(%count)\n"
             "}\n"
             "Sync<barrier>#all()\n"
             "@order = value(%order[0])\n"
             "if (@order == $last) {\n"
             "if (@tid == 0) {\n"
             "%count <- Init<0>()\n"
             "%counters[$group] <- Move(%count)\n"
             "}",
             HOLES(NULL, INT(threads, threads), STR(group, group), INT(last, parts - 1)));
}

static void by_the_last(const struct tail *x, struct text *t, const char **global, int threads)
{
  TEXT_SCOPE(t);
  struct str group = {0};
  str_add(&group, "0");
  regroup(x, "@bid", 1, false, false, &group);
  tail_open_last(t, str_text(&group), threads, x->parts);
  str_free(&group);
  team(x, t, global, threads);
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
