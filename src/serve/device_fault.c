// Text of the records that the kernel's watchdog wrote. One record is reported: that of the earliest step and node. Producers of the pipeline are
// reported last, because they wait for their consumers.
#include "serve/serve_device.h"

static void what_of(const struct mega_plan *p, const struct device_fault *f, const struct megacuda_fault_row *row, char out[120])
{
  char name[80];
  int n = snprintf(out, 120, "%s", row->words);
  if (row->of == MEGACUDA_OF_TENSOR && f->which < (uint32_t)p->m->ntensors)
    snprintf(out + n, (size_t)(120 - n), "%.60s", p->m->tensor[f->which].name);
  if (row->of == MEGACUDA_OF_RANK) snprintf(out + n, (size_t)(120 - n), "%u", f->which);
  if (row->of != MEGACUDA_OF_EVENT || f->which >= (uint32_t)p->nevents) return;
  mega_node_name(p, p->event[f->which].node, name);
  snprintf(out + n, (size_t)(120 - n), "%u (%s of %s)", f->which, mega_signals[p->event[f->which].kind].name, name);
}

bool device_fault_text(const struct mega_plan *p, const struct device_fault *all, char out[SERVE_RECORD], bool *hung)
{
  char name[80] = "", what[120];
  int first = -1;
  for (int i = 0; i < 2 * p->m->workers; i++) {
    if (!all[i].taken) continue;
    uint64_t order = ((uint64_t)all[i].producer << 63) + (uint64_t)all[i].step * (uint64_t)p->nnodes + all[i].node;
    uint64_t best = first < 0 ? 0 : ((uint64_t)all[first].producer << 63) + (uint64_t)all[first].step * (uint64_t)p->nnodes + all[first].node;
    if (first < 0 || order < best) first = i;
  }
  if (first < 0) return false;
  const struct device_fault *f = &all[first];
  if (f->node < (uint32_t)p->nnodes) mega_node_name(p, (int)f->node, name);
  const struct megacuda_fault_row *row = &megacuda_faults[f->kind && f->kind < MEGACUDA_FAULTS ? f->kind : MEGACUDA_LATE_WORD];
  what_of(p, f, row, what);
  *hung = row->hung;
  snprintf(out, SERVE_RECORD, "worker %d (%s) in step %u at %s waited for %s: saw %d, wanted %d", first / 2, f->producer ? "producer" : "consumer",
           f->step, name, what, (int)f->seen, (int)f->wanted);
  return true;
}
