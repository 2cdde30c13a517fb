// Woven accesses of rows.h: parts that alternate in memory, such as the first and the second of each pair. One part alone has a stride of two.
// Together the parts are all elements of a run, which is accessed in vectors, and registers separate the parts.
#include "lower/rows.h"

#include <string.h>

// Whether two accesses differ only in their offset.
static bool twins(const struct kern_access *a, const struct kern_access *b)
{
  for (int i = 0; i < KERN_BASES; i++)
    if (a->base[i] || b->base[i]) return false;
  return a->tensor == b->tensor && a->type == b->type && !a->left && !b->left && !memcmp(a->stride, b->stride, sizeof a->stride);
}

struct woven_access {
  const struct kern_access *at;
  axis_set axes;
};

// Finds the run of each access.
static void find_runs(const struct rows *r, int n, const struct woven_access *a, struct row_weave *out)
{
  int across = r->role.across;
  for (int i = 0; i < n; i++) out[i] = (struct row_weave){0};
  for (int i = 0; i < n && across >= 0; i++) {
    int64_t run = a[i].at ? a[i].at->stride[across] : 0;
    struct row_weave w = {.n = 1, .member = {i}};
    if (run < 2 || run > ROW_WOVEN || a[i].at->offset % run) continue;
    for (int k = 1; k < run; k++)
      for (int j = 0; j < n && w.n == k; j++)
        if (a[j].at && twins(a[i].at, a[j].at) && a[j].axes == a[i].axes && a[j].at->offset == a[i].at->offset + w.n) w.member[w.n++] = j;
    for (int k = 0; k < w.n && w.n == run; k++) out[w.member[k]] = w;
  }
}

void rows_weave(struct arena *mem, struct rows *r)
{
  const struct kern *k = &r->k;
  struct woven_access *a = NEWS(mem, struct woven_access, MAX(k->nvalues, k->nsaves) + 1);
  r->woven = NEWS(mem, struct row_weave, k->nvalues + 1), r->woven_save = NEWS(mem, struct row_weave, k->nsaves + 1);
  for (int i = 0; i < k->nvalues; i++) a[i] = (struct woven_access){k->v[i].live && k->v[i].kind == KERN_LOAD ? &k->v[i].at : NULL, k->v[i].axes};
  find_runs(r, k->nvalues, a, r->woven);
  for (int i = 0; i < k->nsaves; i++) a[i] = (struct woven_access){k->save[i].at.by[0].limit ? NULL : &k->save[i].at, k->save[i].axes};
  find_runs(r, k->nsaves, a, r->woven_save);
}

// The stores of a run are woven if they are all in one pass.
struct row_weave row_save_weave(const struct row_plan *p, int save)
{
  struct row_weave w = p->r->woven_save[save];
  for (int k = 1; k < w.n; k++)
    if (p->pass[p->r->k.save[w.member[k]].value] != p->pass[p->r->k.save[w.member[0]].value]) return (struct row_weave){0};
  return w;
}

struct kern_access row_seen(const struct row_plan *p, const struct kern_access *a, struct row_weave w)
{
  struct kern_access seen = *a;
  if (w.n) seen.stride[p->role.across] = 1, seen.offset -= seen.offset % w.n;
  return seen;
}

// The width in elements of an access to the run.
static int width_of(const struct row_plan *p, const struct kern_access *first, int n)
{
  struct kern_access run = row_seen(p, first, (struct row_weave){.n = n});
  int64_t extent[KERN_AXES];
  int most = MIN(n * p->vec, 16 / dtype_bytes(first->type)), width;
  memcpy(extent, p->r->k.extent, sizeof extent);
  extent[p->role.across] *= n;
  width = plan_chunk(p->r->k.naxes, extent, run.stride, p->role.across, run.offset, run.elements, most);
  while (n * p->vec % width) width /= 2;
  return width;
}

// The index of the run's access, in units of `width` elements.
static const char *run_at(const struct row_text *x, const struct kern_access *a, int width, bool pieces)
{
  const char *s = pieces ? "q" : "";
  for (int i = 0; i < x->p->r->k.naxes; i++)
    if (a->stride[i]) s = row_term(x, s, row_place(x, i), a->stride[i] * row_vec(x->p, i) / width);
  if (a->offset) s = arena_printf(x->mem, "%s%s%lld", s, *s ? " + " : "", (long long)a->offset / width);
  if (!*s) s = "0";
  const char *buffer = x->buffer[a->tensor];
  return width > 1 ? arena_printf(x->mem, "%%%s.tile([%d])[%s]", buffer, width, s) : arena_printf(x->mem, "%%%s[%s]", buffer, s);
}

// Moves the run between memory and the register tensor `name` of n vectors.
static void move_run(struct row_text *x, const struct kern_access *a, int n, const char *name, const char *inside, bool store)
{
  int width = width_of(x->p, a, n), count = n * x->p->vec / width;
  TEXT_SCOPE(&x->t);
  bool stream = x->p->stream && width * dtype_bytes(a->type) >= 16;
  const char *memory = run_at(x, a, width, count > 1);
  const char *registers = width > 1 ? arena_printf(x->mem, "%%%s.tile([%d])[%s]", name, width, count > 1 ? "q" : "0")
                                    : arena_printf(x->mem, "%%%s[%s]", name, count > 1 ? "q" : "0");
  if (*inside) text_open(&x->t, "if (%s) {", inside);
  if (count > 1) text_begin(&x->t, "each q:$n", HOLES(NULL, INT(n, count)));
  const char *how = stream ? store ? "<st.global.cs>" : "<ld.global.stream>" : "";
  text_fill(&x->t, "$to <- Move$how($from)", HOLES(NULL, STR(to, store ? memory : registers), STR(from, store ? registers : memory), STR(how, how)));
}

// Moves one vector of each member between its registers and those of the run.
static void turn(struct row_text *x, axis_set axes, int n, const char *const *member, const char *run, bool store)
{
  for (int k = 0; k < n; k++) {
    TEXT_SCOPE(&x->t);
    const char *mine = arena_printf(x->mem, "%%%s%s", member[k], row_at(x, axes, 1, "e"));
    const char *place = x->p->vec > 1 ? arena_printf(x->mem, "%%%s[e * %d + %d]", run, n, k) : arena_printf(x->mem, "%%%s[%d]", run, k);
    if (x->p->vec > 1) text_begin(&x->t, "each e:$n", HOLES(NULL, INT(n, x->p->vec)));
    text_fill(&x->t, "$to <- Move($from)", HOLES(NULL, STR(to, store ? place : mine), STR(from, store ? mine : place)));
  }
}

void row_load_woven(struct row_text *x, int value)
{
  const struct row_weave w = x->p->r->woven[value];
  const struct kern_value *v = &x->p->r->k.v[w.member[0]];
  const char *member[ROW_WOVEN], *inside = row_inside(x, v->axes), *type = tile_dtype(v->at.type), *run = arena_printf(x->mem, "w%d", w.member[0]);
  for (int k = 0; k < w.n; k++) member[k] = row_declare(x, w.member[k], false), x->have[w.member[k]] = true;
  TEXT_SCOPE(&x->t);
  row_each_open(x, v->axes, "");
  text_fill(&x->t, "%$run:[$n].$type.RF\n?inside %$run <- Init<0.0>()",
            HOLES(NULL, STR(run, run), INT(n, w.n * x->p->vec), STR(type, type), STR(inside, inside)));
  move_run(x, &v->at, w.n, run, inside, false);
  turn(x, v->axes, w.n, member, run, false);
}

void row_store_woven(struct row_text *x, struct row_weave w, const char *condition)
{
  const struct kern_save *s = &x->p->r->k.save[w.member[0]];
  const char *member[ROW_WOVEN], *type = tile_dtype(s->at.type), *run = arena_printf(x->mem, "u%d", w.member[0]);
  for (int k = 0; k < w.n; k++) member[k] = row_stored(x, w.member[k]);
  TEXT_SCOPE(&x->t);
  row_each_open(x, s->axes, "");
  text_fill(&x->t, "%$run:[$n].$type.RF", HOLES(NULL, STR(run, run), INT(n, w.n * x->p->vec), STR(type, type)));
  turn(x, s->axes, w.n, member, run, true);
  move_run(x, &s->at, w.n, run, condition, true);
}
