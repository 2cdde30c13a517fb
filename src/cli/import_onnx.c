// mica import of ONNX models: programs for the nodes that Mica can express, the list of the others, a manifest that connects them, and optimization
// of the programs. Equal programs are optimized once.
#include "base/visible.h"
#include "cli/cli.h"
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cli_is_onnx(const char *path)
{
  struct stat st;
  struct str manifest = {0};
  if (stat(path, &st)) return false;
  if (!S_ISDIR(st.st_mode)) return onnx_looks(path);
  str_add(&manifest, "%s/manifest.json", path);
  bool there = !stat(str_text(&manifest), &st);
  str_free(&manifest);
  return there;
}

// ---- the folder ----

static int save_program(struct cli *c, const struct onnx_program *p)
{
  struct str text = {0};
  graph_print(p->g, &text);
  int status = file_write(arena_printf(&c->mem, "%s/%s.mica", c->out, p->name), str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

// Constants that were computed while the model was read get their own files; the manifest names them.
static int save_constants(struct cli *c, const struct onnx_model *m, json_t *manifest)
{
  json_t *list = json_array();
  char *saved = arena_alloc(&c->mem, (size_t)m->nvalues + 1);
  json_object_set_new(manifest, "constants", list);
  for (int p = 0; p < m->nprograms; p++)
    for (int i = 0; i < m->programs[p].nin; i++) {
      int v = m->programs[p].in[i];
      if (!m->values[v].known || m->values[v].init || saved[v]) continue;
      const char *file = arena_printf(&c->mem, "constant_%zu.npy", json_array_size(list) + 1);
      json_array_append_new(list, json_pack("{s:s, s:s}", "value", m->values[v].name, "file", file));
      TRY(npy_write_cells(arena_printf(&c->mem, "%s/%s", c->out, file), m->values[v].known, &c->err));
      saved[v] = 1;
    }
  return OK;
}

static int save(struct cli *c, const struct onnx_model *m, json_t *manifest)
{
  struct str text = {0};
  TRY(save_constants(c, m, manifest));
  for (int p = 0; p < m->nprograms; p++) TRY(save_program(c, &m->programs[p]));
  json_text(manifest, &text);
  int status = file_write(arena_printf(&c->mem, "%s/manifest.json", c->out), str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

// ---- optimizing ----

struct optimizing {
  struct cli *c;
  const struct onnx_model *m;
  struct mica_context *context;
  struct mica_report **reports; // for each program
  double end;                   // a value of now_seconds(); 0: none
};

static int twin_of(const struct onnx_model *m, int p)
{
  int k = 0;
  while (!graph_same(m->programs[k].g, m->programs[p].g)) k++;
  return k;
}

static int optimize_one(struct optimizing *o, int p)
{
  struct cli *c = o->c;
  struct str text = {0};
  struct mica_program *program;
  struct mica_options options = cli_options(c);
  struct progress line;
  int twin = twin_of(o->m, p);
  if (twin < p) return o->reports[p] = o->reports[twin], OK;
  if (o->end) options.time = MAX((o->end - now_seconds()) / (o->m->nprograms - p), 1);
  progress_open(&line, c, o->m->programs[p].name);
  options.progress = progress_show, options.progress_arg = &line;
  graph_print(o->m->programs[p].g, &text);
  int status = mica_load_text(o->context, str_text(&text), o->m->programs[p].name, 0, NULL, &program);
  str_free(&text);
  if (status == OK) status = mica_optimize(o->context, program, &options, &o->reports[p]);
  progress_clear(&line);
  return status;
}

static int show_one(struct optimizing *o, int p, json_t *results)
{
  struct cli *c = o->c;
  const char *name = o->m->programs[p].name;
  int twin = twin_of(o->m, p);
  json_t *report = json_loads(mica_report_json(o->reports[p]), 0, NULL);
  json_array_append_new(results, json_pack("{s:s, s:o}", "program", name, "report", report ? report : json_null()));
  if (output_wants_text(c) && twin < p)
    printf("\nprogram %s is like %s\n", name, o->m->programs[twin].name);
  else if (output_wants_text(c))
    printf("\nprogram %s\n%s", name, mica_report_text(o->reports[p]));
  if (!c->out) return OK;
  return mica_report_save(o->context, o->reports[p], arena_printf(&c->mem, "%s/%s", c->out, name));
}

static int optimize(struct cli *c, const struct onnx_model *m, json_t *manifest)
{
  struct optimizing o = {c, m, mica_open(), NEWS(&c->mem, struct mica_report *, m->nprograms + 1), c->time ? now_seconds() + c->time : 0};
  json_t *results = json_array();
  int status = OK;
  for (int p = 0; p < m->nprograms && status == OK; p++) {
    status = optimize_one(&o, p);
    if (o.reports[p]) {
      int shown = show_one(&o, p, results);
      if (status == OK) status = shown;
    }
  }
  if (status != OK) visible_print(stderr, mica_error(o.context));
  mica_close(o.context);
  json_object_set_new(manifest, "optimized", results);
  return status;
}

static int answer(struct cli *c, struct onnx_model *m, json_t *manifest, bool optimizing)
{
  if (output_wants_text(c)) {
    struct str text = {0};
    onnx_report_text(m, &text);
    fputs(str_text(&text), stdout);
    str_free(&text);
  }
  if (c->out) TRY(save(c, m, manifest));
  int status = optimizing ? optimize(c, m, manifest) : OK;
  if (status == OK) status = output_json(c, manifest);
  if (status == OK && c->out && output_wants_text(c)) printf("\nin %s: manifest.json, and a program in %d *.mica\n", c->out, m->nprograms);
  return status != OK ? status : m->nprograms ? OK : NO;
}

int cli_import_onnx(struct cli *c, const char *path, bool optimizing)
{
  struct onnx_model *m;
  struct setting *set;
  if (c->dtype) return err_set(&c->err, ERR_OPTION, NOWHERE, "--dtype: a model says the types of its tensors itself");
  if (c->out) TRY(output_folder(c->out, &c->err));
  if (c->json) TRY(output_check(c->json, &c->err));
  TRY(load_settings(&c->mem, c->nset, c->set, &set, &c->err));
  int status = onnx_open(&c->mem, path, c->nset, set, &m, &c->err);
  if (status == OK) {
    char *real = realpath(path, NULL); // an absolute path, so that the folder can be used from anywhere
    json_t *manifest = onnx_report_json(m, mica_version());
    json_object_set_new(manifest, "path", json_string(real ? real : path));
    free(real);
    status = answer(c, m, manifest, optimizing);
    json_decref(manifest);
  }
  onnx_close(m);
  return status;
}
