// The comparing kernel, generated for the types of programs, and the evaluation of its sums.
#include "gpu/compare.h"
#include "base/trace.h"
#include "gpu/plain.h"

#include <math.h>
#include <string.h>

extern const char gpu_compare_head_text[], gpu_compare_text[];

static const int64_t WORTH = 1 << 18, MOST = INT64_C(1) << 29; // elements of all outputs: with fewer the CPU is as fast; more need too much memory

const char *compare_source(struct arena *mem)
{
  struct str s = {0};
  plain_without_includes(&s, gpu_compare_head_text);
  str_add(&s, "#define COMPARE_THREADS %d\nstatic double compare_number(const void *x, int64_t i, int64_t type)\n{\n", COMPARE_THREADS);
  for (int t = 0; t < DTYPES; t++) {
    const struct num_row *r = &num_rows[t];
    if (num_floats(r))
      str_add(&s, "  if (type == %d) return (double)mica_float_from(((const uint%d_t *)x)[i], %d, %d, %d);\n", t, r->bits, r->exponent, r->mantissa,
              r->special);
  }
  str_add(&s, "  return 0;\n}\n");
  plain_without_includes(&s, gpu_compare_text);
  return str_keep(mem, &s);
}

static const struct code *compiled(struct arena *mem, struct gpu_forge *f, struct db *db, const struct patience *until, int arch)
{
  struct code *c = NEW(mem, struct code);
  struct compile_result result = {0};
  struct compile_stats stats;
  struct err e = {0};
  *c = (struct code){.nkernel = 1, .kernel = NEW(mem, struct code_kernel)};
  *c->kernel = (struct code_kernel){.name = "compare", .source = compare_source(mem), .cluster = 1};
  return gpu_forge_codes(mem, f, db, until, arch, 1, c, &result, &stats, &e) == OK && result.status == OK ? c : NULL;
}

struct compare_plan *compare_plan(struct arena *mem, const struct problem *p, struct gpu_forge *f, struct db *db, const struct patience *until,
                                  int arch)
{
  struct compare_plan *c = NEW(mem, struct compare_plan);
  int64_t all = 0;
  *c = (struct compare_plan){.nout = p->b->nout, .out = NEWS(mem, struct compare_output, p->b->nout + 1)};
  for (int i = 0; i < c->nout; i++) {
    const struct tensor *t = &p->g->tensors[p->outs[i]];
    const int64_t n = shape_size(&t->shape);
    if (!num_floats(&num_rows[t->dtype])) return NULL;
    c->out[i] = (struct compare_output){n, t->dtype, sqrt(p->norm[i] / (double)MAX(n, 1)), p->r.value[p->outs[i]]};
    all += n;
  }
  if (all < WORTH || all > MOST) return NULL;
  struct span s;
  span_begin(&s, "stage", "kernel that compares");
  c->code = compiled(mem, f, db, until, arch);
  return span_end(&s), c->code ? c : NULL;
}
