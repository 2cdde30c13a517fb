// The list of targets: the host, then GPUs.
#include "target/target.h"
#include "target/target_gpu.h"
#include "target/host.h"

#include <string.h>

static const struct {
  const char *name, *doc;
  int (*open)(int threads, bool quick, struct target *t, struct err *e);
} hosts[] = {
#define TARGET(id, name, open, doc) {name, doc, open},
#include "target/target.def"
#undef TARGET
};
enum { HOSTS = COUNT(hosts) };

int target_count(void) { return HOSTS + target_gpus(); }
const char *target_name(int i) { return i < HOSTS ? hosts[i].name : target_gpu_at(i - HOSTS)->name; }
const char *target_doc(int i) { return i < HOSTS ? hosts[i].doc : gpu_doc(i - HOSTS); }

int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e)
{
  for (int i = 0; i < target_count(); i++) {
    if (!strcmp(name, target_name(i))) {
      if (i < HOSTS) return hosts[i].open(threads, quick, t, e);
      *t = gpu_target(i - HOSTS);
      return OK;
    }
  }
  int s = err_set(e, ERR_TARGET, NOWHERE, "there is no target %.40s", name);
  err_hint(e, "`mica targets` lists them; cpu is this machine");
  return s;
}
