// Folds of rows.h over the blocks of a cluster. Each block folds its own part, and all its threads get the result. Then lanes of one warp write it to
// all blocks, each to its own place. After a barrier of the cluster, each block has all parts in its shared memory. Each fold has its own memory, and
// nothing is written after the last barrier, so that blocks may end there.
#include "lower/rows.h"

const char *row_thread_term(const struct row_text *x, const char *sum, char what, int axis, int scale)
{
  return row_term(x, sum, arena_printf(x->mem, "@%c%d", what, axis), scale);
}

// Indices of the first element of the register dimensions.
const char *row_zeros(const struct row_text *x)
{
  const char *s = "";
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (x->p->regs[a] > 1) s = arena_printf(x->mem, "%s, 0", s);
  return x->p->vec > 1 || !*s ? arena_printf(x->mem, "%s, 0", s) : s; // a single element has one dimension (row_dims)
}

// Whether the parts of one result are adjacent. A thread then reads them in vectors, with bank conflicts between lanes of different results. Scans
// avoid that.
static bool side_by_side(const struct row_text *x, const struct kern_value *v)
{
  bool apart = false;
  for (int a = 0; a < x->p->r->k.naxes; a++) apart |= kern_scans(v) && !(v->folded >> a & 1) && x->p->lanes[a] > 1;
  return row_regs(x->p, row_result(v)) == 1 && !apart;
}

// A result of several registers is stored as one tile for each part.
const struct hole *row_part_holes(const struct row_text *x, const struct row_exchange *e)
{
  const struct kern_value *v = &x->p->r->k.v[e->value];
  const axis_set axes = row_result(v);
  return KEPT_HOLES(x->mem, NULL, INT(v, e->value), STR(from, arena_printf(x->mem, kern_scans(v) ? "upto%d" : "v%d", e->value)), INT(sh, e->shared),
                    INT(kept, e->kept), INT(parts, e->parts), INT(all, e->kept * e->parts), INT(scalar, side_by_side(x, v)),
                    STR(dims, row_dims(x, axes, row_has_vec(x, axes))), STR(at, e->at), STR(part, e->part), STR(first, e->first),
                    STR(zeros, row_zeros(x)), STR(op, fold_operator(v->kind)), STR(neutral, fold_neutral(v->kind)),
                    STR(type, kern_tops(v) ? "i64" : "fp32"));
}

static void declare(struct row_text *x, const struct row_exchange *e)
{
  text_fill(&x->t, "?scalar %sh$sh:[$kept, $parts].$type.SH\n?!scalar %sh$sh:[$all,$dims].$type.SH", row_part_holes(x, e));
}

static void receive(struct row_text *x, const struct row_exchange *e)
{
  text_about(&x->t, x->p->r->k.v[e->value].about);
  text_fill(&x->t,
            "?scalar %parts$sh:[$dims,$parts].$type.RF <- Move(%sh$sh.tile([1, $parts])[$at, 0])\n"
            "?scalar %v$v <- Reduction<$op>(%parts$sh)\n"
            "?!scalar %parts$sh:[$dims].$type.RF\n"
            "?!scalar %v$v <- Init<$neutral>()\n"
            "?!scalar each w:$parts\n"
            "?!scalar %parts$sh <- Move(%sh$sh.tile([1,$dims])[w * $kept + $at$zeros])\n"
            "?!scalar %v$v <- BinaryPointwise<$op>(%v$v, %parts$sh)",
            row_part_holes(x, e));
}

// The lanes that write: those along the folded axis with the most lanes, one for each block, or all of them in several turns.
static int writers(const struct row_plan *p, axis_set folded)
{
  int most = -1;
  EACH_AXIS(a, folded)
    if (most < 0 || p->lanes[a] > p->lanes[most]) most = a;
  return most;
}

struct row_exchange row_exchange_of(const struct row_text *x, int value, bool blocks)
{
  const struct row_plan *p = x->p;
  const struct kern_value *v = &p->r->k.v[value];
  const int by = blocks ? writers(p, v->folded) : -1;
  struct row_exchange e = {value, 0, blocks, 1, 1, "", blocks ? "@rank" : "", ""};
  if (blocks && row_is_shared(p, value)) e.parts = p->cluster, e.shared = x->shared[value];
  for (int a = 0; a < p->r->k.naxes; a++) {
    bool folded = v->folded >> a & 1;
    if (!folded && p->lanes[a] > 1) e.at = row_thread_term(x, e.at, 'l', a, e.kept), e.kept *= p->lanes[a];
    if (!folded && p->warps[a] > 1) e.at = row_thread_term(x, e.at, 'w', a, e.kept), e.kept *= p->warps[a];
    if (folded && blocks && p->warps[a] > 1) e.first = text_join(x->mem, e.first, " && ", "@w%d == 0", a);
    if (folded && !blocks && p->warps[a] > 1) e.part = row_thread_term(x, e.part, 'w', a, e.parts), e.parts *= p->warps[a];
    if (folded && a != by && p->lanes[a] > 1) e.first = text_join(x->mem, e.first, " && ", "@l%d == 0", a);
    if (folded && a == by && p->lanes[a] > p->cluster) e.first = text_join(x->mem, e.first, " && ", "@l%d < %d", a, p->cluster);
  }
  if (!*e.at) e.at = "0";
  row_top_turns(x, value, &e);
  return e;
}

bool row_is_shared(const struct row_plan *p, int value)
{
  const struct kern_value *v = &p->r->k.v[value];
  return p->cluster > 1 && v->live && v->folded >> p->share & 1 && (!kern_tops(v) || row_top_first(&p->r->k, value) == value);
}

// Waits until all blocks have begun. A faster block may write while this one still works, so its memory is shared with nothing else.
void row_share_begin(struct row_text *x)
{
  const struct row_plan *p = x->p;
  x->shared = NEWS(x->mem, int, p->r->k.nvalues + 1);
  for (int i = 0; i < p->r->k.nvalues; i++) {
    if (!row_is_shared(p, i)) continue;
    x->shared[i] = x->fresh++;
    const struct row_exchange e = row_exchange_of(x, i, true);
    declare(x, &e);
  }
  if (p->cluster > 1) text_line(&x->t, "Sync<cluster.arrive.relaxed>#%s()", x->team);
}

// The rank that the executing lane writes to, as text. turns: the turns that lanes need to write to all ranks.
static const char *peer(struct row_text *x, int value, int *turns)
{
  const struct row_plan *p = x->p;
  const int by = writers(p, p->r->k.v[value].folded), lanes = p->lanes[by];
  *turns = lanes < p->cluster ? p->cluster / lanes : 1;
  if (lanes == 1) return ".peer(b)";
  if (*turns > 1) return arena_printf(x->mem, ".peer(b * %d + @l%d)", lanes, by);
  return arena_printf(x->mem, lanes > p->cluster ? ".peer(min(@l%d, %d))" : ".peer(@l%d)", by, p->cluster - 1);
}

static void send(struct row_text *x, const struct row_exchange *e)
{
  int turns = 1;
  const char *to = e->blocks ? peer(x, e->value, &turns) : "";
  text_about(&x->t, x->p->r->k.v[e->value].about);
  if (!e->blocks) declare(x, e);
  text_fill(&x->t,
            "?first if ($first) {\n"
            "?turns each b:$turns\n"
            "?scalar %sh$sh$to.tile([1, 1])[$at, $part] <- Move(%$from)\n"
            "?!scalar %sh$sh$to.tile([1,$dims])[($part) * $kept + $at$zeros] <- Move(%$from)",
            HOLES(row_part_holes(x, e), STR(to, to), INT(turns, turns > 1 ? turns : 0)));
}

static void meet(struct row_text *x)
{
  if (!x->met) text_line(&x->t, "Sync<cluster.wait>#%s()", x->team);
  x->met = true;
}

void row_share_meet(struct row_text *x, int value)
{
  if (row_is_shared(x->p, value)) meet(x);
}

void row_hand_over(struct row_text *x, int n, struct row_exchange *e)
{
  const bool blocks = e->blocks;
  if (blocks) meet(x);
  for (int i = 0; i < n; i++) {
    if (!blocks) e[i].shared = x->fresh++;
    send(x, &e[i]);
  }
  text_about(&x->t, 0);
  text_fill(&x->t, "?blocks Sync<cluster.arrive>#$team()\n?blocks Sync<cluster.wait>#$team()\n?!blocks Sync<barrier>#$team()",
            HOLES(NULL, INT(blocks, blocks), STR(team, x->team)));
}

void row_fold_parts(struct row_text *x, int n, const int *values, bool blocks, bool again)
{
  struct row_exchange *e = NEWS(x->mem, struct row_exchange, n + 1);
  int many = 0;
  for (int i = 0; i < n; i++) {
    e[many] = row_exchange_of(x, values[i], blocks);
    many += e[many].parts > 1;
  }
  if (!many) return;
  row_hand_over(x, many, e);
  for (int i = 0; i < many; i++) receive(x, &e[i]);
  text_about(&x->t, 0);
  if (again) text_line(&x->t, "Sync<barrier>#%s()", x->team);
}
