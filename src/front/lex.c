// Tokens. The lexer returns a bad token instead of reporting it. The parser looks one token ahead, so it would otherwise
// report a later mistake before an earlier one. Line ends separate statements and are tokens, except inside parentheses
// and brackets.
#include "base/rational.h"
#include "front/parse.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool starts_name(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

void lex_open(struct lexer *l, struct arena *mem, const char *text, size_t n, const char *file)
{
  if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3; // a byte order mark
  *l = (struct lexer){.mem = mem, .p = text, .end = text + n, .line_start = text, .file = file, .line = 1};
}

static void skip(struct lexer *l)
{
  for (; l->p < l->end; l->p++) {
    if (*l->p == '#')
      while (l->p < l->end && *l->p != '\n') l->p++;
    if (l->p == l->end) return;
    if (*l->p == '\n' && l->inside)
      l->line++, l->line_start = l->p + 1;
    else if (*l->p != ' ' && *l->p != '\t' && *l->p != '\r')
      return;
  }
}

static struct token bad(struct token t, const char *why)
{
  t.kind = TOK_BAD, t.why = why;
  return t;
}

static void digits(struct lexer *l)
{
  while (l->p < l->end && digit(*l->p)) l->p++;
}

static struct token number(struct lexer *l, struct token t)
{
  bool whole = true;
  digits(l);
  if (l->p < l->end && *l->p == '.') whole = false, l->p++, digits(l);
  if (l->p < l->end && (*l->p == 'e' || *l->p == 'E')) {
    const char *q = l->p + 1;
    if (q < l->end && (*q == '+' || *q == '-')) q++;
    if (q == l->end || !digit(*q)) return l->p = q, t.n = (int)(q - t.p), bad(t, "has an exponent without digits");
    whole = false, l->p = q, digits(l);
  }
  const char *after = l->p;
  while (after < l->end && in_name(*after)) after++;
  t.n = (int)MIN(after - t.p, 1000);
  if (after > l->p) return bad(t, "is neither a number nor a name");
  char text[64];
  if (t.n >= (int)sizeof text) return bad(t, "has too many digits");
  memcpy(text, t.p, (size_t)t.n), text[t.n] = 0;
  t.kind = TOK_NUMBER, t.number = (struct number){.real = strtod(text, NULL), .lost = whole ? WHOLE : DECIMAL};
  if (!isfinite(t.number.real)) return bad(t, "is too large for a number");
  if (!whole && !rational_written(text, t.number.real)) {
    char nearest[32];
    str_double(nearest, t.number.real);
    return bad(t, arena_printf(l->mem, "has more digits than a constant keeps; the nearest that can be written is %s", nearest));
  }
  if (whole && t.number.real >= 0x1p63)
    t.number.lost = OVERFLOWED, t.number.cut = !rational_written(text, t.number.real);
  else if (whole)
    t.number.whole = strtoll(text, NULL, 10);
  return t;
}

static struct token word(struct lexer *l, struct token t)
{
  while (l->p < l->end && in_name(*l->p)) l->p++;
  t.kind = TOK_NAME, t.n = (int)MIN(l->p - t.p, 1000);
  if (t.n > LONGEST_NAME) return bad(t, "is too long for a name");
  return t;
}

// An operator of two characters, or else of one.
static struct token comparison(struct lexer *l, struct token t)
{
  static const struct {
    char text[3];
    int kind;
  } pairs[] = {{"<=", TOK_LESS_EQUAL}, {">=", TOK_GREATER_EQUAL}, {"==", TOK_EQUAL}, {"!=", TOK_NOT_EQUAL}, {"//", TOK_FLOOR_DIV}};
  l->p = t.p + 1, t.n = 1, t.kind = *t.p;
  for (size_t i = 0; i < COUNT(pairs); i++)
    if (l->end - t.p >= 2 && !memcmp(t.p, pairs[i].text, 2)) l->p++, t.n = 2, t.kind = pairs[i].kind;
  return t;
}

static struct token odd(struct lexer *l, struct token t)
{
  unsigned char c = (unsigned char)*t.p;
  if (c == '^') return bad(t, "is no operator: write pow(x, 2)");
  if (c == '@') return bad(t, "is no operator: write matmul(x, y)");
  if (c > ' ' && c < 127) return bad(t, "has no meaning in this language");
  return bad(t, arena_printf(l->mem, "byte 0x%02x is not a character of this language", c));
}

struct token lex_next(struct lexer *l)
{
  skip(l);
  struct token t = {.kind = TOK_END, .at = {l->file, l->line, (int)(l->p - l->line_start) + 1}, .p = l->p};
  if (l->p == l->end) return t;
  char c = *l->p;
  if (digit(c) || (c == '.' && l->p + 1 < l->end && digit(l->p[1]))) return number(l, t);
  if (starts_name(c)) return word(l, t);
  l->p++, t.n = 1;
  if (c == '\n') return l->line++, l->line_start = l->p, t.kind = TOK_LINE, t;
  bool differs = c == '!' && l->p < l->end && *l->p == '=';
  bool floors = c == '/' && l->p < l->end && *l->p == '/';
  if (c == '<' || c == '>' || c == '=' || differs || floors) return comparison(l, t);
  if (!c || !strchr("()[]{},;:+-*/%", c)) return odd(l, t);
  if (c == '(' || c == '[') l->inside++;
  if ((c == ')' || c == ']') && l->inside) l->inside--;
  return t.kind = c, t;
}

bool lex_is(const struct token *t, const char *w) { return t->kind == TOK_NAME && (size_t)t->n == strlen(w) && !memcmp(t->p, w, (size_t)t->n); }

void lex_text(char out[64], const struct token *t)
{
  if (t->kind == TOK_END)
    snprintf(out, 64, "the end of the file");
  else if (t->kind == TOK_LINE)
    snprintf(out, 64, "the end of the line");
  else
    snprintf(out, 64, "`%.*s%s`", MIN(t->n, 40), t->p, t->n > 40 ? "..." : "");
}
