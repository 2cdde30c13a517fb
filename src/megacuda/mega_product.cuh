// Products with weights. A block's warps divide k, or the columns if k is short. The sums of a batch of tiles are combined in shared memory, and one
// warp finishes them. mega_matrix.cuh multiplies bf16 weights; this file multiplies other types.

enum finish { PLAIN_SUM, NORMED, ADDED, GATED };

// One element of a tensor of any layout.
template <class R> DEV float element_of(moment j, int row, int e)
{
  using T = typename R::tensor;
  u32 epoch = T::TAGGED || T::VERSIONS > 1 ? epoch_of<R>(j) : 0;
  if constexpr (!T::TAGGED) return untagged_at<T>(epoch, row, e);
  uint4 v = await(words_of<T>(epoch, row) + word_at<T>(e), epoch + 1, j, T::ID);
  int c = e - first_of<T>(word_at<T>(e));
  return bits_float(c == 0 ? v.x : c == 1 ? v.y : v.z);
}

template <class X> DEV float norm_factor(moment j, int row, float eps)
{
  float sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS; i++) sum += S.square[S.node[j.n].turn][row][i];
  return inverse_sqrt(sum / X::tensor::ROW + eps);
}

// Division of a piece [slices][columns][k] between a block's threads: ALONG threads divide k, and groups of so many divide the columns.
template <class W> struct division {
  typedef pack<typename W::tensor::type> line;
  static constexpr int along = W::ALONG, groups = THREADS / along, parts = W::MATRIX ? WARPS : along / 32;
  static constexpr int columns = W::SLICES * W::COLUMNS, each = (columns + groups - 1) / groups;
  static constexpr int sums = W::TILE_ROWS * columns * parts, fit = PART_FLOATS / sums; // sums of a tile; tiles that fit
  static constexpr int batch = fit < 8 ? fit : 8;                                       // tiles finished together
  static constexpr int reduced = each > 16 ? 32 : each > 8 ? 16 : each > 4 ? 8 : each > 2 ? 4 : each > 1 ? 2 : 1;
  static_assert(batch > 0 && (W::MATRIX || each <= 32), "a thread sums at most 32 columns");
};

// Loads the input of a product scaled by the gain of the norm, and adds up the squares for the norm's factor.
template <class X, class G> struct plain_input {
  template <class W> static DEV void load_row(moment j, int r)
  {
    constexpr int K = X::tensor::ROW;
    float square = 0;
    gather<X, G, K>(j, r, 0, K, [&](int e, float v, float g) { store_input<W>(r, e, v * g), square += v * v; });
    if (!W::MATRIX && TID < 8) input_row<W>(r)[K + TID] = 0;
    if constexpr (!std::is_same<G, no_gain>::value) {
#pragma unroll
      for (int m = 16; m; m /= 2) square += shuffle_xor(square, m);
      if (LANE == 0) S.square[S.node[j.n].turn][r][WARP] = square;
    }
  }
  template <class W> static DEV void load(moment j)
  {
#pragma unroll 1
    for (int r = 0; r < ROWS; r++) load_row<W>(j, r);
    sync_consumers();
    ready(j);
  }
};

// For i < HALF, acc[i] becomes the sum of acc[i] of two lanes or, in lanes with that bit set, of acc[i + HALF].
template <int HALF, int N> DEV void halve(float (&acc)[N], int lane)
{
  bool upper = lane & HALF;
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    float give = upper ? acc[i] : acc[i + HALF], stay = upper ? acc[i + HALF] : acc[i];
    acc[i] = stay + shuffle_xor(give, HALF);
  }
  if constexpr (HALF > 1) halve<HALF / 2>(acc, lane);
}

template <class W> DEV void dot_line(const char *line, const float *x, float &acc)
{
  typedef pack<typename W::tensor::type> p;
  float w[p::N];
  p::open(*(const uint4 *)line, w);
#pragma unroll
  for (int i = 0; i < p::N; i++) acc = fmaf(w[i], x[i], acc);
}

// Multiplies one piece: `width` of k from `from` on, `columns` columns per slice.
template <class W>
DEV void dot_piece(const char *stage, int from, int width, int columns, float (&acc)[W::TILE_ROWS][division<W>::reduced], int tid)
{
  typedef division<W> d;
  constexpr int N = d::line::N;
  int lane = tid % d::along, group = tid / d::along;
  int pitch = (width + N - 1) / N * 16;
#pragma unroll 1
  for (int c = lane; c * N < width; c += d::along) {
    float x[W::TILE_ROWS][N];
#pragma unroll
    for (int r = 0; r < W::TILE_ROWS; r++)
#pragma unroll
      for (int i = 0; i < N; i++) x[r][i] = input_row<W>(r)[from + c * N + i];
#pragma unroll
    for (int i = 0; i < d::each; i++) {
      int at = group * d::each + i, slice = at / W::COLUMNS, column = at % W::COLUMNS;
      if (slice >= W::SLICES || column >= columns) continue;
      const char *line = stage + (slice * columns + column) * pitch + c * 16;
#pragma unroll
      for (int r = 0; r < W::TILE_ROWS; r++) dot_line<W>(line, x[r], acc[r][i]);
    }
  }
}

// Multiplies all pieces of a tile, and stores its sums in `part`: [warp along k][row][column of a slice].
template <class W> DEV u32 dot_tile(moment j, int tile, u32 taken, float *part)
{
  typedef division<W> d;
  float acc[W::TILE_ROWS][d::reduced];
  int columns = W::columns(tile), width = W::width(tile), tid = TID;
#pragma unroll
  for (int r = 0; r < W::TILE_ROWS; r++)
#pragma unroll
    for (int i = 0; i < d::reduced; i++) acc[r][i] = 0;
#pragma unroll 1
  for (int from = 0; from < W::INPUT; from += width) {
    u32 slot = taken % STAGES;
    wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
    dot_piece<W>(S.ring[slot], from, min(width, W::INPUT - from), columns, acc, tid);
    release_stage(taken, tid), taken++;
  }
#pragma unroll
  for (int r = 0; r < W::TILE_ROWS; r++) {
    if constexpr (d::reduced > 1) halve<d::reduced / 2>(acc[r], tid % 32);
#pragma unroll
    for (int m = d::reduced; m < 32; m *= 2) acc[r][0] += shuffle_xor(acc[r][0], m);
    int at = tid / d::along * d::each + tid % 32;
    if (tid % 32 < d::each && at < d::columns) part[(tid / 32 % d::parts * W::TILE_ROWS + r) * d::columns + at] = acc[r][0];
  }
  return taken;
}

template <class W> DEV float sum_of(const float *part, int row, int column)
{
  typedef division<W> d;
  float x = 0;
#pragma unroll
  for (int i = 0; i < d::parts; i++) x += part[(i * W::TILE_ROWS + row) * d::columns + column];
  return x;
}

// Words of the residual for a unit of the output. They are loaded early. Their tags are checked when they are needed.
template <class R, class T> struct residual_of {
  using from = typename R::tensor;
  static constexpr bool same = from::TAGGED && from::GROUP == T::GROUP && from::ROW == T::ROW;
  static DEV uint4 ask(moment j, int row, int unit)
  {
    if constexpr (same) return load_word(words_of<from>(epoch_of<R>(j), row) + unit);
    return make_uint4(0, 0, 0, 0);
  }
  static DEV void take(moment j, int row, int unit, uint4 v, float (&to)[3])
  {
    if constexpr (same) {
      u32 epoch = epoch_of<R>(j);
      if (v.w != epoch + 1) v = await(words_of<from>(epoch, row) + unit, epoch + 1, j, from::ID);
      to[0] = bits_float(v.x), to[1] = bits_float(v.y), to[2] = bits_float(v.z);
    } else {
#pragma unroll 1
      for (int c = 0; c < count_of<T>(unit); c++) to[c] = element_of<R>(j, row, first_of<T>(unit) + c);
    }
  }
};

// Computes a column of a tile's output, without the residual, for row `at` of the tile. It replaces the first of its sums.
template <class X, class W, int F> DEV void finish_column(moment j, float *part, int at, int row, int column, float eps)
{
  typedef division<W> d;
  float y = sum_of<W>(part, at, column), f = F == NORMED || F == GATED ? norm_factor<X>(j, row, eps) : 1;
  y *= f;
  if (F == GATED) y = ratio(y, 1 + exp_of(-y)) * (sum_of<W>(part, at, W::COLUMNS + column) * f);
  part[at * d::columns + column] = y;
}

// Units of the output that a batch of tiles writes: `n` in each row, from `first` on.
struct batch_units {
  int first, n, element;
  template <class ALL> DEV int row_of(int unit) const { return ALL::N == 1 ? 0 : unit / n; } // the row of a unit; units are numbered row by row
};
template <class Y> DEV batch_units units_of(int layer, int lo, int hi)
{
  using T = typename Y::tensor;
  int from = Y::first(layer, lo), first = word_at<T>(from);
  return {first, word_at<T>(Y::end(layer, hi - 1) - 1) + 1 - first, from};
}

// The rows of a task's tiles: all of them, or a single one.
struct all_rows {
  static constexpr int N = ROWS;
  DEV int at(int i) const { return i; }
};
struct one_row {
  static constexpr int N = 1;
  int row;
  DEV int at(int) const { return row; }
};

// One warp computes the columns of a batch, then adds the residual and writes the units.
template <class X, class W, class R, class Y, int F, class ALL>
DEV void finish_batch(moment j, const batch_units &b, int tiles, ALL rows, float *part, float eps, uint4 early)
{
  typedef division<W> d;
  using T = typename Y::tensor;
  constexpr int pitch = d::sums;
#pragma unroll 1
  for (int i = LANE; i < tiles * (ALL::N * W::COLUMNS); i += 32) {
    int tile = i / (ALL::N * W::COLUMNS), at = i / W::COLUMNS % ALL::N;
    finish_column<X, W, F>(j, part + tile * pitch, at, rows.at(at), i % W::COLUMNS, eps);
  }
  sync_warp();
#pragma unroll 1
  for (int u = LANE; u < b.n * ALL::N; u += 32) {
    int at = b.row_of<ALL>(u), unit = b.first + u - at * b.n, row = rows.at(at), from = first_of<T>(unit) - b.element;
    float y[3], added[3] = {0, 0, 0};
    if constexpr (F == ADDED) residual_of<R, T>::take(j, row, unit, u < 32 ? early : residual_of<R, T>::ask(j, row, unit), added);
#pragma unroll
    for (int c = 0; c < 3; c++) {
      int e = min(from + c, tiles * W::COLUMNS - 1);
      y[c] = part[e / W::COLUMNS * pitch + at * d::columns + e % W::COLUMNS] + added[c];
    }
    write_unit<Y>(j, row, unit, y[0], y[1], y[2]);
  }
}

struct batch_turn {
  int half, who; // half of the room for sums; the warp that finishes the batch
};
// Computes tiles lo .. hi - 1 in batches, which the warps finish in turn. R: the residual's access, for ADDED. `load` loads the input.
template <class X, class W, class R, class Y, int F, class ALL, class LOAD>
DEV u32 batches(moment j, int lo, int hi, ALL rows, u32 taken, float eps, batch_turn &turn, LOAD load)
{
  typedef division<W> d;
  using T = typename Y::tensor;
  int layer = S.node[j.n].layer;
#pragma unroll 1
  for (int first = lo; first < hi; first += d::batch, turn.half ^= 1, turn.who = (turn.who + 1) % WARPS) {
    int n = min(d::batch, hi - first);
    batch_units b = units_of<Y>(layer, first, first + n);
    uint4 early = make_uint4(0, 0, 0, 0);
    if constexpr (F == ADDED)
      if (WARP == turn.who && LANE < b.n * ALL::N) {
        int at = b.row_of<ALL>(LANE);
        early = residual_of<R, T>::ask(j, rows.at(at), b.first + LANE - at * b.n);
      }
    if (first == lo) load();
#pragma unroll 1
    for (int t = 0; t < n; t++) {
      float *part = S.part[turn.half] + t * d::sums;
      if constexpr (W::MATRIX)
        taken = matrix_tile<W>(j, first + t, taken, part);
      else
        taken = dot_tile<W>(j, first + t, taken, part);
    }
    sync_consumers();
    mark(j, SUMMED);
    if (WARP == turn.who) finish_batch<X, W, R, Y, F>(j, b, n, rows, S.part[turn.half], eps, early);
  }
  return taken;
}
template <class Y> DEV void end_product(moment j)
{
  if (Y::tensor::TAGGED)
    done_part(j);
  else
    publish_writes<Y>(j);
}

// IN loads the input.
template <class O, class X, class IN, class W, class R, class Y, int F> DEV u32 product(moment j, u32 taken, float eps)
{
  batch_turn turn = {0, 0};
  wait_events<O>(j);
  taken = batches<X, W, R, Y, F>(j, S.node[j.n].lo, S.node[j.n].hi, all_rows(), taken, eps, turn, [&] { IN::template load<W>(j); });
  end_product<Y>(j);
  return taken;
}

// ---- bodies for the rows of layer.def; accesses are numbered as there ----

#if PANELS
struct no_parts {};
template <class O, class X, class P, class W, class R, class Y, int F> DEV u32 panel_product(moment j, u32 taken, float eps);
#endif
template <class O, class X, class G, class W, class R, class Y, int F> DEV u32 plain_product_of(moment j, u32 taken, float eps)
{
#if PANELS
  if constexpr (W::PANEL) return panel_product<O, X, no_parts, W, R, Y, F>(j, taken, eps);
  else
#endif
  return product<O, X, plain_input<X, G>, W, R, Y, F>(j, taken, eps);
}
template <class O> BODY u32 body_linear(moment j, u32 taken)
{
  return plain_product_of<O, typename O::a0, no_gain, typename O::a1, no_gain, typename O::a2, PLAIN_SUM>(j, taken, 0);
}
template <class O> BODY u32 body_rmsnorm_linear(moment j, u32 taken)
{
  return plain_product_of<O, typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, NORMED>(j, taken, O::eps);
}
template <class O> BODY u32 body_rmsnorm_head(moment j, u32 taken)
{
  return plain_product_of<O, typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, NORMED>(j, taken, O::eps);
}
template <class O> BODY u32 body_linear_with_residual(moment j, u32 taken)
{
  return plain_product_of<O, typename O::a0, no_gain, typename O::a1, typename O::a2, typename O::a3, ADDED>(j, taken, 0);
}
template <class O> BODY u32 body_rmsnorm_gate_up(moment j, u32 taken)
{
  return plain_product_of<O, typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, GATED>(j, taken, O::eps);
}
