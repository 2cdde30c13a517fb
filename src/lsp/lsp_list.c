// Completion: all names that are possible here. The client filters them by the beginning of the word.
#include "lsp/lsp.h"
#include "tile/tile.h"

#include <ctype.h>
#include <string.h>

enum { KIND_FUNCTION = 3, KIND_VARIABLE = 6, KIND_PROPERTY = 10, KIND_KEYWORD = 14, KIND_TYPE = 25, MOST_NAMES = 500 };

static void item(json_t *list, const char *label, int kind, const char *doc)
{
  json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "label", label, "kind", kind, "detail", doc));
}

static void attributes(json_t *list, const struct lsp_document *d, size_t byte)
{
  enum op op;
  if (!op_find(lsp_call_at(d, byte).text, &op)) return;
  for (int i = 0; i < ATTRS; i++)
    if (op_rows[op].attrs >> i & 1) item(list, attr_rows[i].name, KIND_PROPERTY, attr_rows[i].doc);
}

static bool listed(const json_t *list, const char *name)
{
  size_t i;
  json_t *v;
  json_array_foreach(list, i, v) if (!strcmp(json_string_value(json_object_get(v, "label")), name)) return true;
  return false;
}

static void words(json_t *list, const char *const *names, size_t n, int kind)
{
  for (size_t i = 0; i < n; i++)
    if (!listed(list, names[i])) item(list, names[i], kind, "");
}

// Names that the text defines, by `NAME =` or `NAME :` at the beginning of a statement.
static void names(json_t *list, const struct lsp_document *d)
{
  int found = 0;
  for (size_t at = 0; at < d->n && found < MOST_NAMES; at++) {
    if (!isalpha((unsigned char)d->text[at]) || (at && (isalnum((unsigned char)d->text[at - 1]) || d->text[at - 1] == '_'))) continue;
    const struct lsp_word w = lsp_word_at(d, at);
    const size_t next = w.to + strspn(d->text + w.to, " ");
    if ((d->text[next] == ':' || d->text[next] == '=') && !*lsp_call_at(d, at).text && !listed(list, w.text))
      item(list, w.text, KIND_VARIABLE, ""), found++;
    at = w.to;
  }
}

static void of_program(json_t *list, const struct lsp_document *d, size_t byte)
{
  static const char *const keywords[] = {
#define WORD(text, reserved) text,
#include "ir/word.def"
#undef WORD
  };
  attributes(list, d, byte);
  for (int i = 0; i < OPS; i++) item(list, op_rows[i].name, KIND_FUNCTION, op_rows[i].doc);
  for (int i = 0; i < DTYPES; i++) // most are operators too, as casts
    if (!listed(list, num_rows[i].dtype)) item(list, num_rows[i].dtype, KIND_TYPE, num_rows[i].what);
  words(list, keywords, COUNT(keywords), KIND_KEYWORD);
  names(list, d);
}

static void of_kernel(json_t *list)
{
  static const char *const keywords[] = {"order", "kernel", "param", "const",  "target", "cluster", "multiple",
                                         "for",   "if",     "else",  "unroll", "rolled", "in"};
  for (int i = 0; i < SPEC_COUNT; i++) item(list, tile_specs[i].name, KIND_FUNCTION, tile_specs[i].what);
  for (int i = 0; i < TT_COUNT; i++) item(list, tile_types[i].name, KIND_TYPE, tile_types[i].what);
  words(list, keywords, COUNT(keywords), KIND_KEYWORD);
}

json_t *lsp_completion(const struct lsp_document *d, size_t byte)
{
  json_t *list = json_array();
  if (lsp_is_tile(d))
    of_kernel(list);
  else
    of_program(list, d, byte);
  return list;
}
