// export: a device program as CUDA C++ that needs nothing of Mica: kernels, a host function that launches them, a header for C.
#ifndef MICA_CORE_EXPORT_H
#define MICA_CORE_EXPORT_H

#include "lower/lower.h"

struct exported { // texts
  struct str source, header, readme;
};
// `name`: an identifier; the host functions are name_run, name_prepare and name_workspace. To be freed after an error too.
int export_device(struct arena *mem, const struct device_program *d, const char *name, struct exported *out, struct err *e);
void export_free(struct exported *x);

#endif
