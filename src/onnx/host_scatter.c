// Operators that write elements at indices: ScatterElements, ScatterND, TensorScatter; and GatherND, which reads them.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

enum how { PUT, ADD_TO, TIMES, MOST, LEAST };

static bool how_of(struct onnx_host *h, enum how *how)
{
  static const char *const names[] = {"none", "add", "mul", "max", "min"};
  const char *said = onnx_attr_text(h->n, "reduction", "none");
  for (int i = 0; i < (int)COUNT(names); i++)
    if (!strcmp(said, names[i])) return *how = (enum how)i, true;
  return host_fail(h, "its reduction is not known"), false;
}

static void join(struct onnx_cells *y, int64_t i, const struct onnx_cells *x, int64_t k, enum how how)
{
  if (how == PUT) {
    y->i[i] = x->i[k];
  } else if (onnx_type_kind(y->type) == REAL) {
    double a = y->f[i], b = x->f[k];
    y->f[i] = how == ADD_TO ? a + b : how == TIMES ? a * b : how == MOST ? (isnan(a) || a > b ? a : b) : (isnan(a) || a < b ? a : b);
  } else {
    uint64_t a = (uint64_t)y->i[i], b = (uint64_t)x->i[k];
    y->i[i] = how == ADD_TO ? (int64_t)(a + b) : how == TIMES ? (int64_t)(a * b) : how == MOST ? MAX(y->i[i], x->i[k]) : MIN(y->i[i], x->i[k]);
  }
}

static bool index_ok(struct onnx_host *h, int64_t *i, int64_t d)
{
  if (*i < 0) *i += d;
  if (*i < 0 || *i >= d) host_fail(h, "index %lld of an extent of %lld", (long long)*i, (long long)d);
  return !h->failed;
}

static struct onnx_cells *copied(struct onnx_host *h, const struct onnx_cells *a)
{
  struct onnx_cells *y = host_out(h, 0, a->type, &a->shape);
  if (!h->failed && y->p) memcpy(y->p, a->p, 8 * (size_t)onnx_elements(&a->shape));
  return y;
}

void host_scatter_elements(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1), *x = host_in(h, 2);
  int64_t own[MAX_DIMS], place[MAX_DIMS];
  enum how how;
  int axis;
  if (!host_whole(h, 1) || !how_of(h, &how) || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  bool fits = at->shape.n == a->shape.n && shape_eq(&at->shape, &x->shape) && a->type == x->type;
  for (int d = 0; d < a->shape.n && fits; d++) fits = d == axis || at->shape.d[d] <= a->shape.d[d];
  if (!fits) return host_fail(h, "its indices and updates do not fit");
  struct onnx_cells *y = copied(h, a);
  host_strides(&a->shape, own);
  for (int64_t k = 0, n = onnx_elements(&at->shape); k < n && !h->failed && y->p; k++) {
    int64_t to = 0;
    host_place(&at->shape, k, place);
    place[axis] = at->i[k];
    if (!index_ok(h, &place[axis], a->shape.d[axis])) return;
    for (int d = 0; d < a->shape.n; d++) to += place[d] * own[d];
    join(y, to, x, k, how);
  }
}

// Start of the region that row k of indices selects, in a tensor whose dimensions from `first` on are indexed.
static bool corner(struct onnx_host *h, const struct onnx_cells *at, int64_t k, const struct shape *s, int first, int64_t *start)
{
  int64_t own[MAX_DIMS], depth = at->shape.d[at->shape.n - 1];
  host_strides(s, own);
  for (int64_t d = 0; d < depth; d++) {
    int64_t i = at->i[k * depth + d];
    if (!index_ok(h, &i, s->d[first + d])) return false;
    *start += i * own[first + d];
  }
  return true;
}

void host_scatter_nd(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1), *x = host_in(h, 2);
  enum how how;
  if (!host_whole(h, 1) || !how_of(h, &how)) return;
  if (at->shape.n < 1 || at->shape.d[at->shape.n - 1] > a->shape.n || a->type != x->type) return host_fail(h, "its indices do not fit");
  int depth = (int)at->shape.d[at->shape.n - 1], rank = at->shape.n - 1 + a->shape.n - depth;
  struct shape want = {.n = rank};
  if (rank > MAX_DIMS) return host_fail(h, "it takes %d dimensions", rank);
  for (int i = 0; i < rank; i++) want.d[i] = i < at->shape.n - 1 ? at->shape.d[i] : a->shape.d[depth + i - (at->shape.n - 1)];
  if (!shape_eq(&want, &x->shape)) return host_fail(h, "its updates do not fit");
  struct onnx_cells *y = copied(h, a);
  int64_t box = 1, rows = 1;
  for (int i = 0; i < at->shape.n - 1; i++) rows *= at->shape.d[i];
  for (int i = depth; i < a->shape.n; i++) box *= a->shape.d[i];
  for (int64_t k = 0; k < rows && box && !h->failed && y->p; k++) {
    int64_t to = 0;
    if (!corner(h, at, k, &a->shape, 0, &to)) return;
    for (int64_t i = 0; i < box; i++) join(y, to + i, x, k * box + i, how);
  }
}

void host_gather_nd(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1);
  int64_t shared = onnx_attr_int(h->n, "batch_dims", 0), rows = 1, box = 1, batch = 1, each = 1;
  if (!host_whole(h, 1)) return;
  int64_t depth = at->shape.n ? at->shape.d[at->shape.n - 1] : 0;
  bool fits = at->shape.n > 0 && shared >= 0 && shared < MIN(at->shape.n, a->shape.n) && depth >= 1 && depth + shared <= a->shape.n;
  for (int i = 0; i < shared && fits; i++) fits = at->shape.d[i] == a->shape.d[i];
  if (!fits) return host_fail(h, "its indices do not fit");
  struct shape s = {0};
  if (at->shape.n - 1 + a->shape.n - depth - shared > MAX_DIMS) return host_fail(h, "it makes too many dimensions");
  for (int i = 0; i < at->shape.n - 1; i++) s.d[s.n++] = at->shape.d[i], rows *= at->shape.d[i];
  for (int i = (int)(shared + depth); i < a->shape.n; i++) s.d[s.n++] = a->shape.d[i], box *= a->shape.d[i];
  for (int i = 0; i < shared; i++) batch *= a->shape.d[i];
  for (int i = (int)shared; i < a->shape.n; i++) each *= a->shape.d[i];
  struct onnx_cells *y = host_out(h, 0, a->type, &s);
  for (int64_t k = 0; k < rows && batch && box && !h->failed && y->p; k++) {
    int64_t from = k / (rows / batch) * each;
    if (!corner(h, at, k, &a->shape, (int)shared, &from)) return;
    memcpy(y->i + k * box, a->i + from, 8 * (size_t)box);
  }
}

// Writes new rows of a cache at each batch's position. Beyond the end they are an error, or wrap around.
void host_tensor_scatter(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *x = host_in(h, 1), *at = host_has(h, 2) ? h->in[2] : NULL;
  const char *mode = onnx_attr_text(h->n, "mode", "linear");
  bool around = !strcmp(mode, "circular");
  int axis;
  if (!around && strcmp(mode, "linear")) return host_fail(h, "its mode is neither linear nor circular");
  if (!host_whole(h, 2) || !host_axis(h, onnx_attr_int(h->n, "axis", -2), a->shape.n, &axis)) return;
  bool fits = axis > 0 && a->type == x->type && x->shape.n == a->shape.n && x->shape.d[axis] <= a->shape.d[axis];
  for (int d = 0; d < a->shape.n && fits; d++) fits = d == axis || a->shape.d[d] == x->shape.d[d];
  if (!fits || (at && onnx_elements(&at->shape) != a->shape.d[0])) return host_fail(h, "its update does not fit");
  struct onnx_cells *y = copied(h, a);
  struct host_lanes from = host_lanes(&x->shape, axis), to = host_lanes(&a->shape, axis);
  for (int64_t lane = 0; lane < from.n && !h->failed && y->p; lane++) {
    int64_t start = at ? at->i[lane / (from.n / a->shape.d[0])] : 0;
    if (start < 0 || start > to.d || (!around && start > to.d - from.d)) return host_fail(h, "it would write from %lld on", (long long)start);
    for (int64_t k = 0; k < from.d; k++) y->i[host_lane(&to, lane) + (start + k) % to.d * to.step] = x->i[host_lane(&from, lane) + k * from.step];
  }
}
