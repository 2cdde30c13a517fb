// Lines of a tile program.
#include "lower/lower_emit.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// Treats the formatted text as a template without holes. Returns the previous indentation.
static int begin(struct text *t, const char *fmt, va_list ap)
{
  const int indent = t->indent;
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  char *lines = mem_take((size_t)n + 1);
  vsnprintf(lines, (size_t)n + 1, fmt, ap);
  text_begin(t, lines, NULL);
  mem_free(lines);
  return indent;
}

void text_about(struct text *t, int about)
{
  struct text_marks *m = t->marks;
  const struct text_mark x = {t->out->n, t->tail || about < 0, abs(about) - 1};
  t->about = about;
  if (m && (!m->n || m->mark[m->n - 1].node != x.node || m->mark[m->n - 1].tail != x.tail)) PUSH(m->mem, m->mark, m->n, m->cap) = x;
}

struct text_scope text_scope(struct text *t) { return (struct text_scope){t, t->indent, t->about}; }

void text_scope_end(const struct text_scope *s)
{
  text_until(s->t, s->indent);
  if (s->t->about != s->about) text_about(s->t, s->about);
}

void text_line(struct text *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  text_until(t, begin(t, fmt, ap));
  va_end(ap);
}

int text_open(struct text *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  const int indent = begin(t, fmt, ap);
  va_end(ap);
  return indent;
}

int text_if(struct text *t, const char *condition)
{
  int indent = t->indent;
  if (condition && *condition) text_open(t, "if (%s) {", condition);
  return indent;
}

void text_close(struct text *t) { str_add(t->out, "%*s}\n", 2 * --t->indent, ""); }

void text_kernel(struct text *t, const char *name, const char *comment, const struct target *gpu, uint32_t may_use)
{
  if (comment) text_line(t, "// %s", comment);
  text_line(t, "order row");
  text_open(t, "kernel %s {", name);
  const struct target *target = target_gpu(gpu->arch);
  if (target && gpu->can & may_use) text_line(t, "target %s", target->name);
}

static bool is_argument(const struct lower_out *out, int tensor)
{
  for (int i = 0; i < out->nargs; i++)
    if (out->arg[i] == tensor) return true;
  return false;
}

void emit_arguments(struct text *t, struct arena *mem, const struct kern *k, const char **name, struct lower_out *out, struct str *ins,
                    struct str *outs)
{
  int *arg = NEWS(mem, int, out->nargs + k->nvalues + k->nsaves + 1);
  for (int i = 0; i < out->nargs; i++) arg[i] = out->arg[i];
  out->arg = arg;
  for (int i = 0; i < kern_uses(k); i++) {
    struct kern_use u;
    if (!kern_use(k, i, &u) || u.at->left || u.at->index || is_argument(out, u.at->tensor)) continue;
    const struct kern_access *a = u.at;
    struct str *list = u.save ? outs : ins;
    text_line(t, "%%%s:[%lld].%s.GL", name[a->tensor], (long long)a->elements, tile_dtype(a->type));
    str_add(list, "%s%%%s", list->n ? ", " : "", name[a->tensor]);
    out->arg[out->nargs++] = a->tensor;
  }
}

void emit_head(struct text *t, const char *blocks, const char *threads, struct str *ins, struct str *outs)
{
  text_line(t, "#grid:[%s].block", blocks);
  text_line(t, "#t:[%s].thread", threads);
  text_open(t, "%s <- Spec<<<#grid, #t>>>(%s) {", str_text(outs), str_text(ins));
  str_free(ins), str_free(outs);
}

void emit_frame(struct text *t, struct arena *mem, const struct kern *k, const char **name, int64_t cluster, const char *blocks, const char *threads,
                struct lower_out *out)
{
  struct str ins = {0}, outs = {0};
  if (cluster > 1) text_line(t, "cluster %lld", (long long)cluster);
  emit_arguments(t, mem, k, name, out, &ins, &outs);
  emit_head(t, blocks, threads, &ins, &outs);
}

void emit_tiles(struct text *t, const struct target *gpu, int64_t tiles, const char *name)
{
  const struct hole *holes = HOLES(NULL, STR(name, name), INT(tiles, tiles), INT(workers, gpu->workers));
  if (gpu_blocks(gpu, tiles) == tiles)
    text_fill(t, "$name = #grid.indices()", holes);
  else
    text_begin(t,
               "@worker = #grid.indices()\n"
               "for (turn = 0; turn < ceil($tiles - @worker, $workers); turn += 1) rolled {\n"
               "$name = turn * $workers + @worker",
               holes);
}

void emit_tiles_end(struct text *t, const struct target *gpu, int64_t tiles)
{
  if (gpu_blocks(gpu, tiles) != tiles) text_fill(t, "Sync<barrier>#t()", NULL);
}

// Makes a tile name: letters, digits and _. Names in programs may have other characters.
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

// Whether a scheme might use this name for a register or shared tensor.
static bool taken(const char *name, enum text_apart apart)
{
  const char *digits = "0123456789";
  bool lower = islower((unsigned char)name[0]), unnamed = name[0] == 't' && name[1] && strspn(name + 1, digits) == strlen(name + 1);
  return apart == TEXT_ALL || (lower && (apart == TEXT_LOWER || (!unnamed && strpbrk(name, digits))));
}

const char **text_names(struct arena *mem, const struct graph *g, enum text_apart apart)
{
  const char **name = NEWS(mem, const char *, g->ntensors);
  for (int i = 0; i < g->ntensors; i++) {
    name[i] = identifier(mem, g->tensors[i].name, i);
    for (int k = 0; k < i; k++)
      if (!strcmp(name[k], name[i])) name[i] = arena_printf(mem, "%s_%d", name[i], i), k = -1;
  }
  for (int i = 0; i < g->ntensors; i++)
    if (taken(name[i], apart)) name[i] = arena_printf(mem, "g_%s", name[i]);
  return name;
}

const char *tile_dtype(enum dtype t) { return num_rows[t].name; }

const char *text_number(struct arena *mem, double x) { return arena_printf(mem, "%#.17g", x); }

const char *text_join(struct arena *mem, const char *list, const char *separator, const char *item, ...)
{
  char text[256];
  va_list ap;
  va_start(ap, item);
  int n = vsnprintf(text, sizeof text, item, ap);
  va_end(ap);
  CHECK(n >= 0 && n < (int)sizeof text);
  return arena_printf(mem, "%s%s%s", list, *list ? separator : "", text);
}
