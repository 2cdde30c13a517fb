// Graphs as text in the language of docs/language.md. Parsing the text gives the same graph with nodes in the same order.
// Therefore a node is written inside the expression that uses it only if the parser, which appends operands first, would
// append it at the same position.
#include "ir/print.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { HEIGHT = 3 };                             // most operators nested in one expression, for readable lines
enum { COMPARED = 1, SUM, PRODUCT, SIGN, CALL }; // precedence of expressions, ascending

// ---- names -----------------------------------------------------------------------------------------

bool print_is_name(const char *s)
{
  size_t n = strlen(s);
  if (!n || n > LONGEST_NAME || isdigit((unsigned char)*s)) return false;
  for (size_t i = 0; i < n; i++)
    if ((s[i] & 0x80) || (!isalnum((unsigned char)s[i]) && s[i] != '_')) return false;
  static const struct {
    const char *text;
    bool reserved;
  } words[] = {
#define WORD(text, reserved) {text, reserved},
#include "ir/word.def"
#undef WORD
  };
  for (size_t i = 0; i < COUNT(words); i++)
    if (words[i].reserved && !strcmp(s, words[i].text)) return false;
  return true;
}

static const char *proper(struct arena *mem, const char *name)
{
  if (print_is_name(name)) return name;
  char *s = arena_printf(mem, "%s%.100s_", isdigit((unsigned char)*name) ? "_" : "", name);
  for (char *p = s; *p; p++)
    if ((*p & 0x80) || !isalnum((unsigned char)*p)) *p = '_';
  return strcmp(s, "_") ? s : "__";
}

const char *print_title(const struct ir_printer *pr) { return pr->g->name ? proper(pr->mem, pr->g->name) : "main"; }

static bool taken(const struct ir_printer *pr, const char *name)
{
  for (int t = 0; t < pr->g->ntensors; t++)
    if (pr->names[t] && !strcmp(pr->names[t], name)) return true;
  return false;
}

static const char *unique(struct ir_printer *pr, const char *name)
{
  const char *s = name;
  for (int i = 2; taken(pr, s); i++) s = arena_printf(pr->mem, "%.100s_%d", name, i);
  return s;
}

const char *print_name(struct ir_printer *pr, int t)
{
  while (!pr->names[t]) {
    const char *s = arena_printf(pr->mem, "t%d", pr->invented++);
    if (!taken(pr, s)) pr->names[t] = s;
  }
  return pr->names[t];
}

const char *print_iter_name(struct ir_printer *pr, int t, const char *from)
{
  if (pr->names[t]) return pr->names[t];
  char *s = arena_strdup(pr->mem, from);
  *s = (char)tolower((unsigned char)*s);
  return pr->names[t] = unique(pr, s);
}

// ---- nodes written inside expressions ----------------------------------------------------------------

static bool may_inline(const struct ir_printer *pr, int node)
{
  const struct node *n = &pr->g->nodes[node];
  enum rule r = op_rows[n->op].rule;
  if (r == RULE_IO || r == RULE_GRAPH || n->nout != 1 || node_has(n, WRITES_SLICES) || graph_state(pr->g, n->out) >= 0) return false;
  return !pr->g->tensors[n->out].name && pr->uses[n->out] == 1;
}

static bool has_own_row(double power) { return power == 2 || power == 0.5 || power == -0.5; }

// Does the parser make a constant node of a number at this argument? Then such a constant can be written as a number.
static bool takes_number(const struct node *n, int arg, double c)
{
  if (op_rows[n->op].rule != RULE_MAP || n->nin != 2) return false;
  if (n->op == OP_MINIMUM || n->op == OP_MAXIMUM || op_rows[n->op].flags & BRACKET) return true;
  if (n->op == OP_POW) return arg == 0 || !has_own_row(c);
  return n->op == OP_DIV && arg == 0;
}

static int bare_constant(struct ir_printer *pr, int node)
{
  const struct node *n = &pr->g->nodes[node];
  for (int i = 0; i < n->nin; i++) {
    int from = pr->g->tensors[n->in[i]].node;
    const struct node *c = &pr->g->nodes[from];
    if (from != node - 1 || c->op != OP_CONST || !takes_number(n, i, c->a.scalar) || !may_inline(pr, from)) continue;
    pr->inlined[from] = pr->bare[from] = true;
    return from - 1;
  }
  return node - 1;
}

// Marks operands of `node` as written inside its expression, from the last argument to the first. `at` is the node that an
// operand must be to be next in order. Returns the last node before those marked.
static int absorb(struct ir_printer *pr, int node, int at, int height)
{
  const struct node *n = &pr->g->nodes[node];
  for (int i = n->nin - 1; i >= 0 && height; i--) {
    int from = pr->g->tensors[n->in[i]].node;
    if (from != at || !may_inline(pr, from)) continue;
    pr->inlined[from] = true;
    at = absorb(pr, from, bare_constant(pr, from), height - 1);
  }
  return at;
}

static void choose_inlined(struct ir_printer *pr)
{
  const struct graph *g = pr->g;
  int last = g->nnodes, outputs = 0;
  while (last > 0 && g->nodes[last - 1].op == OP_OUTPUT) last--;
  for (int i = 0; i < g->nnodes; i++) outputs += g->nodes[i].op == OP_OUTPUT;
  int at = last - 1;
  for (int i = g->nnodes - 1; i >= last && outputs == g->nnodes - last; i--) at = absorb(pr, i, at, HEIGHT);
  while (at >= 0) {
    const struct node *n = &g->nodes[at];
    bool closed = n->sub || n->op == OP_OUTPUT;
    at = closed ? at - 1 : absorb(pr, at, bare_constant(pr, at), HEIGHT);
  }
}

void print_open(struct ir_printer *pr, struct arena *mem, const struct graph *g, struct str *out)
{
  *pr = (struct ir_printer){.g = g, .mem = mem, .out = out};
  pr->names = NEWS(mem, const char *, g->ntensors);
  pr->uses = NEWS(mem, int, g->ntensors);
  pr->inlined = NEWS(mem, bool, g->nnodes), pr->bare = NEWS(mem, bool, g->nnodes);
  for (int t = 0; t < g->ntensors; t++)
    if (g->tensors[t].name) pr->names[t] = unique(pr, proper(mem, g->tensors[t].name));
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++) pr->uses[g->nodes[i].in[k]]++;
}

// ---- expressions -------------------------------------------------------------------------------------

static void number(struct str *out, double x)
{
  char text[32];
  bool whole = fabs(x) < 1e15 && x == trunc(x);
  if (whole)
    snprintf(text, sizeof text, "%.0f", x);
  else
    str_double(text, x);
  str_add(out, "%s", text);
}

static void operand(struct ir_printer *pr, int tensor, int tight)
{
  int node = pr->g->tensors[tensor].node;
  if (pr->bare[node])
    number(pr->out, pr->g->nodes[node].a.scalar);
  else if (pr->inlined[node])
    print_node(pr, &pr->g->nodes[node], tight);
  else
    str_add(pr->out, "%s", print_name(pr, tensor));
}

static bool is_default(const void *x, const void *y, enum attr_kind kind)
{
  switch (kind) {
  case ATTR_DIM_KIND: return !memcmp(x, y, sizeof(int));
  case ATTR_INT_KIND: return !memcmp(x, y, sizeof(int64_t));
  case ATTR_REAL_KIND: return *(const double *)x == *(const double *)y;
  case ATTR_LIST_KIND: return shape_eq(x, y);
  case ATTR_GRID_KIND: return !memcmp(x, y, MAX_GRID);
  case ATTR_LOOP_KIND: return !memcmp(x, y, MAX_LOOPS);
  }
  return false;
}

static void map(struct str *out, const char *letters, int n, const int8_t *dims)
{
  const char *sep = "";
  str_add(out, "{");
  for (int i = 0; i < n; i++) {
    if (dims[i] == REPLICA) continue;
    str_add(out, "%s%c:%d", sep, letters[i], dims[i]);
    sep = ", ";
  }
  str_add(out, "}");
}

// Prints `text`, or, if it is NULL, the shape of t with the names of run-time extents.
static void extents(struct ir_printer *pr, const char *text, const struct tensor *t)
{
  if (text) str_add(pr->out, "%s", text);
  for (int d = 0; d < t->shape.n && !text; d++) {
    const int holder = t->runs[d] ? extent_input(pr->g, t->runs[d]) : -1;
    str_add(pr->out, d ? ", " : "[");
    if (holder >= 0)
      str_add(pr->out, "%s", print_name(pr, holder));
    else
      str_add(pr->out, "%lld", (long long)t->shape.d[d]);
  }
  if (!text) str_add(pr->out, t->shape.n ? "]" : "[]");
}

static void attribute(struct ir_printer *pr, const void *x, enum attr_kind kind)
{
  char text[128];
  switch (kind) {
  case ATTR_DIM_KIND: str_add(pr->out, "%d", *(const int *)x); return;
  case ATTR_INT_KIND: str_add(pr->out, "%lld", (long long)*(const int64_t *)x); return;
  case ATTR_REAL_KIND: number(pr->out, *(const double *)x); return;
  case ATTR_LIST_KIND: shape_text(text, x), str_add(pr->out, "%s", text); return;
  case ATTR_GRID_KIND: map(pr->out, "xyz", pr->g->ngrid, x); return;
  case ATTR_LOOP_KIND: map(pr->out, "ijkl", pr->g->nloop, x); return;
  }
}

static void call(struct ir_printer *pr, const struct node *n)
{
  const struct attrs base = attrs_default(n->op);
  const char *sep = "";
  str_add(pr->out, "%s(", op_rows[n->op].name);
  for (int i = 0; i < n->nin; i++, sep = ", ") {
    str_add(pr->out, "%s", sep);
    operand(pr, n->in[i], COMPARED);
  }
  if (n->op == OP_ITER) {
    int k = 0;
    for (const struct node *m = pr->g->nodes; m != n; m++) k += m->op == OP_ITER;
    str_add(pr->out, "%s", pr->above->names[pr->node->in[k]]), sep = ", ";
  }
  for (int i = 0; i < ATTRS; i++) {
    const struct attr_row *row = &attr_rows[i];
    const void *x = (const char *)&n->a + row->offset, *y = (const char *)&base + row->offset;
    if (!(op_rows[n->op].attrs >> i & 1) || (!row->needed && is_default(x, y, row->kind))) continue;
    bool plain = row->needed && (row->kind == ATTR_LIST_KIND || n->op == OP_CONST);
    str_add(pr->out, plain ? "%s" : "%s%s=", sep, row->name);
    if (x == (const void *)&n->a.shape && extent_tells(&pr->g->tensors[n->out]))
      extents(pr, NULL, &pr->g->tensors[n->out]);
    else
      attribute(pr, x, row->kind);
    sep = ", ";
  }
  str_add(pr->out, ")");
}

static int binding(enum op op)
{
  if (op_rows[op].flags & BRACKET) return COMPARED;
  if (op == OP_ADD || op == OP_SUB || op == OP_ADD_SCALAR) return SUM;
  if (op == OP_MUL || op == OP_DIV || op == OP_MUL_SCALAR) return PRODUCT;
  return op == OP_NEG ? SIGN : CALL;
}

static const char *sign_of(const struct node *n)
{
  static const char *const signs[OPS] = {[OP_ADD] = "+",        [OP_SUB] = "-",  [OP_MUL] = "*",         [OP_DIV] = "/",
                                         [OP_MUL_SCALAR] = "*", [OP_LESS] = "<", [OP_LESS_EQUAL] = "<=", [OP_EQUAL] = "=="};
  if (n->op == OP_ADD_SCALAR) return signbit(n->a.scalar) ? "-" : "+";
  return signs[n->op];
}

void print_node(struct ir_printer *pr, const struct node *n, int tight)
{
  int own = binding(n->op);
  if (own == CALL) {
    call(pr, n);
    return;
  }
  str_add(pr->out, own < tight ? "(" : "");
  if (own == SIGN)
    str_add(pr->out, "-"), operand(pr, n->in[0], SIGN);
  else
    operand(pr, n->in[0], own + (own == COMPARED)), str_add(pr->out, " %s ", sign_of(n));
  if (n->nin == 2) operand(pr, n->in[1], own + 1);
  if (n->op == OP_ADD_SCALAR) number(pr->out, fabs(n->a.scalar));
  if (n->op == OP_MUL_SCALAR) number(pr->out, n->a.scalar);
  str_add(pr->out, own < tight ? ")" : "");
}

// ---- statements --------------------------------------------------------------------------------------

static void axes(struct str *out, const char *letters, int n, const int64_t *extents)
{
  for (int i = 0; i < n; i++) str_add(out, "%s%c=%lld", i ? ", " : "", letters[i], (long long)extents[i]);
}

static void body(struct ir_printer *pr);

static void nested(struct ir_printer *pr, const struct node *n)
{
  struct ir_printer inner;
  str_add(pr->out, "%s(", op_rows[n->op].name);
  axes(pr->out, "xyz", n->sub->ngrid, n->sub->grid);
  if (n->sub->nloop) str_add(pr->out, n->sub->ngrid ? "; " : ";");
  axes(pr->out, "ijkl", n->sub->nloop, n->sub->loop);
  str_add(pr->out, ") {\n");
  print_open(&inner, pr->mem, n->sub, pr->out);
  inner.above = pr, inner.node = n, inner.indent = pr->indent + 2;
  body(&inner);
  str_add(pr->out, "%*s}", pr->indent, "");
}

static void statement(struct ir_printer *pr, const struct node *n)
{
  struct str *out = pr->out;
  str_add(out, "%*s", pr->indent, "");
  if (n->op == OP_INPUT) {
    char text[128], range[96];
    const struct tensor *t = &pr->g->tensors[n->out];
    const struct shape whole = graph_whole(pr->g, n->out);
    if (t->extent) {
      str_add(out, "%s: dim", print_name(pr, n->out));
      if (t->range.least > 1) str_add(out, " >= %lld", (long long)t->range.least);
      str_add(out, " <= %lld\n", (long long)t->range.most);
      return;
    }
    shape_text(text, &whole), range_text(range, t);
    str_add(out, "%s: %s", print_name(pr, n->out), dtype_name(t->dtype));
    extents(pr, t->shard ? text : NULL, t);
    str_add(out, "%s", range);
    if (t->shard) str_add(out, " shard(%d)", t->shard - 1);
    str_add(out, "%s\n", t->state ? " state" : t->frozen ? " frozen" : "");
    return;
  }
  if (n->op == OP_ITER) {
    int k = 0;
    for (const struct node *m = pr->g->nodes; m != n; m++) k += m->op == OP_ITER;
    print_iter_name(pr, n->out, pr->above->names[pr->node->in[k]]);
  }
  for (int i = 0; i < n->nout; i++) {
    bool dropped = !pr->uses[n->out + i] && !pr->names[n->out + i];
    str_add(out, "%s%s", i ? ", " : "", dropped ? "_" : print_name(pr, n->out + i));
  }
  if (n->nout) str_add(out, " = ");
  if (n->sub)
    nested(pr, n);
  else
    print_node(pr, n, COMPARED);
  str_add(out, "\n");
}

static void body(struct ir_printer *pr)
{
  const char *sep = "return ";
  choose_inlined(pr);
  for (int i = 0; i < pr->g->nnodes; i++)
    if (!pr->inlined[i] && pr->g->nodes[i].op != OP_OUTPUT) statement(pr, &pr->g->nodes[i]);
  for (int i = 0; i < pr->g->nnodes; i++) {
    if (pr->g->nodes[i].op != OP_OUTPUT || state_output(pr->g, &pr->g->nodes[i])) continue;
    str_add(pr->out, "%*s%s", *sep == ',' ? 0 : pr->indent, "", sep), sep = ", ";
    operand(pr, pr->g->nodes[i].in[0], COMPARED);
  }
  if (*sep == ',') str_add(pr->out, "\n");
}

void graph_print(const struct graph *g, struct str *out)
{
  struct arena mem = {0};
  struct ir_printer pr;
  bool blocks = false;
  for (int i = 0; i < g->nnodes; i++) blocks |= g->nodes[i].sub != NULL;
  print_open(&pr, &mem, g, out);
  pr.indent = 2;
  str_add(out, "%s %s {\n", blocks ? "graph" : "program", print_title(&pr));
  if (g->world > 1) str_add(out, "  world %d\n", g->world);
  body(&pr);
  str_add(out, "}\n");
  arena_close(&mem);
}
