// The files of the folder that --out names. folder_write puts them in place together.
#include "drive/drive.h"
#include "export/export.h"
#include "export/manifest.h"
#include "export/package.h"
#include "report/report.h"

#include <string.h>

static const double SECONDS = 60, HASTE = 5; // limits of compiling new code; HASTE: after the job's time has run out

struct save_saved {
  const char *name;
  struct str text;
};
struct folder {
  struct arena *mem;
  int n, cap;
  struct save_saved *file;
  struct manifest_by by;               // of machine code
  const struct device_program *device; // for a GPU, once it was made
  const char *kernel;                  // for a CPU, once it was made: C without the tvm-ffi function
};

// The text must live until the next call.
static struct str *add(struct folder *f, const char *name)
{
  PUSH(f->mem, f->file, f->n, f->cap) = (struct save_saved){name, {0}};
  return &f->file[f->n - 1].text;
}

static int graph_from_report(struct arena *mem, const json_t *report, const char *key, struct graph **g, struct err *e)
{
  struct str text = {0};
  json_text(json_object_get(report, key), &text);
  int status = graph_from_json(mem, str_text(&text), text.n, "report", g, e);
  str_free(&text);
  return status;
}

struct saved_graphs {
  struct graph *best, *rank; // the graph that runs; for several devices the graph of one rank, else NULL
};

// Adds the compiled kernel and the data that its loader needs. Without a compiler only the source is added.
static int object_files(const struct saved_graphs *g, const char *id, const char *name, const char *source, bool blas, struct folder *f,
                        struct err *e)
{
  struct package_cpu c = {.name = name, .function = id, .source = source, .g = g->best, .rank = g->rank, .blas = blas};
  struct err mine = {0};
  int status = package_compile(f->mem, source, id, f->by.db, &c.so, &c.bytes, &mine);
  if (status != OK && mine.id != ERR_COMPILER) return *e = mine, status;
  package_cpu_json(&c, add(f, "program.json"));
  if (status == OK) str_raw(add(f, "kernel.so"), c.so, c.bytes);
  return OK;
}

static int generate_c(const struct saved_graphs *of, const char *name, const struct target *t, struct folder *f, struct err *e)
{
  const struct graph *g = of->best;
  struct gen_info info = {0};
  char id[64];
  gen_identifier(id, g->name ? g->name : "program");
  struct str source = {0}, header = {0};
  int status = gen_c(g, id, t, &source, &header, &info, e);
  f->kernel = arena_printf(f->mem, "%s", str_text(&source));
  if (status == OK && of->rank) status = gen_c_ranks(of->rank, id, t, &source, e);
  if (status == OK) export_ffi(g, id, false, &source);
  str_add(add(f, "kernel.c"), "%s", str_text(&source));
  str_add(add(f, "kernel.h"), "// Build and link, with nothing of Mica:\n//   cc %s -c kernel.c\n//   cc your.c kernel.o %s\n%s", gen_flags(),
          package_libraries(info.needs_blas), str_text(&header));
  if (status == OK) status = object_files(of, id, name, str_text(&source), info.needs_blas, f, e);
  str_free(&source);
  str_free(&header);
  return status;
}

// Adds the machine code and the data that its launcher needs.
static int driver_files(const struct device_program *d, const char *name, struct str *readme, struct folder *f, struct err *e)
{
  struct manifest m;
  int status = manifest_make(f->mem, d, name, &f->by, &m, e);
  str_add(add(f, "program.json"), "%s", str_text(&m.json));
  for (int i = 0; i < m.n; i++) str_raw(add(f, m.cubin[i].name), m.cubin[i].bytes, m.cubin[i].n);
  manifest_readme(&m, readme);
  return manifest_free(&m), status;
}

static int device_files(const struct device_program *d, const char *name, struct folder *f, struct err *e)
{
  struct exported x;
  char id[64];
  gen_identifier(id, name ? name : "program");
  int status = export_device(f->mem, d, id, &x, e);
  str_add(add(f, "kernel.cu"), "%s", str_text(&x.source));
  str_add(add(f, "kernel.h"), "%s", str_text(&x.header));
  if (status == OK) status = driver_files(d, id, &x.readme, f, e);
  str_add(add(f, "README.md"), "%s", str_text(&x.readme));
  if (status == OK) export_lines(f->mem, d, str_text(&x.source), add(f, "lines.json"));
  export_free(&x);
  for (int i = 0; i < d->nlaunch; i++)
    if (d->launch[i].text) str_add(add(f, arena_printf(f->mem, "%s.tile", d->launch[i].name)), "%s", d->launch[i].text);
  return status;
}

static int generate_cuda(const json_t *report, const struct saved_graphs *of, const struct target *t, struct folder *f, struct err *e)
{
  struct lower_plan p;
  struct graph *g;
  struct device_program *d = NEW(f->mem, struct device_program);
  struct choice *pick;
  struct target *gpu = NEW(f->mem, struct target);
  TRY(launches_target(report, t, gpu, e));
  TRY(launches_graph(f->mem, report, &g, e));
  if (of->rank) f->by.whole = of->best, f->by.rank = of->rank;
  g->name = json_string_value(json_object_get(report, "program"));
  const json_t *made = json_object_get(report, "gpu"), *launches = json_object_get(made, "launches");
  TRY(launches_read(f->mem, launches, json_object_get(made, "stored"), g, gpu, &p, &pick, e));
  TRY(lower_make(f->mem, &p, pick, d, e));
  launches_algorithms(launches, d);
  f->device = d;
  return device_files(d, g->name, f, e);
}

static int graphs_of(struct arena *mem, const json_t *report, struct saved_graphs *g, struct err *e)
{
  const json_t *ranks = json_object_get(report, "ranks");
  struct graph *program;
  *g = (struct saved_graphs){0};
  TRY(graph_from_report(mem, report, "source", &program, e));
  TRY(graph_from_report(mem, report, "graph", &g->best, e));
  graph_extents_as(g->best, program);
  return json_object_get(ranks, "kernels") ? graph_from_report(mem, ranks, "kernels", &g->rank, e) : OK;
}

// Adds kernels and program.json.
static int kernels(const json_t *report, const struct saved_graphs *g, struct folder *f, struct err *e)
{
  struct target t;
  const char *target = json_string_value(json_object_get(report, "target")), *name = json_string_value(json_object_get(report, "program"));
  TRY(target_open(target ? target : "cpu", (int)json_integer_value(json_object_get(report, "threads")), true, &t, e));
  if (t.kind == TARGET_GPU) return generate_cuda(report, g, &t, f, e);
  return generate_c(g, name ? name : "program", &t, f, e);
}

// Uses the kernels that were already compiled.
static void page(const json_t *report, struct folder *f)
{
  struct arena mem = {0};
  html_page(&mem, report, f->device, f->kernel, add(f, "report.html"));
  arena_close(&mem);
}

static int render(const json_t *report, const char *folder, struct folder *f, struct err *e)
{
  struct graph *program;
  struct saved_graphs g;
  TRY(graph_from_report(f->mem, report, "source", &program, e));
  TRY(graphs_of(f->mem, report, &g, e));
  graph_print(program, add(f, "program.mica"));
  graph_print(g.best, add(f, "graph.mica"));
  json_text(json_object_get(report, "graph"), add(f, "graph.json"));
  if (g.rank) graph_print(g.rank, add(f, "rank.mica")), graph_to_json(g.rank, add(f, "rank.json"));
  report_text(f->mem, report, folder, add(f, "report.txt"));
  json_text(report, add(f, "report.json"));
  TRY(kernels(report, &g, f, e));
  page(report, f);
  return OK;
}

static struct folder_files files_of(const struct folder *f)
{
  struct folder_file *file = NEWS(f->mem, struct folder_file, f->n + 1);
  for (int i = 0; i < f->n; i++) file[i] = (struct folder_file){f->file[i].name, str_text(&f->file[i].text), f->file[i].text.n};
  return (struct folder_files){f->n, file};
}

static int finish(struct folder *f, const char *folder, int status, struct err *e)
{
  const struct folder_files files = files_of(f);
  if (status == OK) status = folder_write(f->mem, folder, &files, e);
  for (int i = 0; i < f->n; i++) str_free(&f->file[i].text);
  return status;
}

int report_save_by(struct arena *mem, const json_t *report, const char *folder, struct gpu_forge *forge, struct db *db, struct err *e)
{
  struct folder *f = NEW(mem, struct folder);
  const char *left = json_string_value(json_object_get(report, "left"));
  f->mem = mem, f->by = (struct manifest_by){forge, db, left && *left ? HASTE : SECONDS};
  return finish(f, folder, render(report, folder, f, e), e);
}

int report_package(struct arena *mem, const json_t *report, struct gpu_forge *forge, struct db *db, struct folder_files *out, struct err *e)
{
  struct folder *f = NEW(mem, struct folder);
  struct saved_graphs g;
  f->mem = mem, f->by = (struct manifest_by){forge, db, SECONDS};
  int status = graphs_of(mem, report, &g, e);
  if (status == OK) status = kernels(report, &g, f, e);
  struct folder_file *file = NEWS(mem, struct folder_file, f->n + 1);
  for (int i = 0; i < f->n; i++)
    file[i] = (struct folder_file){f->file[i].name, arena_copy(mem, str_text(&f->file[i].text), f->file[i].text.n), f->file[i].text.n};
  for (int i = 0; i < f->n; i++) str_free(&f->file[i].text);
  *out = (struct folder_files){f->n, file};
  return status;
}

int device_save(struct arena *mem, const struct graph *program, const struct device_program *d, const char *folder, struct err *e)
{
  struct folder *f = NEW(mem, struct folder);
  f->mem = mem, f->by.forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  graph_print(program, add(f, "program.mica"));
  graph_print(d->g, add(f, "graph.mica"));
  int status = finish(f, folder, device_files(d, program->name, f, e), e);
  return gpu_forge_close(f->by.forge), status;
}
