// The program: its header and parameters, then statements. The grammar is in docs/language.md.
#include "front/parse.h"
#include "ir/constants.h"

#include <ctype.h>
#include <string.h>

static const int64_t LARGEST = EXTENT_LIMIT - 1;

// ---- tokens ----------------------------------------------------------------------------------------

void parse_next(struct parser *p)
{
  p->t = p->ahead;
  if (p->t.kind != TOK_END) p->ahead = lex_next(&p->lex);
}

bool parse_take(struct parser *p, int kind)
{
  bool here = p->t.kind == kind;
  if (here) parse_next(p);
  return here;
}

int parse_unexpected(struct parser *p, const char *wanted)
{
  char text[64];
  lex_text(text, &p->t);
  if (p->t.kind == TOK_BAD && !isprint((unsigned char)*p->t.p)) return err_set(p->e, ERR_SYNTAX, p->t.at, "%s", p->t.why);
  if (p->t.kind == TOK_BAD) return err_set(p->e, ERR_SYNTAX, p->t.at, "%s %s", text, p->t.why);
  return err_set(p->e, ERR_SYNTAX, p->t.at, "expected %s, found %s", wanted, text);
}

int parse_expect(struct parser *p, int kind, const char *what) { return parse_take(p, kind) ? OK : parse_unexpected(p, what); }

int parse_close(struct parser *p, int kind, int opening, struct loc opened)
{
  if (parse_take(p, kind)) return OK;
  bool bad = p->t.kind == TOK_BAD;
  char what[80];
  snprintf(what, sizeof what, "`,` or `%c`", kind);
  int s = parse_unexpected(p, what);
  if (!bad) err_hint(p->e, "the `%c` was opened at line %d, column %d", opening, opened.line, opened.col);
  return s;
}

void parse_lines(struct parser *p)
{
  while (p->t.kind == TOK_LINE || p->t.kind == ';') parse_next(p);
}

// ---- statements ------------------------------------------------------------------------------------

// A bound of a range, after its comparison sign.
int parse_bound(struct parser *p, int64_t *out)
{
  struct front_value v;
  struct loc at = p->t.at;
  TRY(expr_plain(p, &v));
  if (v.kind != NUMBER) return err_set(p->e, ERR_INTEGER_RANGE, at, "a bound must be a number, not a tensor");
  return number_whole(p->e, ERR_INTEGER_RANGE, at, &v.number, "a bound", -LARGEST, LARGEST, out);
}

// Reads `shard(0)`; the parser is at the name.
static int shard(struct parser *p, int t)
{
  struct loc at = p->t.at, opened = p->ahead.at;
  int64_t dim;
  if (p->world.line == 0) {
    int s = err_set(p->e, ERR_WORLD, at, "a shard in a program of one device");
    return err_hint(p->e, "say how many devices there are before the inputs: world 4"), s;
  }
  parse_next(p);
  TRY(parse_expect(p, '(', "`(` and a dimension"));
  TRY(expr_whole(p, ERR_ATTRIBUTE, "the dimension of a shard", -MAX_DIMS, MAX_DIMS - 1, &dim));
  TRY(parse_close(p, ')', '(', opened));
  return graph_shard(p->scope->g, t, dim, at, p->e);
}

// [>= 0] [< 8 | <= 7] [, distinct] [shard(0)] [state | frozen]
static int declared(struct parser *p, int t, struct loc at)
{
  struct graph *g = p->scope->g;
  struct whole_range r = g->tensors[t].range;
  bool given = p->t.kind == TOK_GREATER_EQUAL || p->t.kind == '<' || p->t.kind == TOK_LESS_EQUAL || p->t.kind == ',';
  if (parse_take(p, TOK_GREATER_EQUAL)) TRY(parse_bound(p, &r.least));
  bool below = p->t.kind == '<';
  if (below || p->t.kind == TOK_LESS_EQUAL) {
    parse_next(p);
    TRY(parse_bound(p, &r.most));
    r.most -= below;
  }
  if (parse_take(p, ',')) {
    if (!lex_is(&p->t, "distinct")) return parse_unexpected(p, "`distinct`");
    parse_next(p), r.distinct = true;
  }
  TRY(graph_declare(g, t, given ? &r : NULL, false, at, p->e));
  if (lex_is(&p->t, "shard")) TRY(shard(p, t));
  g->tensors[t].state = lex_is(&p->t, "state");
  if (g->tensors[t].state) return parse_next(p), OK;
  if (!lex_is(&p->t, "frozen")) return OK;
  return parse_next(p), graph_freeze(g, t, at, p->e);
}

// The scope names the tensor. An error of its shape is made again with the name.
static int declare(struct parser *p, const struct token *id, enum dtype t, const struct shape *s, int *out)
{
  const int status = graph_input(p->scope->g, NULL, t, s, id->at, out, p->e);
  if (status == OK || p->e->id != ERR_EXTENT) return status;
  *p->e = (struct err){0};
  return graph_input(graph_new(p->mem, KERNEL, NULL), arena_printf(p->mem, "%.*s", MIN(id->n, 60), id->p), t, s, id->at, out, p->e);
}

// Name: f16[2, 256, 64], and what is known of its elements
static int input(struct parser *p)
{
  struct token id = p->t, type;
  struct shape s = {0};
  uint8_t runs[MAX_DIMS] = {0};
  enum dtype dtype;
  char text[64];
  parse_next(p), parse_next(p);
  type = p->t, lex_text(text, &type);
  if (p->scope->g->level != KERNEL) {
    int status = err_set(p->e, ERR_LEVEL, id.at, "inputs are declared in the kernel graph");
    return err_hint(p->e, "a block loads tiles: x = iter(X, imap={x:0})"), status;
  }
  if (lex_is(&type, "dim")) return extent_statement(p, &id);
  if (!dtype_parse(arena_printf(p->mem, "%.*s", type.kind == TOK_NAME ? type.n : 0, type.p), &dtype))
    return err_set(p->e, ERR_DTYPE, type.at, "%s is not a dtype", text), err_hint(p->e, "dtypes are %s", num_names()), USER;
  parse_next(p);
  struct loc opened = p->t.at;
  int status = parse_expect(p, '[', "`[` and the extents");
  while (!status && p->t.kind != ']') {
    if (s.n == MAX_DIMS) return err_set(p->e, ERR_LIMIT, p->t.at, "a tensor has at most %d dimensions", MAX_DIMS);
    status = expr_extent(p, ERR_EXTENT, "an extent", 1, LARGEST, &s.d[s.n], &runs[s.n]);
    s.n += !status;
    if (!status && !parse_take(p, ',')) break;
  }
  if (!status) status = parse_close(p, ']', '[', opened);
  struct front_value v = {.kind = TENSORS, .count = 1};
  if (!status) status = declare(p, &id, dtype, &s, &v.first);
  if (!status) status = declared(p, v.first, type.at);
  if (!status) status = extent_runs(p, v.first, runs, type.at);
  if (++p->tensors > FRONT_TENSORS && !status) status = err_set(p->e, ERR_LIMIT, id.at, "the program has more than %d tensors", FRONT_TENSORS);
  return status ? status : scope_define(p, &id, &v);
}

// a, b = ...
static int assign(struct parser *p)
{
  struct token *ids = NULL;
  int n = 0, cap = 0, s = OK;
  do {
    PUSH(p->mem, ids, n, cap) = p->t;
    if (p->t.kind != TOK_NAME) return parse_unexpected(p, "a name");
    parse_next(p);
  } while (parse_take(p, ','));
  s = parse_expect(p, '=', "`=`");
  while (p->t.kind == TOK_LINE) parse_next(p);
  struct front_value v;
  if (!s) s = block_starts(p) ? block_parse(p, &v) : expr_parse(p, &v);
  return s ? s : scope_name_results(p, n, ids, &v);
}

static int outputs(struct parser *p, int n, const struct front_value *v)
{
  for (int i = 0; i < n; i++)
    for (int k = 0; k < v[i].count; k++) {
      struct front_value none;
      int t = v[i].first + k, s = call_add(p, OP_OUTPUT, 1, &t, NULL, v[i].at, &none);
      if (s) return s;
    }
  return OK;
}

// Rejects a state as a result.
static int no_state(struct parser *p, const struct front_value *v, struct loc at)
{
  const struct graph *g = p->scope->g;
  if (!v->count || graph_state(g, v->first) < 0) return OK;
  const char *name = g->tensors[graph_state(g, v->first)].name;
  int s = err_set(p->e, ERR_STATE_COPY, at, "`%.60s` is a state, which is updated in place: it is not a result", name ? name : "it");
  return err_hint(p->e, "the caller has it; return a value computed from it"), s;
}

static int results(struct parser *p)
{
  struct front_value *values = NULL;
  int n = 0, cap = 0;
  if (p->scope->g->level != KERNEL) {
    int s = err_set(p->e, ERR_SYNTAX, p->t.at, "`return` in a %s", level_name(p->scope->g->level));
    return err_hint(p->e, "results leave by save(x, omap={x:0}); the `{` before this was opened at line %d", p->scope->opened.line), s;
  }
  parse_next(p);
  do {
    while (n && p->t.kind == TOK_LINE) parse_next(p); // a comma continues the line
    struct front_value v;
    struct loc at = p->t.at;
    int s = expr_parse(p, &v);
    if (!s && v.kind == TENSORS) s = no_state(p, &v, at);
    if (!s && v.kind == NUMBER) s = err_set(p->e, ERR_GRAPH, at, "a number is returned, and programs return tensors");
    if (s) return s;
    v.at = at;
    PUSH(p->mem, values, n, cap) = v;
  } while (parse_take(p, ','));
  parse_lines(p);
  if (p->t.kind != '}' && p->t.kind != TOK_END) return parse_unexpected(p, "`}` after `return`");
  return outputs(p, n, values);
}

// A statement that is only an expression; it must have no results, as save(...) has none.
static int alone(struct parser *p)
{
  struct front_value v;
  struct loc at = p->t.at;
  int s = expr_parse(p, &v);
  if (s || (v.kind == TENSORS && !v.count)) return s;
  s = err_set(p->e, ERR_SYNTAX, at, "the result of this expression is dropped");
  return err_hint(p->e, "name it: y = ..., or drop the statement"), s;
}

static bool world_starts(const struct parser *p)
{
  return lex_is(&p->t, "world") && (p->ahead.kind == TOK_NUMBER || p->ahead.kind == TOK_NAME || p->ahead.kind == '-');
}

// Reads `world 4`.
static int world(struct parser *p)
{
  struct loc at = p->t.at;
  int64_t ranks;
  if (p->world.line) {
    int s = err_set(p->e, ERR_WORLD, at, "`world` was said at line %d", p->world.line);
    return err_hint(p->e, "a program has one world"), s;
  }
  if (p->scope->g->level != KERNEL || p->scope->g->nnodes) {
    int s = err_set(p->e, ERR_WORLD, at, "`world` stands behind an input or a result");
    return err_hint(p->e, "it is the first statement of the program"), s;
  }
  parse_next(p);
  p->world = at;
  TRY(expr_whole(p, ERR_WORLD, "the number of devices", INT64_MIN, INT64_MAX, &ranks));
  return graph_world(p->scope->g, ranks, at, p->e);
}

int parse_statement(struct parser *p, bool *returned)
{
  if (world_starts(p)) return world(p);
  if (lex_is(&p->t, "return")) {
    if (returned) *returned = true;
    return results(p);
  }
  if (p->t.kind != TOK_NAME) return parse_unexpected(p, "a statement");
  if (p->ahead.kind == ':') return input(p);
  if (p->ahead.kind == '=' || p->ahead.kind == ',') return assign(p);
  if (items_update_starts(p)) return items_update(p);
  if (block_starts(p)) {
    struct front_value v;
    int s = block_parse(p, &v);
    if (!s) s = err_set(p->e, ERR_SYNTAX, v.at, "the %d results of this block have no names", v.count);
    return s;
  }
  return alone(p);
}

int parse_end(struct parser *p)
{
  const bool ends = p->t.kind == TOK_LINE || p->t.kind == ';' || p->t.kind == '}' || p->t.kind == TOK_END;
  return ends ? OK : parse_unexpected(p, "the end of the statement");
}

int parse_statements(struct parser *p, struct loc opened, bool *returned)
{
  for (parse_lines(p); p->t.kind != '}'; parse_lines(p)) {
    if (p->t.kind == TOK_END) {
      int s = err_set(p->e, ERR_SYNTAX, p->t.at, "the file ends inside `{`");
      return err_hint(p->e, "the `{` was opened at line %d, column %d, and needs a `}`", opened.line, opened.col), s;
    }
    int s = parse_statement(p, returned);
    if (s) return s;
    TRY(parse_end(p));
  }
  return OK;
}

// ---- header ----------------------------------------------------------------------------------------

// One parameter, "b" or "b = 1"; a setting replaces the default.
static int parameter(struct parser *p, int nset, const struct setting *set)
{
  struct token id = p->t;
  struct front_value v = {.kind = NUMBER};
  int s = parse_expect(p, TOK_NAME, "a parameter");
  bool known = false;
  int64_t x = 0;
  if (!s && parse_take(p, '=')) s = expr_whole(p, ERR_OPTION, "the default of a parameter", INT64_MIN, INT64_MAX, &x), known = true;
  if (s) return s;
  for (int i = 0; i < nset; i++)
    if (!set[i].entry && lex_is(&id, set[i].name)) x = set[i].value, known = true;
  char *name = arena_printf(p->mem, "%.*s", id.n, id.p);
  if (!known) {
    s = err_set(p->e, ERR_OPTION, id.at, "parameter `%s` has no value", name);
    return err_hint(p->e, "give it one with --set %s=1, or write a default", name), s;
  }
  v.number = number_of(x);
  return scope_define(p, &id, &v);
}

static int settings_used(struct parser *p, int nset, const struct setting *set)
{
  const struct front_scope *params = p->scope;
  for (int i = 0; i < nset; i++) {
    bool found = set[i].entry;
    for (int k = 0; k < params->n; k++) found |= !strcmp(set[i].name, params->names[k].id);
    if (found) continue;
    int s = err_set(p->e, ERR_OPTION, (struct loc){p->lex.file, 0, 0}, "there is no parameter `%.64s` to set", set[i].name);
    struct str list = {0};
    for (int k = 0; k < params->n; k++) str_add(&list, "%s%s", k ? ", " : "", params->names[k].id);
    err_hint(p->e, params->n ? "the parameters are %s" : "the program has no parameters%s", str_text(&list));
    return str_free(&list), s;
  }
  return OK;
}

int parse_parameters(struct parser *p, int nset, const struct setting *set)
{
  struct loc opened = p->t.at;
  int s = OK;
  if (!parse_take(p, '(')) return settings_used(p, nset, set);
  while (p->t.kind != ')') {
    s = parameter(p, nset, set);
    if (s) return s;
    if (!parse_take(p, ',')) break;
  }
  s = parse_close(p, ')', '(', opened);
  return s ? s : settings_used(p, nset, set);
}

// Called at the closing `}`: adds the outputs of states. A program without such outputs needs a `return`.
int parse_returned(struct parser *p, const struct token *id, struct loc end, bool returned)
{
  const int outs = graph_outputs(p->scope->g, NULL);
  TRY(state_outputs(p->scope->g, p->e));
  if (returned || outs != graph_outputs(p->scope->g, NULL)) return OK;
  int s = err_set(p->e, ERR_SYNTAX, end, "%.*s ends without `return`", id->n, id->p);
  return err_hint(p->e, "say what it computes: return Y"), s;
}

static int program(struct parser *p, int nset, const struct setting *set)
{
  parse_lines(p);
  if (lex_is(&p->t, "model")) return model_parse(p, nset, set);
  p->blocks = lex_is(&p->t, "graph"), p->masks = !p->blocks;
  if (!p->blocks && !lex_is(&p->t, "program")) {
    bool empty = p->t.kind == TOK_END;
    int s = empty ? err_set(p->e, ERR_SYNTAX, p->t.at, "there is no program here") : parse_unexpected(p, "`program` or `graph`");
    return err_hint(p->e, "a file starts with: program name(b = 1) {"), s;
  }
  const char *entry = model_entry(nset, set);
  parse_next(p);
  struct token id = p->t;
  int s = parse_expect(p, TOK_NAME, "the program's name");
  if (s) return s;
  p->scope->g = graph_new(p->mem, KERNEL, arena_printf(p->mem, "%.*s", id.n, id.p));
  if (entry && strcmp(entry, p->scope->g->name)) {
    s = err_set(p->e, ERR_ENTRY, id.at, "there is no entry point `%.60s`: the text is the program %s", entry, p->scope->g->name);
    return err_hint(p->e, "leave out --entry"), s;
  }
  s = parse_parameters(p, nset, set);
  parse_lines(p);
  struct loc opened = p->t.at;
  if (!s) s = parse_expect(p, '{', "`{`");
  bool returned = false;
  if (!s) s = parse_statements(p, opened, &returned);
  if (s) return s;
  struct loc end = p->t.at;
  parse_next(p), parse_lines(p);
  TRY(parse_returned(p, &id, end, returned));
  if (p->t.kind == TOK_END) return OK;
  s = parse_unexpected(p, "the end of the file");
  return err_hint(p->e, "one file holds one program"), s;
}

int parse_check_text(const char *text, size_t n, const char *file, struct err *e)
{
  struct loc at = {file, 1, 1};
  for (size_t i = 0; i < MIN(n, FRONT_BYTES); i++, at.col++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '\n') at.line++, at.col = 0;
    if (c >= ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    int s = err_set(e, ERR_SYNTAX, at, "this is not a text file: byte 0x%02x at offset %zu", c, i);
    if (!i && c == 8) return err_hint(e, "an ONNX model begins so: `mica import`, `mica run` and `mica optimize` read models"), s;
    return err_hint(e, "programs are text in UTF-8 (docs/language.md) or JSON (docs/mugraph.md)"), s;
  }
  if (n <= FRONT_BYTES) return OK;
  return err_set(e, ERR_LIMIT, (struct loc){file, 0, 0}, "the text is larger than %d bytes", FRONT_BYTES);
}

static int parse_text(struct arena *mem, const char *text, size_t n, const char *file, int nset, const struct setting *set, struct graph **out,
                      struct err *e)
{
  int s = parse_check_text(text, n, file, e);
  if (s) return s;
  struct front_scope scope = {0};
  struct parser p = {.mem = mem, .e = e, .scope = &scope, .text = text, .size = n};
  lex_open(&p.lex, mem, text, n, file);
  p.ahead = lex_next(&p.lex);
  parse_next(&p);
  s = program(&p, nset, set);
  if (!s) s = graph_check(scope.g, e);
  if (!s) s = constants_check(scope.g, e);
  if (!s) *out = scope.g;
  return s;
}

int front_parse(struct arena *mem, const char *text, size_t n, const char *file, int nset, const struct setting *set, struct graph **out,
                struct err *e)
{
  if (file) file = arena_strdup(mem, file); // locations of nodes refer to it
  int s = parse_text(mem, text, n, file, nset, set, out, e);
  if (s) err_source(e, text, n);
  return s;
}
