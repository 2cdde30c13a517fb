// Identifiers and comments of the generated source. Tensor names come from users' files. Every character but letters, digits and _ is replaced before
// it reaches C, and an index makes names unique.
#include "gen/emit.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { OWN = 24 }; // characters kept of a user's name

void line(struct str *s, int depth, const char *fmt, ...)
{
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  for (int i = 0; i < depth; i++) str_raw(s, "  ", 2);
  char small[256], *text = small;
  struct arena mem = {0};
  if (n >= (int)sizeof small) text = arena_alloc(&mem, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  str_raw(s, text, (size_t)n);
  str_raw(s, "\n", 1);
  arena_close(&mem);
}

static void clean(char *to, size_t room, const char *from)
{
  size_t n = 0;
  for (; from && *from && n + 1 < room; from++) to[n++] = isalnum((unsigned char)*from) && (unsigned char)*from < 128 ? *from : '_';
  to[n] = 0;
}

const char *name_of(struct arena *mem, const char *prefix, int index, const char *own)
{
  char word[OWN];
  clean(word, sizeof word, own);
  return *word ? arena_printf(mem, "%s%d_%s", prefix, index, word) : arena_printf(mem, "%s%d", prefix, index);
}

void gen_identifier(char out[64], const char *name)
{
  clean(out, 64, name);
  if (!*out || isdigit((unsigned char)*out)) {
    char word[64];
    snprintf(word, sizeof word, "m_%.60s", out);
    memcpy(out, word, sizeof word);
  }
}

const char *c_type(enum dtype t)
{
  if (t == F32 || num_whole(t)) return num_rows[t].c;
  return num_rows[t].bits == 16 ? "uint16_t" : "uint8_t";
}

const char *number(struct arena *mem, double x)
{
  char text[32];
  if (isnan(x)) return "NAN";
  if (isinf(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  str_double(text, x);
  bool whole = !strpbrk(text, ".e");
  return fabs(x) > 3.402823e38 ? arena_printf(mem, "(float)%s", text) : arena_printf(mem, "%s%sf", text, whole ? "." : "");
}

static void list_text(struct str *s, const struct shape *l)
{
  for (int i = 0; i < l->n; i++) str_add(s, "%s%lld", i ? ", " : "", (long long)l->d[i]);
}

static void map_text(struct str *s, const int8_t *map, int n)
{
  for (int i = 0; i < n; i++)
    if (map[i] == REPLICA)
      str_add(s, "%s_", i ? ", " : "");
    else
      str_add(s, "%s%d", i ? ", " : "", map[i]);
}

// Prints attributes in the syntax of the text language, only those with a value.
static void attr_text(struct str *s, const struct graph *g, const struct node *n)
{
  const char *sep = n->nin ? ", " : "";
  for (int i = 0; i < ATTRS; i++) {
    if (!(op_rows[n->op].attrs & 1u << i)) continue;
    const void *field = (const char *)&n->a + attr_rows[i].offset;
    char word[32];
    if (attr_rows[i].kind == ATTR_GRID_KIND && !g->ngrid) continue;
    if (attr_rows[i].kind == ATTR_LOOP_KIND && !g->nloop) continue;
    str_add(s, "%s%s = ", sep, attr_rows[i].name), sep = ", ";
    switch (attr_rows[i].kind) {
    case ATTR_DIM_KIND: str_add(s, "%d", *(const int *)field); break;
    case ATTR_INT_KIND: str_add(s, "%lld", (long long)*(const int64_t *)field); break;
    case ATTR_REAL_KIND: str_double(word, *(const double *)field), str_add(s, "%s", word); break;
    case ATTR_LIST_KIND: str_add(s, "["), list_text(s, field), str_add(s, "]"); break;
    case ATTR_GRID_KIND: str_add(s, "["), map_text(s, field, g->ngrid), str_add(s, "]"); break;
    case ATTR_LOOP_KIND: str_add(s, "["), map_text(s, field, g->nloop), str_add(s, "]"); break;
    }
  }
}

const char *node_text(struct arena *mem, const struct graph *g, const struct node *n)
{
  struct str s = {0};
  char shape[128];
  for (int i = 0; i < n->nout; i++) str_add(&s, "%s%s", i ? ", " : "", name_of(mem, "t", n->out + i, g->tensors[n->out + i].name));
  str_add(&s, "%s%s(", n->nout ? " = " : "", op_rows[n->op].name);
  for (int i = 0; i < n->nin; i++) str_add(&s, "%s%s", i ? ", " : "", name_of(mem, "t", n->in[i], g->tensors[n->in[i]].name));
  attr_text(&s, g, n);
  str_add(&s, ")");
  if (n->nout) shape_text(shape, &g->tensors[n->out].shape), str_add(&s, " %s", shape);
  return str_keep(mem, &s);
}
