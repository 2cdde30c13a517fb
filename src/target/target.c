// The table of targets.
#include "target/target.h"
#include "target/host.h"

#include <string.h>

static const struct {
  const char *name, *doc;
  int (*open)(int threads, bool quick, struct target *t, struct err *e);
} targets[] = {
#define TARGET(id, name, open, doc) {name, doc, open},
#include "target/target.def"
#undef TARGET
};

int target_count(void) { return COUNT(targets); }
const char *target_name(int i) { return targets[i].name; }
const char *target_doc(int i) { return targets[i].doc; }

int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e)
{
  char names[256] = "";
  for (size_t i = 0, n = 0; i < COUNT(targets); i++) {
    if (!strcmp(name, targets[i].name)) return targets[i].open(threads, quick, t, e);
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", targets[i].name);
  }
  int s = err_set(e, ERR_TARGET, NOWHERE, "there is no target %.40s", name);
  err_hint(e, "targets are: %s", names);
  return s;
}
