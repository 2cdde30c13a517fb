// Tokens of tile programs. An invalid token is returned, and reported when the parser reaches it. Names may begin with digits after a sigil (%1, #4),
// so a word is any run of letters, digits and '_'; digits alone are a number. Separate functions read operators and decimals, which occur in <...>
// only: `cp.async` and `1e-5` are not words.
#include "tile/tile_parse.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

void tile_lex_open(struct tile_lexer *l, const char *text, size_t n, const char *file)
{
  if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3; // a byte order mark
  *l = (struct tile_lexer){.p = text, .end = text + n, .line_start = text, .file = file, .line = 1};
}

static void skip(struct tile_lexer *l)
{
  for (; l->p < l->end; l->p++) {
    if (l->p + 1 < l->end && l->p[0] == '/' && l->p[1] == '/')
      while (l->p < l->end && *l->p != '\n') l->p++;
    if (l->p == l->end) return;
    if (*l->p == '\n')
      l->line++, l->line_start = l->p + 1;
    else if (*l->p != ' ' && *l->p != '\t' && *l->p != '\r')
      return;
  }
}

static struct tile_token start(struct tile_lexer *l)
{
  const char *before = l->p;
  skip(l);
  return (struct tile_token){.kind = TILE_END, .at = {l->file, l->line, (int)(l->p - l->line_start) + 1}, .p = l->p, .glued = before == l->p};
}

static struct tile_token bad(struct tile_token t, const char *why)
{
  t.kind = TILE_BAD, t.why = why;
  return t;
}

static struct tile_token word(struct tile_lexer *l, struct tile_token t)
{
  bool digits = true;
  for (; l->p < l->end && in_word(*l->p); l->p++) digits = digits && digit(*l->p);
  t.kind = digits ? TILE_NUMBER : TILE_WORD;
  t.n = (int)MIN(l->p - t.p, 1000);
  if (t.n > TILE_NAME) return bad(t, digits ? "has too many digits" : "is too long for a name");
  for (int i = 0; digits && i < t.n && t.value <= TILE_INT; i++) t.value = 10 * t.value + (t.p[i] - '0');
  return digits && t.value > TILE_INT ? bad(t, "is larger than 2^40") : t;
}

// Longest first.
static const struct {
  const char *text;
  int kind;
} marks[] = {
    {"<<<", TILE_OPEN}, {">>>", TILE_CLOSE}, {"<-", TILE_ARROW},  {"<=", TILE_LE},      {">=", TILE_GE},  {"==", TILE_EQ},
    {"!=", TILE_NE},    {"&&", TILE_BOTH},   {"||", TILE_EITHER}, {"+=", TILE_PLUS_EQ}, {">>", TILE_SHR},
};

struct tile_token tile_lex(struct tile_lexer *l)
{
  struct tile_token t = start(l);
  if (l->p == l->end) return t;
  if (in_word(*l->p)) return word(l, t);
  for (size_t i = 0; i < COUNT(marks); i++) {
    size_t n = strlen(marks[i].text);
    if ((size_t)(l->end - l->p) < n || memcmp(l->p, marks[i].text, n)) continue;
    l->p += n, t.n = (int)n, t.kind = marks[i].kind;
    return t;
  }
  char c = *l->p++;
  t.n = 1, t.kind = c;
  return c && strchr("()[]{}<>,:;.=+-*/%#@!?&^", c) ? t : bad(t, "has no meaning in this language");
}

void tile_lex_back(struct tile_lexer *l, const struct tile_token *t, int n)
{
  l->p = t->p + n;
  l->line = t->at.line;
  l->line_start = t->p - (t->at.col - 1);
}

struct tile_token tile_lex_op(struct tile_lexer *l)
{
  struct tile_token t = start(l);
  if (l->p == l->end) return t;
  t.kind = TILE_WORD;
  if (strchr("+-*/<", *l->p)) return l->p++, t.n = 1, t;
  while (l->p < l->end && (in_word(*l->p) || *l->p == '.')) l->p++;
  t.n = (int)MIN(l->p - t.p, 1000);
  if (!t.n) return l->p++, t.n = 1, bad(t, "is no operator");
  return t.n > TILE_NAME ? bad(t, "is too long for an operator") : t;
}

struct tile_token tile_lex_decimal(struct tile_lexer *l, double *value)
{
  struct tile_token t = start(l);
  if (l->p == l->end) return t;
  char text[TILE_NAME + 1], *end;
  int n = 0;
  for (; n < TILE_NAME && l->p + n < l->end; n++) {
    char c = l->p[n];
    bool sign = (c == '-' || c == '+') && (!n || l->p[n - 1] == 'e' || l->p[n - 1] == 'E');
    if (!in_word(c) && c != '.' && !sign) break;
    text[n] = c;
  }
  text[n] = 0;
  l->p += MAX(n, 1), t.n = MAX(n, 1), t.kind = TILE_NUMBER;
  *value = strtod(text, &end);
  return !n || *end || isnan(*value) ? bad(t, "is not a decimal number or inf") : t;
}

bool tile_is(const struct tile_token *t, const char *w)
{
  return t->kind == TILE_WORD && (size_t)t->n == strlen(w) && !memcmp(t->p, w, (size_t)t->n);
}

const char *tile_token_text(char out[64], const struct tile_token *t)
{
  if (t->kind == TILE_END)
    snprintf(out, 64, "the end of the file");
  else if (t->n == 1 && (*t->p < ' ' || *t->p > '~'))
    snprintf(out, 64, "byte 0x%02x", (unsigned char)*t->p);
  else
    snprintf(out, 64, "`%.*s%s`", MIN(t->n, 40), t->p, t->n > 40 ? "..." : "");
  return out;
}
