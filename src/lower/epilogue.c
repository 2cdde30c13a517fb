// Recognizes operations that the vendor's library can do on a product's result before storing it (cuda/epilogue.def). They must be all that the next
// kernel does: one elementwise expression of the result P, a matrix C and a vector,
//
//   act(alpha P + beta C + bias)
//
// The expression is read backwards from the saver. The normal form of the kernel, which must have no loops, gives the positions of elements. Each
// letter of its tiles and each axis of its grid is a digit of the index of an element of P, and the kernel must read each element exactly once.
// Digits along the product's columns, rows and batches then give the strides of each other tensor. A tensor without such strides is refused.
#include "lower/lower.h"

#include <string.h>

enum { DIGITS = MAX_LETTERS + GRID_AXES + 3 };

// ---- the expression ----

struct epilogue_form { // indices of iterators, -1: none
  const struct norm *n;
  int product_tensor; // of the kernel graph
  int p, other[2], nother;
  double alpha, factor[2];
};

static const struct node *maker(const struct norm *n, int tensor)
{
  int root = n->t[tensor].root;
  return &n->block->nodes[n->block->tensors[root].node];
}

static bool add_operand(struct epilogue_form *f, int iter, double factor)
{
  if (f->n->iter[iter].tensor == f->product_tensor) {
    if (f->p >= 0) return false;
    return f->p = iter, f->alpha = factor, true;
  }
  if (f->nother == 2) return false;
  return f->other[f->nother] = iter, f->factor[f->nother++] = factor, true;
}

static double scalar(const struct node *n) { return n->op == OP_MUL_SCALAR ? n->a.scalar : 1; }

// For operators that add: the factor of each argument, and the operator's constant.
static const struct {
  enum op op;
  double times[2];
} sums[] = {{OP_ADD, {1, 1}}, {OP_SUB, {1, -1}}, {OP_NEG, {-1, 0}}, {OP_MUL_SCALAR, {1, 0}}};

static bool add_sum(struct epilogue_form *f, int tensor, double factor)
{
  const struct node *n = maker(f->n, tensor);
  if (n->op == OP_ITER) return add_operand(f, f->n->iter_of[n->out], factor);
  for (size_t i = 0; i < COUNT(sums); i++) {
    bool fits = n->op == sums[i].op;
    for (int k = 0; k < n->nin && fits; k++) fits = add_sum(f, n->in[k], factor * scalar(n) * sums[i].times[k]);
    if (fits) return true;
    if (n->op == sums[i].op) return false;
  }
  return false;
}

static const enum op acts[EPILOGUES] = {
#define EPILOGUE(id, name, number, act, vectors, doc) [EPILOGUE_##id] = OP_##act,
#include "cuda/epilogue.def"
#undef EPILOGUE
};

enum op lower_epilogue_act(enum epilogue e) { return acts[e]; }

// Removes the activation, the last operator, from the tensor; SAVE if there is none.
static enum op strip_act(const struct norm *n, int *tensor)
{
  const struct node *last = maker(n, *tensor);
  for (int i = 0; i < EPILOGUES; i++)
    if (acts[i] == last->op) return *tensor = last->in[0], last->op;
  return OP_SAVE;
}

static bool find_row(enum op act, bool biased, struct blas_product *p)
{
  for (int i = 0; i < EPILOGUES; i++) {
    p->epilogue = (enum epilogue)i;
    if (acts[i] == act && blas_has(p, BLAS_BIAS) == biased) return true;
  }
  return false;
}

// ---- strides ----

enum { TENSORS = 4 };
struct epilogue_digit {
  int64_t extent, stride[TENSORS]; // of P, D, and the others
};
struct epilogue_digits {
  int n;
  struct epilogue_digit d[DIGITS];
};

static bool digits_of(const struct norm *n, const struct plan_access *const of[TENSORS], struct epilogue_digits *out)
{
  *out = (struct epilogue_digits){0};
  for (int i = 0; i < n->nletters + n->block->ngrid; i++) {
    bool letter = i < n->nletters;
    struct epilogue_digit d = {.extent = letter ? n->extent[i] : n->block->grid[i - n->nletters]};
    for (int t = 0; t < TENSORS && of[t]; t++) d.stride[t] = letter ? of[t]->stride[i] : of[t]->grid[i - n->nletters];
    if (d.extent == 1) continue;
    if (!d.stride[0] || !d.stride[1]) return false;
    out->d[out->n++] = d;
  }
  return true;
}

// Removes the digit with this stride in P from the list. If it has more than `most` values, only that part of it.
static bool take(struct epilogue_digits *l, int64_t stride, int64_t most, struct epilogue_digit *out)
{
  int i = 0;
  while (i < l->n && l->d[i].stride[0] != stride) i++;
  if (i == l->n) return false;
  *out = l->d[i];
  if (out->extent <= most) return l->d[i] = l->d[--l->n], true;
  if (out->extent % most) return false;
  l->d[i].extent /= most, out->extent = most;
  for (int t = 0; t < TENSORS; t++) l->d[i].stride[t] *= most;
  return true;
}

// The strides of all tensors along a dimension of P; 0 if its extent is 1.
static bool along(struct epilogue_digits *l, int64_t stride, int64_t extent, int64_t out[TENSORS])
{
  int64_t done = 1;
  memset(out, 0, sizeof *out * TENSORS);
  while (done < extent) {
    struct epilogue_digit d;
    if (!take(l, stride * done, extent / done, &d)) return false;
    for (int t = 0; t < TENSORS; t++)
      if (done == 1)
        out[t] = d.stride[t];
      else if (d.stride[t] != done * out[t])
        return false;
    done *= d.extent;
  }
  return done == extent;
}

// Strides along the three dimensions: batch, row, column.
static bool all_strides(const struct blas_product *p, const struct norm *n, const struct plan_access *const of[TENSORS], int64_t out[3][TENSORS])
{
  const int64_t extent[3] = {p->batch, p->m, p->n};
  struct epilogue_digits l;
  for (int t = 0; t < TENSORS && of[t]; t++)
    if (of[t]->offset) return false;
  if (!digits_of(n, of, &l)) return false;
  for (int d = 2; d >= 0; d--)
    if (!along(&l, p->stride[BLAS_D][d], extent[d], out[d])) return false;
  return !l.n;
}

// A dimension of one element has no stride. The library gets one that is valid.
static void put_strides(struct library_product *x, int operand, int64_t in[3][TENSORS], int tensor)
{
  struct blas_product *p = &x->p;
  int64_t *s = p->stride[operand];
  for (int d = 0; d < 3; d++) s[d] = in[d][tensor];
  if (p->n == 1) s[2] = 1;
  if (p->m == 1) s[1] = p->n * s[2];
}

// ---- the whole epilogue ----

static bool is_vector(const struct blas_product *p, int64_t s[3][TENSORS], int tensor)
{
  return (p->m > 1 && !s[1][tensor]) || (p->n > 1 && !s[2][tensor]);
}

static bool put_operand(const struct epilogue_form *f, int k, int64_t s[3][TENSORS], const enum dtype *store, struct library_product *out,
                        bool *biased)
{
  bool vector = is_vector(&out->p, s, 2 + k);
  int operand = vector ? BLAS_BIAS : BLAS_C;
  if (vector ? *biased || f->factor[k] != 1 : out->p.beta != 0) return false;
  if (vector)
    *biased = true;
  else
    out->p.beta = (float)f->factor[k];
  out->tensor[operand] = f->n->iter[f->other[k]].tensor;
  out->p.type[operand] = tile_type_of(store[out->tensor[operand]]);
  put_strides(out, operand, s, 2 + k);
  return true;
}

static bool refuse(char why[160], const char *reason) { return snprintf(why, 160, "%s", reason), false; }

bool product_ends(const struct library_product *x, const struct norm *n, const enum dtype *store, struct library_product *out, char why[160])
{
  struct epilogue_form f = {.n = n, .product_tensor = x->tensor[BLAS_D], .p = -1};
  const struct plan_access *of[TENSORS] = {NULL};
  int64_t s[3][TENSORS];
  bool biased = false;
  *out = *x;
  if (n->nsave != 1 || n->block->nloop) return refuse(why, "more than one result, or a loop");
  int sum = n->save->tile;
  enum op act = strip_act(n, &sum);
  if (!add_sum(&f, sum, 1) || f.p < 0 || f.alpha == 0) return refuse(why, "no sum of the product, a matrix and a vector");
  of[0] = &n->iter[f.p], of[1] = n->save;
  for (int k = 0; k < f.nother; k++) of[2 + k] = &n->iter[f.other[k]];
  if (!all_strides(&x->p, n, of, s)) return refuse(why, "elements go where no strides say");
  out->p.alpha = (float)f.alpha;
  out->tensor[BLAS_D] = n->save->tensor, out->p.type[BLAS_D] = tile_type_of(store[n->save->tensor]);
  put_strides(out, BLAS_D, s, 1);
  for (int k = 0; k < f.nother; k++)
    if (!put_operand(&f, k, s, store, out, &biased)) return refuse(why, "two matrices or two vectors, or a vector times a number");
  struct blas_arranged taken;
  if (!find_row(act, biased, &out->p)) return refuse(why, "there is no such epilogue");
  return blas_arrange(&out->p, &taken) || refuse(why, "a matrix or a vector of another type, or that lies otherwise than the result");
}

void product_text(const struct blas_product *p, struct str *out)
{
  bool plain = p->epilogue == EPILOGUE_SUM && !blas_has(p, BLAS_C) && p->alpha == 1;
  if (plain) return;
  str_add(out, ", %s of ", blas_epilogue_name(p->epilogue));
  if (p->alpha != 1) str_add(out, "%g times ", (double)p->alpha);
  str_add(out, "A B");
  if (blas_has(p, BLAS_C) && p->beta == 1)
    str_add(out, " + C");
  else if (blas_has(p, BLAS_C))
    str_add(out, " + %g C", (double)p->beta);
  if (blas_has(p, BLAS_BIAS)) str_add(out, " + bias");
}

void launch_body_text(const struct launch *l, struct str *out)
{
  if (l->text) {
    str_add(out, "%s", l->text);
    return;
  }
  if (l->meet.ranks) {
    str_add(out, "// %s over %d ranks, %lld bytes of each\n", meeting_name(l->meet.how), l->meet.ranks, (long long)meeting_bytes(&l->meet));
    return;
  }
  str_add(out, "// product, %lld times %lld x %lld x %lld", (long long)l->mul.batch, (long long)l->mul.m, (long long)l->mul.n, (long long)l->mul.k);
  product_text(&l->mul, out);
  str_add(out, "\n");
}
