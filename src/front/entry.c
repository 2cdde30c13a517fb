// Several programs in one text:
//   model tiny(d = 64) { W: f32[d, d]  K: f32[16, d] state  program prefill { ... }  program step { ... } }
// One of them is read at a time, as if the shared declarations stood in it. Shared declarations that it does not use do not become its inputs.
// Names and order of the shared declarations are the same in all programs, so callers pass the same tensors to each.
#include "front/parse.h"

#include <string.h>

const char *model_entry(int nset, const struct setting *set)
{
  const char *entry = NULL;
  for (int i = 0; i < nset; i++)
    if (set[i].entry) entry = set[i].entry;
  return entry;
}

// ---- listing the entry points of a text ----

int front_model_of(struct arena *mem, const char *text, size_t n, const char *file, struct front_model *out, struct err *e)
{
  struct front_model m = {0};
  struct lexer l;
  int depth = 0, entries = 0, shared = 0;
  lex_open(&l, mem, text, n, file);
  struct token t = lex_next(&l), next;
  while (t.kind == TOK_LINE || t.kind == ';') t = lex_next(&l);
  *out = m;
  if (!lex_is(&t, "model")) return OK;
  TRY(parse_check_text(text, n, file, e));
  for (; t.kind != TOK_END; t = next) {
    next = lex_next(&l);
    depth += (t.kind == '{') - (t.kind == '}');
    if (lex_is(&t, "model") && !depth && !m.name && next.kind == TOK_NAME) m.name = arena_printf(mem, "%.*s", next.n, next.p);
    if (depth != 1 || l.inside) continue;
    if (lex_is(&t, "program") && next.kind == TOK_NAME && m.nentries == FRONT_ENTRIES)
      return err_set(e, ERR_LIMIT, next.at, "the model has more than %d entry points", FRONT_ENTRIES);
    if (lex_is(&t, "program") && next.kind == TOK_NAME)
      PUSH(mem, m.entry, m.nentries, entries) = (struct front_entry){arena_printf(mem, "%.*s", next.n, next.p), next.at};
    if (t.kind == TOK_NAME && next.kind == ':' && !m.nentries) PUSH(mem, m.shared, m.nshared, shared) = arena_printf(mem, "%.*s", t.n, t.p);
  }
  return *out = m, OK;
}

int front_check(struct arena *mem, const char *text, size_t n, const char *file, struct err *e)
{
  struct front_model m;
  struct graph *g;
  TRY(front_model_of(mem, text, n, file, &m, e));
  int s = m.nentries ? OK : front_parse(mem, text, n, file, 0, NULL, &g, e);
  for (int i = 0; i < m.nentries && !s; i++)
    s = front_parse(mem, text, n, file, 1, &(struct setting){.name = "entry", .entry = m.entry[i].name}, &g, e);
  return s;
}

// ---- one entry point ----

struct entry_reading {
  struct parser *p;
  const char *entry; // name of the entry point to read
  int shared;        // number of nodes declared for all entry points; -1 before the first one
  bool found;
};

// Removes shared declarations that nothing reads, and renumbers the run-time extents.
static int drop_unused(struct parser *p, int shared)
{
  const struct graph *g = p->scope->g;
  struct arena tmp = {0};
  bool *read = NEWS(&tmp, bool, g->ntensors + 1), *kept = NEWS(&tmp, bool, g->nnodes + 1);
  int *map = NEWS(&tmp, int, g->ntensors + 1), status = OK, number[MOST_RUNTIME + 1] = {0}, extents = 0;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    kept[i] = i >= shared;
    for (int k = 0; k < n->nout; k++) kept[i] |= read[n->out + k];
    for (int k = 0; k < n->nin && kept[i]; k++) read[n->in[k]] = true;
    for (int k = 0; k < n->nout && kept[i]; k++)
      for (int d = 0; d < g->tensors[n->out + k].shape.n; d++)
        if (g->tensors[n->out + k].runs[d]) read[extent_input(g, g->tensors[n->out + k].runs[d])] = true;
  }
  struct graph *to = graph_new(p->mem, g->level, g->name);
  to->world = g->world;
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    if (!kept[i]) continue;
    status = graph_take(to, NULL, -1, g, n, map, p->e);
    if (!status) graph_keep_names(to, g, n, map);
    if (!status && n->op == OP_INPUT && g->tensors[n->out].extent) number[g->tensors[n->out].extent] = to->tensors[map[n->out]].extent = ++extents;
  }
  for (int i = 0; i < g->ntensors && !status; i++)
    for (int d = 0; d < g->tensors[i].shape.n && kept[g->tensors[i].node]; d++) to->tensors[map[i]].runs[d] = (uint8_t)number[g->tensors[i].runs[d]];
  arena_close(&tmp);
  return p->scope->g = to, status;
}

static int skip_entry(struct parser *p, struct loc opened)
{
  int depth = 1;
  while (depth) {
    if (p->t.kind == TOK_END) {
      int s = err_set(p->e, ERR_SYNTAX, p->t.at, "the file ends inside `{`");
      return err_hint(p->e, "the `{` was opened at line %d, column %d, and needs a `}`", opened.line, opened.col), s;
    }
    depth += (p->t.kind == '{') - (p->t.kind == '}');
    parse_next(p);
  }
  return OK;
}

// Reads `program step { ... }`; the parser is at `program`.
static int entry_point(struct entry_reading *m)
{
  struct parser *p = m->p;
  bool returned = false;
  parse_next(p);
  struct token id = p->t;
  TRY(parse_expect(p, TOK_NAME, "the name of an entry point"));
  if (p->t.kind == '(') {
    int s = err_set(p->e, ERR_SYNTAX, p->t.at, "an entry point with parameters");
    return err_hint(p->e, "parameters are those of the model: model name(b = 1) {"), s;
  }
  parse_lines(p);
  struct loc opened = p->t.at;
  TRY(parse_expect(p, '{', "`{`"));
  if (!lex_is(&id, m->entry)) return skip_entry(p, opened);
  if (m->found) return parse_duplicate(p, id.at, m->entry, (struct loc){0});
  m->found = true;
  p->scope->g->name = m->entry;
  TRY(parse_statements(p, opened, &returned));
  struct loc end = p->t.at;
  parse_next(p);
  return parse_returned(p, &id, end, returned);
}

// A declaration for all entry points: an input, a state, an extent, a number or a computed value.
static int shared_statement(struct entry_reading *m)
{
  struct parser *p = m->p;
  const struct loc at = p->t.at;
  if (m->found || m->shared >= 0) {
    int s = err_set(p->e, ERR_SYNTAX, at, "a declaration behind an entry point");
    return err_hint(p->e, "declarations that all entry points share stand before them"), s;
  }
  if (lex_is(&p->t, "return") || items_update_starts(p)) {
    int s = err_set(p->e, ERR_SYNTAX, at, "%s outside of an entry point", lex_is(&p->t, "return") ? "`return`" : "an update of a state");
    return err_hint(p->e, "write it in one: program step { ... }"), s;
  }
  TRY(parse_statement(p, NULL));
  return parse_end(p);
}

static int no_entry(struct parser *p, const struct front_model *m, const char *wanted, struct loc at)
{
  struct str list = {0};
  for (int i = 0; i < m->nentries; i++) str_add(&list, "%s%s", i ? ", " : "", m->entry[i].name);
  int s = !m->nentries ? err_set(p->e, ERR_ENTRY, at, "the model %s has no entry point", m->name)
          : wanted     ? err_set(p->e, ERR_ENTRY, at, "the model %s has no entry point `%.60s`", m->name, wanted)
                       : err_set(p->e, ERR_ENTRY, at, "the model %s has the entry points %.400s", m->name, str_text(&list));
  if (!m->nentries)
    err_hint(p->e, "write one behind the declarations: program step { ... }");
  else if (wanted)
    err_hint(p->e, "it has %.400s", str_text(&list));
  else
    err_hint(p->e, "choose one: --entry %.60s", m->entry[0].name);
  return str_free(&list), s;
}

// Chooses the entry point to read: the one that a setting names, or the only one.
static int choose(struct parser *p, int nset, const struct setting *set, struct loc at, const char **out)
{
  struct front_model m;
  TRY(front_model_of(p->mem, p->text, p->size, p->lex.file, &m, p->e));
  const char *wanted = model_entry(nset, set);
  *out = wanted ? wanted : m.nentries == 1 ? m.entry[0].name : NULL;
  for (int i = 0; i < m.nentries && *out; i++)
    if (!strcmp(m.entry[i].name, *out)) return OK;
  return no_entry(p, &m, wanted, at);
}

int model_parse(struct parser *p, int nset, const struct setting *set)
{
  struct entry_reading m = {.p = p, .shared = -1};
  parse_next(p);
  struct token id = p->t;
  TRY(parse_expect(p, TOK_NAME, "the name of the model"));
  TRY(choose(p, nset, set, id.at, &m.entry));
  p->masks = true;
  p->scope->g = graph_new(p->mem, KERNEL, m.entry);
  TRY(parse_parameters(p, nset, set));
  parse_lines(p);
  struct loc opened = p->t.at;
  TRY(parse_expect(p, '{', "`{`"));
  for (parse_lines(p); p->t.kind != '}'; parse_lines(p)) {
    if (p->t.kind == TOK_END) return skip_entry(p, opened); // reports the missing `}`
    const bool entry = lex_is(&p->t, "program") && p->ahead.kind == TOK_NAME;
    if (entry && m.shared < 0) m.shared = p->scope->g->nnodes;
    TRY(entry ? entry_point(&m) : shared_statement(&m));
  }
  parse_next(p), parse_lines(p);
  if (p->t.kind != TOK_END) return parse_unexpected(p, "the end of the file");
  return drop_unused(p, m.shared);
}
