// Parses layouts: a shape and, after a colon, strides with the same tree. Omitted strides are compact in the given order. An integer may be an
// expression of + - * / % over numbers and names. Parentheses hold an expression if an operator follows them, else a tuple. `_` is an extent of 0,
// used in tilers.
//
//   layout  = ["["] tuple [":" tuple] ["]"]         tuple = item {"," item}
//   item    = term {("+" | "-") term}               term  = atom {("*" | "/" | "%") atom}
//   atom    = number | name | "_" | "(" [tuple] ")"
#include "tile/lay_flat.h"

#include <ctype.h>
#include <string.h>

struct lay_parse_reader {
  struct lay_ctx *c;
  const char *text, *at;
  ex (*name)(void *arg, const char *name);
  void *arg;
  bool row, strides; // the half that is being read
};

// A tree of integers, in the shapes of its leaves.
typedef bool rule(struct lay_parse_reader *r, int depth, struct lay *out);
static bool tuple(struct lay_parse_reader *r, int depth, struct lay *out);

static void skip(struct lay_parse_reader *r)
{
  while (isspace((unsigned char)*r->at)) r->at++;
}

static char peek(struct lay_parse_reader *r) { return skip(r), *r->at; }

static bool wrong(struct lay_parse_reader *r, const char *what)
{
  return lay_refuse(r->c, "column %d of layout '%.80s': %s", (int)(r->at - r->text) + 1, r->text, what);
}

static bool number(struct lay_parse_reader *r, struct lay *out)
{
  int64_t v = 0;
  for (; isdigit((unsigned char)*r->at); r->at++) {
    v = v * 10 + (*r->at - '0');
    if (v >> 40) return wrong(r, "numbers are below 2^40");
  }
  if (isalpha((unsigned char)*r->at) || *r->at == '_') return wrong(r, "a name begins with a letter");
  if (!v && !r->strides) return wrong(r, "an extent is positive");
  return *out = lay_int(r->c, EX_C(v), 0), true;
}

static bool name(struct lay_parse_reader *r, struct lay *out)
{
  const char *from = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
  char *word = arena_printf(r->c->mem, "%.*s", (int)(r->at - from), from);
  if (!strcmp(word, "_")) {
    if (r->strides) return wrong(r, "_ is an extent, not a stride");
    return *out = lay_int(r->c, EX_C(0), 0), true;
  }
  r->at = r->name ? r->at : from;
  if (!r->name) return wrong(r, "no names are known here, only numbers");
  ex x = r->name(r->arg, word);
  if (x == EX_C(-1)) r->at = from;
  if (x == EX_C(-1)) return wrong(r, "this name is not known");
  return *out = lay_int(r->c, x, 0), true;
}

static bool atom(struct lay_parse_reader *r, int depth, struct lay *out)
{
  char next = peek(r);
  if (isdigit((unsigned char)next)) return number(r, out);
  if (isalpha((unsigned char)next) || next == '_') return name(r, out);
  if (next != '(') return wrong(r, next ? "a number, a name or a tuple is expected" : "the text ends too early");
  if (depth >= LAY_DEPTH) return wrong(r, "tuples are too deep");
  r->at++;
  if (peek(r) == ')') return r->at++, *out = lay_tuple(r->c, 0, NULL), true;
  if (!tuple(r, depth + 1, out)) return false;
  if (peek(r) != ')') return wrong(r, "')' or ',' is expected");
  r->at++;
  return true;
}

// Whether parentheses around one integer make a tuple depends on the text after them.
static bool integer(struct lay_parse_reader *r, struct lay l, ex *x)
{
  while (l.node->arity == 1) l = lay_mode(l, 0);
  if (l.node->arity != LAY_LEAF) return wrong(r, "a tuple is no number");
  return *x = l.node->shape, true;
}

static bool apply(struct lay_parse_reader *r, char op, ex a, ex b, struct lay *out)
{
  struct ex_pool *p = r->c->ex;
  if ((op == '/' || op == '%') && ex_range(p, b).lo < 1) return wrong(r, "the divisor is not known to be positive");
  ex x = op == '+' ? ex_add(p, a, b) : op == '-' ? ex_sub(p, a, b) : op == '*' ? ex_mul(p, a, b) : op == '/' ? ex_div(p, a, b) : ex_mod(p, a, b);
  if (x == EX_C(0) && !r->strides) return wrong(r, "an extent is positive");
  return *out = lay_int(r->c, x, 0), true;
}

static bool chain(struct lay_parse_reader *r, int depth, const char *ops, rule *part, struct lay *out)
{
  if (!part(r, depth, out)) return false;
  for (char op; (op = peek(r)) && strchr(ops, op);) {
    struct lay right;
    ex a, b;
    r->at++;
    if (!part(r, depth, &right) || !integer(r, *out, &a) || !integer(r, right, &b) || !apply(r, op, a, b, out)) return false;
  }
  return true;
}

static bool term(struct lay_parse_reader *r, int depth, struct lay *out) { return chain(r, depth, "*/%", atom, out); }

// Items in parentheses always make a tuple; at the top level several items do.
static bool tuple(struct lay_parse_reader *r, int depth, struct lay *out)
{
  struct lay item[LAY_LEAVES];
  int n = 0;
  do {
    if (n) r->at++;
    if (n == LAY_LEAVES) return wrong(r, "a tuple has too many items");
    if (!chain(r, depth, "+-", term, &item[n++])) return false;
  } while (peek(r) == ',');
  *out = depth || n > 1 ? lay_tuple(r->c, n, item) : item[0];
  return true;
}

static bool sound(struct lay_parse_reader *r, struct lay l)
{
  int leaves = 0;
  for (int i = 0; i < l.n; i++) {
    if (l.node[i].arity != LAY_LEAF) continue;
    if (++leaves > LAY_LEAVES) return wrong(r, "a layout has too many extents");
    ex s = l.node[i].shape;
    if (s != EX_C(0) && ex_range(r->c->ex, s).lo < 1) return wrong(r, "an extent is not known to be positive");
    if (ex_range(r->c->ex, l.node[i].stride).lo < 0) return wrong(r, "a stride may be negative");
  }
  return lay_kept(r->c);
}

static bool layout(struct lay_parse_reader *r, struct lay *out)
{
  struct lay shape, stride;
  bool bracket = peek(r) == '[';
  r->at += bracket;
  if (bracket && peek(r) == ']')
    shape = lay_tuple(r->c, 0, NULL);
  else if (!tuple(r, 0, &shape))
    return false;
  *out = lay_compact(r->c, shape, r->row);
  if (peek(r) == ':') {
    r->at++, r->strides = true;
    if (!tuple(r, 0, &stride)) return false;
    if (!lay_congruent(shape, stride)) return wrong(r, "the strides are not of the same form as the shape");
    struct lay_node *node = arena_copy(r->c->mem, shape.node, (size_t)shape.n * sizeof *node);
    for (int i = 0; i < shape.n; i++) node[i].stride = stride.node[i].shape;
    *out = (struct lay){shape.n, node};
  }
  if (bracket && peek(r) != ']') return wrong(r, "']' is expected");
  r->at += bracket;
  return peek(r) ? wrong(r, "the layout ends here") : sound(r, *out);
}

bool lay_parse(struct lay_ctx *c, const char *text, bool row, ex (*named)(void *arg, const char *name), void *arg, struct lay *out)
{
  struct lay_parse_reader r = {c, text, text, named, arg, row, false};
  return layout(&r, out);
}
