// Text of expressions, levels, views, groups, and of specs in one line. Scalars that a body defines are written with '@'. ex_text does not know this,
// so the '@' is inserted before names that the scope marks as such.
#include "tile/tile_parse.h"

#include <ctype.h>
#include <string.h>

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

void tile_put_ex(struct tile_printer *o, ex x)
{
  struct str text = {0};
  ex_text(o->p->ex, x, &text);
  for (const char *p = str_text(&text), *end; *p; p = end) {
    for (end = p; in_word(*end); end++) continue;
    if (end == p) end++;
    const struct tile_name *found = isdigit((unsigned char)*p) ? NULL : tile_scope_find(&o->scope, '@', p, (int)(end - p));
    str_add(o->out, "%s%.*s", found && found->index == 1 ? "@" : "", (int)(end - p), p);
  }
  str_free(&text);
}

static bool means(const struct tile_printer *o, ex x)
{
  if (ex_is_const(x)) return true;
  const struct ex_node *n = ex_node(o->p->ex, x);
  if (n->kind == EX_VAR) {
    const struct tile_name *found = tile_scope_find(&o->scope, '@', n->name, (int)strlen(n->name));
    return found && found->var == x;
  }
  for (int i = 0; i < n->n; i++)
    if (!means(o, n->arg[i])) return false;
  return true;
}

bool tile_put_visible(const struct tile_printer *o, int n, const struct lay *level)
{
  for (int i = 0; i < n; i++)
    for (int j = 0; j < level[i].n; j++) {
      const struct lay_node *leaf = &level[i].node[j];
      if (leaf->arity == LAY_LEAF && !(means(o, leaf->shape) && means(o, leaf->stride))) return false;
    }
  return true;
}

// ---- layouts ----
static int put_node(struct tile_printer *o, struct lay l, int i, bool stride)
{
  const struct lay_node *n = &l.node[i++];
  if (n->arity == LAY_LEAF) {
    tile_put_ex(o, stride ? n->stride : n->shape);
    return i;
  }
  str_add(o->out, "(");
  for (int k = 0; k < n->arity; k++) {
    if (k) str_add(o->out, ",");
    i = put_node(o, l, i, stride);
  }
  str_add(o->out, ")");
  return i;
}

static void put_modes(struct tile_printer *o, struct lay l, bool stride)
{
  if (l.node[0].arity == LAY_LEAF) {
    put_node(o, l, 0, stride);
    return;
  }
  for (int k = 0, i = 1; k < l.node[0].arity; k++) {
    if (k) str_add(o->out, ",");
    i = put_node(o, l, i, stride);
  }
}

void tile_put_levels_as(struct tile_printer *o, int n, const struct lay *level, const bool *strides)
{
  for (int i = 0; i < n; i++) {
    str_add(o->out, i ? ".[" : "[");
    put_modes(o, level[i], false);
    if (strides[i]) str_add(o->out, ":"), put_modes(o, level[i], true);
    str_add(o->out, "]");
  }
  if (!n) str_add(o->out, "[]");
}

void tile_put_levels(struct tile_printer *o, int n, const struct lay *level, bool strides)
{
  bool all[TILE_LEVELS];
  for (int i = 0; i < TILE_LEVELS; i++) all[i] = strides;
  tile_put_levels_as(o, n, level, all);
}

// A tiler with as many modes as the level has dimensions may omit the stride 1.
static void put_tiler(struct tile_printer *o, struct lay tiler, int rank)
{
  int n = lay_rank(tiler);
  str_add(o->out, ".tile([");
  for (int i = 0; i < n; i++) {
    struct lay m = lay_mode(tiler, i);
    bool leaf = m.node[0].arity == LAY_LEAF;
    if (i) str_add(o->out, ", ");
    if (leaf && m.node[0].shape == EX_C(0))
      str_add(o->out, "_");
    else {
      put_node(o, m, 0, false);
      if (!leaf || m.node[0].stride != EX_C(1) || n != rank) str_add(o->out, ":"), put_node(o, m, 0, true);
    }
  }
  str_add(o->out, "])");
}

static void put_index(struct tile_printer *o, int n, const ex *index)
{
  str_add(o->out, "[");
  for (int i = 0; i < n; i++) {
    if (i) str_add(o->out, ", ");
    if (index[i] == EX_ALL)
      str_add(o->out, "_");
    else
      tile_put_ex(o, index[i]);
  }
  str_add(o->out, "]");
}

static void put_reshape(struct tile_printer *o, int depth, struct lay shape)
{
  str_add(o->out, ".reshape(%d, ", depth);
  tile_put_levels(o, 1, &shape, true);
  str_add(o->out, ")");
}

// ---- views and groups ----
void tile_put_view(struct tile_printer *o, int view, bool define)
{
  const struct tile_view *v = &o->k->views[view];
  if (v->op == VIEW_ROOT || (v->name && !define)) {
    str_add(o->out, "%%%s", v->name ? v->name : o->k->buffers[v->buf].name);
    return;
  }
  tile_put_view(o, v->source, false);
  const struct tile_view *from = &o->k->views[v->source];
  if (v->op == VIEW_TILE) put_tiler(o, v->arg, lay_rank(from->level[from->nlevels - 1]));
  if (v->op == VIEW_INDEX) put_index(o, v->nindex, v->index);
  if (v->op == VIEW_RESHAPE) put_reshape(o, v->depth, v->arg);
  if (v->op == VIEW_PEER) {
    str_add(o->out, ".peer(");
    tile_put_ex(o, v->peer);
    str_add(o->out, ")");
  }
}

void tile_put_group(struct tile_printer *o, int group, bool define)
{
  const struct tile_group *g = &o->k->groups[group];
  if (g->op == VIEW_ROOT || (g->name && !define)) {
    str_add(o->out, "#%s", g->name ? g->name : "");
    return;
  }
  tile_put_group(o, g->source, false);
  const struct tile_group *from = &o->k->groups[g->source];
  if (g->op == VIEW_TILE) put_tiler(o, g->arg, lay_rank(from->level[from->nlevels - 1]));
  if (g->op == VIEW_RESHAPE) put_reshape(o, g->depth, g->arg);
  if (g->op == VIEW_INDEX && g->nindex) put_index(o, g->nindex, g->index);
  if (g->op == VIEW_INDEX && !g->nindex) str_add(o->out, ".scalar()");
}

// ---- specs ----
static void put_argument(struct tile_printer *o, ex x)
{
  struct str *out = o->out, text = {0};
  o->out = &text;
  tile_put_ex(o, x);
  o->out = out;
  str_add(out, strchr(str_text(&text), '>') ? "(%s)" : "%s", str_text(&text)); // `>` would close the <...>
  str_free(&text);
}

static void put_views(struct tile_printer *o, int n, const int *view)
{
  for (int i = 0; i < n; i++) {
    if (i) str_add(o->out, ", ");
    tile_put_view(o, view[i], false);
  }
}

void tile_put_spec(struct tile_printer *o, int spec)
{
  const struct tile_spec *s = &o->k->specs[spec];
  char number[32];
  put_views(o, s->nout, s->out);
  str_add(o->out, "%s%s", s->nout ? " <- " : "", s->name);
  str_double(number, s->value);
  const char *op = s->is_number ? number : s->op;
  if (*op) str_add(o->out, "<%s", op);
  for (int i = 0; *op && i < s->nargs; i++) {
    str_add(o->out, ", ");
    put_argument(o, s->arg[i]);
  }
  str_add(o->out, "%s<<<", *op ? ">" : "");
  tile_put_group(o, s->blocks, false);
  str_add(o->out, ", ");
  tile_put_group(o, s->threads, false);
  str_add(o->out, ">>>(");
  put_views(o, s->nin, s->in);
  str_add(o->out, ")");
}

// ---- for messages ----
void tile_view_text(const struct tile_program *p, const struct tile_kernel *k, int view, struct str *out)
{
  const struct tile_view *v = &k->views[view];
  const struct tile_buffer *buf = &k->buffers[v->buf];
  struct tile_printer o = {.p = p, .k = k, .out = out};
  tile_put_levels(&o, v->nlevels, v->level, true);
  str_add(out, ".%s.%s", tile_types[buf->type].name, tile_mem_name[buf->mem]);
}

void tile_group_text(const struct tile_program *p, const struct tile_kernel *k, int group, struct str *out)
{
  const struct tile_group *g = &k->groups[group];
  struct tile_printer o = {.p = p, .k = k, .out = out};
  tile_put_levels(&o, g->nlevels, g->level, true);
  str_add(out, g->kind == GROUP_BLOCK ? ".block" : ".thread");
}

void tile_spec_text(const struct tile_program *p, const struct tile_kernel *k, int spec, struct str *out)
{
  struct tile_printer o = {.p = p, .k = k, .out = out};
  tile_put_spec(&o, spec);
}
