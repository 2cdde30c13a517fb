// The scheme of block graphs without products: reductions, scans and elementwise operators over tiles in registers. rows.h explains it.
// kernels/softmax.tile and kernels/layernorm.tile are kernels of this form.
#include "lower/rows.h"

#include <string.h>

enum {
  rules = KERN_BIT(RUNNING) | KERN_BIT(SCAN) | KERN_BIT(RSQRT) | KERN_BIT(MOMENTS) | KERN_BIT(RECIPROCAL) | KERN_BIT(EXP2) | KERN_BIT(CONSTANTS) |
          KERN_BIT(SELECT)
};

// The reason why the scheme does not support the value; NULL: it does.
static const char *refusal(const struct kern_value *v)
{
  if (v->kind == KERN_PRODUCT) return "a product";
  if (kern_has(v, KERN_RUNS)) return "depends on how a running maximum moves";
  return v->kind == KERN_MAP && v->op < OPS && !emit_has_pointwise((enum op)v->op) ? "no elementwise operator of tiles" : NULL;
}

int rows_values(const struct lower_job *j, struct kern *out, char why[160])
{
  if (lower_values(j, rules, out, why)) return NO;
  for (int i = 0; i < out->nvalues; i++) {
    const struct kern_value *v = &out->v[i];
    const char *reason = v->live ? refusal(v) : NULL;
    if (reason) return snprintf(why, 160, "%s: %s", op_rows[j->n->block->nodes[v->about - 1].op].name, reason), NO;
  }
  return OK;
}

int rows_make(const struct lower_job *j, struct rows *out, char why[160])
{
  memset(out, 0, sizeof *out);
  if (rows_values(j, &out->k, why)) return NO;
  kern_join_axes(&out->k);
  kern_rewrite(&out->k, KERN_BIT(MOMENTS) & ~j->off); // joining axes may have made two loads of a row equal
  return rows_ready(j, out), out->alone = true, OK;
}

static int choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  struct rows r;
  if (rows_make(j, &r, why)) return 0;
  int n = rows_choices(&r, most, out);
  if (!n) snprintf(why, 160, "no places for its elements: folds over several axes that do not fit into registers");
  return n;
}

static const void *plan(const struct lower_job *j, const struct knobs *k, char why[160])
{
  struct rows *r = NEW(j->mem, struct rows);
  struct row_plan *p = NEW(j->mem, struct row_plan);
  return rows_make(j, r, why) == OK && rows_plan(j->mem, r, k, p) ? p : NULL;
}

static bool count(const void *plan, struct kernel_counts *out) { return rows_count(plan, out); }
static void emit(const void *plan, struct text t, struct lower_out *out) { rows_text(plan, t, out); }

// A kernel without a previous kernel has nothing to do before a wait.
static void settle(const struct lower_job *j, struct knobs *k)
{
  if (!j->dependent) k->v[KNOB_AHEAD] = k->v[KNOB_HOLD] = 0;
}

const struct scheme scheme_rows = {
    .name = "rows",
    .doc = "sums, maxima and elementwise operators, tiles in registers",
    .apart = "a loop is an axis like others, so sections and rings are those of its knobs",
    .knob = {"vec", "across", "down", "join", "regs", "deep", "stream", "late", "ahead", "hold", "cluster", "stack"},
    .named = KNOB_CLUSTER,
    .rules = rules,
    .joins = true,
    .chooses = true,
    .by_rows = true,
    .choices = choices,
    .plan = plan,
    .count = count,
    .emit = emit,
    .settle = settle,
};
