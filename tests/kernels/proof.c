#include "proof.h"

#include "../thin.h"
#include "sim/against.h"
#include "drive/drive.h"
#include "sim/tile_host.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int open_kernel(struct arena *mem, struct tile_words *w, struct tile_host *h, struct err *e)
{
  char *text;
  size_t n;
  struct tile_program *p;
  TRY(file_read(mem, w->path, &text, &n, e));
  TRY(tile_parse_set(mem, w->path, text, w->nset, w->set, &p, e));
  TRY(tile_lower(p, p->kernels[0], p->kernels[0]->arch, e));
  TRY(tile_host_open(h, mem, p, p->kernels[0], w->nset, w->set, e));
  return tile_host_fill(h, 1, w->nfills, w->fills, e);
}

static int compare(const struct against *a, const struct tile_host *h, struct str *said)
{
  int status = OK;
  for (int i = 0; i < a->noutputs; i++) {
    struct against_answer r;
    against_compare(a, i, h->data[a->output[i]], &r);
    if (r.elements > 0 && r.fine && !r.flat && r.zeros < r.elements * 9 / 10) continue;
    against_text(&r, said);
    status = NO;
  }
  return a->noutputs > 0 ? status : NO;
}

static int row(struct arena *mem, const struct proof *r, struct against *a, struct str *said, struct err *e)
{
  struct tile_words w;
  struct tile_host h;
  struct graph *g;
  struct sim_report report;
  TRY(tile_host_words(mem, r->kernel, &w, e));
  TRY(open_kernel(mem, &w, &h, e));
  TRY(against_program(mem, r->program, &g, e));
  TRY(against_open(a, mem, g, h.p, h.k, h.params, h.data, e));
  TRY(tile_host_run(&h, &report, NULL, e));
  if (report.found) sim_print_errors(&report, said);
  int status = compare(a, &h, said);
  return report.found || !report.blocks ? NO : status;
}

void prove(const struct proof *rows, int n)
{
  int failed = 0;
  for (int i = 0; i < n; i += thinned(2)) {
    struct arena mem = {0};
    struct err e = {0};
    struct str said = {0};
    struct against a = {0};
    int status = row(&mem, &rows[i], &a, &said, &e);
    if (status != OK) print_error("%s against %s\n%s%s", rows[i].kernel, rows[i].program, str_text(&said), status > NO ? "" : "\n");
    if (status > NO) err_print(stderr, &e);
    failed += status != OK;
    against_close(&a);
    str_free(&said);
    arena_close(&mem);
  }
  if (failed) fail_msg("%d of %d rows", failed, n);
}
