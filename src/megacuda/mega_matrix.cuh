// Products with bf16 weights by tensor cores (mma.m16n8k16). Eight columns of weights are the second operand. Each row of the input is two rows of
// the first: x = high + low, both bf16, which keeps 16 bits of x. Sums are float32. Up to eight rows of the input fill one first operand.
//
// The order of k within 32 is free if both operands agree. A thread takes sixteen bytes along k of either operand, for two instructions.

template <class W> struct matrix {
  static constexpr int columns = W::SLICES * W::COLUMNS, blocks = (columns + 7) / 8; // of eight columns
  static constexpr bool whole = !W::RAGGED && columns % 8 == 0;
  static constexpr int strips = (W::WIDTH + 32 * WARPS - 1) / (32 * WARPS);           // of 32 along k, that a warp has of a piece
  static constexpr int group = strips < 4 ? strips : 4, chains = blocks > 1 ? 2 : 4;  // strips at once; sums that do not wait for each other
  static constexpr int pitch = W::K % 64 ? W::K : W::K + 32;                          // from the high to the low halves: no bank is met twice
  typedef float sums[blocks][chains][4];
  static_assert(WARPS % 2 == 0, "matrix_chunk turns all strips of a warp alike");
  static_assert(2 * (pitch + W::K) <= 4 * X_FLOATS, "both halves of a row");
};

// Where sixteen bytes along k lie in a column's line: odd columns are turned, so that the reads of a warp meet no bank twice.
DEV int matrix_chunk(int column, int chunk, int width) { return width % 64 ? chunk : chunk ^ (column & 1) * 4; }

// Element e of the input.
template <class W> DEV void keep_input(int row, int e, float v)
{
  if constexpr (W::MATRIX) {
    bf16 high, *p = (bf16 *)S.x[row] + e;
    keep_as(&high, v);
    *p = high;
    keep_as(p + matrix<W>::pitch, v - wide(high));
  } else
    S.x[row][e] = v;
}

// Where this thread's parts are. Rows of the first operand that are no row of the input keep what they held: nobody reads their sums.
template <class W> struct matrix_place {
  const bf16 *x[2]; // rows LANE / 4 and LANE / 4 + 8, of this warp's first strip
  bool mine[2];
  int column, line, strip; // of the first block of columns; its bytes of the first strip, behind the column's; the warp's first strip
  DEV matrix_place()
  {
    int lane = LANE, row = lane / 8;
    column = lane / 4, line = lane % 4, strip = WARP;
#pragma unroll
    for (int h = 0; h < 2; h++) mine[h] = h * 4 + row < ROWS, x[h] = (const bf16 *)S.x[mine[h] ? h * 4 + row : 0] + column % 2 * matrix<W>::pitch + strip * 32 + line * 8;
  }
};

// `group` strips of a piece, from strip `at` of the warp on: the input, and the weights. FULL: all strips are there.
template <class W, bool FULL> struct matrix_strips {
  typedef matrix<W> m;
  uint4 x[m::group][2] = {}, w[m::group][m::blocks];
  DEV void load_input(const matrix_place<W> &p, int from, int at, int strips)
  {
#pragma unroll
    for (int i = 0; i < m::group; i++)
#pragma unroll
      for (int h = 0; h < (ROWS > 4 ? 2 : 1); h++)
        if (p.mine[h] && (FULL || p.strip + (at + i) * WARPS < strips)) x[i][h] = *(const uint4 *)(p.x[h] + from + (at + i) * WARPS * 32);
  }
  DEV void load(const char *line, const matrix_place<W> &p, int at, int pitch, int strips, int columns)
  {
#pragma unroll
    for (int i = 0; i < m::group; i++)
#pragma unroll
      for (int b = 0; b < m::blocks; b++) {
        bool there = (FULL || p.strip + (at + i) * WARPS < strips) && (m::whole || b * 8 + p.column < columns);
        if (!FULL || !m::whole) w[i][b] = make_uint4(0, 0, 0, 0);
        if (there) w[i][b] = *(const uint4 *)(line + b * 8 * pitch + (at + i) * WARPS * 64);
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

// One piece: `width` of k from `from` on, of `columns` columns in all. The stage is free as soon as the piece is in registers.
template <class W, bool FULL>
DEV u32 matrix_piece(moment j, u32 taken, const matrix_place<W> &p, int from, int width, int columns, typename matrix<W>::sums &sums)
{
  typedef matrix<W> m;
  u32 slot = taken % STAGES;
  int strips = width / 32, most = FULL ? m::strips : (strips + WARPS - 1) / WARPS; // in all; that a warp has
  const char *line = S.ring[slot] + p.column * (width * 2) + matrix_chunk(p.column, p.strip * 4 + p.line, width) * 16;
#pragma unroll 1
  for (int at = 0; at < most; at += m::group) {
    matrix_strips<W, FULL> s;
    s.load_input(p, from, at, strips);
    if (at == 0) wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
    s.load(line, p, at, width * 2, strips, columns);
    if (at + m::group >= most) let_go(taken, p.column * 4 + p.line);
    s.multiply(sums);
  }
  return taken + 1;
}

// All pieces of a tile; its sums into `part`: [warp][row][column of a slice].
template <class W> DEV u32 matrix_tile(moment j, int tile, u32 taken, float *part)
{
  typedef matrix<W> m;
  constexpr bool full = !W::RAGGED && W::WIDTH % (32 * WARPS * m::group) == 0;
  int each = W::columns(tile), width = W::width(tile);
  matrix_place<W> p;
  typename m::sums sums = {};
  if constexpr (full) {
#pragma unroll 1
    for (int from = 0; from + W::WIDTH <= W::K; from += W::WIDTH) taken = matrix_piece<W, true>(j, taken, p, from, W::WIDTH, m::columns, sums);
    if constexpr (W::K % W::WIDTH) taken = matrix_piece<W, false>(j, taken, p, W::K / W::WIDTH * W::WIDTH, W::K % W::WIDTH, m::columns, sums);
  } else {
#pragma unroll 1
    for (int from = 0; from < W::K; from += width) taken = matrix_piece<W, false>(j, taken, p, from, min(width, W::K - from), W::SLICES * each, sums);
  }
#pragma unroll
  for (int b = 0; b < m::blocks; b++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float sum = 0;
#pragma unroll
      for (int c = 0; c < m::chains; c++) sum += sums[b][c][i];
      if (i / 2 * 4 >= ROWS) continue;
      sum += across(sum, 4); // the high and the low halves
      int row = i / 2 * 4 + p.column / 2, column = b * 8 + p.line * 2 + i % 2;
      if (W::RAGGED) column = column / each * W::COLUMNS + column % each;
      if (p.column % 2 == 0 && row < ROWS && column < m::columns) part[(p.strip * ROWS + row) * m::columns + column] = sum;
    }
  return taken;
}
