// Programs and graphs in the usual form: spaces, indentation, blank lines. Tokens, line breaks and comments stay as they are, so the text
// means the same; format_text compares the tokens before and after.
#include "front/format.h"
#include "front/parse.h"

#include <ctype.h>
#include <string.h>

enum { INDENT = 2, CONTINUED = 4, GAP = 2 }; // columns; the gap before a comment

enum bracket { BODY, HEAD, ROUND, SQUARE, AXES }; // HEAD: the parameters of a program
struct format_bracket {
  enum bracket kind;
  bool tight; // no spaces around operators: in lists and after `name=`
  bool equals;
};

struct format_line {
  int indent;
  struct str text, comment;
};

struct format {
  struct arena *mem;
  const char *p, *end;
  struct format_bracket *open;
  int nopen, cap_open;
  struct format_line *lines;
  int n, cap;
  char prev[16];      // first characters of the last token of the line; "" at the beginning of a line
  char before[3][16]; // the last tokens, also of earlier lines, newest first
  bool minus;         // the last token is a unary minus
};

static struct format_bracket *inner(struct format *f) { return f->nopen ? &f->open[f->nopen - 1] : NULL; }
static bool in_block(struct format *f) { return !f->nopen || inner(f)->kind == BODY; }
static bool one_of(const char *token, const char *set) { return *token && !token[1] && strchr(set, *token); }
static bool is_word(const char *token) { return isalnum((unsigned char)*token) || *token == '_' || *token == '.'; }

// Operators of one character, and all of two, such as <=.
static bool is_operator(const char *token) { return one_of(token, "+-*/%<>") || (*token && token[1] && !is_word(token)); }

// ---- spaces ----

static bool is_sign(const struct format *f, const char *t)
{
  return *t == '-' && (!*f->prev || is_operator(f->prev) || one_of(f->prev, "([{,=:;") || !strcmp(f->prev, "return"));
}

static bool spaced_operator(struct format *f) { return in_block(f) || !inner(f)->tight; }

// Is there a space between the last token and t?
static bool space(struct format *f, const char *t)
{
  const struct format_bracket *in = inner(f);
  const char *p = f->prev;
  const bool map = in && in->kind == AXES;
  if (!*p || f->minus || one_of(t, ",;)]:") || one_of(p, "([")) return false;
  if (one_of(p, ",;")) return true;
  if (one_of(t, "}") || one_of(p, "{")) return !map;
  if (one_of(p, ":")) return !map && (!in || in->kind != SQUARE);
  if (one_of(t, "=") || one_of(p, "=")) return in_block(f) || in->kind == HEAD;
  if (one_of(t, "([")) return !is_word(p) ? is_operator(p) && spaced_operator(f) : !strcmp(p, "return");
  if (is_operator(t) || is_operator(p)) return spaced_operator(f);
  return true;
}

// ---- brackets ----

static void enter(struct format *f, char c)
{
  const struct format_bracket *in = inner(f);
  const bool header = !strcmp(f->before[2], "program") || !strcmp(f->before[2], "graph") || !strcmp(f->before[2], "model");
  struct format_bracket o = {.tight = c == '[' || (in && in->kind != BODY && in->tight)};
  o.kind = c == '[' ? SQUARE : c == '(' ? !f->nopen && header ? HEAD : ROUND : in_block(f) ? BODY : AXES;
  PUSH(f->mem, f->open, f->nopen, f->cap_open) = o;
}

static void after_token(struct format *f, char c)
{
  if (strchr("([{", c)) enter(f, c);
  if (strchr(")]}", c) && f->nopen) f->nopen--;
  struct format_bracket *in = inner(f);
  if (!in || in->kind != ROUND) return;
  if (c == '=') in->equals = in->tight = true;
  if ((c == ',' || c == ';') && in->equals) in->equals = in->tight = false;
}

// ---- lines ----

static struct format_line *last(struct format *f) { return &f->lines[f->n - 1]; }

static bool is_blank(const struct format_line *l) { return !l->text.n && !l->comment.n; }

static void new_line(struct format *f)
{
  PUSH(f->mem, f->lines, f->n, f->cap) = (struct format_line){0};
  *f->prev = 0;
}

static void add_token(struct format *f, const char *t, size_t n)
{
  char token[16];
  snprintf(token, sizeof token, "%.*s", (int)n, t);
  const bool closes = one_of(token, ")]}"), sign = is_sign(f, token), gap = space(f, token);
  int blocks = 0;
  for (int i = 0; i < f->nopen; i++) blocks += f->open[i].kind == BODY;
  if (!*f->prev) last(f)->indent = INDENT * (blocks - (closes && in_block(f) && blocks)) + (in_block(f) || closes ? 0 : CONTINUED);
  str_add(&last(f)->text, gap ? " " : "");
  str_raw(&last(f)->text, t, n);
  memmove(f->before[1], f->before[0], 2 * sizeof token), memcpy(f->before[0], token, sizeof token);
  memcpy(f->prev, token, sizeof token);
  f->minus = sign;
  if (n == 1) after_token(f, *token);
}

static size_t token_length(const char *p, const char *end)
{
  const bool number = isdigit((unsigned char)*p) || *p == '.';
  const char *q = p + 1;
  static const char *const pairs[] = {"<=", ">=", "==", "!=", "//"};
  for (size_t i = 0; i < COUNT(pairs); i++)
    if (end - p >= 2 && !memcmp(p, pairs[i], 2)) return 2;
  if (!is_word(p)) return 1;
  while (q < end && (is_word(q) || (number && (*q == '+' || *q == '-') && (q[-1] == 'e' || q[-1] == 'E')))) q++;
  return (size_t)(q - p);
}

static void comment(struct format *f)
{
  const char *stop = memchr(f->p, '\n', (size_t)(f->end - f->p)), *q = stop = stop ? stop : f->end;
  int blocks = 0;
  for (int i = 0; i < f->nopen; i++) blocks += f->open[i].kind == BODY;
  while (q > f->p && isspace((unsigned char)q[-1])) q--;
  if (!last(f)->text.n) last(f)->indent = INDENT * blocks + (in_block(f) ? 0 : CONTINUED);
  str_raw(&last(f)->comment, f->p, (size_t)(q - f->p));
  f->p = stop;
}

static void read_lines(struct format *f)
{
  for (new_line(f); f->p < f->end;) {
    if (*f->p == '\n')
      new_line(f), f->p++;
    else if (isspace((unsigned char)*f->p))
      f->p++;
    else if (*f->p == '#')
      comment(f);
    else {
      const size_t n = token_length(f->p, f->end);
      add_token(f, f->p, n);
      f->p += n;
    }
  }
}

// ---- writing ----

static int width(const struct format_line *l)
{
  int n = l->indent;
  for (size_t i = 0; i < l->text.n; i++) n += ((unsigned char)l->text.p[i] & 0xc0) != 0x80;
  return n;
}

// Comments after statements on consecutive lines start in the same column.
static int comment_column(const struct format *f, int i)
{
  int from = i, column = 0;
  while (from > 0 && f->lines[from - 1].text.n && f->lines[from - 1].comment.n) from--;
  for (; from < f->n && f->lines[from].text.n && f->lines[from].comment.n; from++) column = MAX(column, width(&f->lines[from]) + GAP);
  return column;
}

// Drops repeated blank lines, and blank lines at the beginning and end of the text and of blocks. Other blank lines stay.
static bool dropped(const struct format *f, int i)
{
  int next = i + 1, before = i - 1;
  if (!is_blank(&f->lines[i])) return false;
  while (next < f->n && is_blank(&f->lines[next])) next++;
  if (before < 0 || next == f->n || is_blank(&f->lines[before])) return true;
  const struct str *b = &f->lines[before].text, *a = &f->lines[next].text;
  return (b->n && b->p[b->n - 1] == '{') || (a->n && *a->p == '}');
}

static void write_lines(const struct format *f, struct str *out)
{
  for (int i = 0; i < f->n; i++) {
    const struct format_line *l = &f->lines[i];
    if (dropped(f, i)) continue;
    if (!is_blank(l)) str_add(out, "%*s%s", l->indent, "", l->text.n ? str_text(&l->text) : "");
    if (l->comment.n) str_add(out, "%*s%s", l->text.n ? comment_column(f, i) - width(l) : 0, "", str_text(&l->comment));
    str_add(out, "\n");
  }
}

// ---- the tokens before and after ----

static bool same_tokens(struct arena *mem, const char *a, size_t na, const char *b, size_t nb)
{
  struct lexer x, y;
  struct token s, t;
  lex_open(&x, mem, a, na, NULL), lex_open(&y, mem, b, nb, NULL);
  do {
    do s = lex_next(&x);
    while (s.kind == TOK_LINE);
    do t = lex_next(&y);
    while (t.kind == TOK_LINE);
    if (s.kind != t.kind || s.n != t.n || (s.n && memcmp(s.p, t.p, (size_t)s.n))) return false;
  } while (s.kind != TOK_END && s.kind != TOK_BAD);
  return true;
}

int format_text(struct arena *mem, const char *text, size_t n, const char *file, struct str *out, struct err *e)
{
  struct format f = {.mem = mem, .p = text, .end = text + n};
  TRY(front_check(mem, text, n, file, e));
  if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) f.p += 3; // a byte order mark
  read_lines(&f);
  write_lines(&f, out);
  for (int i = 0; i < f.n; i++) str_free(&f.lines[i].text), str_free(&f.lines[i].comment);
  if (same_tokens(mem, text, n, str_text(out), out->n)) return OK;
  return err_set(e, ERR_SYNTAX, (struct loc){file, 0, 0}, "the text cannot be formatted: its tokens would change");
}
