// Rows that begin at any element (rows.h). A vector is aligned in device memory, not in its row: vector v of a row has the elements from v * vec -
// @shift on. @shift is the distance of the row's begin from the aligned vector that contains it. So a row is read in whole vectors. The first and the
// last one may also contain elements of other rows. A fold sets those to its neutral value, and they are not stored. The elements after the last whole
// vector of a tensor are loaded one by one, so nothing outside of the tensor is read.
//
// Rows of different tensors may differ in @shift, such as those of a matrix and a vector of weights. All stored rows have the same one. For rows that
// have another one, two aligned vectors are loaded and shifted, as in mma_anywhere.c.
#include "lower/rows.h"

enum { PIECE = 8 }; // elements of a vector that can be shifted, of 2 bytes each

static int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

// Whether the row begins at the same distance from an aligned vector as the rows of the plan.
static bool in_phase(const struct row_plan *p, const struct kern_access *a)
{
  if (a->index || a->stride[p->role.across] != 1 || modulo(a->offset - p->first[p->role.across], p->vec)) return false;
  for (int i = 0; i < p->r->k.naxes; i++)
    if (i != p->role.across && p->r->k.extent[i] > 1 && modulo(a->stride[i] - p->first[i], p->vec)) return false;
  return true;
}

// Rows begin at a distance that may not depend on folded axes, since folded elements have the same places.
static bool may_lead(const struct row_plan *p, const struct kern_access *a)
{
  if (a->index || a->stride[p->role.across] != 1) return false;
  for (int i = 0; i < p->r->k.naxes; i++)
    if (i != p->role.across && p->r->k.folded >> i & 1 && a->stride[i] % p->vec) return false;
  return true;
}

static void lead(struct row_plan *p, const struct kern_access *a)
{
  for (int i = 0; i < p->r->k.naxes; i++)
    p->first[i] = i == p->role.across ? modulo(a->offset, p->vec) : p->r->k.extent[i] > 1 ? modulo(a->stride[i], p->vec) : 0;
}

// Whether the scheme can access it with places that are not multiples of the vector.
static bool plain(const struct row_plan *p, const struct kern_access *a, axis_set axes, bool save)
{
  for (int i = 0; i < KERN_BASES; i++)
    if (a->base[i]) return false;
  if (a->left || a->by[0].limit) return false;
  if (!(axes >> p->role.across & 1)) return true;
  return save ? in_phase(p, a) && a->elements >= p->vec : a->index || a->stride[p->role.across] != 1 || a->elements >= p->vec;
}

static bool supported(const struct row_plan *p)
{
  const struct rows *r = p->r;
  struct kern_use u;
  for (int i = 0; i < r->k.nvalues; i++) {
    const struct kern_value *v = &r->k.v[i];
    if (v->live && (kern_tops(v) || kern_scans(v) || v->kind == KERN_CHOSEN || v->kind == KERN_PLACED || r->woven[i].n)) return false;
  }
  for (int i = 0; i < r->k.nsaves; i++)
    if (r->woven_save[i].n) return false;
  for (int i = 0; i < kern_uses(&r->k); i++)
    if (kern_use(&r->k, i, &u) && !plain(p, u.at, u.axes, u.save)) return false;
  return true;
}

bool rows_anywhere(struct row_plan *p)
{
  const struct kern *k = &p->r->k;
  struct kern_use u;
  double most = 0;
  p->first = NEWS(p->r->j->mem, int64_t, k->naxes + 1);
  for (int i = 0; i < kern_uses(k); i++) {
    if (!kern_use(k, i, &u) || !(u.axes >> p->role.across & 1) || !may_lead(p, u.at)) continue;
    const double bytes = u.save ? 1e30 : (double)kern_extent(k, u.axes) * dtype_bytes(u.at->type);
    if (bytes > most) most = bytes, lead(p, u.at);
  }
  for (int i = 0; i < k->naxes; i++) p->moved |= p->first[i] > 0;
  return p->anywhere = supported(p);
}

enum row_way row_way(const struct row_plan *p, const struct kern_access *a)
{
  if (a->index || a->stride[p->role.across] != 1) return ROW_SINGLE;
  if (in_phase(p, a)) return ROW_ALIGNED;
  return p->vec == PIECE && dtype_bytes(a->type) == 2 ? ROW_SHIFTED : ROW_SINGLE;
}

int row_edges(const struct row_plan *p, int before, int edge[ROW_EDGES])
{
  const int a = p->role.across;
  const int64_t last = (p->r->k.extent[a] - 1) / p->vec;
  int n = 0;
  for (int64_t i = 0; i <= 1 + before + p->moved; i++) {
    const int64_t v = i ? last - before + i - 1 : 0; // the first vector, then the last ones
    if ((!i && !p->moved) || v < 0) continue;
    const int r = (int)(v / row_threads(p, a) % p->regs[a]);
    bool known = false;
    for (int k = 0; k < n; k++) known |= edge[k] == r;
    if (!known) edge[n++] = r;
  }
  return n;
}

int row_reaching(const struct row_plan *p)
{
  const int a = p->role.across;
  return p->chunks[a] > 1 ? 0 : (int)MIN(p->r->k.extent[a] / p->vec / row_threads(p, a), p->regs[a]);
}

// ---- text ----

void row_anywhere_begin(struct row_text *x)
{
  const struct row_plan *p = x->p;
  const char *s = "";
  for (int i = 0; i < p->r->k.naxes; i++)
    if (i != p->role.across && p->first[i]) s = row_term(x, s, row_place(x, i), p->first[i]);
  if (p->first[p->role.across]) s = text_join(x->mem, s, " + ", "%lld", (long long)p->first[p->role.across]);
  if (p->moved) text_line(&x->t, "@shift = (%s) %% %d", s, p->vec);
}

// The position of the executing thread's element number `at` of a vector in the row, plus @shift.
static const char *position(const struct row_text *x, const char *at)
{
  const char *s = row_term(x, "", row_place(x, x->p->role.across), x->p->vec);
  return text_join(x->mem, s, " + ", "%s", at);
}

static const char *end(const struct row_text *x)
{
  return arena_printf(x->mem, x->p->moved ? "%lld + @shift" : "%lld", (long long)x->p->r->k.extent[x->p->role.across]);
}

const char *row_anywhere_reached(const struct row_text *x)
{
  return arena_printf(x->mem, "%s < %s", row_term(x, "", row_place(x, x->p->role.across), x->p->vec), end(x));
}

// The condition that all elements of the vector belong to the row.
static const char *whole(const struct row_text *x)
{
  const char *s = x->p->moved ? arena_printf(x->mem, "%s >= @shift", row_term(x, "", row_place(x, x->p->role.across), x->p->vec)) : "";
  return text_join(x->mem, s, " && ", "%s <= %s", position(x, arena_printf(x->mem, "%d", x->p->vec)), end(x));
}

// The same for element `at` of the vector.
static const char *belongs(const struct row_text *x, const char *at)
{
  const char *s = x->p->moved ? arena_printf(x->mem, "%s >= @shift", position(x, at)) : "";
  return text_join(x->mem, s, " && ", "%s < %s", position(x, at), end(x));
}

// The first element of the row; "": 0.
static const char *start(const struct row_text *x, const struct kern_access *a)
{
  const char *s = "";
  for (int i = 0; i < x->p->r->k.naxes; i++)
    if (i != x->p->role.across && a->stride[i]) s = row_term(x, s, row_place(x, i), a->stride[i]);
  return a->offset ? text_join(x->mem, s, " + ", "%lld", (long long)a->offset) : s;
}

const char *row_anywhere_number(const struct row_text *x, const struct kern_access *a, const char *at)
{
  const int64_t stride = a->stride[x->p->role.across];
  const char *s = start(x, a);
  if (!stride) return *s ? s : "0";
  s = row_term(x, row_term(x, s, row_place(x, x->p->role.across), stride * x->p->vec), at, stride);
  return x->p->moved ? arena_printf(x->mem, "%s - @shift * %lld", s, (long long)stride) : s;
}

// The aligned vector of `width` elements that contains piece q of the vector, for rows in phase.
static const char *aligned(const struct row_text *x, const struct kern_access *a, int width)
{
  const int each = x->p->vec / width;
  const int64_t vectors = a->elements / width;
  const char *s = start(x, a);
  if (*s) s = arena_printf(x->mem, "(%s) / %d", s, x->p->vec);
  s = text_join(x->mem, s, " + ", "%s", row_place(x, x->p->role.across));
  if (each > 1) s = arena_printf(x->mem, "(%s) * %d + q", s, each);
  if (a->elements % x->p->vec) s = arena_printf(x->mem, "min(%s, %lld)", s, (long long)vectors - 1);
  return arena_printf(x->mem, "%%%s.tile([%d])[%s]", x->buffer[a->tensor], width, s);
}

// Opens a loop over the registers from `from` to `to` - 1 along `across`. The caller closes it.
static void some_open(struct row_text *x, axis_set axes, int from, int to, const char *condition)
{
  x->from = from, x->to = to;
  row_each_open(x, axes, condition);
  x->to = 0;
}

static void edge_open(struct row_text *x, axis_set axes, int edge, const char *condition) { some_open(x, axes, edge, edge + 1, condition); }

static axis_set others(const struct row_text *x, axis_set axes) { return axes & ~AXIS(x->p->role.across); }

// The condition that the vector has elements of the row and others.
static const char *partial(const struct row_text *x) { return arena_printf(x->mem, "%s && !(%s)", row_anywhere_reached(x), whole(x)); }

static const char *name_at(const struct row_text *x, const char *name, axis_set axes, int width, const char *at)
{
  return arena_printf(x->mem, "%%%s%s", name, row_at(x, axes, width, at));
}

void row_anywhere_mask(struct row_text *x, axis_set axes, const char *in, const char *neutral)
{
  int edge[ROW_EDGES];
  for (int i = 0, n = row_edges(x->p, 0, edge); i < n; i++) {
    TEXT_SCOPE(&x->t);
    edge_open(x, axes, edge[i], partial(x));
    text_fill(&x->t, "each z:$vec\nif (!($belongs)) {\n$in <- Init<$neutral>()",
              HOLES(NULL, INT(vec, x->p->vec), STR(belongs, belongs(x, "z")), STR(in, name_at(x, in, axes, 1, "z")), STR(neutral, neutral)));
  }
}

// Loads the elements after the last whole vector of a tensor.
static void rest(struct row_text *x, const struct kern_value *v, const char *name, int width, bool shifted)
{
  const struct kern_access *a = &v->at;
  const int64_t from = a->elements / width * width, last = a->elements / x->p->vec * x->p->vec;
  int edge[ROW_EDGES];
  const struct hole *holes = HOLES(NULL, INT(n, shifted ? x->p->vec : a->elements - from), INT(from, from), INT(elements, a->elements),
                                   INT(skipped, from - last), STR(buffer, x->buffer[a->tensor]));
  for (int i = 0, n = row_edges(x->p, shifted, edge); i < n && a->elements % width; i++) {
    TEXT_SCOPE(&x->t);
    edge_open(x, v->axes, edge[i], "");
    const char *first = row_anywhere_number(x, a, "0"), *e = row_anywhere_number(x, a, "z");
    if (shifted) {
      text_open(&x->t, "if (%s > %lld) {", row_anywhere_number(x, a, arena_printf(x->mem, "%d", x->p->vec)), (long long)from);
      text_fill(&x->t, "each z:$n\nif ($e >= $from && $e < $elements) {\n$to <- Move(%$buffer[$e])",
                HOLES(holes, STR(e, e), STR(to, name_at(x, name, v->axes, 1, "z"))));
      continue;
    }
    text_open(&x->t, "if (%s == %lld) {", first, (long long)last);
    text_fill(&x->t, "each z:$n\n$to <- Move(%$buffer[$from + z])",
              HOLES(holes, STR(to, name_at(x, name, v->axes, 1, arena_printf(x->mem, "%lld + z", (long long)(from - last))))));
  }
}

// Opens the loops of a load by vectors: part 0 has only vectors that begin before the end of the row. Returns whether there is such a part.
static bool part_open(struct row_text *x, axis_set axes, int part)
{
  const int a = x->p->role.across, from = part ? row_reaching(x->p) : 0, to = part ? x->p->regs[a] : row_reaching(x->p);
  if (from < to) some_open(x, axes, from, to, row_inside(x, part ? axes : others(x, axes)));
  return from < to;
}

// The vectors are shifted at once, so that registers hold one of the two. If all are loaded first, fewer threads fit: on an H200 a minimum over columns
// took 128 us in place of 95, and an RMS norm 15.2 in place of 14.1.
static void load_shifted(struct row_text *x, const struct kern_value *v, const char *name, int part)
{
  const struct kern_access *a = &v->at;
  const long long most = a->elements / PIECE - 1;
  TEXT_SCOPE(&x->t);
  if (!part_open(x, v->axes, part)) return;
  text_fill(&x->t,
            "@e$name = $next\n"
            "%two$name:[2].[8].$type.RF\n"
            "%two$name[0] <- Move(%$buffer.tile([8])[min(max(@e$name / 8 - 1, 0), $most)])\n"
            "%two$name[1] <- Move(%$buffer.tile([8])[min(@e$name / 8, $most)])\n"
            "$to <- Move<shift, @e$name % 8>(%two$name[0], %two$name[1])",
            HOLES(NULL, STR(name, name), STR(next, row_anywhere_number(x, a, "8")), INT(most, most), STR(buffer, x->buffer[a->tensor]),
                  STR(type, tile_dtype(a->type)), STR(to, name_at(x, name, v->axes, PIECE, "0"))));
}

static void load_single(struct row_text *x, const struct kern_value *v, const char *name)
{
  TEXT_SCOPE(&x->t);
  row_each_open(x, v->axes, row_inside(x, v->axes));
  const struct hole *holes = HOLES(NULL, INT(vec, x->p->vec), STR(belongs, belongs(x, "q")), STR(to, name_at(x, name, v->axes, 1, "q")),
                                   STR(at, row_anywhere_number(x, &v->at, "q")), STR(buffer, v->at.index ? "" : x->buffer[v->at.tensor]));
  text_begin(&x->t, "each q:$vec", holes);
  text_fill(&x->t, v->at.index ? "$to <- Init<($at)><<<#grid, #me>>>()" : "if ($belongs) {\n$to <- Move(%$buffer[$at])", holes);
}

void row_anywhere_load(struct row_text *x, const struct kern_value *v, const char *name, bool stream)
{
  const enum row_way way = row_way(x->p, &v->at);
  const int width = row_width(x->p, &v->at);
  if (way == ROW_SINGLE) load_single(x, v, name);
  for (int part = 0; part < 2 && way != ROW_SINGLE; part++) {
    if (way == ROW_SHIFTED) {
      load_shifted(x, v, name, part);
      continue;
    }
    TEXT_SCOPE(&x->t);
    if (!part_open(x, v->axes, part)) continue;
    text_fill(&x->t, "?pieces each q:$pieces\n$to <- Move$how($from)",
              HOLES(NULL, INT(pieces, width < x->p->vec ? x->p->vec / width : 0), STR(how, stream ? "<ld.global.stream>" : ""),
                    STR(to, name_at(x, name, v->axes, width, width < x->p->vec ? "q" : "0")), STR(from, aligned(x, &v->at, width))));
  }
  if (way != ROW_SINGLE) rest(x, v, name, width, way == ROW_SHIFTED);
}

void row_anywhere_store(struct row_text *x, const struct kern_save *s, const char *name, const char *first, bool stream)
{
  const int width = row_width(x->p, &s->at), reaching = row_reaching(x->p), head = MIN(x->p->moved, reaching);
  const int bound[] = {0, head, reaching, x->p->regs[x->p->role.across]}; // registers with begins of rows, those between, and those with ends
  int edge[ROW_EDGES];
  for (int part = 0; part < 3; part++) {
    TEXT_SCOPE(&x->t);
    if (bound[part] == bound[part + 1]) continue;
    some_open(x, s->axes, bound[part], bound[part + 1], part == 1 ? first : text_join(x->mem, first, " && ", "%s", whole(x)));
    text_fill(&x->t, "?pieces each q:$pieces\n$to <- Move$how($from)",
              HOLES(NULL, INT(pieces, width < x->p->vec ? x->p->vec / width : 0), STR(how, stream ? "<st.global.cs>" : ""),
                    STR(from, name_at(x, name, s->axes, width, width < x->p->vec ? "q" : "0")), STR(to, aligned(x, &s->at, width))));
  }
  for (int i = 0, n = row_edges(x->p, 0, edge); i < n; i++) {
    TEXT_SCOPE(&x->t);
    edge_open(x, s->axes, edge[i], text_join(x->mem, first, " && ", "%s", partial(x)));
    text_fill(&x->t, "each z:$vec\nif ($belongs) {\n%$buffer[$at] <- Move($from)",
              HOLES(NULL, INT(vec, x->p->vec), STR(belongs, belongs(x, "z")), STR(buffer, x->buffer[s->at.tensor]),
                    STR(at, row_anywhere_number(x, &s->at, "z")), STR(from, name_at(x, name, s->axes, 1, "z"))));
  }
}

const char *row_anywhere_line(const struct row_text *x, const struct kern_access *a)
{
  if (row_way(x->p, a) == ROW_SINGLE) return NULL;
  return arena_printf(x->mem, "%%%s[min(max(%s, 0), %lld)]", x->buffer[a->tensor], row_anywhere_number(x, a, "0"), (long long)a->elements - 1);
}
