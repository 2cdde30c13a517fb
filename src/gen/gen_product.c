// Products at the kernel level: a call of OpenBLAS for each matrix of a batch, divided over threads. A matrix that few rows read is streamed, and one
// that is frozen is read packed.
#include "gen/emit.h"

static struct view temporary(struct kernel *k, enum dtype dtype, const struct shape *shape)
{
  int buf = space_add(k->space, dtype_bytes(dtype) * shape_size(shape), k->now);
  k->temps[k->ntemps] = buf;
  const char *name = arena_printf(k->mem, "w%d", k->ntemps++);
  return view_dense(dtype == F32 ? name : arena_printf(k->mem, "((%s *)(void *)%s)", c_type(dtype), name), buf, dtype, shape);
}

// Copies the operand unless it is fp32 with one of the last two dimensions contiguous, as BLAS requires.
static struct view readable(struct kernel *k, struct str *s, int i)
{
  struct view v = k->in[i].v;
  int n = v.shape.n;
  bool plain = v.stride[n - 1] == 1 || v.stride[n - 2] == 1;
  if (v.dtype == F32 && plain) return v;
  struct view t = temporary(k, F32, &v.shape);
  library_copy(k, s, &v, &t);
  return t;
}

struct library_side {
  const char *at;
  bool turned;
  int64_t ld;
};

static struct library_side side_of(struct kernel *k, const struct view *v, const struct shape *out)
{
  int n = v->shape.n;
  int64_t rows = v->shape.d[n - 2], cols = v->shape.d[n - 1];
  struct library_side r = {v->ptr, v->stride[n - 1] != 1 && cols > 1, 0};
  r.ld = r.turned ? MAX(v->stride[n - 1], rows) : MAX(v->stride[n - 2], cols);
  for (int i = 0; i < out->n - 2; i++) {
    int from = i - (out->n - n);
    if (from < 0 || v->shape.d[from] == 1) continue;
    r.at = arena_printf(k->mem, "%s + i%d * %lld", r.at, i, (long long)v->stride[from]);
  }
  return r;
}

static bool one_matrix(const struct view *v)
{
  for (int i = 0; i < v->shape.n - 2; i++)
    if (v->shape.d[i] != 1) return false;
  return true;
}

// Operations up to which each thread computes its own products. OpenBLAS uses several threads for a larger product.
static const double SMALL_PRODUCT = 1 << 24;

// A second operand with this number of elements streams from memory. Threads divide its columns into strips whose results stay in cache.
enum { STREAMED = 1 << 21, STRIP = 1024, STREAMED_ROWS = 4 };

static bool streams(const struct library_side *x, const struct library_side *y, int64_t m, int64_t n, int64_t k)
{
  return m <= STREAMED_ROWS && n >= STRIP && n * k >= STREAMED && !x->turned && !y->turned;
}

static void print_streamed(struct str *s, const struct library_side *x, const struct library_side *y, const struct library_side *z, int64_t m,
                           int64_t n, int64_t k)
{
  line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)");
  line(s, 1, "for (ptrdiff_t j = 0; j < %lld; j += %d)", (long long)n, STRIP);
  line(s, 2, "m_gemm_stream(%lld, (int)(%lld - j < %d ? %lld - j : %d), %lld, %s, %lld, %s + j, %lld, %s + j, %lld, 0);", (long long)m, (long long)n,
       STRIP, (long long)n, STRIP, (long long)k, x->at, (long long)x->ld, y->at, (long long)y->ld, z->at, (long long)z->ld);
}

// Products of few rows with a matrix of 16-bit numbers, which are widened in registers. Threads divide its columns.
static bool print_few(struct kernel *k, struct str *s)
{
  const struct view *x = &k->in[0].v, *b = &k->in[1].v, c = *k->out;
  const int n = b->shape.n, last = c.shape.n - 1;
  const int64_t m = shape_size(&c.shape) / c.shape.d[last], cols = c.shape.d[last], depth = b->shape.d[n - 2];
  const bool along = b->stride[n - 1] == 1, across = b->stride[n - 2] == 1;
  if (m > STREAMED_ROWS || m != c.shape.d[last - 1] || !is_half(b->dtype) || !one_matrix(b) || !(along || across)) return false;
  if (!along && x->dtype == F32 && x->stride[x->shape.n - 1] != 1) return false;
  const struct view a = readable(k, s, 0), out = c.dtype == F32 ? c : temporary(k, F32, &c.shape);
  const int row = a.shape.n - 2;
  const char *type = dtype_name(b->dtype);
  const long long ars = a.stride[row], acs = a.stride[row + 1], ldc = out.stride[last - 1], strip = along ? STRIP : STRIP / 8;
  line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)");
  line(s, 1, "for (ptrdiff_t j = 0; j < %lld; j += %lld) {", (long long)cols, strip);
  line(s, 2, "const int n = (int)(%lld - j < %lld ? %lld - j : %lld);", (long long)cols, strip, (long long)cols, strip);
  if (along)
    line(s, 2, "m_gemm_few_%s(%lld, n, %lld, %s, %lld, %lld, %s + j, %lld, %s + j, %lld, 0);", type, (long long)m, (long long)depth, a.ptr, ars, acs,
         b->ptr, (long long)b->stride[n - 2], out.ptr, ldc);
  else
    line(s, 2, "m_gemm_bt_%s(%lld, n, %lld, %s, %lld, %s + j * %lld, %lld, %s + j, %lld, 0);", type, (long long)m, (long long)depth, a.ptr, ars,
         b->ptr, (long long)b->stride[n - 1], (long long)b->stride[n - 1], out.ptr, ldc);
  line(s, 1, "}");
  if (c.dtype != F32) library_copy(k, s, &out, &c);
  return true;
}

// The order of the second operand of a library product, which several rows read. Words are multiplied by a first operand of bf16, too, and rows of
// words have an even number of elements.
static enum pack_order packs(const struct kernel *k, int64_t rows)
{
  const struct view *b = &k->in[1].v;
  if (!k->packing.frozen[1] || k->in[1].kind != PLACE_VIEW || !one_matrix(b)) return PACK_NONE;
  const enum pack_order order = pack_order(&k->packing, b, rows);
  return order == PACK_WORDS && (k->in[0].v.dtype != BF16 || b->shape.d[b->shape.n - 2] % 2) ? PACK_F32 : order;
}

// The first operand in bf16, with rows of words.
static struct view worded(struct kernel *k, struct str *s)
{
  const struct view v = k->in[0].v;
  bool words = v.dtype == BF16 && v.stride[v.shape.n - 1] == 1;
  for (int i = 0; i < v.shape.n - 1; i++) words &= v.shape.d[i] == 1 || v.stride[i] % 2 == 0;
  if (words) return v;
  const struct view t = temporary(k, BF16, &v.shape);
  library_copy(k, s, &v, &t);
  return t;
}

static void print_parts(struct str *s, const char *call)
{
  line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)");
  line(s, 1, "for (int i = 0; i < MICA_THREADS; i++)");
  line(s, 2, "%s, i, MICA_THREADS);", call);
}

struct product_size {
  int64_t m, n, k;
};

static void print_packed(struct kernel *k, struct str *s, const struct library_side *x, const struct library_side *z, struct product_size p)
{
  print_parts(s, arena_printf(k->mem, "m_gemm_blocks(%lld, %lld, %lld, %s, %lld, %d, packed0, %s, %lld, 0", (long long)p.m, (long long)p.n,
                              (long long)p.k, x->at, (long long)x->ld, x->turned, z->at, (long long)z->ld));
}

static void print_words(struct kernel *k, struct str *s, const struct library_side *x, const struct view *out, struct product_size p)
{
  print_parts(s, arena_printf(k->mem, "m_gemm_words_%s(%lld, %lld, %lld, %s, %lld, packed0, %s, %lld", dtype_name(out->dtype), (long long)p.m,
                              (long long)p.n, (long long)p.k, x->at, (long long)x->ld, out->ptr, (long long)MAX(out->stride[out->shape.n - 2], p.n)));
}

// A product with a packed second operand, if the rows of all matrices of the first and of the result are those of one matrix each.
static bool print_frozen(struct kernel *k, struct str *s)
{
  const struct view c = *k->out;
  const int n = c.shape.n;
  const struct product_size one = {c.shape.d[n - 2], c.shape.d[n - 1], k->in[0].v.shape.d[k->in[0].v.shape.n - 1]};
  const struct product_size all = {shape_size(&c.shape) / one.n, one.n, one.k};
  const enum pack_order order = packs(k, all.m);
  if (!order || k->in[0].kind != PLACE_VIEW) return false;
  if (all.m != one.m && !(view_is_dense(&k->in[0].v) && k->in[0].v.shape.n == n)) return false;
  const struct view a = order == PACK_WORDS ? worded(k, s) : readable(k, s, 0);
  const bool direct = c.dtype == F32 || (order == PACK_WORDS && is_half(c.dtype));
  const struct view out = direct ? c : temporary(k, F32, &c.shape);
  struct shape lead = out.shape;
  for (int i = 0; i < n - 2; i++) lead.d[i] = 1;
  struct library_side x = side_of(k, &a, &lead), z = side_of(k, &out, &lead);
  if (all.m != one.m) x.at = a.ptr, z.at = out.ptr;
  if (order == PACK_WORDS)
    print_words(k, s, &x, &out, all);
  else
    print_packed(k, s, &x, &z, all);
  if (!direct) library_copy(k, s, &out, &c);
  const struct view *b = &k->in[1].v;
  const int last = b->shape.n - 1;
  pack_add(k->mem, &k->packing,
           &(struct packed_operand){1, order, b->shape.d[last - 1], b->shape.d[last], b->stride[last - 1], b->stride[last], 0, {{0}}});
  return true;
}

void product_kernel(struct kernel *k, struct str *s)
{
  if (print_frozen(k, s) || print_few(k, s)) return;
  struct view a = readable(k, s, 0), b = readable(k, s, 1), c = *k->out;
  struct view out = c.dtype == F32 ? c : temporary(k, F32, &c.shape);
  int n = out.shape.n, depth = 1, loops = 0;
  int64_t m = out.shape.d[n - 2], batch = shape_size(&out.shape) / m / out.shape.d[n - 1];
  bool stacks = one_matrix(&b) && view_is_dense(&a) && a.shape.n == n; // all of a is the rows of one product
  struct shape lead = out.shape;
  for (int i = 0; i < n - 2; i++) loops += (lead.d[i] = stacks ? 1 : lead.d[i]) > 1;
  struct library_side x = side_of(k, &a, &lead), y = side_of(k, &b, &lead), z = side_of(k, &out, &lead);
  if (stacks) m *= batch, x.at = a.ptr, z.at = out.ptr;
  if (!loops && streams(&x, &y, m, out.shape.d[n - 1], a.shape.d[a.shape.n - 1])) {
    print_streamed(s, &x, &y, &z, m, out.shape.d[n - 1], a.shape.d[a.shape.n - 1]);
    if (c.dtype != F32) library_copy(k, s, &out, &c);
    return;
  }
  bool small = (double)m * (double)out.shape.d[n - 1] * (double)a.shape.d[a.shape.n - 1] < SMALL_PRODUCT;
  if (loops && small && batch >= k->threads) line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) collapse(%d) schedule(static)", loops);
  for (int i = 0; i < n - 2; i++)
    if (lead.d[i] > 1) line(s, depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)lead.d[i], i);
  line(s, depth, "cblas_sgemm(CblasRowMajor, %s, %s, %lld, %lld, %lld, 1, %s, %lld, %s, %lld, 0, %s, %lld);",
       x.turned ? "CblasTrans" : "CblasNoTrans", y.turned ? "CblasTrans" : "CblasNoTrans", (long long)m, (long long)out.shape.d[n - 1],
       (long long)a.shape.d[a.shape.n - 1], x.at, (long long)x.ld, y.at, (long long)y.ld, z.at, (long long)z.ld);
  if (c.dtype != F32) library_copy(k, s, &out, &c);
  k->blas = true;
}

// A product with a triangle of ones: running sums along each row, or over rows.
void scan_kernel(struct kernel *k, struct str *s, const struct scan *scan)
{
  struct view x = readable(k, s, scan->x), c = *k->out, out = c.dtype == F32 ? c : temporary(k, F32, &c.shape);
  const int n = out.shape.n;
  line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)%s", n == 2 ? "" : arena_printf(k->mem, " collapse(%d)", n - 1));
  scan_print(k->mem, s, 1, &x, &out, scan->along);
  if (c.dtype != F32) library_copy(k, s, &out, &c);
}
