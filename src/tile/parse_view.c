// Views and groups: a name and its suffixes; the statements that name them; scalars.
#include "tile/tile_parse.h"

#include <string.h>

static struct tile_view *view_of(struct reader *r, int view) { return &r->b.k->views[view]; }

static int coordinates(struct reader *r, struct loc opened, int *n, ex *index)
{
  *n = 0;
  do {
    if (*n == TILE_SOME) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d coordinates", TILE_SOME);
    if (read_word(r, "_"))
      index[(*n)++] = EX_ALL;
    else
      READ(read_ex(r, &index[(*n)++]));
  } while (read_take(r, ','));
  return read_close(r, ']', '[', opened);
}

// Parses reshape(0, [2,2]) after the word; `reshape(depth=0, ...)`, the paper's form, is accepted.
static int reshape(struct reader *r, int64_t *depth, struct lay *shape)
{
  struct loc opened = r->t.at;
  struct tile_levels l = {0};
  READ(read_expect(r, '(', "`(` and a level, a shape"));
  if (read_word(r, "depth")) READ(read_expect(r, '=', "`=`"));
  READ(read_number(r, 0, TILE_LEVELS, "a level", depth));
  READ(read_expect(r, ',', "`,` and the new shape"));
  READ(read_level(r, &l));
  tile_compact(&r->p->lay, r->row, &l);
  *shape = l.level[0];
  return read_close(r, ')', '(', opened);
}

static int no_suffix(struct reader *r, const char *all)
{
  char text[64];
  static const char *const words[] = {"tile", "reshape", "peer", "scalar", "indices"};
  struct tile_nearest near = tile_nearest(r->t.kind == TILE_WORD ? read_text(r, &r->t) : "");
  for (size_t i = 0; i < COUNT(words); i++)
    if (strstr(all, words[i])) tile_nearest_try(&near, words[i]);
  int s = err_set(r->e, ERR_TILE, r->t.at, "expected one of %s, found %s", all, tile_token_text(text, &r->t));
  if (near.best) err_hint(r->e, "did you mean `%s`?", near.best);
  return s;
}

// The last suffix makes the named view, so each suffix checks whether another one follows.
static bool suffix_follows(const struct reader *r) { return r->t.kind == '[' || r->t.kind == '.'; }

static int view_suffix(struct reader *r, const char *name, int *view)
{
  struct loc at = r->t.at;
  struct lay shape;
  int64_t depth;
  ex index[TILE_SOME];
  int n;
  if (read_take(r, '[')) {
    READ(coordinates(r, at, &n, index));
    return TILE_AT(r, at, build_index(&r->b, suffix_follows(r) ? NULL : name, *view, n, index, view));
  }
  read_next(r); // the dot
  at = r->t.at;
  if (read_word(r, "tile")) {
    const struct tile_view *v = view_of(r, *view);
    READ(read_tiler(r, v->nlevels ? lay_rank(v->level[v->nlevels - 1]) : 0, &shape));
    return TILE_AT(r, at, build_tile(&r->b, suffix_follows(r) ? NULL : name, *view, shape, view));
  }
  if (read_word(r, "reshape")) {
    READ(reshape(r, &depth, &shape));
    return TILE_AT(r, at, build_reshape(&r->b, suffix_follows(r) ? NULL : name, *view, (int)depth, shape, view));
  }
  if (!read_word(r, "peer")) return no_suffix(r, "tile, reshape, peer");
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`(` and the rank of a block"));
  READ(read_ex(r, index));
  READ(read_close(r, ')', '(', opened));
  return TILE_AT(r, at, build_peer(&r->b, suffix_follows(r) ? NULL : name, *view, *index, view));
}

static int too_long(struct reader *r)
{
  int s = err_set(r->e, ERR_LIMIT, r->t.at, "more than %d suffixes of one name", TILE_CHAIN);
  return err_hint(r->e, "name a part of it"), s;
}

int read_view_suffixes(struct reader *r, const char *name, int *view)
{
  struct loc at = r->t.at;
  for (int i = 0; suffix_follows(r); i++) {
    if (i == TILE_CHAIN) return too_long(r);
    READ(view_suffix(r, name, view));
  }
  return read_too_large(r, at);
}

static int used_view(struct reader *r, int *out)
{
  struct tile_token name;
  const struct tile_name *found;
  READ(read_name(r, '%', &name));
  READ(read_use(r, '%', &name, &found));
  return *out = found->index, OK;
}

int read_view(struct reader *r, int *out)
{
  READ(used_view(r, out));
  return read_view_suffixes(r, NULL, out);
}

// A second name for the same view would have no meaning and be lost in printing.
static int plain_copy(struct reader *r, struct loc at, char sigil)
{
  int s = err_set(r->e, ERR_TILE, at, "nothing is done to the %s that is named again", sigil == '%' ? "tensor" : "group");
  return err_hint(r->e, "use its first name; a copy of the elements is a Move"), s;
}

static int only_in_body(struct reader *r, const struct tile_token *name)
{
  if (r->b.nopen) return OK;
  int s = err_set(r->e, ERR_TILE, name->at, "what is made of tensors and groups is named in the body of the kernel's spec");
  return err_hint(r->e, "move this line behind the `{`"), s;
}

static int define_view(struct reader *r, const struct tile_token *name, const struct tile_written *w)
{
  struct loc at = r->t.at;
  char *text = read_text(r, name);
  int view;
  READ(only_in_body(r, name));
  READ(used_view(r, &view));
  if (!suffix_follows(r)) return plain_copy(r, at, '%');
  READ(read_view_suffixes(r, text, &view));
  if (w) READ(read_check_view(r, w, view));
  return read_define(r, '%', name, view, 0);
}

static int allocate(struct reader *r, const struct tile_token *name, struct tile_written *w)
{
  int view;
  tile_compact(&r->p->lay, r->row, &w->l);
  READ(TILE_AT(r, w->at, build_tensor(&r->b, read_text(r, name), w->l.n, w->l.level, w->type, w->mem, w->swizzle, &view)));
  READ(read_too_large(r, w->at));
  return read_define(r, '%', name, view, 0);
}

int read_tensor_statement(struct reader *r, const struct tile_token *name)
{
  struct tile_written w;
  if (read_take(r, '=')) return define_view(r, name, NULL);
  READ(read_expect(r, ':', "`:`, `=` or `<-`"));
  READ(read_type(r, &w));
  return read_take(r, '=') ? define_view(r, name, &w) : allocate(r, name, &w);
}

// ---- groups ----
static int group_suffix(struct reader *r, const char *name, int *group)
{
  struct loc at = r->t.at, opened;
  struct lay shape;
  int64_t depth;
  ex index[TILE_SOME];
  int n;
  if (read_take(r, '[')) {
    READ(coordinates(r, at, &n, index));
    return TILE_AT(r, at, build_group_index(&r->b, suffix_follows(r) ? NULL : name, *group, n, index, group));
  }
  read_next(r);
  at = r->t.at;
  if (read_word(r, "tile")) {
    const struct tile_group *g = &r->b.k->groups[*group];
    READ(read_tiler(r, g->nlevels ? lay_rank(g->level[g->nlevels - 1]) : 0, &shape));
    return TILE_AT(r, at, build_group_tile(&r->b, suffix_follows(r) ? NULL : name, *group, shape, group));
  }
  if (read_word(r, "reshape")) {
    READ(reshape(r, &depth, &shape));
    return TILE_AT(r, at, build_group_reshape(&r->b, suffix_follows(r) ? NULL : name, *group, (int)depth, shape, group));
  }
  if (!read_word(r, "scalar")) return no_suffix(r, "tile, reshape, scalar");
  opened = r->t.at;
  READ(read_expect(r, '(', "`()`"));
  READ(read_close(r, ')', '(', opened));
  return TILE_AT(r, at, build_group_scalar(&r->b, suffix_follows(r) ? NULL : name, *group, group));
}

static int define_group(struct reader *r, const struct tile_token *name, const struct tile_written *w)
{
  struct tile_token from;
  const struct tile_name *found;
  struct loc at = r->t.at;
  READ(only_in_body(r, name));
  READ(read_name(r, '#', &from));
  READ(read_use(r, '#', &from, &found));
  int group = found->index;
  if (!suffix_follows(r)) return plain_copy(r, at, '#');
  char *text = read_text(r, name);
  for (int i = 0; suffix_follows(r); i++) {
    if (i == TILE_CHAIN) return too_long(r);
    READ(group_suffix(r, text, &group));
  }
  READ(read_too_large(r, at));
  if (w) READ(read_check_group(r, w, group));
  return read_define(r, '#', name, group, 0);
}

int read_group_statement(struct reader *r)
{
  struct tile_token name;
  struct tile_written w;
  int group;
  READ(read_name(r, '#', &name));
  if (read_take(r, '=')) return define_group(r, &name, NULL);
  READ(read_expect(r, ':', "`:` or `=`"));
  READ(read_group_type(r, &w));
  if (read_take(r, '=')) return define_group(r, &name, &w);
  read_take(r, ':'); // the paper writes a ':' here
  tile_compact(&r->p->lay, r->row, &w.l);
  READ(TILE_AT(r, w.at, build_group(&r->b, read_text(r, &name), w.kind, w.l.n, w.l.level, &group)));
  READ(read_too_large(r, w.at));
  return read_define(r, '#', &name, group, 0);
}

// ---- scalars: @x = e, @x = value(%v), (@a, @b), @c = #g.indices() ----
struct pattern {
  int n, level[TILE_SOME]; // for each name: the parenthesis that contains it; -1: none
  int levels;
  bool grouped;
  struct tile_token name[TILE_SOME];
  bool skip[TILE_SOME];
};

static int pattern_name(struct reader *r, struct pattern *p, int level)
{
  if (p->n == TILE_SOME) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d names", TILE_SOME);
  p->level[p->n] = level;
  p->skip[p->n] = tile_is(&r->t, "_");
  if (p->skip[p->n])
    p->name[p->n] = r->t, read_next(r);
  else
    READ(read_name(r, '@', &p->name[p->n]));
  p->n++;
  return OK;
}

static int pattern(struct reader *r, struct pattern *p)
{
  *p = (struct pattern){0};
  do {
    struct loc opened = r->t.at;
    if (read_take(r, '(')) {
      p->grouped = true;
      do READ(pattern_name(r, p, p->levels));
      while (read_take(r, ','));
      READ(read_close(r, ')', '(', opened));
    } else
      READ(pattern_name(r, p, p->levels));
    p->levels++;
  } while (read_take(r, ','));
  return OK;
}

// Parentheses, if there are any, hold the dimensions of one level each.
static int fits(struct reader *r, const struct pattern *p, int group)
{
  const struct tile_group *g = &r->b.k->groups[group];
  if (!p->grouped) return OK;
  bool good = p->levels == g->nlevels;
  for (int i = 0, v = 0; good && i < g->nlevels; i++) {
    int rank = lay_rank(g->level[i]);
    for (int m = 0; good && m < rank; m++, v++) good = v < p->n && p->level[v] == i;
    if (good && v < p->n) good = p->level[v] != i;
  }
  if (good) return OK;
  struct str is = {0};
  tile_group_text(r->p, r->b.k, group, &is);
  int s = err_set(r->e, ERR_TILE, p->name[0].at, "the names are grouped in another way than the group %s", str_text(&is));
  err_hint(r->e, "a parenthesis a level, with a name for each of its dimensions: (@m, @n), @lane");
  return str_free(&is), s;
}

static int indices(struct reader *r, const struct pattern *p)
{
  struct tile_token group;
  const struct tile_name *found;
  const char *names[TILE_SOME];
  ex vars[TILE_SOME];
  READ(read_name(r, '#', &group));
  READ(read_use(r, '#', &group, &found));
  int g = found->index;
  READ(read_expect(r, '.', "`.indices()`"));
  struct loc at = r->t.at;
  if (!read_word(r, "indices")) return no_suffix(r, "indices");
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`()`"));
  READ(read_close(r, ')', '(', opened));
  READ(fits(r, p, g));
  for (int i = 0; i < p->n; i++) names[i] = p->skip[i] ? NULL : read_text(r, &p->name[i]);
  READ(TILE_AT(r, at, build_indices(&r->b, g, p->n, names, vars)));
  for (int i = 0; i < p->n; i++)
    if (!p->skip[i]) READ(read_define(r, '@', &p->name[i], -1, vars[i]));
  return OK;
}

static int value(struct reader *r, const struct tile_token *name)
{
  struct loc at = r->t.at, opened;
  int view;
  ex var;
  read_next(r);
  opened = r->t.at;
  READ(read_expect(r, '(', "`(` and a scalar tensor"));
  READ(read_view(r, &view));
  READ(read_close(r, ')', '(', opened));
  READ(TILE_AT(r, at, build_value(&r->b, read_text(r, name), view, &var)));
  return read_define(r, '@', name, -1, var);
}

int read_let(struct reader *r)
{
  struct pattern p;
  ex e, var;
  READ(pattern(r, &p));
  READ(read_expect(r, '=', "`=`"));
  if (r->t.kind == '#') return indices(r, &p);
  if (p.n > 1 || p.grouped || p.skip[0]) return read_unexpected(r, "`#GROUP.indices()`");
  if (tile_is(&r->t, "value")) return value(r, &p.name[0]);
  struct loc at = r->t.at;
  READ(read_ex(r, &e));
  READ(TILE_AT(r, at, build_let(&r->b, read_text(r, &p.name[0]), e, &var)));
  return read_define(r, '@', &p.name[0], -1, var);
}

bool read_at_pattern(const struct reader *r) { return r->t.kind == '@' || r->t.kind == '(' || tile_is(&r->t, "_"); }
