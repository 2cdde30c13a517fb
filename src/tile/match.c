// Finds the row for a spec. The rows that the spec can mean (by kind and <op>) are tried in table order, widest first; the first that fits is chosen.
// If none fits, the error is the reason of the row that matched furthest: the shapes, strides and alignments to change.
#include "tile/match.h"

#include <float.h>
#include <math.h>
#include <string.h>

const struct instr_operand *match_pattern(const struct instr *row, int i) { return !i && row->nout ? row->out : &row->in[i - row->nout]; }

int64_t match_bytes(const struct side *s) { return tile_types[s->b->type].bytes; }

const char *match_text(struct match *m, int i)
{
  const struct side *s = &m->side[i];
  struct str t = {0};
  str_add(&t, "%%%s:", s->v->name ? s->v->name : s->b->name ? s->b->name : "");
  tile_view_text(m->l->p, m->l->k, s->view, &t);
  if (s->v->peer != EX_C(-1)) str_add(&t, " of a peer");
  return str_keep(m->lay->mem, &t);
}

// <...> names the row by its whole name, or by the part before a '.'.
static bool names(const struct instr *row, const char *op)
{
  size_t n = strlen(op);
  return n && !strncmp(row->name, op, n) && (!row->name[n] || row->name[n] == '.');
}

static bool candidate(const struct instr *row, const struct tile_spec *s)
{
  if (row->spec != s->kind) return false;
  if (s->kind == SPEC_INIT) return true;
  bool by_operator = s->kind == SPEC_UNARY || s->kind == SPEC_BINARY || s->kind == SPEC_REDUCTION || s->kind == SPEC_SHFL;
  if (by_operator && row->op && !row->chosen && !strcmp(row->op, s->op)) return true;
  if (!*s->op) return !row->chosen && !by_operator;
  return names(row, s->op);
}

static bool operand_type(struct match *m, int i)
{
  const struct instr_operand *want = match_pattern(m->row, i);
  const struct side *s = &m->side[i];
  int64_t size = match_bytes(s);
  if (!want->any_type) return s->b->type == want->type || refuse(m, "%s: it works on %s", match_text(m, i), tile_types[want->type].name);
  if (s->b->type != m->side[0].b->type && want->kind != OPND_BARRIER)
    return refuse(m, "%s and %s have different types (UnaryPointwise<cast> converts)", match_text(m, 0), match_text(m, i));
  if (want->kind == OPND_VECTOR && (size > want->bytes || want->bytes % size)) return refuse(m, "it moves %d bytes", want->bytes);
  if ((want->kind == OPND_ROW || want->kind == OPND_MATS) && size != 2) return refuse(m, "%s: it works on types of two bytes", match_text(m, i));
  return true;
}

static bool operand_memory(struct match *m, int i)
{
  const struct instr_operand *want = match_pattern(m->row, i);
  const struct side *s = &m->side[i];
  bool peer = s->v->peer != EX_C(-1);
  if (peer != want->peer) return refuse(m, "%s: it works on %s", match_text(m, i), want->peer ? "memory of a peer" : "memory of the block itself");
  if (s->b->type == TT_MBAR && (want->kind != OPND_BARRIER || s->v->nlevels))
    return refuse(m, "%s: %s", match_text(m, i), s->v->nlevels ? "it takes one mbarrier" : "an mbarrier is not data");
  return want->any_mem || want->mem == s->b->mem || refuse(m, "%s: it takes an operand in %s", match_text(m, i), tile_mem_name[want->mem]);
}

static bool operands_fit(struct match *m)
{
  if (m->row->nout + m->row->nin != m->nsides || m->row->nout != m->nout)
    return refuse(m, "it takes %d input%s, not %d", m->row->nin, m->row->nin == 1 ? "" : "s", m->nsides - m->nout);
  for (int i = 0; i < m->nsides; i++)
    if (!operand_memory(m, i)) return false;
  m->score++;
  for (int i = 0; i < m->nsides; i++)
    if (!operand_type(m, i)) return false;
  return true;
}

// Whether the innermost levels of each operand, which the instruction itself covers, fit.
static bool shapes_fit(struct match *m)
{
  int mats = -1, row = -1;
  for (int i = 0; i < m->nsides; i++) {
    const struct instr_operand *want = match_pattern(m->row, i);
    m->side[i].outer = m->side[i].v->nlevels;
    bool ok = true;
    if (want->kind == OPND_FRAGMENT) ok = match_fragment(m, i, want);
    if (want->kind == OPND_MATS) ok = match_mats(m, i, want), mats = i;
    if (want->kind == OPND_ROW) ok = match_row(m, i), row = i;
    if (want->kind == OPND_MATRIX) ok = match_matrix(m, i, want);
    if (!ok) return false;
    m->score++;
  }
  if (mats >= 0 && row >= 0) match_count_mats(m, mats, row);
  return true;
}

static bool two_dimensional(const struct match *m)
{
  for (int i = 0; i < m->nsides; i++)
    for (int l = 0; l < m->side[i].outer; l++)
      if (lay_rank(m->side[i].v->level[l]) > 1) return true;
  return false;
}

static bool loops(struct match *m, struct tile_axes *a)
{
  enum sem sem = m->row->sem;
  bool ok;
  if (sem == SEM_MMA || sem == SEM_WGMMA || (sem == SEM_FMA && two_dimensional(m)))
    ok = axes_product(m, a);
  else
    ok = axes_elementwise(m, sem == SEM_BINARY, sem == SEM_REDUCE, a);
  if (ok) axes_merge(m, a);
  return ok;
}

// Fragments and rows must stay valid at every step: pairs in one register, rows aligned.
static bool steps_fit(struct match *m, const struct tile_axes *a)
{
  for (int i = 0; i < m->nsides; i++) {
    enum operand_kind kind = match_pattern(m->row, i)->kind;
    if (kind == OPND_ROW && (!match_aligned(m, i, a, 8) || !match_together(m, i, 8))) return false;
    if ((kind == OPND_FRAGMENT || kind == OPND_MATS) && match_bytes(&m->side[i]) == 2 && !match_aligned(m, i, a, 2)) return false;
  }
  return match_descriptors(m, a);
}

static bool collective(const struct instr *row)
{
  for (int i = 0; i < row->nout + row->nin; i++)
    if (match_pattern(row, i)->kind != OPND_VECTOR && match_pattern(row, i)->kind != OPND_BARRIER) return true;
  return false;
}

static bool pieces_fit(struct match *m)
{
  struct tile_axes a = {0};
  if (m->row->spec == SPEC_SYNC) return true;
  if (match_pattern(m->row, 0)->kind == OPND_BOX) return match_boxes(m, &a);
  if (!shapes_fit(m) || !loops(m, &a)) return false;
  m->score++;
  if (collective(m->row)) return match_modes(m, &a) && steps_fit(m, &a) && match_guards(m, &a, NULL, 1);
  return match_vector(m, &a);
}

static bool init_value(struct match *m)
{
  const struct tile_spec *s = m->s;
  bool index = s->nargs && !ex_is_const(s->arg[0]);
  if (m->row->sem == SEM_INDEX) return index || refuse(m, "it takes an index");
  if (s->is_number)
    m->atom.value = s->value;
  else if (s->nargs && ex_is_const(s->arg[0]))
    m->atom.value = (double)ex_value(s->arg[0]);
  else
    return refuse(m, "it takes a number: Init<0.0>");
  return !m->row->bytes || match_bytes(&m->side[0]) <= 4 || refuse(m, "it writes words of 4 bytes");
}

// Initial value of a reduction.
static double identity(const char *op, enum tile_type t)
{
  bool word = t == TT_I32 || t == TT_I64 || t == TT_U32;
  if (!strcmp(op, "max")) return t == TT_U32 ? 0 : t == TT_I64 ? -0x1p63 : word ? INT32_MIN : -INFINITY;
  if (!strcmp(op, "min")) return t == TT_U32 ? UINT32_MAX : word ? INT32_MAX : INFINITY;
  return !strcmp(op, "*");
}

// <op, axes...> repeats the reduced dimensions: all of them, and no others.
static bool axes_named(struct match *m)
{
  const struct tile_view *out = m->side[0].v, *in = m->side[1].v;
  if (!m->s->nargs) return true;
  if (in->nlevels != 1 || out->nlevels > 1)
    return refuse(m, "axes are named of tensors with one level; without them the extents say what is reduced");
  bool named[TILE_ARGS * 16] = {0};
  int rank = lay_rank(in->level[0]), kept = out->nlevels ? lay_rank(out->level[0]) : 0;
  if (kept && kept != rank) return refuse(m, "%s has other dimensions than %s", match_text(m, 0), match_text(m, 1));
  for (int i = 0; i < m->s->nargs; i++) {
    ex axis = m->s->arg[i];
    if (!ex_is_const(axis) || ex_value(axis) < 0 || ex_value(axis) >= MIN(rank, (int)COUNT(named)))
      return refuse(m, "%s has the axes 0 .. %d", match_text(m, 1), rank - 1);
    named[ex_value(axis)] = true;
  }
  for (int d = 0; d < MIN(rank, (int)COUNT(named)); d++) {
    ex is = kept ? lay_size(m->lay, lay_mode(out->level[0], d)) : EX_C(1), all = lay_size(m->lay, lay_mode(in->level[0], d));
    if (is != (named[d] ? EX_C(1) : all)) return refuse(m, "%s is not %s reduced over the axes that are named", match_text(m, 0), match_text(m, 1));
  }
  return true;
}

static int operator_number(const struct instr *row)
{
  if (!row->op) return -1;
  bool unary = row->spec == SPEC_UNARY;
  for (int i = 0; i < (unary ? (int)UN_COUNT : (int)BI_COUNT); i++)
    if (!strcmp(row->op, unary ? unary_name[i] : binary_name[i])) return i;
  return -1;
}

static bool extras_fit(struct match *m)
{
  enum sem sem = m->row->sem;
  if (m->row->spec == SPEC_INIT && !init_value(m)) return false;
  if (sem == SEM_REDUCE && !axes_named(m)) return false;
  if (sem == SEM_REDUCE) m->atom.value = identity(m->row->op, m->side[0].b->type);
  if (sem == SEM_BARRIER && !match_barrier(m)) return false;
  if ((sem == SEM_REDUCE_WARP || sem == SEM_SHFL) && !match_lanes(m)) return false;
  return match_number(m);
}

static bool target_fits(struct match *m)
{
  const struct target *t = m->l->target;
  struct str lacks = {0};
  capability_text(m->row->needs & ~t->can, &lacks);
  if (lacks.n) refuse(m, "it needs %s, which %s does not have", str_text(&lacks), t->name);
  str_free(&lacks);
  return !(m->row->needs & ~t->can);
}

static bool fits(struct match *m)
{
  m->score = 0;
  if (!target_fits(m)) return false;
  m->score++;
  if (!operands_fit(m)) return false;
  m->score++;
  if (!match_threads(m)) return false;
  m->score++;
  if (!pieces_fit(m)) return false;
  m->score++;
  return extras_fit(m);
}

static void start(struct match *m, const struct instr *row)
{
  m->row = row, m->why[0] = m->hint[0] = 0;
  m->atom = (struct tile_atom){
      .row = row, .op = operator_number(row), .width = row->width, .nout = m->nout, .nin = m->nsides - m->nout, .arg = EX_C(0), .barrier = EX_C(0)};
  for (int i = 0; i < m->nsides; i++) {
    struct side *s = &m->side[i];
    s->from = 0, s->outer = s->v->nlevels;
    m->atom.operand[i] = (struct tile_operand){.view = s->view, .buf = s->v->buf, .offset = s->v->offset, .map = -1};
  }
}

static int no_such(struct match *m)
{
  const char *kind = tile_specs[m->s->kind].name;
  if (!*m->s->op) return err_set(m->l->e, ERR_TILE, m->at, "%s needs <...> to say what it does", kind);
  return err_set(m->l->e, ERR_TILE, m->at, "%s<%s>: there is no such instruction", kind, m->s->op);
}

static int none_fits(struct match *m, const struct match *best)
{
  struct str s = {0};
  str_add(&s, "%s%s%s%s", m->s->name, *m->s->op ? "<" : "", m->s->op, *m->s->op ? ">" : "");
  for (int i = 0; i < m->nsides; i++) str_add(&s, "%s%s", i == m->nout && i ? " <- " : i ? ", " : " of ", match_text(m, i));
  int status = err_set(m->l->e, ERR_TILE, m->at, "no instruction of %s does %s. The nearest, %s: %s", m->l->target->name, str_text(&s),
                       best->row->name, best->why);
  if (best->hint[0]) err_hint(m->l->e, "%s", best->hint);
  str_free(&s);
  return status;
}

static int sides_of(struct match *m)
{
  const struct tile_kernel *k = m->l->k;
  m->nout = m->s->nout, m->nsides = m->s->nout + m->s->nin;
  if (m->nsides > TILE_OPERANDS) return err_set(m->l->e, ERR_TILE, m->at, "more than %d operands", TILE_OPERANDS);
  for (int i = 0; i < m->nsides; i++) {
    struct side *s = &m->side[i];
    s->view = i < m->nout ? m->s->out[i] : m->s->in[i - m->nout];
    s->v = &k->views[s->view], s->b = &k->buffers[s->v->buf];
  }
  return OK;
}

static int map_number(struct lowering *l, const struct tile_map *map) // the number of an equal map, or of a new one
{
  struct tile_kernel *k = l->k;
  for (int i = 0; i < l->nmaps; i++) {
    const struct tile_map *x = &k->maps[i];
    bool same = x->buf == map->buf && x->rank == map->rank && x->swizzle_bytes == map->swizzle_bytes;
    for (int d = 0; same && d < x->rank; d++) same = x->size[d] == map->size[d] && x->stride[d] == map->stride[d] && x->box[d] == map->box[d];
    if (same) return i;
  }
  PUSH(l->p->mem, k->maps, l->nmaps, l->cap_maps) = *map;
  return l->nmaps - 1;
}

int match_spec(struct lowering *l, const struct tile_spec *s, struct loc at, struct tile_atom *out)
{
  struct match m = {.l = l, .ex = l->p->ex, .lay = &l->p->lay, .at = at, .s = s}, best = {.score = -1};
  if (sides_of(&m)) return (int)l->e->status;
  int n;
  const struct instr *rows = instr_rows(&n);
  for (int i = 0; i < n; i++) {
    if (!candidate(&rows[i], s)) continue;
    start(&m, &rows[i]);
    if (fits(&m)) {
      for (int j = 0; j < m.nsides; j++)
        if (match_pattern(m.row, j)->kind == OPND_BOX && m.side[j].b->mem == MEM_GL) m.atom.operand[j].map = map_number(l, &m.map);
      *out = m.atom;
      return OK;
    }
    if (m.score > best.score) best = m;
  }
  return best.score < 0 ? no_such(&m) : none_fits(&m, &best);
}
