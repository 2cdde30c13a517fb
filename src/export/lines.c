// The table of lines of a saved folder (docs/gpu.md). It maps lines of kernel.cu to lines of the tile program, and these to nodes of the kernel
// graph, for each kernel. Consecutive lines with the same source are one entry.
#include "export/export.h"
#include "base/doc.h"
#include "cuda/cuda.h"

#include <string.h>

static int lines_before(const char *text, const char *at)
{
  int n = 1;
  for (const char *p = text; p < at; p++) n += *p == '\n';
  return n;
}

// Extends the current run, or begins the next one.
static void extend(json_t *runs, int line, json_t *about)
{
  json_t *last = json_array_get(runs, json_array_size(runs) - (json_array_size(runs) > 0));
  if (last && json_integer_value(json_array_get(last, 1)) == line - 1 && json_equal(json_array_get(last, 2), about)) {
    json_integer_set(json_array_get(last, 1), line);
    json_decref(about);
    return;
  }
  json_t *run = json_array();
  json_array_append_new(run, json_integer(line));
  json_array_append_new(run, json_integer(line));
  json_array_append_new(run, about);
  json_array_append_new(runs, run);
}

// ---- kernel.cu to the tile program ----

static json_t *of_cuda(struct arena *mem, const struct device_program *d, const struct launch *l, const char *source)
{
  struct cuda_marks marks = {.mem = mem};
  struct err e = {0};
  struct str s = {0};
  json_t *runs = json_array();
  int next = 0;
  if (cuda_print_marked(l->p, l->k, d->gpu->arch, &s, &marks, &e) == OK) {
    const char *text = str_text(&s), *prelude = strstr(text, cuda_prelude_text), *body = prelude ? prelude + strlen(cuda_prelude_text) : text;
    body += strspn(body, "\n");
    const char *at = strstr(source, body); // not found if it has its own line directives (MICA_LINE_INFO)
    for (int line = at ? lines_before(source, at) : 0; at && *body; line++) {
      const int tile = cuda_marked(&marks, (size_t)(body - text), &next);
      if (tile > 0) extend(runs, line, json_integer(tile));
      body += strcspn(body, "\n");
      body += *body == '\n';
    }
  }
  return str_free(&s), runs;
}

// ---- the tile program to the graph ----

static const char *words_of(const struct draw_lines *d, const struct line_about *a)
{
  for (int i = 0; i < d->n; i++)
    if (d->line[i].node[KERNEL] == a->kernel && d->line[i].node[BLOCK] == a->node && d->line[i].node[THREAD] < 0) return d->line[i].text;
  return NULL;
}

static json_t *of_tile(const struct launch *l, const struct draw_lines *d)
{
  json_t *runs = json_array();
  for (int i = 0; l->about && i < l->nabout; i++) {
    const char *text = l->about[i].node >= 0 ? words_of(d, &l->about[i]) : NULL;
    if (text) extend(runs, i + 1, json_string(text));
  }
  return runs;
}

void export_lines(struct arena *mem, const struct device_program *d, const char *source, struct str *out)
{
  struct draw_lines drawn = {0};
  struct str all = {0};
  json_t *list = json_array();
  graph_draw_lines(mem, d->g, &all, &drawn);
  for (int i = 0; i < d->nlaunch; i++) {
    const struct launch *l = &d->launch[i];
    if (!l->k || !l->text) continue;
    json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "kernel", l->name, "tile", arena_printf(mem, "%s.tile", l->name), "cuda",
                                          of_cuda(mem, d, l, source), "graph", of_tile(l, &drawn)));
  }
  json_t *root = json_pack("{s:i, s:o}", "lines", 1, "kernels", list);
  json_text(root, out);
  json_decref(root);
  str_free(&all);
}
