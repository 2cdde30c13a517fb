// The client's open documents, and positions in them. A position outside of the text stands for the nearest one in it.
#include "lsp/lsp.h"
#include "base/memory.h"

#include <ctype.h>
#include <string.h>

const struct lsp_document *lsp_find(const struct lsp_server *s, const char *uri)
{
  for (const struct lsp_document *d = s->documents; d; d = d->next)
    if (uri && !strcmp(d->uri, uri)) return d;
  return NULL;
}

static char *lasting(const char *text)
{
  const size_t n = strlen(text);
  return memcpy(mem_lasting(n + 1), text, n + 1);
}

void lsp_close(struct lsp_server *s, const char *uri)
{
  for (struct lsp_document **at = &s->documents; *at; at = &(*at)->next) {
    struct lsp_document *d = *at;
    if (strcmp(d->uri, uri)) continue;
    *at = d->next;
    mem_free(d->uri), mem_free(d->text), mem_free(d);
    return;
  }
}

void lsp_open(struct lsp_server *s, const char *uri, const char *text)
{
  lsp_close(s, uri);
  struct lsp_document *d = mem_lasting(sizeof *d);
  d->uri = lasting(uri), d->text = lasting(text), d->n = strlen(text);
  d->next = s->documents, s->documents = d;
}

bool lsp_is_tile(const struct lsp_document *d)
{
  const size_t n = strlen(d->uri);
  return n > 5 && !strcmp(d->uri + n - 5, ".tile");
}

// ---- positions ----

// Bytes and UTF-16 units of a character, by its first byte. The text is valid UTF-8, because jansson checks it.
static int bytes_of(unsigned char c) { return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4; }
static int units_of(unsigned char c) { return c < 0xf0 ? 1 : 2; }

static size_t line_start(const struct lsp_document *d, int64_t line)
{
  size_t at = 0;
  for (int64_t i = 0; i < line; i++) {
    const char *end = strchr(d->text + at, '\n');
    if (!end) return d->n;
    at = (size_t)(end - d->text) + 1;
  }
  return at;
}

size_t lsp_byte(const struct lsp_document *d, int64_t line, int64_t character)
{
  size_t at = line_start(d, line);
  for (int64_t units = 0; units < character && at < d->n && d->text[at] != '\n';) {
    units += units_of((unsigned char)d->text[at]);
    at += (size_t)bytes_of((unsigned char)d->text[at]);
  }
  return MIN(at, d->n);
}

json_t *lsp_position(const struct lsp_document *d, size_t byte)
{
  int64_t line = 0, units = 0;
  for (size_t at = 0; at < MIN(byte, d->n); at += (size_t)bytes_of((unsigned char)d->text[at])) {
    units += units_of((unsigned char)d->text[at]);
    if (d->text[at] == '\n') line++, units = 0;
  }
  return json_pack("{s:I, s:I}", "line", (json_int_t)line, "character", (json_int_t)units);
}

json_t *lsp_range(const struct lsp_document *d, size_t from, size_t to)
{
  return json_pack("{s:o, s:o}", "start", lsp_position(d, from), "end", lsp_position(d, to));
}

size_t lsp_place(const struct lsp_document *d, const struct loc *at)
{
  const size_t start = line_start(d, MAX(at->line - 1, 0)), end = start + strcspn(d->text + start, "\n");
  return MIN(start + (size_t)MAX(at->col - 1, 0), end);
}

// ---- words ----

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static struct lsp_word word_of(const struct lsp_document *d, size_t from, size_t to)
{
  struct lsp_word w = {from, to, ""};
  const size_t n = MIN(to - from, sizeof w.text - 1);
  memcpy(w.text, d->text + from, n);
  return w.text[n] = 0, w;
}

struct lsp_word lsp_word_at(const struct lsp_document *d, size_t byte)
{
  size_t from = MIN(byte, d->n), to = from;
  while (from && in_word(d->text[from - 1])) from--;
  while (in_word(d->text[to])) to++;
  return word_of(d, from, to);
}

struct lsp_word lsp_call_at(const struct lsp_document *d, size_t byte)
{
  int depth = 0;
  for (size_t at = MIN(byte, d->n); at-- > 0 && d->text[at] != '{' && d->text[at] != '}';) {
    depth += d->text[at] == ')' ? 1 : d->text[at] == '(' ? -1 : 0;
    if (depth < 0) return lsp_word_at(d, at);
  }
  return (struct lsp_word){byte, byte, ""};
}
