// GPUs as targets: capacities and typical rates of an architecture's row, or of a device whose facts are known. A row
// is enough for everything but measuring.
#include "target/gpu.h"

#include <string.h>

enum { REGISTERS = 65536 };

static const struct target rows[] = {
#define GPU(name_, device_, arch_, processors, block, processor, l2_, memory_, copy, l2_rate, tensor, vector, exponential, launch_, doc) \
  {.kind = TARGET_GPU,                                                                                                                   \
   .name = name_,                                                                                                                        \
   .device = device_,                                                                                                                    \
   .arch = arch_,                                                                                                                        \
   .runs_on = arch_,                                                                                                                     \
   .cores = processors,                                                                                                                  \
   .lanes = (arch_) == 80 ? 64 : 128,                                                                                                    \
   .l1 = processor * 1024,                                                                                                               \
   .l2 = (int64_t)l2_ << 20,                                                                                                             \
   .scratch = block * 1024,                                                                                                              \
   .shared_processor = processor * 1024,                                                                                                 \
   .registers = REGISTERS,                                                                                                               \
   .memory = (int64_t)memory_ << 30,                                                                                                     \
   .bandwidth = copy * 1e9,                                                                                                              \
   .cache_bandwidth = l2_rate * 1e9,                                                                                                     \
   .flops = tensor * 1e12,                                                                                                               \
   .vector_rate = vector * 1e12,                                                                                                         \
   .exp_rate = exponential * 1e12,                                                                                                       \
   .launch = launch_ * 1e-6},
#include "target/gpu.def"
#undef GPU
};
static const char *const docs[] = {
#define GPU(name, device, arch, processors, block, processor, l2, memory, copy, l2_rate, tensor, vector, exponential, launch, doc) doc,
#include "target/gpu.def"
#undef GPU
};

int gpu_count(void) { return COUNT(rows); }
const struct target *gpu_row(int i) { return &rows[i]; }
const char *gpu_doc(int i) { return docs[i]; }

bool target_own(struct target *t, const struct target_facts *f)
{
  if (t->kind != TARGET_GPU || f->arch != t->arch || f->processors <= 0) return false;
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

// A newer device with the older architecture's row, where it has none of its own: as many times its multiprocessors.
static struct target row_of(const struct target *t, int arch)
{
  struct target like = *t;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].arch == arch) like = rows[i];
  return like.arch = arch, like;
}

static int cannot_run(const struct target *t, const struct target_facts *f, struct err *e)
{
  bool older = f->arch < t->arch;
  err_set(e, ERR_TARGET, NOWHERE, "kernels for %s cannot run on this machine's %.80s: its compute capability, %d.%d, is %s", t->name, f->device,
          f->arch / 10, f->arch % 10, older ? "older" : "newer, and only sm_90 itself has all of their instructions");
  err_hint(e, "choose a target that %s; `mica search` and `mica lower` make kernels for any target without measuring them",
           older ? "is no newer than the GPU" : "is older than sm_90");
  return (int)e->status;
}

// The name of an architecture that has instructions which no later one has ends in an a.
int target_fit(struct target *t, const struct target_facts *f, struct err *e)
{
  if (t->kind != TARGET_GPU || target_own(t, f)) return OK;
  if (f->arch < t->arch || t->name[strlen(t->name) - 1] == 'a') return cannot_run(t, f, e);
  struct target like = row_of(t, f->arch);
  if (!target_own(&like, f)) return OK;
  like.scratch = MIN(like.scratch, t->scratch), like.shared_processor = MIN(like.shared_processor, t->shared_processor);
  like.registers = MIN(like.registers, t->registers), like.l1 = MIN(like.l1, t->l1);
  like.arch = t->arch, like.runs_on = f->arch;
  memcpy(like.name, t->name, sizeof like.name);
  return *t = like, OK;
}

// Its own row's name, else that of the newest older architecture whose instructions all later ones have.
int target_on(const struct target_facts *f, const char **name, struct err *e)
{
  const struct target *found = NULL;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const bool own = rows[i].arch == f->arch, only = rows[i].name[strlen(rows[i].name) - 1] == 'a';
    if (own || (!only && rows[i].arch < f->arch && (!found || rows[i].arch > found->arch))) found = &rows[i];
    if (own) break;
  }
  if (found) return *name = found->name, OK;
  err_set(e, ERR_TARGET, NOWHERE, "there is no target for this machine's %.80s: its compute capability is %d.%d", f->device, f->arch / 10,
          f->arch % 10);
  return err_hint(e, "targets begin with %s, of compute capability %d.%d", rows[0].name, rows[0].arch / 10, rows[0].arch % 10), (int)e->status;
}
