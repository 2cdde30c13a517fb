// wrap: private header of legal, for library operators as block graphs (wrap.c).
#ifndef MICA_LEGAL_WRAP_H
#define MICA_LEGAL_WRAP_H

#include "legal/rewrite.h"
#include "plan/letters.h"

struct wrapping {
  struct graph *to;
  struct err *e;
};

struct wrap_cut { // grid axes that divide the result
  int n;
  int dim[MAX_GRID];
  int64_t parts[MAX_GRID];
};

// wrap_cut.c
enum { WRAP_TILE = 4096 };                              // elements of a tile
int64_t wrap_equal_parts(int64_t extent, int64_t most); // the least number of equal parts of at most `most` elements
void wrap_add_axis(struct wrap_cut *c, int dim, int64_t parts);
// Grid axes that divide the shape into tiles. A tile already has `inside` elements. v: NULL, or a view with these extents.
struct wrap_cut wrap_cut_of(const struct shape *s, const struct kview *v, int64_t inside, int64_t tile);
// The same for n tensors that are broadcast to the shape, with axes that have strides in all of them if their extents permit.
struct wrap_cut wrap_cut_with(const struct wrapping *w, const struct shape *s, int n, const int *in, int64_t inside, int64_t tile);
// The same for rows: no axis divides dimension dim of x.
struct wrap_cut wrap_cut_of_rows(const struct wrapping *w, int dim, int x);
// Whether each axis has a stride in tensor t, broadcast to the divided shape of this rank.
bool wrap_cut_fits(const struct wrapping *w, const struct wrap_cut *c, int rank, int t);

// wrap_kernel.c: kernels of one operator.
struct wrap_block { // a block graph under construction
  struct wrapping *w;
  struct block_making b;
  struct wrap_cut cut;
  int rank; // of the divided shape
};
struct wrap_block wrap_begin(struct wrapping *w, int rank, struct wrap_cut c, int64_t loop);
int wrap_load(struct wrap_block *x, int t, int loop_dim); // the tile of tensor t, broadcast to the divided shape; a view without strides is copied
int wrap_load_all(struct wrap_block *x, int t);           // the whole tensor
int wrap_end(struct wrap_block *x, int n, int t, struct loc at, int *out); // saves n tiles, with numbers from t on
const struct node *wrap_constant(const struct graph *g, int t);            // the node of a constant, or NULL
int wrap_copied(struct wrapping *w, int t, int *out);
int wrap_map(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out);
int wrap_reduce(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out);
int wrap_chosen(struct wrapping *w, const struct node *n, const int *in, int *out);
int wrap_by_index(struct wrapping *w, const struct node *n, const int *in, int *out);
int wrap_index_of(struct wrapping *w, int rank, int64_t n, struct loc at, int *out); // indices of a first dimension of n; the others have one element

// wrap_concat.c
int wrap_concat(struct wrapping *w, const struct node *n, const int *in, const struct shape *whole, int *out);

// wrap_scan.c: a product with a triangle of ones.
int wrap_scan(struct wrapping *w, const struct node *n, const int *in, const struct scan *s, const int *index, int *out);

// wrap.c
int wrap_view(struct wrapping *w, const struct node *n, int x, int *out);

#endif
