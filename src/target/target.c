// The table of targets: the host, then GPUs.
#include "target/target.h"
#include "target/gpu.h"
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

int target_count(void) { return HOSTS + gpu_count(); }
const char *target_name(int i) { return i < HOSTS ? hosts[i].name : gpu_row(i - HOSTS)->name; }
const char *target_doc(int i) { return i < HOSTS ? hosts[i].doc : gpu_doc(i - HOSTS); }

int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e)
{
  char names[256] = "";
  size_t n = 0;
  for (int i = 0; i < target_count(); i++) {
    if (!strcmp(name, target_name(i))) {
      if (i < HOSTS) return hosts[i].open(threads, quick, t, e);
      *t = *gpu_row(i - HOSTS);
      return OK;
    }
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", target_name(i));
  }
  int s = err_set(e, ERR_TARGET, NOWHERE, "there is no target %.40s", name);
  err_hint(e, "targets are: %s", names);
  return s;
}
