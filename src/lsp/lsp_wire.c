// Messages: header lines that end in CR LF, an empty line, then JSON. The header Content-Length gives the bytes of JSON; others are ignored.
#include "lsp/lsp.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_LINE = 256, HEAD_LINES = 32 };

// Reads a line without its end. Returns -1 at the end of the stream, -2 if the line is too long.
static int line(FILE *in, char out[HEAD_LINE])
{
  int n = 0, c;
  while ((c = getc(in)) != EOF && c != '\n') {
    if (n + 1 >= HEAD_LINE) return -2;
    out[n++] = (char)c;
  }
  if (c == EOF) return n ? -2 : -1;
  if (n && out[n - 1] == '\r') n--;
  return out[n] = 0, n;
}

static bool length(const char *text, size_t *n)
{
  static const char key[] = "Content-Length:";
  char *end;
  if (strncasecmp(text, key, sizeof key - 1)) return true; // another field
  const char *digits = text + sizeof key - 1;
  while (*digits == ' ') digits++;
  if (*digits < '0' || *digits > '9') return false;
  const unsigned long long v = strtoull(digits, &end, 10);
  if (*end || v == 0 || v > LSP_BYTES) return false;
  return *n = (size_t)v, true;
}

enum lsp_got lsp_read(FILE *in, char **body, size_t *n)
{
  char text[HEAD_LINE];
  *n = 0;
  for (int i = 0; i < HEAD_LINES; i++) {
    const int k = line(in, text);
    if (k == -1 && i == 0) return LSP_END;
    if (k < 0 || !length(text, n)) return LSP_BROKEN;
    if (k) continue;
    if (!*n) return LSP_BROKEN;
    *body = malloc(*n);
    if (!*body) return LSP_BROKEN;
    if (fread(*body, 1, *n, in) == *n) return LSP_MESSAGE;
    free(*body);
    return LSP_BROKEN;
  }
  return LSP_BROKEN;
}

int lsp_write(FILE *out, json_t *message)
{
  char *text = json_dumps(message, JSON_COMPACT);
  const int wrong = fprintf(out, "Content-Length: %zu\r\n\r\n%s", strlen(text), text) < 0 || fflush(out);
  mem_free(text);
  json_decref(message);
  return wrong ? -1 : 0;
}
