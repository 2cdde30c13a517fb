// The tile program of a plan (rows.h): buffers, coordinates, then pass by pass the values that do not vary and loops over those that do. The loads of
// a scope come first, so that all are in flight before the first is used. Values follow stage by stage, so that the folds of one stage share a
// barrier.
#include "lower/rows.h"

#include <string.h>

const char *row_term(const struct row_text *x, const char *sum, const char *what, int64_t scale)
{
  return scale == 1 ? text_join(x->mem, sum, " + ", "%s", what) : text_join(x->mem, sum, " + ", "%s * %lld", what, (long long)scale);
}

// ---- shapes and names ----

// The dimensions of a register tensor: the number of registers along each axis of several registers, or 1 if it does not depend on that axis, then
// the vector if `vec`. regs: its axes.
const char *row_dims(const struct row_text *x, axis_set regs, bool vec)
{
  const struct row_plan *p = x->p;
  const char *s = "";
  for (int a = 0; a < p->r->k.naxes; a++)
    if (p->regs[a] > 1) s = text_join(x->mem, s, ",", "%d", regs >> a & 1 ? p->regs[a] : 1);
  if (p->vec > 1) s = text_join(x->mem, s, ",", "%d", vec ? p->vec : 1);
  return *s ? s : "1";
}

bool row_has_vec(const struct row_text *x, axis_set axes) { return x->p->role.across >= 0 && axes >> x->p->role.across & 1; }

static const char *type_of(const struct row_text *x, axis_set axes)
{
  return arena_printf(x->mem, "[%s].fp32", row_dims(x, axes, row_has_vec(x, axes)));
}

const char *row_name(struct row_text *x, int value)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const char *name = arena_printf(x->mem, "v%d", value);
  if (v->kind == KERN_LOAD && !x->have[value]) row_load(x, value), x->have[value] = true; // a late load
  if (kern_loads(v) && v->at.type != F32 && !x->wide[value]) {
    text_fill(&x->t, "%v$v:$type.RF <- UnaryPointwise<cast>(%h$v)", HOLES(NULL, INT(v, value), STR(type, type_of(x, v->axes))));
    x->wide[value] = true;
  }
  return name;
}

// The coordinate of the executing thread along an axis, in vectors.
const char *row_place(const struct row_text *x, int a)
{
  const struct row_plan *p = x->p;
  return p->regs[a] > 1 ? arena_printf(x->mem, "(@p%d + r%d * %d)", a, a, row_scanned(p, a) ? p->lanes[a] : row_threads(p, a))
                        : arena_printf(x->mem, "@p%d", a);
}

const char *row_inside(const struct row_text *x, axis_set axes)
{
  const char *s = "";
  EACH_AXIS(a, axes) {
    if (x->p->anywhere && a == x->p->role.across)
      s = text_join(x->mem, s, " && ", "%s", row_anywhere_reached(x));
    else if (row_overhangs(x->p, a))
      s = text_join(x->mem, s, " && ", "%s < %lld", row_place(x, a), (long long)x->p->r->k.extent[a] / row_vec(x->p, a));
  }
  return s;
}

void row_each_open(struct row_text *x, axis_set axes, const char *condition)
{
  EACH_AXIS(a, axes) {
    const bool some = x->to && a == x->p->role.across;
    if (x->p->regs[a] > 1 && some) text_open(&x->t, "for (r%d = %d; r%d < %d; r%d += 1) unroll {", a, x->from, a, x->to, a);
    if (x->p->regs[a] > 1 && !some) text_begin(&x->t, "each r$a:$n", HOLES(NULL, INT(a, a), INT(n, x->p->regs[a])));
  }
  if (*condition) text_open(&x->t, "if (%s) {", condition);
}

const char *row_at(const struct row_text *x, axis_set axes, int width, const char *piece)
{
  const struct row_plan *p = x->p;
  const char *tile = "", *at = "";
  for (int a = 0; a < p->r->k.naxes; a++) {
    if (p->regs[a] == 1) continue;
    tile = text_join(x->mem, tile, ", ", "1");
    at = axes >> a & 1 ? text_join(x->mem, at, ", ", "r%d", a) : text_join(x->mem, at, ", ", "0");
  }
  if (p->vec > 1) {
    tile = text_join(x->mem, tile, ", ", "%d", width);
    at = text_join(x->mem, at, ", ", "%s", row_has_vec(x, axes) ? piece : "0");
  }
  if (!*at) at = "0";
  return width > 1 ? arena_printf(x->mem, ".tile([%s])[%s]", tile, at) : arena_printf(x->mem, "[%s]", at);
}

// ---- values ----

static const char *template_of(const struct kern_value *v)
{
  if (v->kind == KERN_CONST) return "%v$v:$type.RF <- Init<$c>()";
  if (v->kind == KERN_SPREAD)
    return "%v$v:$type.RF <- Init<0.0>()\n"
           "%v$v <- BinaryPointwise<+>(%v$v, %$x)";
  return "%v$v:$type.RF"; // also an operator of the tile language
}

static void one_value(struct row_text *x, int i)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  x->have[i] = true;
  if (v->kind == KERN_PLACED) return; // its save computes it
  if (v->kind == KERN_CHOSEN) {
    row_load_chosen(x, i);
    return;
  }
  text_about(&x->t, v->about);
  const char *a = v->nin > 0 ? row_name(x, v->in[0]) : "", *b = v->nin > 1 ? row_name(x, v->in[1]) : NULL;
  text_fill(&x->t, template_of(v), HOLES(NULL, INT(v, i), STR(x, a), STR(type, type_of(x, v->axes)), STR(c, text_number(x->mem, v->a.scalar))));
  if (v->kind == KERN_MAP) emit_map(&x->t, v, arena_printf(x->mem, "v%d", i), a, b);
  text_about(&x->t, 0);
}

static void folds(struct row_text *x, const bool *want, int s, bool again)
{
  const struct rows *r = x->p->r;
  int n = 0, *batch = NEWS(x->mem, int, r->k.nvalues);
  for (int i = 0; i < r->k.nvalues; i++) {
    if (!want[i] || x->have[i] || !kern_folds(&r->k.v[i]) || r->life[i].stage != s) continue;
    if (kern_tops(&r->k.v[i])) {
      if (row_top_first(&r->k, i) == i) row_top(x, i);
      x->have[i] = true;
      continue;
    }
    if (kern_scans(&r->k.v[i])) {
      row_scan(x, i, again), x->have[i] = true;
      continue;
    }
    text_about(&x->t, r->k.v[i].about);
    text_line(&x->t, "%%v%d:%s.RF", i, type_of(x, r->k.v[i].axes));
    row_fold_threads(x, i, arena_printf(x->mem, "v%d", i), false);
    x->have[batch[n++] = i] = true;
  }
  row_fold_across(x, n, batch, again);
}

// Prints the wanted values that are not computed yet.
static void values(struct row_text *x, const bool *want, bool again)
{
  const struct rows *r = x->p->r;
  for (int i = 0; i < r->k.nvalues; i++)
    if (want[i] && !x->have[i] && r->k.v[i].kind == KERN_LOAD && !(x->p->late && x->p->late[i])) row_load(x, i), x->have[i] = true;
  for (int s = 0; s < r->nstages; s++) {
    if (s) folds(x, want, s, again);
    for (int i = 0; i < r->k.nvalues; i++)
      if (want[i] && !x->have[i] && !kern_folds(&r->k.v[i]) && r->k.v[i].kind != KERN_LOAD && r->life[i].stage == s) one_value(x, i);
  }
}

// ---- passes ----

static axis_set varies(const struct row_text *x, int value) { return x->p->r->k.v[value].axes & x->p->rounds; }
static bool folds_rounds(const struct row_text *x, int value) { return x->p->r->k.v[value].folded & x->p->rounds; }

// The purpose of a loop over the axes `over` in pass n: folds whose operands vary with exactly these axes, and saves.
struct row_scope {
  int nfolds, nsaves, *fold, *save;
};

static struct row_scope scope_of(const struct row_text *x, axis_set over, int n)
{
  const struct kern *k = &x->p->r->k;
  struct row_scope s = {.fold = NEWS(x->mem, int, k->nvalues + 1), .save = NEWS(x->mem, int, k->nsaves + 1)};
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && folds_rounds(x, i) && !kern_tops(&k->v[i]) && !kern_scans(&k->v[i]) && varies(x, k->v[i].in[0]) == over &&
        x->p->pass[k->v[i].in[0]] == n)
      s.fold[s.nfolds++] = i;
  for (int i = 0; i < k->nsaves; i++)
    if ((k->save[i].axes & x->p->rounds) == over && !kern_tops(&k->v[k->save[i].value]) && x->p->pass[k->save[i].value] == n) s.save[s.nsaves++] = i;
  return s;
}

static void want_inputs(const struct row_text *x, int value, bool *want)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  if (want[value] || x->have[value]) return;
  want[value] = true;
  for (int k = 0; k < v->nin; k++) want_inputs(x, v->in[k], want);
}

static void place_line(struct row_text *x, int a, const char *chunk)
{
  const struct row_plan *p = x->p;
  const char *s = "";
  const int regs = row_scanned(p, a) ? p->regs[a] : 1;
  if (p->lanes[a] > 1) s = row_term(x, s, arena_printf(x->mem, "@l%d", a), 1);
  if (p->warps[a] > 1) s = row_term(x, s, arena_printf(x->mem, "@w%d", a), (int64_t)p->lanes[a] * regs);
  if (a == p->share) s = row_term(x, s, "@rank", (int64_t)row_own(p, a) * regs);
  if (p->chunks[a] > 1) s = row_term(x, s, chunk, (int64_t)p->regs[a] * row_threads(p, a));
  text_line(&x->t, "@p%d = %s", a, *s ? s : "0");
}

static const struct hole *fold_holes(const struct row_text *x, int i)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  return KEPT_HOLES(x->mem, NULL, INT(i, i), STR(op, fold_operator(v->kind)), STR(neutral, fold_neutral(v->kind)), STR(type, type_of(x, v->axes)),
                    INT(vec, row_has_vec(x, v->folded) && x->p->vec > 1), STR(dims, row_dims(x, v->axes, row_has_vec(x, v->axes | v->folded))));
}

static bool *wanted(const struct row_text *x, const struct row_scope *s)
{
  const struct kern *k = &x->p->r->k;
  bool *want = NEWS(x->mem, bool, k->nvalues + 1);
  for (int i = 0; i < s->nfolds; i++) want_inputs(x, k->v[s->fold[i]].in[0], want);
  for (int i = 0; i < s->nsaves; i++) want_inputs(x, k->save[s->save[i]].value, want);
  return want;
}

static void loop_body(struct row_text *x, const struct row_scope *s, const bool *want)
{
  values(x, want, true);
  for (int i = 0; i < s->nfolds; i++) {
    text_fill(&x->t, "%f$i:[$dims].fp32.RF", fold_holes(x, s->fold[i]));
    row_fold_threads(x, s->fold[i], arena_printf(x->mem, "f%d", s->fold[i]), true);
    text_fill(&x->t, "%a$i <- BinaryPointwise<$op>(%a$i, %f$i)", fold_holes(x, s->fold[i]));
  }
  for (int i = 0; i < s->nsaves; i++) row_store(x, s->save[i]);
}

void row_rounds_open(struct row_text *x, axis_set over, int64_t most, const char *unroll)
{
  EACH_AXIS(a, over) text_open(&x->t, "for (s%d = 0; s%d < %lld; s%d += 1)%s {", a, a, (long long)MIN(most, x->p->chunks[a]), a, unroll);
  EACH_AXIS(a, over) place_line(x, a, arena_printf(x->mem, "s%d", a));
}

static void loop(struct row_text *x, axis_set over, const struct row_scope *s)
{
  size_t bytes = sizeof(bool) * (size_t)x->p->r->k.nvalues;
  bool *have = arena_copy(x->mem, x->have, bytes), *wide = arena_copy(x->mem, x->wide, bytes);
  for (int i = 0; i < s->nfolds; i++) text_fill(&x->t, "%a$i:[$dims].fp32.RF <- Init<$neutral>()", fold_holes(x, s->fold[i]));
  const bool *want = wanted(x, s);
  row_scan_carries(x, want);
  int indent = x->t.indent;
  row_rounds_open(x, over, INT64_MAX, "");
  loop_body(x, s, want);
  text_until(&x->t, indent);
  memcpy(x->have, have, bytes), memcpy(x->wide, wide, bytes);
  for (int i = 0; i < s->nfolds; i++) {
    text_fill(&x->t,
              "?vec %v$i:$type.RF <- Reduction<$op>(%a$i)\n"
              "?!vec %v$i:$type.RF <- Move(%a$i)",
              fold_holes(x, s->fold[i]));
    x->have[s->fold[i]] = true;
  }
  row_fold_across(x, s->nfolds, s->fold, false);
}

void row_inputs(struct row_text *x, int value)
{
  bool *want = NEWS(x->mem, bool, x->p->r->k.nvalues + 1);
  want_inputs(x, x->p->r->k.v[value].in[0], want);
  values(x, want, true);
}

bool row_inputs_fold(const struct row_text *x, int value)
{
  const struct kern *k = &x->p->r->k;
  bool *want = NEWS(x->mem, bool, k->nvalues + 1), folds = false;
  if (k->v[value].folded & x->p->rounds) want_inputs(x, k->v[value].in[0], want);
  for (int i = 0; i < k->nvalues; i++) folds |= want[i] && kern_folds(&k->v[i]);
  return folds;
}

static void pass(struct row_text *x, int n)
{
  const struct kern *k = &x->p->r->k;
  bool *want = NEWS(x->mem, bool, k->nvalues + 1);
  struct row_scope s = scope_of(x, 0, n);
  for (int i = 0; i < k->nvalues; i++) want[i] = k->v[i].live && !varies(x, i) && x->p->pass[i] == n && !folds_rounds(x, i);
  values(x, want, false);
  for (int i = 0; i < s.nsaves; i++) row_store(x, s.save[i]);
  for (axis_set over = x->p->rounds; over; over = (over - 1) & x->p->rounds) {
    s = scope_of(x, over, n);
    if (s.nfolds || s.nsaves) loop(x, over, &s);
    row_tops(x, over, n);
  }
}

// ---- the kernel around it ----

// Dimensions of the threads: warps of each axis, then lanes. The ones along contiguous memory are fastest.
struct row_dim {
  int axis, n;
  char kind; // name of its coordinate, as in @w2, @l2
};

static int thread_dims(const struct row_plan *p, struct row_dim dim[6])
{
  const int order[3] = {p->role.join, p->role.down, p->role.across};
  int n = 0;
  for (int i = 0; i < 6; i++) {
    int a = order[i % 3], extent = a < 0 ? 1 : i < 3 ? p->warps[a] : p->lanes[a];
    if (extent > 1) dim[n++] = (struct row_dim){a, extent, i < 3 ? 'w' : 'l'};
  }
  return n;
}

// The i-th axis of the grid, the contiguous axis last; -1: blocks do not differ along it.
static int block_axis(const struct row_plan *p, int i)
{
  int a = p->role.across < 0 ? i : (i + p->role.across + 1) % p->r->k.naxes;
  return p->grid >> a & 1 ? a : -1;
}

const char *row_coordinates(struct row_text *x)
{
  const struct row_plan *p = x->p;
  struct row_dim d[6];
  const char *extents = "", *names = "";
  for (int i = 0, n = thread_dims(p, d); i < n; i++)
    extents = text_join(x->mem, extents, ", ", "%d", d[i].n), names = text_join(x->mem, names, ", ", "@%c%d", d[i].kind, d[i].axis);
  x->threads = *extents ? extents : "1", x->coordinate = *names ? names : "@t";
  extents = names = "";
  for (int i = 0; i < p->r->k.naxes; i++) {
    int a = block_axis(p, i);
    if (a < 0) continue;
    extents = text_join(x->mem, extents, ", ", "%lld", (long long)p->chunks[a]), names = text_join(x->mem, names, ", ", "@c%d", a);
  }
  if (p->cluster > 1) extents = text_join(x->mem, extents, ", ", "%d", p->cluster), names = text_join(x->mem, names, ", ", "@rank");
  x->block = *names ? names : "@b";
  return *extents ? extents : "1";
}

// Declares the groups of lanes that fold an axis together.
static void lane_groups(struct row_text *x)
{
  struct row_dim d[6];
  int n = thread_dims(x->p, d);
  for (int k = 0; k < n; k++) {
    const char *tile = "", *at = "";
    if (d[k].kind != 'l' || !(x->p->r->k.folded >> d[k].axis & 1)) continue;
    for (int i = 0; i < n; i++) {
      tile = text_join(x->mem, tile, ", ", "%d", i == k ? d[i].n : 1);
      at = i == k ? text_join(x->mem, at, ", ", "0") : text_join(x->mem, at, ", ", "@%c%d", d[i].kind, d[i].axis);
    }
    text_line(&x->t, "#lanes%d = #%s.tile([%s])[%s]", d[k].axis, x->team, tile, at);
  }
  const char *tile = "", *at = "";
  for (int i = 0; i < n; i++) {
    tile = text_join(x->mem, tile, ", ", "%d", d[i].kind == 'l' ? d[i].n : 1);
    at = d[i].kind == 'l' ? text_join(x->mem, at, ", ", "0") : text_join(x->mem, at, ", ", "@w%d", d[i].axis);
  }
  if (x->p->r->scanned && n) text_line(&x->t, "#warp = #%s.tile([%s])[%s]", x->team, tile, at);
}

struct row_text row_text_new(const struct row_plan *p, struct text t)
{
  struct row_text x = {.t = t, .mem = p->r->j->mem, .p = p, .team = "t"};
  x.low = NEWS(x.mem, int, p->r->k.nvalues + 1);
  x.have = NEWS(x.mem, bool, p->r->k.nvalues + 1), x.wide = NEWS(x.mem, bool, p->r->k.nvalues + 1);
  x.masked = NEWS(x.mem, bool, p->r->k.nvalues + 1), x.carried = NEWS(x.mem, bool, p->r->k.nvalues + 1);
  return x;
}

void row_begin(struct row_text *x)
{
  lane_groups(x);
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (x->p->r->k.extent[a] > 1 && !(x->p->rounds >> a & 1)) place_line(x, a, arena_printf(x->mem, "@c%d", a));
  if (x->p->anywhere) row_anywhere_begin(x);
}

void row_passes(struct row_text *x)
{
  for (int n = 0; n < x->p->passes; n++) pass(x, n);
}

// Opens a loop over work tiles, and declares the coordinates that a grid would give.
static void walk(struct row_text *x, int64_t tiles)
{
  const struct row_plan *p = x->p;
  emit_tiles(&x->t, p->r->j->gpu, tiles, "@b");
  int64_t inner = tiles;
  for (int i = 0; i < p->r->k.naxes; i++) {
    int a = block_axis(p, i);
    if (a < 0) continue;
    inner /= p->chunks[a];
    text_fill(&x->t, "@c$a = @b / $inner % $n", HOLES(NULL, INT(a, a), INT(inner, inner), INT(n, p->chunks[a])));
  }
}

void rows_text(const struct row_plan *p, struct text t, struct lower_out *out)
{
  const struct lower_job *j = p->r->j;
  struct row_text x = row_text_new(p, t);
  x.buffer = text_names(j->mem, j->n->kernels, TEXT_NUMBERED);
  text_kernel(&x.t, j->name, NULL, j->gpu, p->cluster > 1 ? CAN_PDL | CAN_CLUSTER : CAN_PDL);
  const char *blocks = row_coordinates(&x);
  const int64_t tiles = p->blocks / p->cluster;
  const bool walks = gpu_blocks(j->gpu, tiles) != tiles;
  emit_frame(&x.t, j->mem, &p->r->k, x.buffer, p->cluster, walks ? arena_printf(j->mem, "%d", j->gpu->workers) : blocks, x.threads, out);
  if (walks)
    walk(&x, tiles);
  else
    text_line(&x.t, "%s = #grid.indices()", x.block);
  text_fill(&x.t, "$thread = #t.indices()\n#me = #t.scalar()", HOLES(NULL, STR(thread, x.coordinate)));
  row_begin(&x);
  row_share_begin(&x);
  if (j->dependent) row_wait(&x);
  row_passes(&x);
  emit_tiles_end(&x.t, j->gpu, tiles);
  text_until(&x.t, 0);
}
