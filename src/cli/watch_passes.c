// mica optimize: prints the output of --dump and --stop-after, and opens the file of MICA_TRACE. The library makes the text.
#include "cli/cli.h"
#include "drive/pass.h"

#include <stdlib.h>
#include <string.h>

// Each result begins with a comment line.
static void told(void *arg, const char *pass, const char *title, const char *text)
{
  progress_clear(arg);
  if (!text)
    fprintf(stderr, "note: pass %s: %s\n", pass, title);
  else
    printf("%s %s\n%s%s", irs[passes[pass_find(pass, strlen(pass))].out].comment, title, text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void traced(void *arg, const char *line)
{
  progress_clear(arg);
  fprintf(stderr, "pass %s\n", line);
}

static int read_trace(struct cli *c, struct mica_options *o)
{
  const char *trace = getenv("MICA_TRACE");
  size_t n = trace ? strlen(trace) : 0;
  if (!n || !strcmp(trace, "0")) return OK;
  if (!strcmp(trace, "1")) return o->traced = traced, OK;
  if (n > 5 && !strcmp(trace + n - 5, ".json")) return o->trace = trace, output_check(trace, &c->err);
  err_set(&c->err, ERR_OPTION, NOWHERE, "MICA_TRACE is %.80s", trace);
  return err_hint(&c->err, "MICA_TRACE=1 prints a line a pass, MICA_TRACE=FILE.json writes a trace for ui.perfetto.dev"), USER;
}

int watch_options(struct cli *c, struct progress *line, struct mica_options *o)
{
  o->dump = c->dump, o->dump_dir = c->dump_dir, o->stop_after = c->stop_after, o->check_passes = c->check_passes;
  o->keep_dropped = c->keep_dropped, o->candidate = c->candidate, o->knobs = c->knobs;
  o->told = told, o->told_arg = line;
  bool prints = (o->dump || o->stop_after) && !o->dump_dir, taken = (c->json && !strcmp(c->json, "-")) || (c->html && !strcmp(c->html, "-"));
  if (prints && taken) {
    err_set(&c->err, ERR_OPTION, NOWHERE, "passes are printed to standard output, and so is the report");
    return err_hint(&c->err, "--dump-dir DIR writes files"), USER;
  }
  if (o->dump_dir && !o->dump && !o->stop_after) return err_set(&c->err, ERR_OPTION, NOWHERE, "--dump-dir is for --dump PASS or --stop-after PASS");
  if (o->knobs && !o->candidate) return err_set(&c->err, ERR_OPTION, NOWHERE, "--knobs is for the kernels of --candidate");
  if (o->dump_dir) TRY(output_folder(o->dump_dir, &c->err));
  if (o->keep_dropped) TRY(output_folder(o->keep_dropped, &c->err));
  return read_trace(c, o);
}

static const char *const scopes[] = {[OF_JOB] = "job", [OF_PART] = "subprogram", [OF_CANDIDATE] = "candidate", [OF_LEADER] = "leader"};
static const char *const targets[] = {[ON_CPU] = "cpu", [ON_GPU] = "gpu", [ON_ALL] = "all"};

void watch_list(FILE *f)
{
  fprintf(f, "The passes of `mica optimize`, in their order. Each runs once for the job, for each subprogram, for each candidate of\n"
             "a subprogram, or for each candidate that would take the lead of a race.\n\n");
  for (int i = 0; i < PASSES; i++) {
    const struct pass *p = &passes[i];
    fprintf(f, "  %-13s  %-10s  %-3s  %s -> %s\n      %s\n", p->name, scopes[p->scope], targets[p->targets], irs[p->in].name, irs[p->out].name,
            p->doc);
  }
}
