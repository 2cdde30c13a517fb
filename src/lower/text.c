// Lines of a tile program.
#include "lower/emit.h"
#include "base/memory.h"

#include <ctype.h>
#include <string.h>

static void put(struct text *t, const char *fmt, va_list ap)
{
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  char *line = mem_take((size_t)n + 1);
  vsnprintf(line, (size_t)n + 1, fmt, ap);
  str_add(t->out, "%*s%s", 2 * t->indent, "", line);
  mem_free(line);
}

int text_about(struct text *t, int node)
{
  struct text_marks *m = t->marks;
  int was = t->about - 1;
  t->about = node + 1;
  if (m && (!m->n || m->mark[m->n - 1].node != node || m->mark[m->n - 1].tail != t->tail))
    PUSH(m->mem, m->mark, m->n, m->cap) = (struct text_mark){t->out->n, t->tail, node};
  return was;
}

int text_about_tensor(struct text *t, const struct graph *block, int tensor) { return text_about(t, block->tensors[tensor].node); }

void text_line(struct text *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  put(t, fmt, ap);
  va_end(ap);
  str_add(t->out, "\n");
}

void text_open(struct text *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  put(t, fmt, ap);
  va_end(ap);
  str_add(t->out, " {\n");
  t->indent++;
}

void text_close(struct text *t)
{
  t->indent--;
  text_line(t, "}");
}

void text_kernel(struct text *t, const char *name, const char *comment, const struct gpu_limits *gpu, uint32_t may_use)
{
  if (comment) text_line(t, "// %s", comment);
  text_line(t, "order row");
  text_open(t, "kernel %s", name);
  const struct target *target = target_gpu(gpu->arch);
  if (target && gpu->can & may_use) text_line(t, "target %s", target->name);
}

// Names may hold anything that the language of programs allows; tile names are letters, digits and _.
static const char *identifier(struct arena *mem, const char *name, int i)
{
  char out[48];
  size_t n = 0;
  for (; name && name[n] && n < sizeof out - 1; n++) {
    if (!isalnum((unsigned char)name[n]) && name[n] != '_') break;
    out[n] = name[n];
  }
  out[n] = 0;
  if (!name || name[n] || !n || isdigit((unsigned char)out[0])) return arena_printf(mem, "t%d", i);
  return arena_strdup(mem, out);
}

const char **text_names(struct arena *mem, const struct graph *g)
{
  const char **name = NEWS(mem, const char *, g->ntensors);
  for (int i = 0; i < g->ntensors; i++) {
    name[i] = identifier(mem, g->tensors[i].name, i);
    for (int k = 0; k < i; k++)
      if (!strcmp(name[k], name[i])) name[i] = arena_printf(mem, "%s_%d", name[i], i), k = -1;
  }
  return name;
}

const char *tile_dtype(enum dtype t) { return num_rows[t].name; }
