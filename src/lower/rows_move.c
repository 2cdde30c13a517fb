// Loads and stores of rows.h. The vector of a register is accessed in as many pieces as its alignment requires. Elements beyond an extent are not
// accessed, and loads leave 0 there. If a tensor does not depend on an axis, only the first thread and block along the axis store it.
#include "lower/rows.h"

#include <string.h>

enum { STREAMED = 16 }; // least bytes of an access with a cache hint

const char *row_number(const struct row_text *x, const struct kern_access *a, int width)
{
  const struct row_plan *p = x->p;
  const char *s = "";
  for (int i = 0; i < p->r->k.naxes; i++) {
    if (!a->stride[i]) continue;
    int64_t step = a->stride[i] * row_vec(p, i) / width;
    s = row_term(x, s, row_place(x, i), step);
    if (i != p->role.across || width == p->vec) continue;
    s = row_term(x, s, "q", a->stride[i]);
  }
  for (int i = 0; i < KERN_BASES; i++)
    if (a->base[i]) s = row_term(x, s, arena_printf(x->mem, "@base%d", i), a->base[i] / width);
  if (a->offset) s = arena_printf(x->mem, "%s%s%lld", s, *s ? " + " : "", (long long)a->offset / width);
  return *s ? s : "0";
}

// The rank of the block that has the element. Beyond extents it is still a valid rank.
static const char *peer(const struct row_text *x, const struct kern_access *a)
{
  const char *s = "";
  for (int i = 0; i < x->p->r->k.naxes; i++) {
    const char *place = row_place(x, i);
    if (!a->rank[i]) continue;
    if (row_overhangs(x->p, i)) place = arena_printf(x->mem, "min(%s, %lld)", place, (long long)x->p->r->k.extent[i] - 1);
    s = row_term(x, s, place, a->rank[i]);
  }
  return *s ? s : "0";
}

// v: the value that has data-dependent indices, else -1.
static const char *memory(const struct row_text *x, const struct kern_access *a, int width, int v)
{
  const char *buffer = x->buffer[a->tensor], *at = row_number(x, a, width);
  for (int i = 0; i < KERN_CHOSEN_BY && v >= 0; i++)
    if (a->by[i].limit > 1) at = row_term(x, strcmp(at, "0") ? at : "", arena_printf(x->mem, "@at%d_%d", v, i), a->by[i].stride / width);
  if (a->left) buffer = arena_printf(x->mem, "%s.peer(%s)", buffer, peer(x, a));
  return width > 1 ? arena_printf(x->mem, "%%%s.tile([%d])[%s]", buffer, width, at) : arena_printf(x->mem, "%%%s[%s]", buffer, at);
}

static bool along_vector(const struct row_plan *p, axis_set axes) { return p->vec > 1 && axes >> p->role.across & 1; }

static int pieces_open(struct row_text *x, axis_set axes, const struct kern_access *a)
{
  int width = along_vector(x->p, axes) ? row_width(x->p, a) : 1, n = along_vector(x->p, axes) ? x->p->vec / width : 1;
  if (n > 1) text_begin(&x->t, "each q:$n", HOLES(NULL, INT(n, n)));
  return width;
}

static const char *piece(const struct row_text *x, int width) { return width < x->p->vec ? "q" : "0"; }

// Whether every element is read once, by one block.
static bool read_once(const struct row_plan *p, axis_set axes) { return !(row_apart(p) & ~axes) && p->passes == 1; }

static bool streams(const struct row_plan *p, const struct kern_access *a) { return row_width(p, a) * dtype_bytes(a->type) >= STREAMED; }

const char *row_declare(struct row_text *x, int value, bool filled)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const char *name = arena_printf(x->mem, "%c%d", v->at.type == F32 ? 'v' : 'h', value);
  text_fill(
      &x->t, "%$name:[$dims].$type.RF\n?filled %$name <- Init<0.0>()",
      HOLES(NULL, STR(name, name), STR(dims, row_dims(x, v->axes, row_has_vec(x, v->axes))), STR(type, tile_dtype(v->at.type)), INT(filled, filled)));
  return name;
}

void row_load(struct row_text *x, int value)
{
  if (x->p->r->woven[value].n) {
    row_load_woven(x, value);
    return;
  }
  const struct kern_value *v = &x->p->r->k.v[value];
  TEXT_ABOUT(&x->t, v->about);
  const char *inside = row_inside(x, v->axes), *name = row_declare(x, value, *inside);
  const bool stream = x->p->stream && read_once(x->p, v->axes);
  if (x->p->anywhere && along_vector(x->p, v->axes)) {
    row_anywhere_load(x, v, name, stream && streams(x->p, &v->at));
    return;
  }
  row_each_open(x, v->axes, inside);
  int width = pieces_open(x, v->axes, &v->at);
  const char *to = arena_printf(x->mem, "%s%s", name, row_at(x, v->axes, width, piece(x, width)));
  if (v->at.index)
    text_fill(&x->t, "%$to <- Init<($at)><<<#grid, #me>>>()", HOLES(NULL, STR(to, to), STR(at, row_number(x, &v->at, 1))));
  else
    text_fill(&x->t, stream && width * dtype_bytes(v->at.type) >= STREAMED ? "%$to <- Move<ld.global.stream>($from)" : "%$to <- Move($from)",
              HOLES(NULL, STR(to, to), STR(from, memory(x, &v->at, width, -1))));
}

// Prints the indices of value v, from operand `from` on, as integers, and opens the condition that they are within their limits. Loops over the axes'
// registers are open.
static void chosen_open(struct row_text *x, int v, int from, const struct kern_access *a)
{
  const struct kern_value *y = &x->p->r->k.v[v];
  const char *inside = "";
  for (int i = 0; i < KERN_CHOSEN_BY && a->by[i].limit; i++) {
    const char *index = row_name(x, y->in[from + i]), *at = row_at(x, x->p->r->k.v[y->in[from + i]].axes, 1, "q");
    text_fill(&x->t,
              "%at$v_$i:[1].i32.RF <- UnaryPointwise<cast>(%$index$at)\n"
              "@at$v_$i = value(%at$v_$i[0])",
              HOLES(NULL, INT(v, v), INT(i, i), STR(index, index), STR(at, at)));
    inside = text_join(x->mem, inside, " && ", "@at%d_%d >= 0 && @at%d_%d < %lld", v, i, v, i, (long long)a->by[i].limit);
  }
  text_open(&x->t, "if (%s) {", inside);
}

// Whether each element of a vector has its own index.
static bool chosen_apart(const struct row_text *x, int v, int from)
{
  const struct kern_value *y = &x->p->r->k.v[v];
  bool apart = false;
  for (int i = from; i < y->nin; i++) apart |= along_vector(x->p, x->p->r->k.v[y->in[i]].axes);
  return apart;
}

// Inside the loops over registers: opens accesses of as many elements as share one index. Returns their number.
static int chosen_pieces(struct row_text *x, int v, int from, axis_set axes, const struct kern_access *a)
{
  int width = 1;
  bool apart = chosen_apart(x, v, from);
  if (apart) text_begin(&x->t, "each q:$n", HOLES(NULL, INT(n, x->p->vec)));
  chosen_open(x, v, from, a);
  if (!apart) width = pieces_open(x, axes, a);
  return width;
}

void row_load_chosen(struct row_text *x, int value)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  TEXT_ABOUT(&x->t, v->about);
  for (int i = 0; i < v->nin; i++) row_name(x, v->in[i]);
  const char *name = row_declare(x, value, true);
  row_each_open(x, v->axes, row_inside(x, v->axes));
  int width = chosen_pieces(x, value, 0, v->axes, &v->at);
  text_fill(&x->t, "%$to <- Move($from)",
            HOLES(NULL, STR(to, arena_printf(x->mem, "%s%s", name, row_at(x, v->axes, width, piece(x, width)))),
                  STR(from, memory(x, &v->at, width, value))));
}

// The condition of one thread for each line along an axis whose elements are adjacent. Neighbours along the axis are lanes, then warps, then registers.
// Each prefetch goes to the L2 cache. On an H200, a product of 907 x 1567 with a vector took 10.5 us with a prefetch of the vector for each two
// elements, and takes 4.2 us.
static const char *first_of_line(const struct row_text *x, int a, const char *s, int elements)
{
  const struct row_plan *p = x->p;
  const int lanes = MIN(p->lanes[a], elements), warps = MIN(p->warps[a], elements / lanes), regs = MIN(p->regs[a], elements / lanes / warps);
  if (lanes > 1) s = text_join(x->mem, s, " && ", "@l%d %% %d == 0", a, lanes);
  if (warps > 1) s = text_join(x->mem, s, " && ", "@w%d %% %d == 0", a, warps);
  if (regs > 1) s = text_join(x->mem, s, " && ", "r%d %% %d == 0", a, regs);
  return s;
}

// The condition of being within all extents, and first of the threads and blocks along other axes. For prefetches (`fetched`) it ignores blocks, and
// holds for about one thread for each line.
static const char *first_along(const struct row_text *x, axis_set axes, const struct kern_access *fetched)
{
  const struct row_plan *p = x->p;
  const char *s = row_inside(x, p->anywhere && !fetched ? axes & ~AXIS(p->role.across) : axes); // edges of rows have conditions of their own
  for (int a = 0; a < p->r->k.naxes; a++) {
    bool has = axes >> a & 1;
    if (has && fetched && fetched->stride[a] == 1) s = first_of_line(x, a, s, MAX(1, ROW_LINE / (row_vec(p, a) * (int)dtype_bytes(fetched->type))));
    if (!has && p->lanes[a] > 1) s = text_join(x->mem, s, " && ", "@l%d == 0", a);
    if (!has && p->warps[a] > 1) s = text_join(x->mem, s, " && ", "@w%d == 0", a);
    if (!has && !fetched && p->grid >> a & 1) s = text_join(x->mem, s, " && ", "@c%d == 0", a);
    if (!has && !fetched && a == p->share) s = text_join(x->mem, s, " && ", "@rank == 0");
  }
  return s;
}

void row_fetch(struct row_text *x, int value)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const struct row_weave w = x->p->r->woven[value];
  if (w.n && w.member[0] != value) return;
  int across = x->p->role.across, width = along_vector(x->p, v->axes) ? row_width(x->p, &v->at) : 1;
  int n = along_vector(x->p, v->axes) ? v->at.stride[across] == 1 || w.n ? 1 : x->p->vec / width : 0;
  const bool anywhere = x->p->anywhere && along_vector(x->p, v->axes);
  const char *line = anywhere ? row_anywhere_line(x, &v->at) : memory(x, &v->at, width, -1);
  TEXT_SCOPE(&x->t);
  if (!line) return;
  if (anywhere) n = 0;
  row_each_open(x, v->axes, first_along(x, v->axes, &v->at));
  text_fill(&x->t, "?n each q:$n\nSync<prefetch.L2>($line)", HOLES(NULL, INT(n, n), STR(line, line)));
}

const char *row_stored(struct row_text *x, int save)
{
  const struct kern_save *s = &x->p->r->k.save[save];
  const struct kern_value *v = &x->p->r->k.v[s->value];
  const char *name = row_name(x, v->kind == KERN_PLACED ? v->in[0] : s->value);
  if (s->at.type == F32) return name;
  text_fill(&x->t, "%o$i:[$dims].$type.RF <- UnaryPointwise<cast>(%$name)",
            HOLES(NULL, INT(i, save), STR(dims, row_dims(x, s->axes, row_has_vec(x, s->axes))), STR(type, tile_dtype(s->at.type)), STR(name, name)));
  return arena_printf(x->mem, "o%d", save);
}

void row_store(struct row_text *x, int save)
{
  const struct kern_save *s = &x->p->r->k.save[save];
  const struct row_weave w = row_save_weave(x->p, save);
  TEXT_ABOUT(&x->t, s->about);
  if (w.n) {
    if (w.member[0] == save) row_store_woven(x, w, first_along(x, s->axes, NULL));
    return;
  }
  const char *name = row_stored(x, save);
  const int placed = x->p->r->k.v[s->value].kind == KERN_PLACED ? s->value : -1;
  if (placed >= 0) row_name(x, x->p->r->k.v[placed].in[1]);
  if (x->p->anywhere && along_vector(x->p, s->axes)) {
    row_anywhere_store(x, s, name, first_along(x, s->axes, NULL), x->p->stream && streams(x->p, &s->at));
    return;
  }
  row_each_open(x, s->axes, first_along(x, s->axes, NULL));
  int width = placed < 0 ? pieces_open(x, s->axes, &s->at) : chosen_pieces(x, placed, 1, s->axes, &s->at);
  bool stream = x->p->stream && width * dtype_bytes(s->at.type) >= STREAMED;
  text_fill(&x->t, stream ? "$to <- Move<st.global.cs>(%$from)" : "$to <- Move(%$from)",
            HOLES(NULL, STR(from, arena_printf(x->mem, "%s%s", name, row_at(x, s->axes, width, piece(x, width)))),
                  STR(to, memory(x, &s->at, width, placed))));
}

void row_store_top(struct row_text *x, int save, const char *from)
{
  const struct kern_save *s = &x->p->r->k.save[save];
  TEXT_SCOPE(&x->t);
  row_each_open(x, s->axes, first_along(x, s->axes, NULL));
  int width = pieces_open(x, s->axes, &s->at);
  const char *round = arena_printf(x->mem, "n%d", row_top_first(&x->p->r->k, s->value)), *at = row_number(x, &s->at, width);
  if (s->at.by[0].limit > 1) at = row_term(x, strcmp(at, "0") ? at : "", round, s->at.by[0].stride / width);
  text_fill(&x->t, "?wide %$to.tile([$width])[$at] <- Move(%$from)\n?!wide %$to[$at] <- Move(%$from)",
            HOLES(NULL, INT(wide, width > 1), INT(width, width), STR(to, x->buffer[s->at.tensor]), STR(at, at),
                  STR(from, arena_printf(x->mem, "%s%s", from, row_at(x, s->axes, width, piece(x, width))))));
}
