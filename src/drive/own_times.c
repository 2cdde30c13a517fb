// The time of each kernel of the result on a CPU, for the report. The result is compiled once more, with clock reads between its kernels. The ranked
// code was measured without them.
#include "drive/drive.h"

static const double SECONDS = 0.2;

static int time_kernels(struct job *j, int n, struct buffers *b, struct timing *t, struct err *e)
{
  struct str source = {0};
  struct gen_info info = {0};
  struct module *m = NULL;
  const struct patience until = clock_compiler(j);
  char id[64];
  gen_identifier(id, j->program->name ? j->program->name : "program");
  int status = gen_c_timed(j->best.g, id, &j->target, &source, &info, e);
  if (status == OK) status = module_build_with(str_text(&source), gen_flags(), id, &until, &m, e);
  if (status == OK) status = info.kernels == n ? measure_kernels(m, n, b, SECONDS, job_stop(j, STOP_WORK), j->gauge, t, e) : NO;
  module_close(m);
  return str_free(&source), status;
}

// Figures that cannot be measured are left out, since nothing depends on them.
void own_times(struct job *j, struct buffers *b)
{
  int n = j->best.info.kernels;
  struct timing *t = NEWS(j->mem, struct timing, n + 1);
  struct err e = {0};
  if (!j->best.measured || n < 1) return;
  if (n == 1) *t = j->best.timing;
  if (n == 1 || (!job_stopping(j) && time_kernels(j, n, b, t, &e) == OK)) j->own = t, j->nown = n;
}

json_t *own_times_json(const struct job *j)
{
  json_t *list = json_array();
  char id[64], name[80], why[96];
  gen_identifier(id, j->program->name ? j->program->name : "program");
  for (int i = 0; i < j->nown; i++) {
    snprintf(name, sizeof name, "%s_k%d", id, i);
    json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:s}", "name", name, "us", 1e6 * j->own[i].median, "p25", 1e6 * j->own[i].p25, "p75",
                                          1e6 * j->own[i].p75, "disturbed", disturbed_words(why, j->own[i].disturbed)));
  }
  return list;
}
