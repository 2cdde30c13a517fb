// lay_flat: a layout as the list of its leaves, in order, which is what the algebra (lay_algebra.c, lay_compose.c) works on.
#ifndef MICA_TILE_LAY_FLAT_H
#define MICA_TILE_LAY_FLAT_H

#include "tile/lay.h"

struct flat {
  int n;
  ex s[LAY_LEAVES], d[LAY_LEAVES];
};
bool flat_of(struct lay_ctx *c, struct lay l, struct flat *f); // refuses more than LAY_LEAVES
bool flat_add(struct lay_ctx *c, struct flat *f, ex s, ex d);  // the same
struct lay flat_lay(struct lay_ctx *c, const struct flat *f);  // 1:0, a leaf, or a tuple of leaves
void flat_coalesce(struct lay_ctx *c, struct flat *f);
bool lay_constant(struct lay l);
bool lay_refuse(struct lay_ctx *c, const char *fmt, ...) PRINTF(2, 3); // false
bool lay_kept(struct lay_ctx *c);                                      // refuses where the pool has overflowed
const char *lay_say(struct lay_ctx *c, ex x);                          // text of a number, for a refusal
const char *lay_show(struct lay_ctx *c, struct lay l);                 // of a layout

// complement, and what the last of its modes counts in: the complement is exact where that divides size.
bool lay_complement_unit(struct lay_ctx *c, struct lay l, ex size, struct lay *out, ex *unit);

#endif
