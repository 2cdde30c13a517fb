// layout: the operations on layouts that the public interface and `mica layout` share; each is a row of a table.
#ifndef MICA_API_LAYOUT_H
#define MICA_API_LAYOUT_H

#include "api/api.h"

struct layout_op {
  const char *name;
  int args; // number of layouts it takes
  bool (*run)(struct lay_ctx *c, const struct lay *arg, struct lay *out);
  const char *usage, *doc;
};
extern const struct layout_op layout_ops[];
extern const int layout_op_count;

struct mica_layout {
  struct mica_context *m;
  struct lay l;
  const char *text;
  ex size, cosize;
  bool constant;
};
// Return USER for a syntax error, NO if the operation is refused.
int layout_read(struct mica_context *m, const char *text, bool row, struct mica_layout **out);
int layout_run(struct mica_context *m, const struct layout_op *op, const struct mica_layout *const *arg, struct mica_layout **out);
int layout_tile(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *tiler, struct mica_layout **outer,
                struct mica_layout **inner, bool *partial); // one `partial` for each dimension of a
// *out: (a, b), a layout of two modes.
int layout_join(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
const struct layout_op *layout_op_find(const char *name);             // or NULL
void layout_name(struct mica_context *m, const char *name, ex value); // gives a name in layouts read later the value of a number

#endif
