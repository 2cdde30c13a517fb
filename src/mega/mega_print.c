// Prints models as text, which mega_parse.c reads. With a plan, prints its versions and derived events too.
#include "mega/mega.h"

#include <string.h>

// Whether readers of the tensor publish an event for its next writer. A stated number of versions rules that out.
static bool reused(const struct mega_plan *p, int tensor)
{
  for (int i = 0; i < p->nevents; i++)
    if (p->event[i].reuse && p->event[i].tensor == tensor) return true;
  return false;
}

static void print_tensor(const struct mega_model *m, const struct mega_plan *p, int i, struct str *out)
{
  const struct mega_tensor *t = &m->tensor[i];
  int versions = p && t->kind == MEGA_ACTIVATION && !reused(p, i) ? p->held[i].versions : t->versions;
  str_add(out, "  %s: %s[", t->name, mega_types[t->type].name);
  for (int d = 0; d < t->rank; d++) str_add(out, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
  str_add(out, "] %s", mega_kinds[t->kind].name);
  if (versions) str_add(out, " versions %d", versions);
  if (t->shared) str_add(out, " shared");
  if (t->shard.n) str_add(out, " split %d", t->shard.dim);
  for (int s = 0; s < t->shard.n && t->shard.n > 1; s++) str_add(out, "%s%lld", s ? ", " : " by ", (long long)t->shard.size[s]);
  if (t->like) str_add(out, " like %s", m->tensor[t->like - 1].name);
  str_add(out, "\n");
}

static void print_args(const struct mega_model *m, const struct mega_op *op, bool writes, struct str *out)
{
  const char *between = writes ? "    writes " : "    reads ";
  for (int a = 0; a < op->spec.nargs; a++) {
    if (op->spec.writes[a] != writes) continue;
    str_add(out, "%s%s", between, m->tensor[op->arg[a]].name);
    between = ", ";
  }
  str_add(out, "\n");
}

static void print_attrs(const struct mega_op *op, struct str *out)
{
  const char *between = "    with ";
  for (int a = 0; a < MEGA_ATTR_COUNT; a++) {
    char number[32];
    if (!(op->spec.attrs >> a & 1) || op->attr[a] == 0) continue;
    str_double(number, op->attr[a]);
    str_add(out, "%s%s = %s", between, mega_attr_names[a], number);
    between = ", ";
  }
  if (*between == ',') str_add(out, "\n");
}

// One line for each operator that this operator waits for: its distance in layers and steps, and the kind of event. Waits of reuse and of pipelines
// depend on the schedule and are not printed.
static void print_after(const struct mega_plan *p, int op, struct str *out)
{
  struct str lines = {0};
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    const struct mega_op *from = mega_op_of(p, ev->node);
    char line[160];
    if (p->node[x->node].op != op || x->stream || ev->reuse) continue;
    int n = snprintf(line, sizeof line, "    after %.60s", from->name), layers = p->node[x->node].layer - p->node[ev->node].layer;
    if (from->repeat && p->m->op[op].repeat && layers) n += snprintf(line + n, sizeof line - (size_t)n, "[-%d]", layers);
    if (x->back) n += snprintf(line + n, sizeof line - (size_t)n, " step -%d", x->back);
    snprintf(line + n, sizeof line - (size_t)n, " %s\n", mega_signals[ev->kind].name);
    if (!strstr(str_text(&lines), line)) str_add(&lines, "%s", line);
  }
  str_add(out, "%s", str_text(&lines));
  str_free(&lines);
}

void mega_print(const struct mega_model *m, const struct mega_plan *p, struct str *out)
{
  str_add(out, "mega %s(rows = %d, context = %lld) {\n", m->name, m->rows, (long long)m->context);
  str_add(out, "  workers %d\n  pipeline %d x %d\n", m->workers, m->stages, m->stage_bytes);
  if (m->world > 1) str_add(out, "  world %d\n", m->world);
  for (int i = 0; i < m->ntensors; i++) print_tensor(m, p, i, out);
  for (int o = 0; o < m->nops; o++) {
    const struct mega_op *op = &m->op[o];
    str_add(out, "  operator %s", op->name);
    if (op->repeat) str_add(out, "[%d]", op->repeat);
    str_add(out, " {\n    layer %s\n", op->layer->name);
    print_args(m, op, false, out), print_args(m, op, true, out);
    str_add(out, "    tiles %d\n", op->tiles);
    print_attrs(op, out);
    if (p) print_after(p, o, out);
    str_add(out, "  }\n");
  }
  str_add(out, "}\n");
}
