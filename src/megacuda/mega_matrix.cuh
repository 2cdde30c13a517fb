// Products with bf16 weights by tensor cores (mma.m16n8k16). Eight columns of weights form the second operand. Each row of the input is two rows of
// the first: x = high + low, both bf16, which represents 16 bits of x. Sums are float32. Up to eight rows of the input fill one first operand.
//
// The order of k within 32 is free if both operands agree. A thread takes sixteen bytes along k of either operand, for two instructions.
//
// Tiles of at most four columns would leave half of the second operand empty. So the operand has the columns twice, with the two halves of a strip of
// 64 along k. The first operand has the input of each half in eight of its rows.

template <class W> struct matrix {
  static constexpr int columns = W::SLICES * W::COLUMNS, blocks = (columns + 7) / 8;    // blocks of eight columns
  static constexpr int halves = columns <= 4 && W::TILE_ROWS <= 4 ? 2 : 1; // parts of a strip along k in one operand
  static constexpr int strip = 32 * halves;                                 // k of a strip
  static constexpr bool whole = !W::RAGGED && columns % (8 / halves) == 0;
  static constexpr int strips = (W::WIDTH + strip * WARPS - 1) / (strip * WARPS);    // strips of a piece per warp
  static constexpr int group = strips < 4 ? strips : 4, chains = blocks > 1 ? 2 : 4; // strips at once; independent chains of sums
  static constexpr int pitch = W::INPUT % 64 ? W::INPUT : W::INPUT + 32;             // from the high to the low halves, without bank conflicts
  typedef float sums[blocks][chains][4];
  static_assert(WARPS % 2 == 0, "matrix_chunk turns all strips of a warp alike");
  static_assert(2 * (pitch + W::INPUT) <= 4 * (W::CHOSEN ? ONE_FLOATS : X_FLOATS), "both halves of a row");
};

// Position of a chunk of sixteen bytes along k in a column's line. Odd columns are swizzled, so that the reads of a warp have no bank conflicts.
DEV int matrix_chunk(int column, int chunk, int width) { return width % 64 ? chunk : chunk ^ (column & 1) * 4; }

// A row of the input. If each row has its own weights, only the row being multiplied is kept.
template <class W> DEV float *input_row(int row)
{
  if constexpr (W::CHOSEN)
    return S.one;
  else
    return S.x[row];
}

// Stores element e of the input.
template <class W> DEV void store_input(int row, int e, float v)
{
  if constexpr (W::MATRIX) {
    bf16 high, *p = (bf16 *)input_row<W>(row) + e;
    store_as(&high, v);
    *p = high;
    store_as(p + matrix<W>::pitch, v - to_float(high));
  } else
    input_row<W>(row)[e] = v;
}

// Addresses of this thread's parts of the operands. Rows of the first operand beyond the input keep arbitrary values; their sums are not read.
template <class W> struct matrix_place {
  typedef matrix<W> m;
  const bf16 *x[2]; // rows LANE / 4 and LANE / 4 + 8 of the first operand, in this warp's first strip
  bool mine[2];
  int warp, group, line; // WARP; LANE / 4; chunk of sixteen bytes in 32 along k
  int column, half;      // of the weights: column in a block, half of a strip
  DEV matrix_place()
  {
    int lane = LANE;
    warp = WARP;
    group = lane / 4, line = lane % 4, column = m::halves == 1 ? group : group % 4, half = m::halves == 1 ? 0 : group / 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int row = group / 2 + (m::halves == 1 ? h * 4 : 0);
      mine[h] = row < W::TILE_ROWS;
      x[h] = (const bf16 *)input_row<W>(mine[h] ? row : 0) + group % 2 * m::pitch + part(m::halves == 1 ? 0 : h) * 32 + line * 8;
    }
  }
  DEV int part(int of) const { return warp * m::halves + of; } // index of the part, 32 along k, in the warp's first strip
  DEV const char *weights(const char *piece, int width) const
  {
    return piece + column * (width * 2) + matrix_chunk(column, part(half) * 4 + line, width) * 16;
  }
};

// Operands of `group` strips of a piece, from strip `at` of the warp on. FULL: all strips exist.
template <class W, bool FULL> struct matrix_strips {
  typedef matrix<W> m;
  uint4 x[m::group][2] = {}, w[m::group][m::blocks];
  DEV void load_input(const matrix_place<W> &p, int from, int at, int parts)
  {
#pragma unroll
    for (int i = 0; i < m::group; i++)
#pragma unroll
      for (int h = 0; h < (W::TILE_ROWS > 4 || m::halves == 2 ? 2 : 1); h++)
        if (p.mine[h] && (FULL || p.part(m::halves == 1 ? 0 : h) + (at + i) * WARPS * m::halves < parts))
          x[i][h] = *(const uint4 *)(p.x[h] + from + (at + i) * WARPS * m::strip);
  }
  DEV void load(const char *line, const matrix_place<W> &p, int at, int pitch, int parts, int columns)
  {
#pragma unroll
    for (int i = 0; i < m::group; i++)
#pragma unroll
      for (int b = 0; b < m::blocks; b++) {
        bool there = (FULL || p.part(p.half) + (at + i) * WARPS * m::halves < parts) && (m::whole || b * 8 + p.column < columns);
        if (!FULL || !m::whole) w[i][b] = make_uint4(0, 0, 0, 0);
        if (there) w[i][b] = *(const uint4 *)(line + b * 8 * pitch + (at + i) * WARPS * m::strip * 2);
      }
  }
  DEV void multiply(typename m::sums &sums) const
  {
#pragma unroll
    for (int i = 0; i < m::group; i++)
#pragma unroll
      for (int b = 0; b < m::blocks; b++) {
        mma(sums[b][i * 2 % m::chains], x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y, w[i][b].x, w[i][b].y);
        mma(sums[b][(i * 2 + 1) % m::chains], x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w, w[i][b].z, w[i][b].w);
      }
  }
};

// Multiplies one piece: `width` of k from `from` on, `columns` columns in all. The stage is released as soon as the piece is in registers.
template <class W, bool FULL>
DEV u32 matrix_piece(moment j, u32 taken, const matrix_place<W> &p, int from, int width, int columns, typename matrix<W>::sums &sums)
{
  typedef matrix<W> m;
  u32 slot = taken % STAGES;
  int parts = width / 32, most = FULL ? m::strips : (width + m::strip * WARPS - 1) / (m::strip * WARPS); // parts of 32; strips per warp
  const char *line = p.weights(S.ring[slot], width);
#pragma unroll 1
  for (int at = 0; at < most; at += m::group) {
    matrix_strips<W, FULL> s;
    s.load_input(p, from, at, parts);
    if (at == 0) wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
    s.load(line, p, at, width * 2, parts, columns);
    if (at + m::group >= most) release_stage(taken, p.group * 4 + p.line);
    s.multiply(sums);
  }
  return taken + 1;
}

// Multiplies all pieces of a tile, and stores its sums in `part`: [warp][row][column of a slice].
template <class W> DEV u32 matrix_tile(moment j, int tile, u32 taken, float *part)
{
  typedef matrix<W> m;
  constexpr bool full = !W::RAGGED && W::WIDTH % (m::strip * WARPS * m::group) == 0;
  int each = W::columns(tile), width = W::width(tile);
  matrix_place<W> p;
  typename m::sums sums = {};
  if constexpr (full) {
#pragma unroll 1
    for (int from = 0; from + W::WIDTH <= W::INPUT; from += W::WIDTH) taken = matrix_piece<W, true>(j, taken, p, from, W::WIDTH, m::columns, sums);
    constexpr int rest = W::INPUT % W::WIDTH;
    if constexpr (rest) taken = matrix_piece<W, false>(j, taken, p, W::INPUT - rest, rest, m::columns, sums);
  } else {
#pragma unroll 1
    for (int from = 0; from < W::INPUT; from += width)
      taken = matrix_piece<W, false>(j, taken, p, from, min(width, W::INPUT - from), W::SLICES * each, sums);
  }
#pragma unroll
  for (int b = 0; b < m::blocks; b++)
#pragma unroll
    for (int i = 0; i < 4 / m::halves; i++) {
      float sum = 0;
#pragma unroll
      for (int c = 0; c < m::chains; c++) sum += m::halves == 2 && p.line >= 2 ? sums[b][c][(i + 2) % 4] : sums[b][c][i];
      if (i / 2 * 4 >= W::TILE_ROWS) continue;
      if (m::halves == 2) sum += shuffle_xor(sum, 2);
      sum += shuffle_xor(sum, 4); // adds the sums of the high and low halves of the input
      int row = i / 2 * 4 + p.group / 2, column = b * 8 + p.line * 2 + i % 2;
      if (W::RAGGED) column = column / each * W::COLUMNS + column % each;
      if (p.group % 2 == 0 && row < W::TILE_ROWS && column < m::columns) part[(p.warp * W::TILE_ROWS + row) * m::columns + column] = sum;
    }
  return taken;
}
