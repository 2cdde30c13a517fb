// Matrix products and epilogues in the terms of cuBLASLt.
//
// The library is column-major. A row-major D = A B is the column-major product D' = B' A': operands are exchanged, and so
// are rows and columns. A matrix that is contiguous along the other dimension is `transposed`. C has the storage order of
// D. A bias runs along the library's rows, that is, along the columns of a row-major D.
#include "cuda/cuda.h"

#include <string.h>

static const struct {
  const char *name, *doc;
  int number, vectors;
} epilogues[] = {
#define EPILOGUE(id, name, number, act, vectors, doc) {name, doc, number, vectors},
#include "cuda/epilogue.def"
#undef EPILOGUE
};

const char *blas_epilogue_name(enum epilogue e) { return epilogues[e].name; }
const char *blas_epilogue_doc(enum epilogue e) { return epilogues[e].doc; }
int blas_epilogue_number(enum epilogue e) { return epilogues[e].number; }

bool blas_epilogue_find(const char *name, enum epilogue *out)
{
  for (int i = 0; i < EPILOGUES; i++)
    if (!strcmp(epilogues[i].name, name)) return *out = (enum epilogue)i, true;
  return false;
}

bool blas_has(const struct blas_product *p, int operand)
{
  return operand == BLAS_C ? p->beta != 0 : operand == BLAS_BIAS ? epilogues[p->epilogue].vectors > 0 : true;
}

int blas_index(const struct blas_product *p, int operand)
{
  int n = 0;
  for (int i = 0; i < operand; i++) n += blas_has(p, i);
  return blas_has(p, operand) ? n : -1;
}

int blas_operands(const struct blas_product *p)
{
  int n = 0;
  for (int i = 0; i < BLAS_OPERANDS; i++) n += blas_has(p, i);
  return n;
}

bool blas_same(const struct blas_product *p, const struct blas_product *q)
{
  bool same = p->batch == q->batch && p->m == q->m && p->n == q->n && p->k == q->k && p->epilogue == q->epilogue && p->alpha == q->alpha &&
              p->beta == q->beta;
  for (int i = 0; i < BLAS_OPERANDS && same; i++)
    same = !blas_has(p, i) || (p->type[i] == q->type[i] && !memcmp(p->stride[i], q->stride[i], sizeof p->stride[i]));
  return same;
}

// ---- in the library's terms ----

// Describes a rows x cols matrix with these strides. A row-major one is described as its transpose, which is column-major.
static bool place_as(bool by_rows, int64_t rows, int64_t cols, const int64_t *stride, struct blas_matrix *out)
{
  int inner = by_rows ? 2 : 1;
  out->batch = stride[0], out->transposed = !by_rows;
  out->rows = by_rows ? cols : rows, out->cols = by_rows ? rows : cols;
  out->ld = out->cols == 1 ? out->rows : stride[3 - inner];
  return (out->rows == 1 || stride[inner] == 1) && out->ld >= out->rows;
}

// The same in the storage order that the strides have. False if neither stride is 1.
static bool place(int64_t rows, int64_t cols, const int64_t *stride, struct blas_matrix *out)
{
  bool row_major = cols == 1 || stride[2] == 1, col_major = rows == 1 || stride[1] == 1;
  bool by_rows = row_major && (rows == 1 || stride[1] >= cols || !col_major);
  return place_as(by_rows, rows, cols, stride, out);
}

bool blas_multiplies(enum tile_type t) { return num_floats(&tile_types[t]) && (tile_types[t].bits == 16 || t == TT_F32); }

static bool types_fit(const struct blas_product *p)
{
  const enum tile_type *t = p->type;
  return t[BLAS_A] == t[BLAS_B] && blas_multiplies(t[BLAS_A]) && (t[BLAS_D] == t[BLAS_A] || t[BLAS_D] == TT_F32) &&
         (!blas_has(p, BLAS_C) || t[BLAS_C] == t[BLAS_D]) && (!blas_has(p, BLAS_BIAS) || t[BLAS_BIAS] == t[BLAS_D]);
}

static bool bias_fits(const struct blas_product *p, bool by_rows)
{
  const int64_t *s = p->stride[BLAS_BIAS], along = by_rows ? p->n : p->m, across = by_rows ? p->m : p->n;
  return (along == 1 || s[by_rows ? 2 : 1] == 1) && (across == 1 || !s[by_rows ? 1 : 2]);
}

static bool place_all(const struct blas_product *p, struct blas_matrix *a, struct blas_matrix *b, struct blas_matrix *d)
{
  return p->batch >= 1 && p->batch <= INT32_MAX && place(p->m, p->k, p->stride[BLAS_A], a) && place(p->k, p->n, p->stride[BLAS_B], b) &&
         place(p->m, p->n, p->stride[BLAS_D], d);
}

bool blas_places(const struct blas_product *p)
{
  struct blas_matrix a, b, d;
  return place_all(p, &a, &b, &d);
}

// A row-major D takes the exchanged product, a column-major D the product as written.
bool blas_arrange(const struct blas_product *p, struct blas_arranged *out)
{
  struct blas_matrix a, b, c, d;
  if (!types_fit(p) || !place_all(p, &a, &b, &d)) return false;
  bool by_rows = !d.transposed;
  c = d;
  if (blas_has(p, BLAS_C) && !place_as(by_rows, p->m, p->n, p->stride[BLAS_C], &c)) return false;
  if (blas_has(p, BLAS_BIAS) && !bias_fits(p, by_rows)) return false;
  if (!by_rows) a.transposed = !a.transposed, b.transposed = !b.transposed;
  a.type = b.type = p->type[BLAS_A], c.type = d.type = p->type[BLAS_D];
  *out = (struct blas_arranged){{by_rows ? b : a, by_rows ? a : b, d, c}, by_rows};
  return true;
}
