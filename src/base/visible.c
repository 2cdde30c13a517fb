// Which characters are shown as numbers, and how.
#include "base/visible.h"

#include <string.h>

size_t visible_decode(const char *s, size_t n, unsigned *code)
{
  unsigned char c = (unsigned char)*s;
  size_t len = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (!len || len > n) return 0;
  *code = len == 1 ? c : c & (0x7fu >> len);
  for (size_t i = 1; i < len; i++) {
    if (((unsigned char)s[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | ((unsigned char)s[i] & 0x3f);
  }
  return *code < least[len] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : len;
}

bool visible_hidden(unsigned c)
{
  bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
  bool turns = (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x61c || c == 0xfeff;
  return control || turns || (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0xe0000 && c <= 0xe0fff);
}

int visible_shown(const char *s, size_t n, char room[16], const char **text, size_t *len)
{
  unsigned code;
  *len = visible_decode(s, n, &code), *text = room;
  if (!*len) return *len = 1, snprintf(room, 16, "\xef\xbf\xbd");
  if (visible_hidden(code)) return snprintf(room, 16, "\\u{%x}", code);
  return *text = s, (int)*len;
}

void visible_print(FILE *f, const char *s)
{
  char room[16];
  const char *text;
  for (size_t len, n = strlen(s); n; s += len, n -= len) {
    int k = visible_shown(s, n, room, &text, &len);
    fwrite(text, 1, (size_t)k, f);
  }
}
