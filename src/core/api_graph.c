// include/mica.h: programs built. Not built yet.
#include "core/context.h"
static int later(void) { return USER; }
int mica_graph_open(struct mica_context *m, const char *name, struct mica_graph **g)
{
  (void)name, *g = NULL, m->err = (struct err){0};
  return err_set(&m->err, ERR_TARGET, NOWHERE, "graphs are not built yet"), context_finish(m, USER);
}
int mica_graph_input(struct mica_graph *g, const char *n, enum mica_dtype d, int k, const int64_t *s, int *t) { (void)g, (void)n, (void)d, (void)k, (void)s, (void)t; return later(); }
int mica_graph_op(struct mica_graph *g, const char *op, int n, const int *a, const char *x, int *t, int *c) { (void)g, (void)op, (void)n, (void)a, (void)x, (void)t, (void)c; return later(); }
int mica_graph_tensor(const struct mica_graph *g, int t, struct mica_tensor *i) { (void)g, (void)t, (void)i; return later(); }
int mica_graph_name(struct mica_graph *g, int t, const char *n) { (void)g, (void)t, (void)n; return later(); }
int mica_graph_output(struct mica_graph *g, int t) { (void)g, (void)t; return later(); }
int mica_graph_program(struct mica_graph *g, struct mica_program **p) { (void)g, (void)p; return later(); }
int mica_graph_block(struct mica_graph *g, int n, const int64_t *a, int l, const int64_t *b, struct mica_graph **o) { (void)g, (void)n, (void)a, (void)l, (void)b, (void)o; return later(); }
int mica_block_input(struct mica_graph *b, int t, const int *i, const int *f, int *o) { (void)b, (void)t, (void)i, (void)f, (void)o; return later(); }
int mica_block_output(struct mica_graph *b, int t, const int *o) { (void)b, (void)t, (void)o; return later(); }
int mica_block_end(struct mica_graph *b, int *t, int *c) { (void)b, (void)t, (void)c; return later(); }
