// The watchdog's records of the kernel, as words. Of all that waited, the earliest node; a pipeline waits for its consumers.
#include "serve/serve_device.h"

enum { LATE_EVENT = 1, LATE_WORD, LATE_STAGE, LATE_RANK, REWRITTEN, BAD_TOKEN, BAD_CHOICE }; // fault_kind of mega_device.cuh

static void what_of(const struct mega_plan *p, const struct device_fault *f, char out[120])
{
  char name[80] = "";
  const char *tensor = f->which < (uint32_t)p->m->ntensors ? p->m->tensor[f->which].name : "";
  if (f->kind == LATE_EVENT && f->which < (uint32_t)p->nevents) {
    mega_node_name(p, p->event[f->which].node, name);
    snprintf(out, 120, "event %u (%s of %s)", f->which, mega_signals[p->event[f->which].kind].name, name);
  } else if (f->kind == LATE_STAGE)
    snprintf(out, 120, "a stage");
  else if (f->kind == LATE_RANK)
    snprintf(out, 120, "rank %u", f->which);
  else if (f->kind == BAD_TOKEN)
    snprintf(out, 120, "a token of the table");
  else if (f->kind == BAD_CHOICE)
    snprintf(out, 120, "a choice of experts");
  else
    snprintf(out, 120, "%s word of %.60s", f->kind == REWRITTEN ? "a newer" : "a", tensor);
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
  what_of(p, f, what);
  *hung = f->kind <= LATE_RANK;
  snprintf(out, SERVE_RECORD, "worker %d (%s) in step %u at %s waited for %s: saw %d, wanted %d", first / 2, f->producer ? "producer" : "consumer",
           f->step, name, what, (int)f->seen, (int)f->wanted);
  return true;
}
