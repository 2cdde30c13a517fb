// Attention by tensor cores, for bf16 rows of a multiple of 128 bytes, and up to eight query heads of a kv head. Queries and the weights of values
// are split as x = high + low, both bf16. Rows 0 to 7 of the first operand have the high parts of the heads, rows 8 to 15 the low ones. A thread has
// the sums of both parts. Scores have the layout of a first operand, so they stay in registers for the product with the values.
//
// The warps take strips of sixteen positions in turn, across pieces.

template <class P, int HEADS> DEV constexpr bool takes_matrix()
{
  return HEADS <= 8 && sizeof(typename P::tensor::type) == 2 && P::DIM % 64 == 0;
}

// Splits two numbers into a pair of high parts and a pair of low parts.
DEV void split_pair(float x, float y, u32 &high, u32 &low)
{
  high = pair_of(x, y), low = pair_of(x - bits_float(high << 16), y - bits_float(high & 0xffff0000u));
}
// Stores element e of a head. Pairs of high and low parts alternate, so that a thread loads a first operand at once.
DEV void store_split(bf16 *head, int e, float x)
{
  bf16 *high = head + e / 2 * 4 + e % 2;
  store_as(high, x), store_as(high + 2, x - to_float(*high));
}

template <class P, int HEADS> struct matrix_softmax {
  static constexpr int dim = P::DIM, parts = dim / 32, blocks = dim / 8; // numbers of 32 and of 8 elements
  static constexpr int ROW = cache_row<P>::bytes, STRIP = 16;            // bytes of a row; positions of a strip
  u32 q[parts][2][4];                                                    // first operands of head LANE / 4
  float most, sum, out[blocks][4];
  int head, line, turn; // head: LANE / 4; line: LANE % 4; turn: strips until this warp's next one

  DEV void begin(float)
  {
    head = LANE / 4, line = LANE % 4, turn = WARP;
    most = -1e30f, sum = 0;
#pragma unroll
    for (int b = 0; b < blocks; b++) out[b][0] = out[b][1] = out[b][2] = out[b][3] = 0;
    int at = min(head, HEADS - 1) * dim + line * 8; // heads beyond the last are computed and not used
#pragma unroll
    for (int c = 0; c < parts; c++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        uint4 x = *(const uint4 *)(S.attend.split + (at + c * 32 + j * 4) * 2);
        q[c][j][0] = x.x, q[c][j][1] = x.y, q[c][j][2] = x.z, q[c][j][3] = x.w;
      }
  }
  // Processes a piece of n positions. `slot` is the slot of the first.
  DEV void add(int keys, int n, int slot, int values)
  {
#pragma unroll 1
    for (; turn * STRIP < n; turn += WARPS) strip(keys, n, slot, values, turn * STRIP);
    turn -= (n + STRIP - 1) / STRIP;
  }
  // Offset in the ring of a chunk of a row, and the address of another chunk of that row. Rows begin at multiples of 128 bytes.
  DEV static int first_of(int rows, int row, int slot, int chunk) { return rows + row * ROW + (chunk ^ swizzle_of(ROW, slot + row)) * 16; }
  DEV static const char *chunk_of(int first, int chunk) { return S.ring[0] + (first ^ chunk % 8 * 16) + chunk / 8 * 128; }
  DEV void strip(int keys, int n, int slot, int values, int first)
  {
    float s[2][4] = {};
    scores(s, keys, n, slot, first);
    float top = most, stay;
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        s[b][i] = first + b * 8 + line * 2 + i < n ? s[b][i] + s[b][i + 2] : -INFINITY;
        top = fmaxf(top, s[b][i]);
      }
    top = fmaxf(top, shuffle_xor(top, 1)), top = fmaxf(top, shuffle_xor(top, 2));
    stay = exp2_of(most - top), most = top, sum *= stay;
    u32 a[4];
#pragma unroll
    for (int b = 0; b < 2; b++) {
      float x = exp2_of(s[b][0] - top), y = exp2_of(s[b][1] - top);
      sum += x + y;
      split_pair(x, y, a[b * 2], a[b * 2 + 1]);
    }
    if (any_of_warp(stay != 1)) { // a new maximum
#pragma unroll
      for (int b = 0; b < blocks; b++)
#pragma unroll
        for (int i = 0; i < 4; i++) out[b][i] *= stay;
    }
    // Positions after the last have weight 0. They read the last row, because later rows may have NaN.
    const int row = first_of(values, min(first + LANE % 16, n - 1), slot, LANE / 16);
#pragma unroll
    for (int b = 0; b < blocks; b += 2) {
      u32 v[4];
      load_transposed(v, chunk_of(row, b));
      mma(out[b], a[0], a[1], a[2], a[3], v[0], v[1]), mma(out[b + 1], a[0], a[1], a[2], a[3], v[2], v[3]);
    }
  }
  // Scores of the keys first + b * 8 + line * 2 and the next: high parts, then low parts. Each is computed in two chains of mma.
  DEV void scores(float (&s)[2][4], int keys, int n, int slot, int first) const
  {
    int row[2];
    float t[2][4] = {};
#pragma unroll
    for (int b = 0; b < 2; b++) row[b] = first_of(keys, min(first + b * 8 + head, n - 1), slot, line);
#pragma unroll
    for (int c = 0; c < parts; c++)
#pragma unroll
      for (int b = 0; b < 2; b++) {
        uint4 k = *(const uint4 *)chunk_of(row[b], c * 4);
        mma(s[b], q[c][0][0], q[c][0][1], q[c][0][2], q[c][0][3], k.x, k.y), mma(t[b], q[c][1][0], q[c][1][1], q[c][1][2], q[c][1][3], k.z, k.w);
      }
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
      for (int i = 0; i < 4; i++) s[b][i] += t[b][i];
  }
  // All consumers: rescales the warp's sums to the maximum of all warps, and stores them in shared memory.
  DEV void join()
  {
    int h = min(head, HEADS - 1);
    sum += shuffle_xor(sum, 1), sum += shuffle_xor(sum, 2);
    if (head < HEADS && line == 0) S.attend.most[WARP][h] = most;
    sync_consumers();
    float scale = exp2_of(most - top_of_warps(h));
    if (head >= HEADS) return;
    if (line == 0) S.attend.sum[WARP][h] = sum * scale;
#pragma unroll
    for (int b = 0; b < blocks; b++)
      *(float2 *)&S.attend.out[WARP][h * dim + b * 8 + line * 2] = make_float2((out[b][0] + out[b][2]) * scale, (out[b][1] + out[b][3]) * scale);
  }
};
