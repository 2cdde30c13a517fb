// Block and thread statements: `A, B = block(x=2, y=16; i=8) { ... }`. The block graph is built in a scope of its
// own and then nested as one node; the tensors that its iterators read become that node's arguments.
#include "front/parse.h"

static const int64_t LARGEST = EXTENT_LIMIT - 1;

bool block_starts(const struct parser *p) { return (lex_is(&p->t, "block") || lex_is(&p->t, "thread")) && p->ahead.kind == '('; }

// One list of axes with their extents, in the order of `letters`.
static int axes(struct parser *p, const char *letters, int *n, int64_t *extents, int64_t *all)
{
  while (p->t.kind == TOK_NAME) {
    const char letter[] = {letters[*n], 0};
    if (!*letter || !lex_is(&p->t, letter)) {
      char text[64];
      lex_text(text, &p->t);
      int s = err_set(p->e, ERR_ATTRIBUTE, p->t.at, "expected %s%s%s, found %s", *letter ? "axis `" : "", *letter ? letter : "no further axis",
                      *letter ? "`" : "", text);
      err_hint(p->e, "grid axes are x, y, z and loop axes i, j, k, l, in this order: block(x=2, y=16; i=8)");
      return s;
    }
    parse_next(p);
    int s = parse_expect(p, '=', "`=`");
    struct loc at = p->t.at;
    if (!s) s = expr_whole(p, ERR_EXTENT, "the extent of an axis", 1, LARGEST, &extents[*n]);
    if (s) return s;
    if (__builtin_mul_overflow(*all, extents[*n], all) || *all > LARGEST) return err_set(p->e, ERR_LIMIT, at, "more than 2^40 blocks or iterations");
    ++*n;
    if (!parse_take(p, ',')) break;
  }
  return OK;
}

static int header(struct parser *p, struct graph *sub)
{
  int ngrid = 0, nloop = 0;
  int64_t grid[MAX_GRID] = {0}, loop[MAX_LOOPS] = {0}, blocks = 1, iterations = 1;
  struct loc opened = p->t.at;
  parse_next(p);
  int s = axes(p, "xyz", &ngrid, grid, &blocks);
  if (!s && parse_take(p, ';')) s = axes(p, "ijkl", &nloop, loop, &iterations);
  if (!s) s = parse_close(p, ')', '(', opened);
  if (!s) graph_axes(sub, ngrid, grid, nloop, loop);
  return s;
}

static int refuse(struct parser *p, const struct token *word, enum level level)
{
  const char *name = level_name(level);
  int s;
  if (!p->blocks) {
    s = err_set(p->e, ERR_LEVEL, word->at, "a program has no %s statements", name);
    return err_hint(p->e, "write `graph` in place of `program` at its top"), s;
  }
  s = err_set(p->e, ERR_LEVEL, word->at, "a %s statement cannot stand in a %s graph", name, level_name(p->scope->g->level));
  return err_hint(p->e, "block statements stand in the kernel graph, thread statements in a block"), s;
}

int block_parse(struct parser *p, struct front_value *v)
{
  struct token word = p->t;
  enum level level = lex_is(&word, "block") ? BLOCK : THREAD;
  if (!p->blocks || p->scope->g->level + 1 != level) return refuse(p, &word, level);
  parse_next(p);
  struct front_scope *above = p->scope, inner = {.above = above, .g = graph_new(p->mem, level, NULL)};
  int s = header(p, inner.g);
  struct loc opened = p->t.at;
  if (!s) s = parse_expect(p, '{', "`{`, which opens the block");
  if (s) return s;
  inner.opened = opened, p->scope = &inner;
  s = parse_statements(p, opened, NULL);
  p->scope = above;
  if (s) return s;
  parse_next(p);
  int saves = graph_outputs(inner.g, NULL);
  if (!inner.nfrom || !saves) {
    s = err_set(p->e, ERR_GRAPH, word.at, "this %s %s nothing", level_name(level), saves ? "loads" : "saves");
    return err_hint(p->e, "it needs at least one iter(...) and one save(...)"), s;
  }
  *v = (struct front_value){.kind = TENSORS, .at = word.at, .count = saves};
  p->tensors += saves;
  return graph_nest(above->g, inner.g, inner.nfrom, inner.from, word.at, &v->first, p->e);
}
