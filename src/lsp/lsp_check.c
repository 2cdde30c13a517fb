// Diagnostics: the first error of a text, as `mica` and `mica tile check` report it. Formatting: as `mica fmt`.
#include "front/format.h"
#include "lsp/lsp.h"
#include "tile/tile.h"

#include <string.h>

static int check_program(struct arena *mem, const struct lsp_document *d, struct err *e) { return front_check(mem, d->text, d->n, "", e); }

static int check_kernels(struct arena *mem, const struct lsp_document *d, struct err *e)
{
  struct tile_program *p;
  TRY(tile_parse(mem, "", d->text, &p, e));
  for (int i = 0; i < p->nkernels; i++) TRY(tile_lower(p, p->kernels[i], p->kernels[i]->arch, e));
  return OK;
}

static json_t *diagnostic(const struct lsp_document *d, const struct err *e)
{
  const size_t from = lsp_place(d, &e->at);
  const struct lsp_word w = lsp_word_at(d, from);
  const size_t to = w.to > from ? w.to : MIN(from + 1, d->n);
  char text[sizeof e->text + sizeof e->hint + 2];
  snprintf(text, sizeof text, "%s%s%s", e->text, *e->hint ? "\n" : "", e->hint);
  return json_pack("{s:o, s:i, s:s, s:s, s:s}", "range", lsp_range(d, from, to), "severity", 1, "code", err_name(e->id), "source", "mica", "message",
                   text);
}

json_t *lsp_diagnostics(const struct lsp_document *d)
{
  struct arena mem = {0};
  struct err e = {0};
  json_t *list = json_array();
  if ((lsp_is_tile(d) ? check_kernels : check_program)(&mem, d, &e) != OK) json_array_append_new(list, diagnostic(d, &e));
  arena_close(&mem);
  return list;
}

json_t *lsp_formatting(const struct lsp_document *d)
{
  struct arena mem = {0};
  struct err e = {0};
  struct str out = {0};
  json_t *list = json_array();
  if (!lsp_is_tile(d) && format_text(&mem, d->text, d->n, "", &out, &e) == OK && strcmp(str_text(&out), d->text) != 0)
    json_array_append_new(list, json_pack("{s:o, s:s}", "range", lsp_range(d, 0, d->n), "newText", str_text(&out)));
  str_free(&out);
  arena_close(&mem);
  return list;
}
