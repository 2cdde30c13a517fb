// include/mica.h: programs that run. Not built yet.
#include "core/context.h"
static int later(struct mica_context *m, struct mica_module **o)
{
  *o = NULL, m->err = (struct err){0};
  return err_set(&m->err, ERR_TARGET, NOWHERE, "modules are not built yet"), context_finish(m, USER);
}
int mica_module_of(struct mica_context *m, const struct mica_report *r, struct mica_module **o) { (void)r; return later(m, o); }
int mica_module_load(struct mica_context *m, const char *f, struct mica_module **o) { (void)f; return later(m, o); }
void mica_module_close(struct mica_module *x) { (void)x; }
const char *mica_module_name(const struct mica_module *x) { (void)x; return ""; }
const char *mica_module_target(const struct mica_module *x) { (void)x; return ""; }
int mica_module_inputs(const struct mica_module *x) { (void)x; return 0; }
int mica_module_outputs(const struct mica_module *x) { (void)x; return 0; }
struct mica_tensor mica_module_input(const struct mica_module *x, int i) { (void)x, (void)i; return (struct mica_tensor){.name = ""}; }
struct mica_tensor mica_module_output(const struct mica_module *x, int i) { (void)x, (void)i; return (struct mica_tensor){.name = ""}; }
int64_t mica_module_workspace(const struct mica_module *x) { (void)x; return 0; }
int mica_module_prepare(struct mica_module *x, void *w, void *s) { (void)x, (void)w, (void)s; return USER; }
int mica_module_call(struct mica_module *x, const void *const *i, void *const *o, void *w, void *s) { (void)x, (void)i, (void)o, (void)w, (void)s; return USER; }
