// JSON documents as text: indented, short lists on one line, numbers in the shortest form that parses to the same value (jansson alone would print
// 0.1 with 17 digits).
#include "base/base.h"
#include "base/doc.h"
#include "base/memory.h"

enum { LINE = 100 };

static void quoted(const json_t *v, struct str *out)
{
  char *text = json_dumps(v, JSON_ENCODE_ANY);
  str_add(out, "%s", text);
  mem_free(text);
}

static void number(double x, struct str *out)
{
  char text[32];
  str_double(text, x);
  str_add(out, "%s", text);
}

static void value(const json_t *v, int indent, bool flat, struct str *out);

static void separator(bool first, bool last, int indent, bool flat, struct str *out)
{
  if (!first && !last) str_add(out, flat ? ", " : ",");
  if (!flat) str_add(out, "\n%*s", indent, "");
}

static void members(const json_t *v, int indent, bool flat, struct str *out)
{
  const char *key;
  json_t *child;
  bool first = true;
  str_add(out, "{");
  json_object_foreach((json_t *)v, key, child)
  {
    json_t *k = json_string(key);
    separator(first, false, indent + 2, flat, out);
    quoted(k, out);
    str_add(out, ": ");
    value(child, indent + 2, flat, out);
    doc_done(k);
    first = false;
  }
  if (!first) separator(false, true, indent, flat, out);
  str_add(out, "}");
}

static void elements(const json_t *v, int indent, bool flat, struct str *out)
{
  size_t n = json_array_size(v);
  str_add(out, "[");
  for (size_t i = 0; i < n; i++) {
    separator(i == 0, false, indent + 2, flat, out);
    value(json_array_get(v, i), indent + 2, flat, out);
  }
  if (n) separator(false, true, indent, flat, out);
  str_add(out, "]");
}

static void plain(const json_t *v, int indent, bool flat, struct str *out)
{
  switch (json_typeof(v)) {
  case JSON_OBJECT: members(v, indent, flat, out); break;
  case JSON_ARRAY: elements(v, indent, flat, out); break;
  case JSON_STRING: quoted(v, out); break;
  case JSON_INTEGER: str_add(out, "%lld", (long long)json_integer_value(v)); break;
  case JSON_REAL: number(json_real_value(v), out); break;
  case JSON_TRUE: str_add(out, "true"); break;
  case JSON_FALSE: str_add(out, "false"); break;
  case JSON_NULL: str_add(out, "null"); break;
  }
}

// A list or object that fits is printed in one line.
static void value(const json_t *v, int indent, bool flat, struct str *out)
{
  bool nested = json_is_object(v) || json_is_array(v);
  if (nested && !flat) {
    struct str line = {0};
    plain(v, 0, true, &line);
    bool fits = line.n + (size_t)indent <= LINE;
    if (fits) str_raw(out, line.p, line.n);
    str_free(&line);
    if (fits) return;
  }
  plain(v, indent, flat, out);
}

void json_text(const json_t *v, struct str *out)
{
  value(v, 0, false, out);
  str_add(out, "\n");
}
