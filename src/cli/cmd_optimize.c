// mica optimize: the public API with a progress line.
#include "cli/cli.h"
#include "export/folder.h"

#include <stdlib.h>
#include <string.h>

// Seconds of the measurement on a CPU. Invalid values are ignored.
static double measured_seconds(double unless)
{
  const char *text = getenv("MICA_SECONDS");
  const double x = text ? strtod(text, NULL) : 0;
  return x > 0 && x < 3600 ? x : unless;
}

struct mica_options cli_options(const struct cli *c)
{
  struct mica_options o = mica_options_default();
  o.target = c->target, o.dtype = c->dtype;
  o.max_block_ops = c->max_block_ops, o.max_kernel_ops = c->max_kernel_ops, o.max_part_ops = c->max_part_ops;
  o.max_values = c->max_values;
  o.threads = c->threads, o.search_threads = c->search_threads, o.measure = c->measure, o.tune = c->tune, o.seed = c->seed, o.off = c->off;
  o.accept = c->accept, o.reference = c->reference, o.prepare = c->prepare, o.f32_products = c->f32_products;
  o.remember = !c->no_db, o.fresh = c->fresh, o.disturbed = c->disturbed, o.db = c->db;
  o.time = c->time, o.seconds = measured_seconds(o.seconds), o.stop = cli_stop;
  return o;
}

// The names of the files of --out; if machine code is missing, the reason.
static void saved(struct cli *c)
{
  bool gpu = !strncmp(c->target, "sm_", 3);
  printf("\nin %s: program.mica, graph.mica, graph.json, %s, kernel.h, report.txt, report.json, report.html, " FOLDER_SUMS "\n", c->out,
         gpu ? "kernel.cu, README.md, program.json, *.tile, *.cubin" : "kernel.c, kernel.so, program.json");
  if (!gpu) return;
  json_t *program = json_load_file(arena_printf(&c->mem, "%s/program.json", c->out), 0, NULL);
  const char *missing = json_string_value(json_object_get(program, "missing"));
  if (missing) printf("no *.cubin: %s\n", missing);
  json_decref(program);
}

static int page(struct cli *c, struct mica_context *m, const struct mica_report *r)
{
  const char *html;
  int status = mica_report_html(m, r, &html);
  if (status != OK) return terminal_error(mica_error(m)), status;
  return output_write(c->html, html, strlen(html), &c->err);
}

// The report's text contains it; without the text it is printed separately.
static void warn(const struct mica_report *r)
{
  json_t *report = json_loads(mica_report_json(r), 0, NULL);
  const char *warning = json_string_value(json_object_get(report, "warning"));
  if (warning) fprintf(stderr, "warning: %s\n", warning);
  json_decref(report);
}

static int show(struct cli *c, struct mica_context *m, const struct mica_report *r)
{
  if (output_wants_text(c)) {
    fputs(mica_report_text(r), stdout);
    if (mica_report_recalled(r)) printf("\nrecalled from the database; --fresh searches and measures again\n");
  } else
    warn(r);
  if (c->json) TRY(output_write(c->json, mica_report_json(r), strlen(mica_report_json(r)), &c->err));
  if (c->html) TRY(page(c, m, r));
  if (!c->out) return OK;
  int status = mica_report_save(m, r, c->out);
  if (status != OK) return terminal_error(mica_error(m)), status;
  if (output_wants_text(c)) saved(c);
  return OK;
}

// A model has many programs.
static int model(struct cli *c, const struct mica_options *o)
{
  if (!o->dump && !o->stop_after && !o->keep_dropped && !o->candidate && !o->trace) return cli_import_onnx(c, c->args[0], true);
  err_set(&c->err, ERR_OPTION, NOWHERE, "the passes of a model's programs are looked at one program at a time");
  return err_hint(&c->err, "`mica import %.200s --out DIR` writes the programs", c->args[0]), USER;
}

int cmd_optimize(struct cli *c)
{
  struct mica_options o = cli_options(c);
  struct mica_program *p;
  struct mica_report *r = NULL;
  struct progress line;
  end_by(c->time);
  progress_open(&line, c, NULL);
  TRY(watch_options(c, &line, &o));
  if (cli_is_onnx(c->args[0])) return model(c, &o);
  if (c->out) TRY(folder_check(&c->mem, c->out, &c->err)); // before the work, which an invalid folder must not waste
  if (c->json) TRY(output_check(c->json, &c->err));
  if (c->html) TRY(output_check(c->html, &c->err));
  struct mica_context *m = mica_open();
  o.progress = progress_show, o.progress_arg = &line;
  int status = mica_load(m, c->args[0], c->nset, c->set, &p);
  if (status == OK) status = mica_optimize(m, p, &o, &r);
  progress_clear(&line);
  if (status != OK) terminal_error(mica_error(m));
  if (r) {
    const int compared = c->peers ? cli_peers(c, m, r) : OK;
    const int shown = compared == OK ? show(c, m, r) : compared;
    if (status == OK) status = shown;
  }
  mica_close(m);
  return status;
}
