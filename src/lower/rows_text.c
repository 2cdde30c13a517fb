// The tile program of a plan (rows.h): buffers, coordinates, then pass by pass what does not vary and loops over what does.
// Loads of a scope come first, so that all are under way before the first is used; then stage by stage, so that the folds of
// one stage share their barrier.
#include "lower/rows.h"

#include <string.h>

const char *row_term(const struct row_text *x, const char *sum, const char *what, int64_t scale)
{
  const char *plus = *sum ? " + " : "";
  return scale == 1 ? arena_printf(x->mem, "%s%s%s", sum, plus, what) : arena_printf(x->mem, "%s%s%s * %lld", sum, plus, what, (long long)scale);
}

// ---- shapes and names ----

// A register tensor has a dimension for each axis of several registers, 1 where it does not depend on it, and one for the
// vector. `regs`: the axes; the vector where `vec`.
const char *row_dims(const struct row_text *x, axis_set regs, bool vec)
{
  const struct row_plan *p = x->p;
  const char *s = NULL;
  for (int a = 0; a < p->r->k.naxes; a++)
    if (p->regs[a] > 1) s = arena_printf(x->mem, "%s%s%d", s ? s : "", s ? "," : "", regs >> a & 1 ? p->regs[a] : 1);
  if (p->vec > 1) s = arena_printf(x->mem, "%s%s%d", s ? s : "", s ? "," : "", vec ? p->vec : 1);
  return s ? s : "1";
}

bool row_has_vec(const struct row_text *x, axis_set axes) { return x->p->role.across >= 0 && axes >> x->p->role.across & 1; }

const char *row_type(const struct row_text *x, axis_set axes) { return arena_printf(x->mem, "[%s].fp32", row_dims(x, axes, row_has_vec(x, axes))); }

const char *row_name(struct row_text *x, int value)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const char *name = arena_printf(x->mem, "v%d", value);
  if (v->kind == KERN_LOAD && !x->have[value]) row_load(x, value), x->have[value] = true; // which came late
  if (v->kind == KERN_LOAD && v->at.type != F32 && !x->wide[value]) {
    text_line(&x->t, "%%%s:%s.RF", name, row_type(x, v->axes));
    text_line(&x->t, "%%%s <- UnaryPointwise<cast><<<#grid, #me>>>(%%h%d)", name, value);
    x->wide[value] = true;
  }
  return name;
}

// The place of the executing thread along an axis, in vectors.
const char *row_place(const struct row_text *x, int a)
{
  const struct row_plan *p = x->p;
  return p->regs[a] > 1 ? arena_printf(x->mem, "(@p%d + r%d * %d)", a, a, row_threads(p, a)) : arena_printf(x->mem, "@p%d", a);
}

const char *row_inside(const struct row_text *x, axis_set axes)
{
  const char *s = "";
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (axes >> a & 1 && row_overhangs(x->p, a))
      s = arena_printf(x->mem, "%s%s%s < %lld", s, *s ? " && " : "", row_place(x, a), (long long)x->p->r->k.extent[a] / row_vec(x->p, a));
  return s;
}

void row_each_open(struct row_text *x, axis_set axes)
{
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (axes >> a & 1 && x->p->regs[a] > 1) text_open(&x->t, "for (r%d = 0; r%d < %d; r%d += 1) unroll", a, a, x->p->regs[a], a);
}

void row_each_close(struct row_text *x, axis_set axes)
{
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (axes >> a & 1 && x->p->regs[a] > 1) text_close(&x->t);
}

const char *row_at(const struct row_text *x, axis_set axes, int width, const char *piece)
{
  const struct row_plan *p = x->p;
  const char *tile = "", *at = "";
  for (int a = 0; a < p->r->k.naxes; a++)
    if (p->regs[a] > 1) {
      tile = arena_printf(x->mem, "%s%s1", tile, *tile ? ", " : "");
      at = axes >> a & 1 ? arena_printf(x->mem, "%s%sr%d", at, *at ? ", " : "", a) : arena_printf(x->mem, "%s%s0", at, *at ? ", " : "");
    }
  if (p->vec > 1) {
    tile = arena_printf(x->mem, "%s%s%d", tile, *tile ? ", " : "", width);
    at = arena_printf(x->mem, "%s%s%s", at, *at ? ", " : "", row_has_vec(x, axes) ? piece : "0");
  }
  if (!*at) at = "0";
  return width > 1 ? arena_printf(x->mem, ".tile([%s])[%s]", tile, at) : arena_printf(x->mem, "[%s]", at);
}

// ---- values ----

static void constant(struct row_text *x, int i, double c)
{
  text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, 0));
  text_line(&x->t, "%%v%d <- Init<%#.17g><<<#grid, #me>>>()", i, c);
}

static void spread(struct row_text *x, int i, const struct kern_value *v)
{
  const char *in = row_name(x, v->in[0]);
  text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, v->axes));
  text_line(&x->t, "%%v%d <- Init<0.0><<<#grid, #me>>>()", i);
  text_line(&x->t, "%%v%d <- BinaryPointwise<+><<<#grid, #me>>>(%%v%d, %%%s)", i, i, in);
}

// x / y of fewer y than results: a reciprocal of each, and products.
static void quotient(struct row_text *x, int i, const struct kern_value *v)
{
  const char *a = row_name(x, v->in[0]), *b = row_name(x, v->in[1]), *type = row_type(x, x->p->r->k.v[v->in[1]].axes);
  text_line(&x->t, "%%q%d:%s.RF", i, type);
  text_line(&x->t, "%%q%d <- UnaryPointwise<rcp><<<#grid, #me>>>(%%%s)", i, b);
  text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, v->axes));
  text_line(&x->t, "%%v%d <- BinaryPointwise<*><<<#grid, #me>>>(%%%s, %%q%d)", i, a, i);
}

// The hardware's power of 2, without the detour that keeps denormal results.
static void exponential(struct row_text *x, int i, const struct kern_value *v)
{
  const char *in = row_name(x, v->in[0]);
  text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, v->axes));
  text_line(&x->t, "%%e%d:[].fp32.RF", i);
  text_line(&x->t, "%%e%d <- Init<%#.17g><<<#grid, #me>>>()", i, v->a.scalar);
  text_line(&x->t, "%%v%d <- BinaryPointwise<*><<<#grid, #me>>>(%%%s, %%e%d)", i, in, i);
  text_line(&x->t, "%%v%d <- UnaryPointwise<exp2.approx><<<#grid, #me>>>(%%v%d)", i, i);
}

static void mapped(struct row_text *x, int i, const struct kern_value *v)
{
  if (v->op == KERN_EXP2) {
    exponential(x, i, v);
    return;
  }
  if (v->op == OP_DIV && row_regs(x->p, x->p->r->k.v[v->in[1]].axes) < row_regs(x->p, v->axes)) {
    quotient(x, i, v);
    return;
  }
  const char *a = row_name(x, v->in[0]), *b = v->nin > 1 ? row_name(x, v->in[1]) : NULL;
  text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, v->axes));
  emit_pointwise(&x->t, (enum op)v->op, &v->a, arena_printf(x->mem, "v%d", i), a, b);
}

static void one_value(struct row_text *x, int i)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  text_about(&x->t, v->about - 1);
  if (v->kind == KERN_CONST)
    constant(x, i, v->a.scalar);
  else if (v->kind == KERN_SPREAD)
    spread(x, i, v);
  else if (v->kind == KERN_MAP)
    mapped(x, i, v);
  text_about(&x->t, -1);
  x->have[i] = true;
}

static void folds(struct row_text *x, const bool *want, int s, bool again)
{
  const struct rows *r = x->p->r;
  int n = 0, *batch = NEWS(x->mem, int, r->k.nvalues);
  for (int i = 0; i < r->k.nvalues; i++) {
    if (!want[i] || x->have[i] || !kern_folds(&r->k.v[i]) || r->life[i].stage != s) continue;
    text_about(&x->t, r->k.v[i].about - 1);
    text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, r->k.v[i].axes));
    row_fold_threads(x, i, arena_printf(x->mem, "v%d", i), false);
    x->have[batch[n++] = i] = true;
  }
  row_fold_across(x, n, batch, again);
}

// What is wanted and not there yet.
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

// Does value i end a loop over the axes `over` in pass n? Its input varies with just these.
static bool ends_loop(const struct row_text *x, int i, axis_set over, int n)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  return v->live && folds_rounds(x, i) && varies(x, v->in[0]) == over && x->p->pass[v->in[0]] == n;
}

static bool saves_in_loop(const struct row_text *x, int i, axis_set over, int n)
{
  const struct kern_save *s = &x->p->r->k.save[i];
  return (s->axes & x->p->rounds) == over && x->p->pass[s->value] == n;
}

static bool any_in_loop(const struct row_text *x, axis_set over, int n)
{
  for (int i = 0; i < x->p->r->k.nvalues; i++)
    if (ends_loop(x, i, over, n)) return true;
  for (int i = 0; i < x->p->r->k.nsaves; i++)
    if (saves_in_loop(x, i, over, n)) return true;
  return false;
}

static void want_inputs(const struct row_text *x, int value, bool *want)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  if (want[value] || x->have[value]) return;
  want[value] = true;
  for (int k = 0; k < v->nin; k++) want_inputs(x, v->in[k], want);
}

void row_place_line(struct row_text *x, int a, const char *chunk)
{
  const struct row_plan *p = x->p;
  const char *s = "";
  if (p->lanes[a] > 1) s = row_term(x, s, arena_printf(x->mem, "@l%d", a), 1);
  if (p->warps[a] > 1) s = row_term(x, s, arena_printf(x->mem, "@w%d", a), p->lanes[a]);
  if (p->chunks[a] > 1) s = row_term(x, s, chunk, (int64_t)p->regs[a] * row_threads(p, a));
  text_line(&x->t, "@p%d = %s", a, *s ? s : "0");
}

static void loop_body(struct row_text *x, axis_set over, int n)
{
  const struct rows *r = x->p->r;
  bool *want = NEWS(x->mem, bool, r->k.nvalues + 1);
  for (int i = 0; i < r->k.nvalues; i++)
    if (ends_loop(x, i, over, n)) want_inputs(x, r->k.v[i].in[0], want);
  for (int i = 0; i < r->k.nsaves; i++)
    if (saves_in_loop(x, i, over, n)) want_inputs(x, r->k.save[i].value, want);
  values(x, want, true);
  for (int i = 0; i < r->k.nvalues; i++) {
    if (!ends_loop(x, i, over, n)) continue;
    const struct kern_value *v = &r->k.v[i];
    text_line(&x->t, "%%f%d:[%s].fp32.RF", i, row_dims(x, v->axes, row_has_vec(x, v->axes | v->folded)));
    row_fold_threads(x, i, arena_printf(x->mem, "f%d", i), true);
    text_line(&x->t, "%%a%d <- BinaryPointwise<%s><<<#grid, #me>>>(%%a%d, %%f%d)", i, row_binary(v->kind), i, i);
  }
  for (int i = 0; i < r->k.nsaves; i++)
    if (saves_in_loop(x, i, over, n)) row_store(x, i);
}

static void loop_ends(struct row_text *x, axis_set over, int n)
{
  const struct rows *r = x->p->r;
  int count = 0, *batch = NEWS(x->mem, int, r->k.nvalues + 1);
  for (int i = 0; i < r->k.nvalues; i++) {
    if (!ends_loop(x, i, over, n)) continue;
    const struct kern_value *v = &r->k.v[i];
    bool vec = row_has_vec(x, v->folded) && x->p->vec > 1;
    text_line(&x->t, "%%v%d:%s.RF", i, row_type(x, v->axes));
    if (vec)
      text_line(&x->t, "%%v%d <- Reduction<%s><<<#grid, #me>>>(%%a%d)", i, row_binary(v->kind), i);
    else
      text_line(&x->t, "%%v%d <- Move<<<#grid, #me>>>(%%a%d)", i, i);
    x->have[batch[count++] = i] = true;
  }
  row_fold_across(x, count, batch, false);
}

static void loop(struct row_text *x, axis_set over, int n)
{
  const struct rows *r = x->p->r;
  size_t bytes = sizeof(bool) * (size_t)r->k.nvalues;
  bool *have = arena_copy(x->mem, x->have, bytes), *wide = arena_copy(x->mem, x->wide, bytes);
  for (int i = 0; i < r->k.nvalues; i++)
    if (ends_loop(x, i, over, n)) {
      const struct kern_value *v = &r->k.v[i];
      text_line(&x->t, "%%a%d:[%s].fp32.RF", i, row_dims(x, v->axes, row_has_vec(x, v->axes | v->folded)));
      text_line(&x->t, "%%a%d <- Init<%s><<<#grid, #me>>>()", i, row_neutral(v->kind));
    }
  for (int a = 0; a < r->k.naxes; a++)
    if (over >> a & 1) text_open(&x->t, "for (s%d = 0; s%d < %lld; s%d += 1)", a, a, (long long)x->p->chunks[a], a);
  for (int a = 0; a < r->k.naxes; a++)
    if (over >> a & 1) row_place_line(x, a, arena_printf(x->mem, "s%d", a));
  loop_body(x, over, n);
  for (int a = 0; a < r->k.naxes; a++)
    if (over >> a & 1) text_close(&x->t);
  memcpy(x->have, have, bytes), memcpy(x->wide, wide, bytes);
  loop_ends(x, over, n);
}

static void pass(struct row_text *x, int n)
{
  const struct rows *r = x->p->r;
  bool *want = NEWS(x->mem, bool, r->k.nvalues + 1);
  for (int i = 0; i < r->k.nvalues; i++) want[i] = r->k.v[i].live && !varies(x, i) && x->p->pass[i] == n && !folds_rounds(x, i);
  values(x, want, false);
  for (int i = 0; i < r->k.nsaves; i++)
    if (saves_in_loop(x, i, 0, n)) row_store(x, i);
  for (axis_set over = x->p->rounds; over; over = (over - 1) & x->p->rounds)
    if (any_in_loop(x, over, n)) loop(x, over, n);
}

// ---- the kernel around it ----

static void buffers(struct row_text *x, struct lower_out *out)
{
  const struct rows *r = x->p->r;
  const struct graph *g = x->j->n->kernels;
  const char **names = text_names(x->mem, g), *in = "", *outs = "";
  out->arg = NEWS(x->mem, int, r->k.nvalues + r->k.nsaves + 1);
  for (int i = 0; i < r->k.nvalues + r->k.nsaves; i++) {
    bool save = i >= r->k.nvalues;
    const struct kern_access *a = save ? &r->k.save[i - r->k.nvalues].at : &r->k.v[i].at;
    if (!save && (!r->k.v[i].live || r->k.v[i].kind != KERN_LOAD)) continue;
    const char *name = names[a->tensor], **list = save ? &outs : &in;
    if (x->buffer[a->tensor]) continue;
    x->buffer[a->tensor] = name, out->arg[out->nargs++] = a->tensor;
    text_line(&x->t, "%%%s:[%lld].%s.GL", name, (long long)a->elements, tile_dtype(a->type));
    *list = arena_printf(x->mem, "%s%s%%%s", *list, **list ? ", " : "", name);
  }
  x->in = in, x->outs = outs;
}

// Dimensions of the threads: warps of each axis, then lanes; what lies along memory is fastest.
const char *row_coordinates(struct row_text *x)
{
  const struct row_plan *p = x->p;
  const int order[3] = {p->role.join, p->role.down, p->role.across};
  const char *extents = "", *names = "";
  for (int i = 0; i < 6; i++) {
    int a = order[i % 3], n = a < 0 ? 1 : i < 3 ? p->warps[a] : p->lanes[a];
    if (n == 1) continue;
    extents = arena_printf(x->mem, "%s%s%d", extents, *extents ? ", " : "", n);
    names = arena_printf(x->mem, "%s%s@%c%d", names, *names ? ", " : "", i < 3 ? 'w' : 'l', a);
  }
  x->threads = *extents ? extents : "1", x->coordinate = *names ? names : "@t";
  extents = names = "";
  for (int i = 0; i < p->r->k.naxes; i++) {
    int a = p->role.across < 0 ? i : (i + p->role.across + 1) % p->r->k.naxes; // the contiguous axis last
    if (p->chunks[a] == 1 || p->rounds >> a & 1) continue;
    extents = arena_printf(x->mem, "%s%s%lld", extents, *extents ? ", " : "", (long long)p->chunks[a]);
    names = arena_printf(x->mem, "%s%s@c%d", names, *names ? ", " : "", a);
  }
  x->block = *names ? names : "@b";
  return *extents ? extents : "1";
}

// Lanes that fold an axis together: neighbours along its dimension of the threads.
static void lane_groups(struct row_text *x)
{
  const struct row_plan *p = x->p;
  const int order[3] = {p->role.join, p->role.down, p->role.across};
  for (int k = 0; k < 3; k++) {
    const char *tile = "", *at = "";
    if (order[k] < 0 || !(p->r->k.folded >> order[k] & 1) || p->lanes[order[k]] == 1) continue;
    for (int i = 0; i < 6; i++) {
      int a = order[i % 3], n = a < 0 ? 1 : i < 3 ? p->warps[a] : p->lanes[a];
      if (n == 1) continue;
      bool own = i == k + 3;
      tile = arena_printf(x->mem, "%s%s%d", tile, *tile ? ", " : "", own ? n : 1);
      at = own ? arena_printf(x->mem, "%s%s0", at, *at ? ", " : "") : arena_printf(x->mem, "%s%s@%c%d", at, *at ? ", " : "", i < 3 ? 'w' : 'l', a);
    }
    text_line(&x->t, "#lanes%d = #%s.tile([%s])[%s]", order[k], x->team, tile, at);
  }
}

struct row_text row_text_new(const struct lower_job *j, const struct row_plan *p, struct str *out)
{
  struct row_text x = {
      .t = {.out = out}, .mem = j->mem, .j = j, .p = p, .team = "t", .buffer = NEWS(j->mem, const char *, j->n->kernels->ntensors + 1)};
  x.have = NEWS(j->mem, bool, p->r->k.nvalues + 1), x.wide = NEWS(j->mem, bool, p->r->k.nvalues + 1);
  x.masked = NEWS(j->mem, bool, p->r->k.nvalues + 1);
  return x;
}

void row_begin(struct row_text *x)
{
  lane_groups(x);
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (x->p->r->k.extent[a] > 1 && !(x->p->rounds >> a & 1)) row_place_line(x, a, arena_printf(x->mem, "@c%d", a));
}

void row_passes(struct row_text *x)
{
  for (int n = 0; n < x->p->passes; n++) pass(x, n);
}

void rows_text(const struct lower_job *j, const struct row_plan *p, struct lower_out *out)
{
  struct row_text x = row_text_new(j, p, &out->text);
  x.t.marks = j->marks;
  text_kernel(&x.t, j->name, NULL, j->gpu, CAN_PDL);
  buffers(&x, out);
  const char *blocks = row_coordinates(&x);
  text_line(&x.t, "#grid:[%s].block", blocks);
  text_line(&x.t, "#t:[%s].thread", x.threads);
  text_open(&x.t, "%s <- Spec<<<#grid, #t>>>(%s)", x.outs, x.in);
  text_line(&x.t, "%s = #grid.indices()", x.block);
  text_line(&x.t, "%s = #t.indices()", x.coordinate);
  text_line(&x.t, "#me = #t.scalar()");
  row_begin(&x);
  if (j->dependent) row_wait(&x);
  row_passes(&x);
  text_close(&x.t);
  text_close(&x.t);
}
