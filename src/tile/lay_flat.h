// lay_flat: a layout as the ordered list of its leaves, for the algebra (lay_algebra.c, lay_compose.c).
#ifndef MICA_TILE_LAY_FLAT_H
#define MICA_TILE_LAY_FLAT_H

#include "tile/lay.h"

struct flat {
  int n;
  ex s[LAY_LEAVES], d[LAY_LEAVES];
};
bool flat_of(struct lay_ctx *c, struct lay l, struct flat *f); // fails for more than LAY_LEAVES leaves
bool flat_add(struct lay_ctx *c, struct flat *f, ex s, ex d);  // the same
struct lay flat_lay(struct lay_ctx *c, const struct flat *f);  // 1:0, a leaf, or a tuple of leaves
void flat_coalesce(struct lay_ctx *c, struct flat *f);
bool lay_constant(struct lay l);
bool lay_refuse(struct lay_ctx *c, const char *fmt, ...) PRINTF(2, 3); // sets c->why; returns false
bool lay_kept(struct lay_ctx *c);                                      // fails if the pool has overflowed
const char *lay_say(struct lay_ctx *c, ex x);                          // text of an expression, for error messages
const char *lay_show(struct lay_ctx *c, struct lay l);                 // text of a layout

// The complement, and the unit in which its last mode counts: the complement is exact if the unit divides size.
bool lay_complement_unit(struct lay_ctx *c, struct lay l, ex size, struct lay *out, ex *unit);

#endif
