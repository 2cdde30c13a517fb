// Products of many rows with bf16 weights, by tensor cores (mma.m16n8k16). Sixteen columns of weights are the first operand, eight rows of the input
// the second. The input is in panels, [k / 32][row][32] of bf16: a thread takes sixteen bytes along k of either operand, for two instructions.
//
// The input does not fit into a block's memory. A thread, the feeder, copies pieces of it, as wide as those of the weights, some ahead. A group of
// tiles is multiplied with each piece, so that the input is copied once for all of them. Up to MEGACUDA_EXACT_ROWS rows are two bf16 a value, high
// and rest, and so nearly floats.

// Tiles first .. end - 1 are multiplied together. A last tile that is narrower than the others is alone; tiles 0: there is none.
DEV int end_of_group(int first, int hi, int group, int tiles)
{
  int end = min(first + group, hi);
  return tiles && end == tiles && end - first > 1 ? end - 1 : end;
}

template <class W> struct panel {
  static constexpr int blocks = (ROWS + 7) / 8, bands = (W::SLICES * W::COLUMNS + 15) / 16; // of eight rows; of sixteen columns
  static constexpr int along = WARPS / W::GROUPS, group = W::KEEPS * W::GROUPS;             // warps that divide k; tiles that are multiplied together
  static constexpr int pitch = blocks * 8 + 1, room = bands * 16 * pitch;                   // of the sums of a warp, [column][row]
  static constexpr int slots = ROWS <= 8 ? 8 : ROWS <= 16 ? 16 : ROWS <= 32 ? 32 : 64;      // of rows, where four threads have a row
  static constexpr int shares = THREADS / 4 / slots;                                        // threads of a row that divide k
  typedef float sums[bands][blocks][4];
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

// Parts of attention that are merged. Other inputs have one part.
template <class X, class W> DEV constexpr int parts_of_input() { return X::tensor::ROW / W::K; }

// A piece: n of k from `from` on, of each part, and the norm's gain behind. One thread.
template <class X, class G, class W> DEV void feed(moment j, char *to, int from, int n, u32 piece)
{
  using T = typename X::tensor;
  constexpr int parts = parts_of_input<X, W>();
  constexpr int gain = gain_bytes<G>::N;
  stage_barrier *b = &S.fed[piece % PANEL_SLOTS];
  int bytes = n * ROWS * 2;
  stage_expect(b, parts * HALVES * bytes + n * gain);
#pragma unroll 1
  for (int p = 0; p < parts; p++, to += HALVES * bytes) {
    const bf16 *x = panel_of<T>(T::VERSIONS > 1 ? epoch_of<X>(j) : 0, p * W::K + from);
    stage_copy(to, x, bytes, b, false);
    if (HALVES == 2) stage_copy(to + bytes, x + T::ELEMENTS, bytes, b, false);
  }
  if constexpr (gain > 0)
    stage_copy(to, (const char *)M.tensor[G::tensor::ID] + ((size_t)S.node[j.n].layer * G::tensor::ROW + from) * gain, n * gain, b, false);
}

// How far the feeder is, and in the same way each consumer warp: pieces and groups so far, of the launch.
struct feeding {
  u32 made, groups;
};

// The pieces of a task, for each group of tiles again.
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
      int width = W::width(first);
      wait_stage(&S.open, f.groups & 1, j, f.groups), f.groups++;
      if (O::FENCE) fence_proxy();
#pragma unroll 1
      for (int from = 0, i = 0; from < W::K && !S.dead; from += width, i++, f.made++) {
        u32 before = f.made - W::SLOTS; // the piece whose place this one takes
        if (i >= W::SLOTS) wait_stage(&S.eaten[before % PANEL_SLOTS], before / PANEL_SLOTS & 1, j, f.made);
        if (S.dead) break; // a piece that was not fed does not count
        feed<typename O::fed, typename O::gain, W>(j, S.panel + i % W::SLOTS * W::SLOT_BYTES, from, min(width, W::K - from), f.made);
      }
    }
  }
}

// Eight values of a row where they lie, the rest `bytes` behind.
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
DEV void keep_values(char *p, int bytes, float (&v)[8])
{
  *(uint4 *)p = make_uint4(rounded(v[0], v[1]), rounded(v[2], v[3]), rounded(v[4], v[5]), rounded(v[6], v[7]));
  if (HALVES == 2) *(uint4 *)(p + bytes) = make_uint4(pair_of(v[0], v[1]), pair_of(v[2], v[3]), pair_of(v[4], v[5]), pair_of(v[6], v[7]));
}

// Scales a piece by the norm's gain where it lies, and adds up the squares of this thread's row.
template <class G, class W> DEV void scale_piece(char *x, int n, float &square)
{
  typedef panel<W> d;
  typedef pack<typename G::tensor::type> line;
  const int at = TID / 4, row = at % d::slots, chunk = TID % 4, bytes = n * ROWS * 2;
  if (row >= ROWS) return;
#pragma unroll 2
  for (int s = at / d::slots; s < n / 32; s += d::shares) {
    char *p = x + (s * ROWS + row) * 64 + chunk * 16;
    const uint4 *gains = (const uint4 *)(x + HALVES * bytes + (s * 32 + chunk * 8) * gain_bytes<G>::N);
    float v[8], g[8];
    open_values(p, bytes, v);
#pragma unroll
    for (int i = 0; i < 8 / line::N; i++) line::open(gains[i], g + i * line::N);
#pragma unroll
    for (int i = 0; i < 8; i++) square = fmaf(v[i], v[i], square), v[i] *= g[i];
    keep_values(p, bytes, v);
  }
}

// Merges parts of attention, in the place of the first. P: merged_input.
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
    keep_values(p, bytes, sum);
  }
}

// The norm's factor of each row, in S.square[0][row][0]; all consumers pass a barrier behind it.
template <class W> DEV void find_factors(float square, int k, float eps)
{
  typedef panel<W> d;
  const int at = TID / 4, row = at % d::slots;
  square += across(square, 1), square += across(square, 2);
  if (row < ROWS && TID % 4 == 0) S.square[0][row][at / d::slots] = square;
  consumers();
  if (TID >= ROWS) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < d::shares; i++) sum += S.square[0][TID][i];
  S.square[0][TID][0] = root_inverse(sum / k + eps);
}

// ---- the products ----

// A piece of weights of `lines` columns with a piece of the input, in this warp's strips of 32 along k. Rows behind the last are no numbers, and
// nobody reads their sums.
template <class W> DEV void multiply_piece(const char *weights, const char *x, int n, int lines, typename panel<W>::sums &sums)
{
  typedef panel<W> d;
  const int place = LANE / 4, chunk = LANE % 4;
#pragma unroll 1
  for (int s = WARP / W::GROUPS; s < n / 32; s += d::along) {
    uint4 w[d::bands][2];
#pragma unroll
    for (int b = 0; b < d::bands; b++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int column = b * 16 + h * 8 + place;
        w[b][h] = make_uint4(0, 0, 0, 0);
        if ((!W::RAGGED && (b * 16 + h * 8 + 8) <= W::SLICES * W::COLUMNS) || column < lines)
          w[b][h] = *(const uint4 *)(weights + column * (n * 2) + matrix_chunk(column, s * 4 + chunk, n) * 16);
      }
#pragma unroll
    for (int half = 0; half < HALVES; half++)
#pragma unroll
      for (int r = 0; r < d::blocks; r++) {
        uint4 v = *(const uint4 *)(x + half * (n * ROWS * 2) + (s * ROWS + r * 8 + place) * 64 + chunk * 16);
#pragma unroll
        for (int b = 0; b < d::bands; b++) {
          mma(sums[b][r], w[b][0].x, w[b][1].x, w[b][0].y, w[b][1].y, v.x, v.y);
          mma(sums[b][r], w[b][0].z, w[b][1].z, w[b][0].w, w[b][1].w, v.z, v.w);
        }
      }
  }
}

template <class W> DEV void leave_sums(const typename panel<W>::sums &sums)
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

// ---- outputs: those of the tiles whose sums are there, one of each group of warps ----

template <class W> struct panel_outputs {
  static constexpr int of_tile = ROWS * W::COLUMNS, N = (W::GROUPS * of_tile + THREADS - 1) / THREADS; // of a thread
  int first, tiles, columns;                                                                           // of the tiles; columns of each
  DEV bool find(int i, int &tile, int &row, int &column) const
  {
    int at = TID + i * THREADS;
    tile = at / of_tile, row = at / W::COLUMNS % ROWS, column = at % W::COLUMNS;
    return tile < tiles && column < columns;
  }
};

template <class R, class Y, class W> DEV void ask_residual(moment j, const panel_outputs<W> &o, float (&added)[panel_outputs<W>::N])
{
#pragma unroll
  for (int i = 0; i < panel_outputs<W>::N; i++) {
    int tile, row, column;
    added[i] = o.find(i, tile, row, column) ? element_of<R>(j, row, Y::first(S.node[j.n].layer, o.first + tile) + column) : 0;
  }
}

template <class W> DEV float *sum_at(int tile, int row, int column) { return (float *)S.panel + tile * panel<W>::room + column * panel<W>::pitch + row; }
template <class W> DEV float sum_of_warps(int tile, int row, int column)
{
  float x = 0;
#pragma unroll
  for (int a = 0; a < panel<W>::along; a++) x += *sum_at<W>(tile + a * W::GROUPS, row, column);
  return x;
}

template <class Y, class W> DEV void write_words(moment j, const panel_outputs<W> &o)
{
  using T = typename Y::tensor;
  consumers();
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

template <class Y, class W, int F> DEV void write_outputs(moment j, const panel_outputs<W> &o, const float (&added)[panel_outputs<W>::N])
{
  using T = typename Y::tensor;
  u32 epoch = T::TAGGED || T::VERSIONS > 1 ? epoch_of<Y>(j) : 0;
#pragma unroll
  for (int i = 0; i < panel_outputs<W>::N; i++) {
    int tile, row, column;
    if (!o.find(i, tile, row, column)) continue;
    float y = sum_of_warps<W>(tile, row, column), f = F == NORMED || F == GATED ? S.square[0][row][0] : 1;
    y = y * f + added[i];
    if (F == GATED) y = ratio(y, 1 + exp_of(-y)) * (sum_of_warps<W>(tile, row, o.columns + column) * f);
    int e = Y::first(S.node[j.n].layer, o.first + tile) + column;
    if constexpr (T::TAGGED)
      *sum_at<W>(tile, row, column) = y;
    else if constexpr (T::PANEL)
      keep_panel<T>(epoch, row, e, y);
    else
      keep((float *)plain_of<T>(epoch, row) + e, y);
  }
  if constexpr (T::TAGGED) write_words<Y, W>(j, o);
}

// ---- a task ----

// This warp needs nothing any more of what was where the pieces will be. Threads wrote there: so there is a fence.
DEV void open_panel()
{
  fence_proxy();
  warp_barrier();
  if (LANE == 0) stage_arrive(&S.open);
}

// Tiles first .. first + tiles - 1.
template <class X, class G, class P, class W, class R, class Y, int F> DEV u32 panel_group(moment j, int first, int tiles, u32 taken, u32 fed, float eps)
{
  typedef panel<W> d;
  constexpr bool norms = F == NORMED || F == GATED, merges = parts_of_input<X, W>() > 1;
  const int width = W::width(first), columns = W::columns(first), pieces = (W::K + width - 1) / width;
  typename d::sums sums[W::KEEPS] = {};
  float square = 0, added[panel_outputs<W>::N] = {};
  if constexpr (F == ADDED) ask_residual<R, Y, W>(j, {first, min(tiles, (int)W::GROUPS), columns}, added);
#pragma unroll 1
  for (int piece = 0; piece < pieces; piece++) {
    int n = min(width, W::K - piece * width);
    char *x = S.panel + piece % W::SLOTS * W::SLOT_BYTES;
    u32 at = fed + (u32)piece;
    wait_stage(&S.fed[at % PANEL_SLOTS], at / PANEL_SLOTS & 1, j, at);
    if constexpr (norms) scale_piece<G, W>(x, n, square), consumers();
    if constexpr (merges) merge_piece<P, W>(x, piece * width, n), consumers();
    if (piece == 0) mark(j, READY);
#pragma unroll
    for (int i = 0; i < W::KEEPS; i++)
#pragma unroll 1
      for (int g = 0; g < W::GROUPS && i * W::GROUPS + g < tiles; g++, taken++) {
        u32 slot = taken % STAGES;
        wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
        if (g == WARP % W::GROUPS) multiply_piece<W>(S.ring[slot], x, n, W::SLICES * columns, sums[i]);
        let_go(taken, TID);
      }
    if (norms || merges) fence_proxy();
    warp_barrier();
    if (LANE == 0) stage_arrive(&S.eaten[at % PANEL_SLOTS]);
  }
  if constexpr (norms)
    find_factors<W>(square, W::K, eps);
  else
    consumers();
  mark(j, SUMMED);
#pragma unroll
  for (int i = 0; i < W::KEEPS; i++) {
    if (i * W::GROUPS >= tiles) break;
    panel_outputs<W> o = {first + i * W::GROUPS, min(tiles - i * W::GROUPS, (int)W::GROUPS), columns};
    if constexpr (F == ADDED)
      if (i) ask_residual<R, Y, W>(j, o, added);
    leave_sums<W>(sums[i]);
    consumers();
    write_outputs<Y, W, F>(j, o, added);
    consumers();
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
    fed += (u32)((W::K + W::width(first) - 1) / W::width(first));
    if (end < hi) open_panel();
  }
  if (TID == 0) S.feeds = fed;
  publish(j);
  return taken;
}
