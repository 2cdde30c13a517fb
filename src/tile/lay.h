// lay: the layout algebra. A layout L = S:D is a function from coordinates, or from an index that enumerates them with the first mode fastest
// (colexicographic), to an offset: the dot product of coordinate and stride. Shapes and strides are congruent tuples of expressions (ex.h), so
// extents may be symbols. Each operation states its post-condition. If the condition cannot be shown to hold, the operation fails with the reason.
// The algebra follows CuTe's, as ../../docs/tile.md describes it.
//
// Strides are not negative. Beyond its domain a layout continues in the last leaf whose extent is not 1: 4:2 at 6 is 12, (2,2,1):(4,1,9) at 7 is 7.
//
//   lay.c          making, sizes, evaluation, text      lay_parse.c    reading
//   lay_algebra.c  coalesce, complement, divide, ...    lay_compose.c  composition
//   lay_tile.c     Graphene's tile and reshape          lay_table.c    a layout drawn as a table
#ifndef MICA_TILE_LAY_H
#define MICA_TILE_LAY_H

#include "tile/ex.h"

// A tuple in preorder: a node with `arity` >= 0 is a tuple with that many children; LEAF is an integer.
enum { LAY_LEAF = -1, LAY_DEPTH = 8, LAY_LEAVES = 64 }; // largest depth and number of leaves
struct lay_node {
  int arity;
  ex shape, stride; // of a leaf
};
struct lay {
  int n; // nodes; node[0] is the root. The layout of a scalar is the empty tuple
  const struct lay_node *node;
};
struct swizzle { // x ^ ((x & (((1 << bits) - 1) << (base + max(0, shift)))) >> shift)
  int bits, base, shift;
};

struct lay_ctx { // the memory of results, and the reason of a failure
  struct arena *mem;
  struct ex_pool *ex;
  const char *why; // reason of the last failure
};

struct lay lay_int(struct lay_ctx *c, ex shape, ex stride);              // s:d
struct lay lay_tuple(struct lay_ctx *c, int n, const struct lay *modes); // (m0, m1, ...)
struct lay lay_compact(struct lay_ctx *c, struct lay shape, bool row);   // the shape of `shape` with omitted strides
int lay_rank(struct lay l);                                              // modes of the root; a leaf has 1
struct lay lay_mode(struct lay l, int i);                                // shares memory with l
int lay_leaves(struct lay l, ex *shape, ex *stride, int max);            // in order; -1 if there are more than max
ex lay_size(struct lay_ctx *c, struct lay l);
ex lay_cosize(struct lay_ctx *c, struct lay l);       // 1 + sum (s - 1) * d
ex lay_at(struct lay_ctx *c, struct lay l, ex index); // L(index)
// L at one coordinate for each mode; a coordinate may be an index into a nested mode.
ex lay_at_coords(struct lay_ctx *c, struct lay l, int n, const ex *coord);
int64_t lay_call(const struct lay *l, int64_t index);           // for constants only: fast, for tests and tables
bool lay_equal(struct lay a, struct lay b);                     // same tree, same numbers
bool lay_congruent(struct lay a, struct lay b);                 // same tree
bool lay_injective(struct lay_ctx *c, struct lay l, bool *out); // constants only, size <= 65536
uint64_t swizzle_apply(struct swizzle s, uint64_t x);

// These return true and *out, or false and c->why. Post-conditions, for every index i of the result's domain:
bool lay_coalesce(struct lay_ctx *c, struct lay l, struct lay *out);                    // R(i) = L(i), fewest modes
bool lay_compose(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out);       // R(i) = A(B(i)), B's tree with finer leaves
bool lay_complement(struct lay_ctx *c, struct lay l, ex size, struct lay *out);         // see lay_algebra.c
bool lay_divide(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out);        // A o (B, complement(B, |A|))
bool lay_zipped_divide(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out); // ((tile), (rest)), b's modes by a's
bool lay_product(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out);
bool lay_right_inverse(struct lay_ctx *c, struct lay l, struct lay *out); // L(R(i)) = i
bool lay_left_inverse(struct lay_ctx *c, struct lay l, struct lay *out);  // R(L(i)) = i

// Graphene's tile: dividing a dimension N:D by t:s gives the tile (N:D) o (t:s) and the rest (N:D) o complement(t:s, N). `tiler` has one mode for
// each dimension of l; a mode of shape 0 means the whole dimension (`_`). Extents that do not divide are rounded up, and partial[d] then says that
// dimension d needs a predicate. Both results have l's rank. A tiler of more modes tiles a one-dimensional layout as one mode.
bool lay_tile(struct lay_ctx *c, struct lay l, struct lay tiler, struct lay *outer, struct lay *inner, bool *partial);
bool lay_reshape(struct lay_ctx *c, struct lay l, struct lay shape, struct lay *out); // L o shape; sizes agree

// Text: "4,(2,4):2,(1,8)" or "(4,(2,4)):(2,(1,8))"; strides may be omitted; [ ] around it are allowed. `name` makes symbols (NULL: none are allowed);
// it returns EX_C(-1) for an unknown one. lay_parse.c has the grammar.
bool lay_parse(struct lay_ctx *c, const char *text, bool row, ex (*name)(void *arg, const char *name), void *arg, struct lay *out);
void lay_text(const struct lay_ctx *c, struct lay l, struct str *out);
// Draws the first two modes as rows and columns, each cell L(i, j), as in docs/tile.md; constants only.
bool lay_table(struct lay_ctx *c, struct lay l, struct swizzle s, struct str *out);

#endif
