// Parses kernels with their sizes, as in command lines and bench/*.list (tile_host.h).
#include "sim/tile_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int tile_host_words(struct arena *mem, const char *word, struct tile_words *out, struct err *e)
{
  size_t most = strlen(word) + 1;
  char *rest = NULL, *text = arena_strdup(mem, word);
  *out = (struct tile_words){
      .path = strtok_r(text, ",", &rest), .set = NEWS(mem, struct tile_setting, most), .fills = NEWS(mem, struct tile_fill, most)};
  if (!out->path) return err_set(e, ERR_OPTION, NOWHERE, "a kernel is FILE.tile[,NAME=VALUE]...");
  for (char *s; (s = strtok_r(NULL, ",", &rest));) {
    char *value = strchr(s, '='), *end = NULL;
    if (!value || value == s) return err_set(e, ERR_OPTION, NOWHERE, "%s: %s is not NAME=VALUE", word, s);
    *value++ = 0;
    double scale = *s == '%' ? strtod(value, &end) : 0;
    long long size = *s == '%' ? 0 : strtoll(value, &end, 10);
    if (end == value || *end || !isfinite(scale) || size != (int32_t)size)
      return err_set(e, ERR_OPTION, NOWHERE, "%s: %s=%s is no %s", word, s, value, *s == '%' ? "number" : "32-bit integer");
    if (*s == '%')
      out->fills[out->nfills++] = (struct tile_fill){.buffer = s + 1, .scale = scale};
    else
      out->set[out->nset++] = (struct tile_setting){s, size, false};
  }
  return OK;
}

static int read_list(struct arena *mem, const char *path, struct tile_list *out, struct err *e)
{
  char *text, *lines = NULL;
  size_t n;
  TRY(file_read(mem, path, &text, &n, e));
  for (char *line = strtok_r(text, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
    char *rest = NULL;
    line[strcspn(line, "#")] = 0;
    for (char *s = strtok_r(line, " \t\r", &rest); s; s = strtok_r(NULL, " \t\r", &rest)) PUSH(mem, out->word, out->n, out->cap) = s;
  }
  return OK;
}

int tile_host_list(struct arena *mem, int n, const char *const *words, struct tile_list *out, struct err *e)
{
  *out = (struct tile_list){0};
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(words[i], '.');
    if (dot && !strcmp(dot, ".list"))
      TRY(read_list(mem, words[i], out, e));
    else
      PUSH(mem, out->word, out->n, out->cap) = words[i];
  }
  return OK;
}
