// GPUs as targets: capacities and typical rates from a row, or from a device's own data. A row is enough for everything but
// measuring.
#include "target/target_gpu.h"

#include <string.h>

#define KIB(n) ((int64_t)(n) << 10)
#define MIB(n) ((int64_t)(n) << 20)
#define GIB(n) ((int64_t)(n) << 30)
static const struct target rows[] = {
#define GPU(name_, doc, ...) {.kind = TARGET_GPU, .name = name_, __VA_ARGS__},
#include "target/gpu.def"
#undef GPU
};
static const char *const docs[] = {
#define GPU(name, doc, ...) doc,
#include "target/gpu.def"
#undef GPU
};

int target_gpus(void) { return COUNT(rows); }
const struct target *target_gpu_at(int i) { return &rows[i]; }
const char *gpu_doc(int i) { return docs[i]; }

const struct target *target_gpu(int arch)
{
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].arch == arch) return &rows[i];
  return NULL;
}

enum { FITTED = 90 }; // compute capability of the device on which the model of kernels was fitted

static struct target whole(const struct target *row)
{
  struct target t = *row;
  t.runs_on = t.arch, t.l1 = t.shared_processor;
  if (t.vector_rate <= 0) t.vector_rate = (double)t.cores * t.lanes * t.clock;
  if (t.exp_rate <= 0) t.exp_rate = (double)t.cores * t.special * t.clock;
  if (t.lane_rate <= 0) t.lane_rate = t.lanes * t.clock;
  if (t.special_rate <= 0) t.special_rate = t.special * t.clock;
  if (t.shared_rate <= 0) t.shared_rate = t.shared_width * t.clock;
  if (t.mma_share <= 0) t.mma_share = t.mma / target_gpu(FITTED)->mma;
  return t;
}

struct target gpu_target(int i) { return whole(&rows[i]); }

bool target_code_runs(const struct target *row, int arch)
{
  const bool only = row->name[strlen(row->name) - 1] == 'a';
  return row->arch == arch || (!only && row->arch / 10 == arch / 10 && row->arch % 10 < arch % 10);
}

const struct target *target_for_device(int arch)
{
  const struct target *found = target_gpu(arch);
  for (size_t i = 0; i < COUNT(rows) && (!found || found->arch != arch); i++)
    if (target_code_runs(&rows[i], arch) && (!found || found->arch % 10 < rows[i].arch % 10)) found = &rows[i];
  return found;
}

bool target_own(struct target *t, const struct target_facts *f)
{
  const struct target *row = target_for_device(f->arch);
  if (t->kind != TARGET_GPU || !row || row->arch != t->arch || f->processors <= 0) return false;
  double more = (double)f->processors / t->cores;
  snprintf(t->device, sizeof t->device, "%s", f->device);
  t->cores = f->processors;
  if (f->shared > 0) t->scratch = f->shared;
  if (f->shared_processor > 0) t->shared_processor = f->shared_processor;
  if (f->l2 > 0) t->l2 = f->l2;
  if (f->memory > 0) t->memory = f->memory;
  t->flops *= more, t->vector_rate *= more, t->exp_rate *= more;
  return true;
}

static int no_row(const struct target_facts *f, struct err *e)
{
  struct str all = {0};
  for (size_t i = 0; i < COUNT(rows); i++) str_add(&all, i ? ", %s" : "%s", rows[i].name);
  err_set(e, ERR_TARGET, NOWHERE, "there is no target for this machine's %.80s: its compute capability is %d.%d", f->device, f->arch / 10,
          f->arch % 10);
  err_hint(e, "targets of GPUs are: %s", str_text(&all));
  return str_free(&all), (int)e->status;
}

static int cannot_run(const struct target *t, const struct target *device, const struct target_facts *f, struct err *e)
{
  struct str lacks = {0}, fits = {0};
  capability_text(t->can & ~device->can, &lacks);
  for (size_t i = 0; i < COUNT(rows); i++)
    if (!(rows[i].can & ~device->can)) str_add(&fits, fits.n ? ", %s" : "%s", rows[i].name);
  err_set(e, ERR_TARGET, NOWHERE, "kernels for %s cannot run on this machine's %.80s: compute capability %d.%d has no %s", t->name, f->device,
          f->arch / 10, f->arch % 10, str_text(&lacks));
  err_hint(e, "it runs kernels for %s; `mica search` and `mica lower` make kernels for any target without measuring them", str_text(&fits));
  return str_free(&lacks), str_free(&fits), (int)e->status;
}

int target_fit(struct target *t, const struct target_facts *f, struct err *e)
{
  if (t->kind != TARGET_GPU || target_own(t, f)) return OK;
  const struct target *device = target_for_device(f->arch);
  if (!device) return no_row(f, e);
  if (t->can & ~device->can) return cannot_run(t, device, f, e);
  struct target like = whole(device);
  if (!target_own(&like, f)) return OK;
  like.scratch = MIN(like.scratch, t->scratch), like.shared_processor = MIN(like.shared_processor, t->shared_processor);
  like.registers = MIN(like.registers, t->registers), like.l1 = MIN(like.l1, t->l1);
  like.threads = MIN(like.threads, t->threads), like.blocks = MIN(like.blocks, t->blocks), like.cluster = MIN(like.cluster, t->cluster);
  like.arch = t->arch, like.can = t->can, like.f32_products = t->f32_products;
  memcpy(like.name, t->name, sizeof like.name);
  return *t = like, OK;
}

int target_on(const struct target_facts *f, const char **name, struct err *e)
{
  const struct target *found = target_for_device(f->arch);
  return found ? (*name = found->name, OK) : no_row(f, e);
}
