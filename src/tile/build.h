// build: shared declarations of the builder's files.
#ifndef MICA_TILE_BUILD_H
#define MICA_TILE_BUILD_H

#include "tile/tile.h"

#define build_error(b, ...) err_set((b)->e, ERR_TILE, (b)->at, __VA_ARGS__)
enum build_list { LIST_BUFFERS, LIST_VIEWS, LIST_GROUPS, LIST_STMTS, LIST_SPECS };

// ---- stmt.c ----
// Appends a statement to the innermost open block. Returns its number, or -1 with the error set.
int stmt_add(struct builder *b, enum stmt_kind kind);
bool in_body(const struct builder *b); // inside the kernel's spec

// ---- levels.c: levels of layouts and an offset, which tensors of data and of threads share ----
struct levels {
  int n;
  struct lay level[TILE_LEVELS];
};
int levels_check(struct builder *b, int n, const struct lay *level);
// Tiles the innermost level. whole[d]: dimension d is not yet divided, so its last tile may be partial; partial[d] says that it is.
int levels_tile(struct builder *b, struct levels *l, struct lay tiler, const bool *whole, bool *partial);
int levels_reshape(struct builder *b, struct levels *l, int depth, struct lay shape);
int levels_index(struct builder *b, struct levels *l, int n, const ex *index, ex *offset); // adds to *offset
ex levels_size(struct builder *b, const struct levels *l);
const char *levels_text(struct builder *b, const struct levels *l);

#endif
