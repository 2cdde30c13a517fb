// The folder of --out. Every file is written aside and renamed, and when one cannot be written those written before it
// in this call are taken away again: the folder holds a whole result or nothing of it.
#include "core/core.h"

#include <string.h>
#include <unistd.h>

struct saved {
  const char *name;
  struct str text;
};
enum { PROGRAM, GRAPH, GRAPH_JSON, SOURCE, HEADER, REPORT, REPORT_JSON, SAVED };

static int graph_from_report(struct arena *mem, const json_t *report, const char *key, struct graph **g, struct err *e)
{
  struct str text = {0};
  json_text(json_object_get(report, key), &text);
  int status = graph_from_json(mem, str_text(&text), text.n, "report", g, e);
  str_free(&text);
  return status;
}

static int generate(const json_t *report, const struct graph *g, struct saved *files, struct err *e)
{
  struct target t;
  struct gen_info info = {0};
  char id[64];
  const char *target = json_string_value(json_object_get(report, "target"));
  TRY(target_open(target ? target : "cpu", (int)json_integer_value(json_object_get(report, "threads")), true, &t, e));
  gen_identifier(id, g->name ? g->name : "program");
  struct str source = {0}, header = {0};
  int status = gen_c(g, id, &t, &source, &header, &info, e);
  str_add(&files[SOURCE].text, "%s", str_text(&source));
  str_add(&files[HEADER].text, "// Build and link, with nothing of Mica:\n//   cc %s -c kernel.c\n//   cc your.c kernel.o%s -fopenmp -lm\n%s",
          gen_flags(), info.needs_blas ? " -lopenblas" : "", str_text(&header));
  str_free(&source);
  str_free(&header);
  return status;
}

static int render(struct arena *mem, const json_t *report, const char *folder, struct saved *files, struct err *e)
{
  struct graph *program, *best;
  TRY(graph_from_report(mem, report, "source", &program, e));
  TRY(graph_from_report(mem, report, "graph", &best, e));
  graph_print(program, &files[PROGRAM].text);
  graph_print(best, &files[GRAPH].text);
  json_text(json_object_get(report, "graph"), &files[GRAPH_JSON].text);
  report_text(mem, report, folder, &files[REPORT].text);
  json_text(report, &files[REPORT_JSON].text);
  return generate(report, best, files, e);
}

static int write_all(struct arena *mem, const char *folder, const struct saved *files, struct err *e)
{
  int i = 0, status = file_mkdirs(folder, e);
  for (; i < SAVED && status == OK; i++)
    status = file_write(arena_printf(mem, "%s/%s", folder, files[i].name), str_text(&files[i].text), files[i].text.n, e);
  if (status == OK) return OK;
  for (i = i - 2; i >= 0; i--) unlink(arena_printf(mem, "%s/%s", folder, files[i].name));
  return status;
}

int report_save(struct arena *mem, const json_t *report, const char *folder, struct err *e)
{
  struct saved files[SAVED] = {
      [PROGRAM] = {"program.mica"}, [GRAPH] = {"graph.mica"},   [GRAPH_JSON] = {"graph.json"},   [SOURCE] = {"kernel.c"},
      [HEADER] = {"kernel.h"},      [REPORT] = {"report.txt"}, [REPORT_JSON] = {"report.json"},
  };
  int status = render(mem, report, folder, files, e);
  if (status == OK) status = write_all(mem, folder, files, e);
  for (int i = 0; i < SAVED; i++) str_free(&files[i].text);
  return status;
}
