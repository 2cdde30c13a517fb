// Products of many rows with bf16 weights, by tensor cores (mma.m16n8k16). Sixteen columns of weights form the first operand, eight rows of the input
// the second. The input is in panels, [k / 32][row][32] of bf16. A thread reads sixteen bytes along k of a row for two instructions. Weights are
// packed so that sixteen bytes are a thread's part of a first operand.
//
// The input does not fit into shared memory. A thread, the feeder, copies pieces of it in advance. They are as wide as the weights' pieces, or half
// as wide if two do not fit. A group of tiles is multiplied with each piece, so the input is copied once for the group. With up to
// MEGACUDA_EXACT_ROWS rows a value is two bf16, a high part and the rest, which is nearly fp32.

// Returns `end`: tiles first .. end - 1 are multiplied together. A narrower last tile is a separate group. tiles 0: there is no such tile.
DEV int end_of_group(int first, int hi, int group, int tiles)
{
  int end = min(first + group, hi);
  return tiles && end == tiles && end - first > 1 ? end - 1 : end;
}

template <class W> struct panel {
  static constexpr int blocks = (ROWS + 7) / 8, bands = (W::SLICES * W::COLUMNS + 15) / 16; // blocks of eight rows; bands of sixteen columns
  static constexpr int along = WARPS / W::GROUPS, group = W::KEEPS * W::GROUPS;             // warps that divide k; tiles in a group
  static constexpr int pitch = PANEL_PITCH, room = bands * 16 * pitch;                      // floats of a warp's sums, [column][row]
  static constexpr int slots = ROWS <= 8 ? 8 : ROWS <= 16 ? 16 : ROWS <= 32 ? 32 : 64;      // rows, if four threads share a row
  static constexpr int shares = THREADS / 4 / slots;                                        // groups of four threads that divide the k of a row
  static constexpr bool whole = !W::RAGGED && W::SLICES * W::COLUMNS % 16 == 0;             // weights are packed as first operands
  // With high part and rest, a warp scales its part of a piece once and keeps it for all tiles. Otherwise values are scaled when they are loaded.
  static constexpr int strips = (W::WIDTH / 32 + along - 1) / along; // strips of 32 along k of a piece per warp
  static constexpr bool holds = HALVES == 2 && !W::RAGGED && strips * blocks <= 2;
  typedef float sums[bands][blocks][4];
  typedef uint4 part[holds ? strips : 1][holds ? blocks : 1][HALVES];
  static_assert(W::SPLITS == 1 || !holds, "a warp's part of a piece is scaled once");
  static_assert(ROWS <= 64 && shares >= 1 && shares <= WARPS, "rows of a block");
  static_assert(W::SLOTS * W::SLOT_BYTES <= PANEL_BYTES && WARPS * room * 4 <= PANEL_BYTES, "room for the input, and for sums");
};

// ---- the input ----

template <class G> struct gain_bytes {
  static constexpr int N = sizeof(typename G::tensor::type);
};
template <> struct gain_bytes<no_gain> {
  static constexpr int N = 0;
};

// Number of parts of attention to merge; other inputs have one part.
template <class X, class W> DEV constexpr int parts_of_input() { return X::tensor::ROW / W::K; }

// Room after the pieces for the norm's gain of all k, which is copied with the first piece.
template <class W> DEV char *gain_room() { return S.panel + W::SLOTS * W::SLOT_BYTES; }

// One thread: copies a piece, n of k from `from` on, of each part.
template <class X, class G, class W> DEV void feed(moment j, char *to, int from, int n, u32 piece)
{
  using T = typename X::tensor;
  constexpr int parts = parts_of_input<X, W>();
  constexpr int gain = gain_bytes<G>::N;
  static_assert(W::SLOTS * W::SLOT_BYTES + W::K * gain <= PANEL_BYTES, "room for the gain");
  stage_barrier *b = &S.panel_full[piece % PANEL_SLOTS];
  int bytes = n * ROWS * 2;
  stage_expect(b, parts * HALVES * bytes + (from ? 0 : W::K * gain));
#pragma unroll 1
  for (int p = 0; p < parts; p++, to += HALVES * bytes) {
    const bf16 *x = panel_of<T>(T::VERSIONS > 1 ? epoch_of<X>(j) : 0, p * W::K + from);
    stage_copy(to, x, bytes, b, false);
    if (HALVES == 2) stage_copy(to + bytes, x + T::ELEMENTS, bytes, b, false);
  }
  if constexpr (gain > 0)
    if (!from) {
      const char *of_layer = (const char *)M.tensor[G::tensor::ID] + (size_t)S.node[j.n].layer * G::tensor::ROW * gain;
      stage_copy(gain_room<W>(), of_layer, W::K * gain, b, false);
    }
}

// Progress of the feeder: numbers of pieces and of groups of tiles so far in the launch.
struct feeding {
  u32 made, groups;
};

// Copies the pieces of a task, once for each group of tiles.
template <class O> DEV void feed_node(moment j, feeding &f)
{
  if constexpr (O::FEEDS) {
    using W = typename O::streamed;
    const node_row &r = S.node[j.n];
    for (int i = r.wait; i < r.wait + r.nwaits; i++)
      if (!S.wait[i].stream) wait_row_of(S.wait[i], j);
    if (O::FENCE) fence_proxy();
#pragma unroll 1
    for (int first = r.lo; first < r.hi && !S.dead; first = end_of_group(first, r.hi, panel<W>::group, W::RAGGED ? W::TILES : 0)) {
      int width = W::width(first) / W::SPLITS;
      wait_stage(&S.panel_free, f.groups & 1, j, f.groups), f.groups++;
      if (O::FENCE) fence_proxy();
#pragma unroll 1
      for (int from = 0, i = 0; from < W::K && !S.dead; from += width, i++, f.made++) {
        u32 before = f.made - W::SLOTS; // the piece that was in this slot before
        if (i >= W::SLOTS) wait_stage(&S.panel_empty[before % PANEL_SLOTS], before / PANEL_SLOTS & 1, j, f.made);
        if (S.dead) break; // a piece that was not copied is not counted
        feed<typename O::fed, typename O::gain, W>(j, S.panel + i % W::SLOTS * W::SLOT_BYTES, from, min(width, W::K - from), f.made);
      }
    }
  }
}

// Reads eight values of a row. Their rounding errors are stored `bytes` after them.
DEV void open_values(const char *p, int bytes, float (&v)[8])
{
  pack<bf16>::open(*(const uint4 *)p, v);
  if (HALVES == 1) return;
  float rest[8];
  pack<bf16>::open(*(const uint4 *)(p + bytes), rest);
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] += rest[i];
}
DEV u32 rounded(float &x, float &y)
{
  u32 pair = pair_of(x, y);
  x -= bits_float(pair << 16), y -= bits_float(pair & 0xffff0000u);
  return pair;
}
// Rounds eight values to bf16, and replaces them by the rounding errors.
DEV uint4 rounded_values(float (&v)[8]) { return make_uint4(rounded(v[0], v[1]), rounded(v[2], v[3]), rounded(v[4], v[5]), rounded(v[6], v[7])); }
DEV void store_values(char *p, int bytes, float (&v)[8])
{
  *(uint4 *)p = rounded_values(v);
  if (HALVES == 2) *(uint4 *)(p + bytes) = rounded_values(v);
}

// The norm's gains for a thread's eight values of k, in a strip from k on.
template <class G, class W> struct strip_gain {
  typedef pack<typename G::tensor::type> line;
  uint4 gain[8 / line::N];
  DEV strip_gain(int k)
  {
    const uint4 *p = (const uint4 *)(gain_room<W>() + (k + LANE % 4 * 8) * gain_bytes<G>::N);
#pragma unroll
    for (int i = 0; i < 8 / line::N; i++) gain[i] = p[i];
  }
  DEV void scale(uint4 (&v)[HALVES]) const
  {
    if constexpr (HALVES == 1 && line::N == 8) {
      v[0] = make_uint4(times_pair(v[0].x, gain[0].x), times_pair(v[0].y, gain[0].y), times_pair(v[0].z, gain[0].z), times_pair(v[0].w, gain[0].w));
    } else {
      float x[8], rest[8], g[8];
      line::open(gain[0], g);
      if constexpr (line::N < 8) line::open(gain[1], g + 4);
      pack<bf16>::open(v[0], x);
      if constexpr (HALVES == 2) pack<bf16>::open(v[1], rest);
#pragma unroll
      for (int i = 0; i < 8; i++) x[i] = (HALVES == 2 ? x[i] + rest[i] : x[i]) * g[i];
      v[0] = rounded_values(x);
      if constexpr (HALVES == 2) v[1] = rounded_values(x);
    }
  }
};
template <class W> struct strip_gain<no_gain, W> {
  DEV strip_gain(int) {}
  DEV void scale(uint4 (&)[HALVES]) const {}
};

// Merges parts of attention in place of the first. P: merged_input.
template <class P, class W> DEV void merge_piece(char *x, int from, int n)
{
  typedef panel<W> d;
  const int at = TID / 4, row = at % d::slots, chunk = TID % 4, bytes = n * ROWS * 2;
  if (row >= ROWS) return;
#pragma unroll 2
  for (int s = at / d::slots; s < n / 32; s += d::shares) {
    char *p = x + (s * ROWS + row) * 64 + chunk * 16;
    float sum[8] = {};
#pragma unroll
    for (int part = 0; part < P::parts; part++) {
      float v[8];
      open_values(p + part * HALVES * bytes, bytes, v);
#pragma unroll
      for (int i = 0; i < 8; i++) sum[i] = fmaf(v[i], P::scale_of(row, part, from + s * 32 + chunk * 8 + i), sum[i]);
    }
    store_values(p, bytes, sum);
  }
}

// ---- the products ----

// Loads this thread's values of a block of eight rows in a strip of a piece. Rows after the last have arbitrary values; their sums are not read.
DEV void load_values(const char *x, int n, int strip, int block, uint4 (&v)[HALVES])
{
#pragma unroll
  for (int h = 0; h < HALVES; h++) v[h] = *(const uint4 *)(x + h * (n * ROWS * 2) + (strip * ROWS + block * 8 + LANE / 4) * 64 + LANE % 4 * 16);
}

// Adds up the squares of each row of a block, as the diagonal of the block times its transpose. Each warp has one block and a share of k.
template <class W> DEV void square_piece(const char *x, int n, float (&squares)[4])
{
  typedef panel<W> d;
  constexpr int blocks = d::slots / 8;
  const int block = WARP % blocks;
  if (block >= d::blocks) return;
#pragma unroll 4
  for (int s = WARP / blocks; s < n / 32; s += d::shares) {
    uint4 v[HALVES];
    load_values(x, n, s, block, v);
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
      mma(squares, v[0].x, v[HALVES - 1].x, v[0].y, v[HALVES - 1].y, v[h].x, v[h].y);
      mma(squares, v[0].z, v[HALVES - 1].z, v[0].w, v[HALVES - 1].w, v[h].z, v[h].w);
    }
  }
}

// Computes the norm's factor of each row in S.square[0][row][0]. All consumers must pass a barrier after it.
template <class W> DEV void find_factors(const float (&squares)[4], int k, float eps)
{
  typedef panel<W> d;
  constexpr int blocks = d::slots / 8;
  const int of = LANE / 4, row = WARP % blocks * 8 + of, odd = of % 2; // the row, and the thread that has its diagonal element
  float sums[2] = {};
#pragma unroll
  for (int i = 0; i < 2 * HALVES; i++) sums[i % 2] += squares[i];
  if (row < ROWS && LANE % 4 == of / 2) S.square[0][row][WARP / blocks] = odd ? sums[1] : sums[0];
  sync_consumers();
  if (TID >= ROWS) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < d::shares; i++) sum += S.square[0][TID][i];
  S.square[0][TID][0] = inverse_sqrt(sum / k + eps);
}

// Loads and scales this warp's part of a piece, n of k from `from` on.
template <class G, class W> DEV void hold_part(const char *x, int n, int from, typename panel<W>::part &part)
{
  typedef panel<W> d;
#pragma unroll
  for (int i = 0; i < d::strips; i++) {
    int s = WARP / W::GROUPS + i * d::along;
    if (s >= n / 32) break;
    strip_gain<G, W> gain(from + s * 32);
#pragma unroll
    for (int r = 0; r < d::blocks; r++) load_values(x, n, s, r, part[i][r]), gain.scale(part[i][r]);
  }
}

// Maps an element of a tile's weights to its position when packed. A thread's part of a first operand has four values along k of a column, and four
// of the column eight further. Lines of columns 0 to 7 have the operands of the first four of eight along k, those of columns 8 to 15 the other four.
template <class W> DEV void place_in_operand(int &column, int &k)
{
  if constexpr (!panel<W>::whole) return;
  int half = column / 8 % 2, of = k % 8;
  column = column - half * 8 + of / 4 * 8;
  k = k - of + of / 2 % 2 * 4 + half * 2 + of % 2;
}

// Loads the first operands of a strip: sixteen columns of each band.
template <class W> DEV void load_columns(const char *weights, int n, int strip, int lines, uint4 (&w)[panel<W>::bands][2])
{
#pragma unroll
  for (int b = 0; b < panel<W>::bands; b++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int column = b * 16 + h * 8 + LANE / 4;
      w[b][h] = make_uint4(0, 0, 0, 0);
      if (panel<W>::whole || (!W::RAGGED && (b * 16 + h * 8 + 8) <= W::SLICES * W::COLUMNS) || column < lines)
        w[b][h] = *(const uint4 *)(weights + column * (n * 2) + matrix_chunk(column, strip * 4 + LANE % 4, n) * 16);
    }
    if constexpr (!panel<W>::whole) {
      uint4 x = w[b][0], y = w[b][1];
      w[b][0] = make_uint4(x.x, y.x, x.y, y.y), w[b][1] = make_uint4(x.z, y.z, x.w, y.w);
    }
  }
}
template <class W> DEV void multiply_block(const uint4 (&w)[panel<W>::bands][2], const uint4 (&v)[HALVES], int r, typename panel<W>::sums &sums)
{
#pragma unroll
  for (int h = 0; h < HALVES; h++) {
#pragma unroll
    for (int b = 0; b < panel<W>::bands; b++) mma(sums[b][r], w[b][0].x, w[b][0].y, w[b][0].z, w[b][0].w, v[h].x, v[h].y);
#pragma unroll
    for (int b = 0; b < panel<W>::bands; b++) mma(sums[b][r], w[b][1].x, w[b][1].y, w[b][1].z, w[b][1].w, v[h].z, v[h].w);
  }
}

// Multiplies a piece of weights, n of k of `lines` columns, by a piece of the input, m of k from `k` on, in this warp's strips of 32. The input
// corresponds to the weights from strip `from` on.
template <class G, class W>
DEV void multiply_piece(const char *weights, int n, int lines, const char *x, int m, int k, int from, const typename panel<W>::part &part,
                        typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  uint4 w[d::bands][2];
  if constexpr (d::holds && !std::is_same<G, no_gain>::value) {
#pragma unroll
    for (int i = 0; i < d::strips; i++) {
      int s = WARP / W::GROUPS + i * d::along;
      if (s >= n / 32) break;
      load_columns<W>(weights, n, s, lines, w);
#pragma unroll
      for (int r = 0; r < d::blocks; r++) multiply_block<W>(w, part[i][r], r, sums);
    }
  } else {
    int begin = WARP / W::GROUPS;
    if (W::SPLITS > 1) begin = (begin - from % d::along + d::along) % d::along;
#pragma unroll 1
    for (int s = begin; s < m / 32; s += d::along) {
      load_columns<W>(weights, n, from + s, lines, w);
      strip_gain<G, W> gain(k + s * 32);
#pragma unroll
      for (int r = 0; r < d::blocks; r++) {
        uint4 v[HALVES];
        load_values(x, m, s, r, v), gain.scale(v);
        multiply_block<W>(w, v, r, sums);
      }
    }
  }
}

template <class W> DEV void store_sums(const typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  float *to = (float *)S.panel + WARP * d::room + LANE / 4 * d::pitch + LANE % 4 * 2;
#pragma unroll
  for (int b = 0; b < d::bands; b++)
#pragma unroll
    for (int r = 0; r < d::blocks; r++)
#pragma unroll
      for (int i = 0; i < 4; i++) to[(b * 16 + i / 2 * 8) * d::pitch + r * 8 + i % 2] = sums[b][r][i];
}

// ---- outputs of the tiles whose sums are complete, one tile for each group of warps ----

// A thread writes units of a row. A unit is eight columns of an output in panels, which are sixteen bytes, if enough threads then have one. Otherwise
// it is one column.
template <class Y, class W> struct panel_outputs {
  static constexpr bool many = ROWS * W::COLUMNS * W::GROUPS >= 4 * THREADS; // at least half of the threads would have a unit of eight
  static constexpr int unit = many && Y::tensor::PANEL && !W::RAGGED && W::COLUMNS % 8 == 0 ? 8 : 1;
  static constexpr int of_tile = ROWS * W::COLUMNS / unit, N = (W::GROUPS * of_tile + THREADS - 1) / THREADS; // units of a tile; units per thread
  typedef float values[N][unit];
  int first, tiles, columns; // first tile, number of tiles, columns of a tile
  DEV bool find(int i, int &tile, int &row, int &column) const
  {
    constexpr int in_row = W::COLUMNS / unit;
    int at = TID + i * THREADS;
    tile = at / of_tile, row = at / in_row % ROWS, column = at % in_row * unit;
    return tile < tiles && column < columns;
  }
};

DEV void load8_relaxed(const bf16 *p, float (&v)[8])
{
  float4 x = load4_relaxed(p);
  pack<bf16>::open(make_uint4(float_bits(x.x), float_bits(x.y), float_bits(x.z), float_bits(x.w)), v);
}

// Loads a unit of the residual.
template <class R, int N> DEV void take_residual(moment j, int row, int e, float (&to)[N])
{
  using T = typename R::tensor;
  if constexpr (N == 8 && T::PANEL) {
    const bf16 *p = panel_at<T>(T::VERSIONS > 1 ? epoch_of<R>(j) : 0, row, e);
    float rest[8] = {};
    load8_relaxed(p, to);
    if (T::REST) load8_relaxed(p + T::ELEMENTS, rest);
#pragma unroll
    for (int c = 0; c < N; c++) to[c] += rest[c];
  } else {
#pragma unroll
    for (int c = 0; c < N; c++) to[c] = element_of<R>(j, row, e + c);
  }
}
// Loads the residuals of this thread's units.
template <class R, class Y, class W> DEV void ask_residual(moment j, const panel_outputs<Y, W> &o, typename panel_outputs<Y, W>::values &added)
{
#pragma unroll
  for (int i = 0; i < panel_outputs<Y, W>::N; i++) {
    int tile, row, column;
    if (o.find(i, tile, row, column)) take_residual<R>(j, row, Y::first(S.node[j.n].layer, o.first + tile) + column, added[i]);
  }
}

template <class W> DEV float *sum_at(int tile, int row, int column)
{
  return (float *)S.panel + tile * panel<W>::room + column * panel<W>::pitch + row;
}
template <class W> DEV float sum_of_warps(int tile, int row, int column)
{
  float x = 0;
#pragma unroll
  for (int a = 0; a < panel<W>::along; a++) x += *sum_at<W>(tile + a * W::GROUPS, row, column);
  return x;
}

template <class Y, class W> DEV void write_words(moment j, const panel_outputs<Y, W> &o)
{
  using T = typename Y::tensor;
  sync_consumers();
#pragma unroll 1
  for (int tile = 0; tile < o.tiles; tile++) {
    int from = Y::first(S.node[j.n].layer, o.first + tile), first = word_at<T>(from), n = word_at<T>(from + o.columns - 1) + 1 - first;
#pragma unroll 1
    for (int i = TID; i < n * ROWS; i += THREADS) {
      int unit = first + i % n, row = i / n, e = first_of<T>(unit) - from;
      auto at = [&](int c) { return *sum_at<W>(tile, row, min(e + c, o.columns - 1)); };
      write_unit<Y>(j, row, unit, at(0), at(1), at(2));
    }
  }
}

template <class W, int F> DEV float output_at(int tile, int row, int column, int columns, float added)
{
  float f = F == NORMED || F == GATED ? S.square[0][row][0] : 1, y = sum_of_warps<W>(tile, row, column) * f + added;
  return F == GATED ? ratio(y, 1 + exp_of(-y)) * (sum_of_warps<W>(tile, row, columns + column) * f) : y;
}
template <class Y, class W, int F>
DEV void write_outputs(moment j, const panel_outputs<Y, W> &o, const typename panel_outputs<Y, W>::values &added)
{
  using T = typename Y::tensor;
  constexpr int unit = panel_outputs<Y, W>::unit;
  u32 epoch = T::TAGGED || T::VERSIONS > 1 ? epoch_of<Y>(j) : 0;
#pragma unroll
  for (int i = 0; i < panel_outputs<Y, W>::N; i++) {
    int tile, row, column;
    if (!o.find(i, tile, row, column)) continue;
    float y[unit];
#pragma unroll
    for (int c = 0; c < unit; c++) y[c] = output_at<W, F>(tile, row, column + c, o.columns, added[i][c]);
    int e = Y::first(S.node[j.n].layer, o.first + tile) + column;
    if constexpr (unit == 8) {
      bf16 *p = panel_at<T>(epoch, row, e);
      store4_relaxed(p, rounded_values(y));
      if (T::REST) store4_relaxed(p + T::ELEMENTS, rounded_values(y));
    } else if constexpr (T::TAGGED)
      *sum_at<W>(tile, row, column) = y[0];
    else if constexpr (T::PANEL)
      store_panel<T>(epoch, row, e, y[0]);
    else
      store_relaxed((float *)plain_of<T>(epoch, row) + e, y[0]);
  }
  if constexpr (T::TAGGED) write_words<Y, W>(j, o);
}

// ---- a task ----

// Signals that this warp no longer uses the memory of the pieces. A fence is needed because threads wrote there before.
DEV void open_panel()
{
  fence_proxy();
  sync_warp();
  if (LANE == 0) stage_arrive(&S.panel_free);
}

// Computes tiles first .. first + tiles - 1.
template <class X, class G, class P, class W, class R, class Y, int F>
DEV u32 panel_group(moment j, int first, int tiles, u32 taken, u32 fed, float eps)
{
  typedef panel<W> d;
  constexpr bool norms = F == NORMED || F == GATED, merges = parts_of_input<X, W>() > 1;
  const int width = W::width(first), columns = W::columns(first), each = width / W::SPLITS, pieces = (W::K + each - 1) / each;
  typename d::sums sums[W::KEEPS] = {};
  float squares[4] = {};
  typename panel_outputs<Y, W>::values added = {};
  if constexpr (F == ADDED) ask_residual<R, Y, W>(j, {first, min(tiles, (int)W::GROUPS), columns}, added);
#pragma unroll 1
  for (int piece = 0; piece < pieces; piece++) {
    // The piece of the input has m values along k, from `from` on. It begins at offset `of` of the piece of weights, which has n along k.
    const int from = piece * each, m = min(each, W::K - from), of = from % width, n = min(width, W::K - from + of);
    char *x = S.panel + piece % W::SLOTS * W::SLOT_BYTES;
    u32 at = fed + (u32)piece;
    wait_stage(&S.panel_full[at % PANEL_SLOTS], at / PANEL_SLOTS & 1, j, at);
    if constexpr (norms) square_piece<W>(x, m, squares);
    if constexpr (merges) merge_piece<P, W>(x, from, m), sync_consumers();
    if (piece == 0) ready(j);
    typename d::part part;
    if constexpr (norms && d::holds) hold_part<G, W>(x, m, from, part);
#pragma unroll
    for (int i = 0; i < W::KEEPS; i++)
#pragma unroll 1
      for (int g = 0; g < W::GROUPS && i * W::GROUPS + g < tiles; g++) {
        u32 weights = taken + (u32)(i * W::GROUPS + g), slot = weights % STAGES;
        if (of == 0) wait_stage(&S.full[slot], weights / STAGES & 1, j, weights);
        if (g == WARP % W::GROUPS)
          multiply_piece<G, W>(S.ring[slot], n, W::SLICES * columns, x, m, from, of / 32, part, sums[i]);
        if (of + m == n) release_stage(weights, TID);
      }
    if (of + m == n) taken += (u32)tiles;
    if (merges) fence_proxy();
    sync_warp();
    if (LANE == 0) stage_arrive(&S.panel_empty[at % PANEL_SLOTS]);
  }
  if constexpr (norms)
    find_factors<W>(squares, W::K, eps);
  else
    sync_consumers();
  mark(j, SUMMED);
#pragma unroll
  for (int i = 0; i < W::KEEPS; i++) {
    if (i * W::GROUPS >= tiles) break;
    panel_outputs<Y, W> o = {first + i * W::GROUPS, min(tiles - i * W::GROUPS, (int)W::GROUPS), columns};
    if constexpr (F == ADDED)
      if (i) ask_residual<R, Y, W>(j, o, added);
    store_sums<W>(sums[i]);
    sync_consumers();
    write_outputs<Y, W, F>(j, o, added);
    sync_consumers();
  }
  return taken;
}

template <class O, class X, class G, class P, class W, class R, class Y, int F> DEV u32 panel_product(moment j, u32 taken, float eps)
{
  const int hi = S.node[j.n].hi;
  u32 fed = S.feeds;
  open_panel();
  wait_events<O>(j);
  if constexpr (parts_of_input<X, W>() > 1) P::load_scales(j);
#pragma unroll 1
  for (int first = S.node[j.n].lo, end; first < hi; first = end) {
    end = end_of_group(first, hi, panel<W>::group, W::RAGGED ? W::TILES : 0);
    taken = panel_group<X, G, P, W, R, Y, F>(j, first, end - first, taken, fed, eps);
    fed += (u32)((W::K * W::SPLITS + W::width(first) - 1) / W::width(first));
    if (end < hi) open_panel();
  }
  if (TID == 0) S.feeds = fed;
  publish(j);
  return taken;
}
