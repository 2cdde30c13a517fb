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
  static constexpr int teams = W::WIDE ? 2 : WARPS;                                         // warps, or four warps, that multiply together
  static constexpr int along = teams / W::GROUPS, group = W::KEEPS * W::GROUPS;             // teams that divide k; tiles in a group
  static constexpr int pitch = PANEL_PITCH, room = bands * 16 * pitch;                      // floats of a team's sums, [column][row]
  static constexpr int slots = ROWS <= 8 ? 8 : ROWS <= 16 ? 16 : ROWS <= 32 ? 32 : 64;      // rows, if four threads share a row
  static constexpr int shares = THREADS / 4 / slots;                                        // groups of four threads that divide the k of a row
  static constexpr bool whole = !W::RAGGED && W::SLICES * W::COLUMNS % 16 == 0;             // weights are packed as first operands
  typedef float sums[W::WIDE ? 2 * bands : bands][W::WIDE ? 1 : blocks][4];
  static_assert(ROWS <= 64 && shares >= 1 && shares <= WARPS, "rows of a block");
  static_assert(W::SLOTS * W::SLOT_BYTES <= PANEL_BYTES && teams * room * 4 <= PANEL_BYTES, "room for the input, and for sums");
};

// ---- the input ----

// Number of parts of attention to merge; other inputs have one part.
template <class X, class W> DEV constexpr int parts_of_input() { return X::tensor::ROW / W::K; }

// One thread: copies a piece, n of k from `from` on, of each part.
template <class X, class W> DEV void feed(moment j, char *to, int from, int n, u32 piece)
{
  using T = typename X::tensor;
  constexpr int parts = parts_of_input<X, W>();
  stage_barrier *b = &S.panel_full[piece % PANEL_SLOTS];
  int bytes = n * ROWS * 2;
  stage_expect(b, parts * HALVES * bytes);
#pragma unroll 1
  for (int p = 0; p < parts; p++, to += HALVES * bytes) {
    u32 epoch = T::VERSIONS > 1 ? epoch_of<X>(j) : 0;
    const bf16 *x = T::SCALED ? scaled_of<T>(epoch, p * W::K + from) : panel_of<T>(epoch, p * W::K + from);
    stage_copy(to, x, bytes, b, false);
    if (HALVES == 2) stage_copy(to + bytes, x + T::ELEMENTS, bytes, b, false);
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
        feed<typename O::fed, W>(j, S.panel + i % W::SLOTS * W::SLOT_BYTES, from, min(width, W::K - from), f.made);
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
      for (int i = 0; i < 8; i++) sum[i] = fmaf(v[i], P::scale_of(row, part, from + s * 32 + panel_chunk(row, chunk) * 8 + i), sum[i]);
    }
    store_values(p, bytes, sum);
  }
}

// ---- the products ----

// Loads this thread's values of a block of eight rows in a strip of a piece. Rows after the last have arbitrary values; their sums are not read.
DEV void load_values(const char *x, int n, int strip, int block, uint4 (&v)[HALVES])
{
#pragma unroll
  for (int h = 0; h < HALVES; h++) v[h] = *(const uint4 *)(x + h * (n * ROWS * 2) + (strip * ROWS + block * 8 + LANE / 4) * 64 + panel_chunk(block * 8 + LANE / 4, LANE % 4) * 16);
}

// Computes the norm's factor of each row in S.square[0][row][0], from the squares of groups of elements. All consumers must pass a barrier after it.
template <class X> DEV void find_factors(moment j, float eps)
{
  using T = typename X::tensor;
  constexpr int slots = ROWS <= 8 ? 8 : ROWS <= 16 ? 16 : ROWS <= 32 ? 32 : 64, groups = T::ROW / T::GROUP;
  constexpr int shares = slots < 32 ? WARPS : THREADS / slots; // numbers of a row that the threads leave
  const int row = TID % slots;
  const float *p = squares_of<T>(T::VERSIONS > 1 ? epoch_of<X>(j) : 0) + min(row, ROWS - 1);
  float sum = 0;
#pragma unroll 16
  for (int g = TID / slots; g < groups; g += THREADS / slots) sum += load_relaxed(p + g * ROWS);
#pragma unroll
  for (int m = slots; m < 32; m *= 2) sum += shuffle_xor(sum, m);
  if (row < ROWS && (slots >= 32 || LANE < slots)) S.square[0][row][slots < 32 ? WARP : TID / slots] = sum;
  sync_consumers();
  if (TID >= ROWS) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < shares; i++) sum += S.square[0][TID][i];
  S.square[0][TID][0] = inverse_sqrt(sum / T::ROW + eps);
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

// Multiplies a piece of weights, n of k of `lines` columns, by a piece of the input, m of k, in this warp's strips of 32. The input corresponds to the
// weights from strip `from` on.
template <class W> DEV void multiply_piece(const char *weights, int n, int lines, const char *x, int m, int from, typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  uint4 w[d::bands][2];
  int begin = WARP / W::GROUPS;
  if (W::SPLITS > 1) begin = (begin - from % d::along + d::along) % d::along;
#pragma unroll 1
  for (int s = begin; s < m / 32; s += d::along) {
    load_columns<W>(weights, n, from + s, lines, w);
#pragma unroll
    for (int r = 0; r < d::blocks; r++) {
      uint4 v[HALVES];
      load_values(x, m, s, r, v);
      multiply_block<W>(w, v, r, sums);
    }
  }
}

// Offset of an element in a piece of weights for wgmma: [k / 32][column][32], swizzled.
template <class W> HOST_TOO int wide_place(int column, int k)
{
  return (k / 32 * (W::SLICES * W::COLUMNS) + column) * 64 + (k % 32 / 8 ^ column / 2 % 4) * 16 + k % 8 * 2;
}
// Multiplies by wgmma this team's part of N strips. The teams divide the strips, or the two halves of each if N is odd.
template <class W, int N> DEV void multiply_strips(const char *weights, const char *x, typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  constexpr int lines = W::SLICES * W::COLUMNS;
  const int first = d::along > 1 ? uniform(WARP / 4) : 0;
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 2 * N / d::along; i++) {
    int s = N % d::along ? i : i / 2 * d::along + first, half = N % d::along ? first : i % 2;
    multiply_wide<lines>(sums, x + s * (ROWS * 64), weights + s * (lines * 64), half);
  }
  wgmma_end();
}
template <class W> DEV void multiply_piece_wide(const char *weights, const char *x, int m, int from, typename panel<W>::sums &sums)
{
  constexpr int full = W::WIDTH / W::SPLITS / 32, rest = W::K % (W::WIDTH / W::SPLITS) / 32;
  weights += from * (W::SLICES * W::COLUMNS * 64);
  if (rest && m == rest * 32)
    multiply_strips<W, rest>(weights, x, sums);
  else
    multiply_strips<W, full>(weights, x, sums);
}

template <class W> DEV void store_sums(const typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  if constexpr (W::WIDE) {
    float *to = (float *)S.panel + WARP / 4 * d::room + LANE % 4 * 2 * d::pitch;
    int row = WARP % 4 * 16 + LANE / 4;
#pragma unroll
    for (int j = 0; j < 2 * d::bands; j++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (row + i / 2 * 8 < ROWS) to[(j * 8 + i % 2) * d::pitch + row + i / 2 * 8] = sums[j][0][i];
  } else {
  float *to = (float *)S.panel + WARP * d::room + LANE / 4 * d::pitch + LANE % 4 * 2;
#pragma unroll
  for (int b = 0; b < d::bands; b++)
#pragma unroll
    for (int r = 0; r < d::blocks; r++)
#pragma unroll
      for (int i = 0; i < 4; i++) to[(b * 16 + i / 2 * 8) * d::pitch + r * 8 + i % 2] = sums[b][r][i];
  }
}

// ---- outputs of the tiles whose sums are complete, one tile for each group of warps ----

// Whether `n` lanes that hold a part of `all` lanes are neighbours in a warp.
template <int n, int all> DEV constexpr bool powers_of_two() { return n > 0 && n <= 32 && (n & (n - 1)) == 0 && all % n == 0; }

// A thread writes units of a row. A unit is eight columns of an output in panels, which are sixteen bytes, if enough threads then have one. Otherwise
// it is one column.
template <class Y, class W> struct panel_outputs {
  static constexpr bool many = ROWS * W::COLUMNS * W::GROUPS >= 4 * THREADS; // at least half of the threads would have a unit of eight
  static constexpr int unit = many && Y::tensor::PANEL && !W::RAGGED && W::COLUMNS % 8 == 0 ? 8 : 1;
  // Neighbouring lanes of a warp have the units of a group of elements.
  static constexpr bool squares = Y::tensor::SCALED && !W::RAGGED && powers_of_two<Y::tensor::GROUP / unit, W::COLUMNS / unit>();
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

DEV void constants8(const bf16 *p, float (&v)[8]) { load8_relaxed(p, v); }
DEV void constants8(const float *p, float (&v)[8])
{
#pragma unroll
  for (int c = 0; c < 8; c++) v[c] = constant(p + c);
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
// The gains of the norm that reads the outputs of this thread's units.
template <class Y, class W> DEV void ask_gains(moment j, const panel_outputs<Y, W> &o, typename panel_outputs<Y, W>::values &gains)
{
  constexpr int unit = panel_outputs<Y, W>::unit;
#pragma unroll
  for (int i = 0; i < panel_outputs<Y, W>::N; i++) {
    int tile, row, column;
    if (!o.find(i, tile, row, column)) continue;
    auto *g = gains_of<Y>(S.node[j.n].layer) + Y::first(S.node[j.n].layer, o.first + tile) + column;
    if constexpr (unit == 8)
      constants8(g, gains[i]);
    else
      gains[i][0] = constant(g);
  }
}
// Writes a unit of a tensor in panels.
template <class T, int N> DEV void write_panel(u32 epoch, int row, int e, float (&y)[N], const float (&gain)[N])
{
  if constexpr (N == 1) {
    store_panel<T>(epoch, row, e, y[0], gain[0]);
  } else {
    float scaled[N];
    bf16 *p = panel_at<T>(epoch, row, e);
#pragma unroll
    for (int c = 0; c < N; c++) scaled[c] = y[c] * gain[c];
    store4_relaxed(p, rounded_values(y));
    if (T::REST) store4_relaxed(p + T::ELEMENTS, rounded_values(y));
    if (T::SCALED) store4_relaxed(p + 2 * T::ELEMENTS, rounded_values(scaled));
    if (T::SCALED && HALVES == 2) store4_relaxed(p + 3 * T::ELEMENTS, rounded_values(scaled));
  }
}
// Adds up the squares of a group of elements, whose units neighbouring lanes have, and the first of these writes the sum.
template <class T, int N> DEV void write_square(u32 epoch, int row, int e, const float (&y)[N], bool there)
{
  float sum = 0;
#pragma unroll
  for (int c = 0; c < N; c++) sum = fmaf(y[c], y[c], sum);
#pragma unroll
  for (int m = 1; m < T::GROUP / N; m *= 2) sum += shuffle_xor(sum, m);
  if (there && e % T::GROUP == 0) store_relaxed(squares_of<T>(epoch) + e / T::GROUP * ROWS + row, sum);
}
template <class Y, class W, int F>
DEV void write_outputs(moment j, const panel_outputs<Y, W> &o, const typename panel_outputs<Y, W>::values &added,
                       const typename panel_outputs<Y, W>::values &gains)
{
  using T = typename Y::tensor;
  constexpr int unit = panel_outputs<Y, W>::unit;
  u32 epoch = T::TAGGED || T::VERSIONS > 1 ? epoch_of<Y>(j) : 0;
#pragma unroll
  for (int i = 0; i < panel_outputs<Y, W>::N; i++) {
    int tile, row, column;
    bool there = o.find(i, tile, row, column);
    if (!there && !T::SCALED) continue;
    float y[unit] = {};
    int e = 0;
    if (there) {
      e = Y::first(S.node[j.n].layer, o.first + tile) + column;
#pragma unroll
      for (int c = 0; c < unit; c++) y[c] = output_at<W, F>(tile, row, column + c, o.columns, added[i][c]);
    }
    if constexpr (panel_outputs<Y, W>::squares) write_square<T>(epoch, row, e, y, there);
    if (!there) continue;
    if constexpr (T::TAGGED)
      *sum_at<W>(tile, row, column) = y[0];
    else if constexpr (T::PANEL)
      write_panel<T>(epoch, row, e, y, gains[i]);
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
template <class X, class P, class W, class R, class Y, int F> DEV u32 panel_group(moment j, int first, int tiles, u32 taken, u32 fed)
{
  typedef panel<W> d;
  constexpr bool merges = parts_of_input<X, W>() > 1;
  const int width = W::width(first), columns = W::columns(first), each = width / W::SPLITS, pieces = (W::K + each - 1) / each;
  const int mine = W::WIDE ? uniform(WARP / 4) % W::GROUPS : WARP % W::GROUPS; // of the group's tiles, those that this warp multiplies
  typename d::sums sums[W::KEEPS] = {};
  typename panel_outputs<Y, W>::values added = {}, gains = {};
  if constexpr (F == ADDED) ask_residual<R, Y, W>(j, {first, min(tiles, (int)W::GROUPS), columns}, added);
  if constexpr (Y::tensor::SCALED) ask_gains<Y, W>(j, {first, min(tiles, (int)W::GROUPS), columns}, gains);
#pragma unroll 1
  for (int piece = 0; piece < pieces; piece++) {
    // The piece of the input has m values along k, from `from` on. It begins at offset `of` of the piece of weights, which has n along k.
    const int from = piece * each, m = min(each, W::K - from), of = from % width, n = min(width, W::K - from + of);
    char *x = S.panel + piece % W::SLOTS * W::SLOT_BYTES;
    u32 at = fed + (u32)piece;
    wait_stage(&S.panel_full[at % PANEL_SLOTS], at / PANEL_SLOTS & 1, j, at);
    if constexpr (merges) merge_piece<P, W>(x, from, m), sync_consumers();
    if (piece == 0) ready(j);
#pragma unroll
    for (int i = 0; i < W::KEEPS; i++)
#pragma unroll 1
      for (int g = 0; g < W::GROUPS && i * W::GROUPS + g < tiles; g++) {
        u32 weights = taken + (u32)(i * W::GROUPS + g), slot = weights % STAGES;
        if (of == 0) wait_stage(&S.full[slot], weights / STAGES & 1, j, weights);
        if (g == mine) {
          if constexpr (W::WIDE)
            multiply_piece_wide<W>(S.ring[slot], x, m, of / 32, sums[i]);
          else
            multiply_piece<W>(S.ring[slot], n, W::SLICES * columns, x, m, of / 32, sums[i]);
        }
        if (of + m == n) release_stage(weights, TID);
      }
    if (of + m == n) taken += (u32)tiles;
    if (merges) fence_proxy();
    sync_warp();
    if (LANE == 0) stage_arrive(&S.panel_empty[at % PANEL_SLOTS]);
  }
  sync_consumers();
  mark(j, SUMMED);
#pragma unroll
  for (int i = 0; i < W::KEEPS; i++) {
    if (i * W::GROUPS >= tiles) break;
    panel_outputs<Y, W> o = {first + i * W::GROUPS, min(tiles - i * W::GROUPS, (int)W::GROUPS), columns};
    if constexpr (F == ADDED)
      if (i) ask_residual<R, Y, W>(j, o, added);
    if constexpr (Y::tensor::SCALED)
      if (i) ask_gains<Y, W>(j, o, gains);
    store_sums<W>(sums[i]);
    sync_consumers();
    write_outputs<Y, W, F>(j, o, added, gains);
    sync_consumers();
  }
  return taken;
}

template <class O, class X, class P, class W, class R, class Y, int F> DEV u32 panel_product(moment j, u32 taken, float eps)
{
  const int hi = S.node[j.n].hi;
  u32 fed = S.feeds;
  open_panel();
  wait_events<O>(j);
  if constexpr (F == NORMED || F == GATED) find_factors<X>(j, eps);
  if constexpr (parts_of_input<X, W>() > 1) P::load_scales(j);
#pragma unroll 1
  for (int first = S.node[j.n].lo, end; first < hi; first = end) {
    end = end_of_group(first, hi, panel<W>::group, W::RAGGED ? W::TILES : 0);
    taken = panel_group<X, P, W, R, Y, F>(j, first, end - first, taken, fed);
    fed += (u32)((W::K * W::SPLITS + W::width(first) - 1) / W::width(first));
    if (end < hi) open_panel();
  }
  if (TID == 0) S.feeds = fed;
  if constexpr (panel_outputs<Y, W>::squares)
    publish(j);
  else
    publish_writes<Y>(j);
  return taken;
}
