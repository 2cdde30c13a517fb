// Products whose input is attention in parts. They merge the parts when they load their input.

// Parts of attention, [part][head][dim], with the maximum and the divisor of each head of a part in D.
template <class X, class D, int HEADS> struct merged_input {
  static constexpr int all = X::tensor::ROW, parts = D::tensor::ROW / (2 * HEADS), K = all / parts, dim = K / HEADS;
  // Replaces the maximum of each part of a head by the factor of that part.
  static DEV void scale(int row, int h)
  {
    float *m = S.merge[row] + 2 * h, top = m[0], sum = 0;
#pragma unroll
    for (int p = 1; p < parts; p++) top = fmaxf(top, m[2 * HEADS * p]);
#pragma unroll
    for (int p = 0; p < parts; p++) m[2 * HEADS * p] = exp_of(m[2 * HEADS * p] - top), sum += m[2 * HEADS * p + 1] * m[2 * HEADS * p];
#pragma unroll
    for (int p = 0; p < parts; p++) m[2 * HEADS * p] = ratio(m[2 * HEADS * p], sum);
  }
  template <class W> static DEV void merge_floats(moment j, int row)
  {
    using T = typename X::tensor;
    u32 epoch = T::VERSIONS > 1 ? epoch_of<X>(j) : 0;
#pragma unroll 4
    for (int e = TID; e < K; e += THREADS) {
      float y = 0;
#pragma unroll
      for (int p = 0; p < parts; p++) y = fmaf(untagged_at<T>(epoch, row, p * K + e), S.merge[row][2 * (HEADS * p + e / dim)], y);
      store_input<W>(row, e, y);
    }
  }
  template <class W> static DEV void merge_words(moment j, int row)
  {
    using T = typename X::tensor;
    constexpr int words = K / T::GROUP * T::GROUP_WORDS;
    u32 epoch = epoch_of<X>(j);
    const uint4 *w = words_of<T>(epoch, row);
#pragma unroll 1
    for (int i = TID; i < words; i += THREADS) {
      uint4 v[parts];
      float y[3] = {0, 0, 0};
      int e = first_of<T>(i), n = count_of<T>(i);
      await_words<parts>(w, [&](int p) { return p * words + i; }, epoch + 1, j, T::ID, v);
#pragma unroll
      for (int p = 0; p < parts; p++) {
        const float *m = S.merge[row] + 2 * HEADS * p;
        y[0] = fmaf(bits_float(v[p].x), m[e / dim * 2], y[0]);
        if (T::GROUP % 3 != 1 || n > 1) y[1] = fmaf(bits_float(v[p].y), m[(e + 1) / dim * 2], y[1]);
        if (T::GROUP % 3 == 0 || n > 2) y[2] = fmaf(bits_float(v[p].z), m[(e + 2) / dim * 2], y[2]);
      }
      for (int c = 0; c < n; c++) store_input<W>(row, e + c, y[c]);
    }
  }
  static DEV float scale_of(int row, int part, int e) { return S.merge[row][2 * (HEADS * part + e / dim)]; }
  // Loads the maxima and divisors of all rows, which are contiguous, at once.
  static DEV void load_parts(moment j)
  {
    using T = typename D::tensor;
    if constexpr (T::TAGGED) {
      constexpr int each = (ROWS * T::WORDS + THREADS - 1) / THREADS, B = each < 4 ? each : 4, all = ROWS * T::WORDS;
      u32 epoch = epoch_of<D>(j);
#pragma unroll 1
      for (int i = TID; i < all; i += B * THREADS) {
        uint4 v[B];
        await_words<B>(words_of<T>(epoch, 0), [&](int k) { return min(i + k * THREADS, all - 1); }, epoch + 1, j, T::ID, v);
#pragma unroll
        for (int k = 0; k < B; k++) {
          int at = min(i + k * THREADS, all - 1), word = at % T::WORDS, n = count_of<T>(word);
          float *to = &S.merge[at / T::WORDS][first_of<T>(word)];
          to[0] = bits_float(v[k].x);
          if (n > 1) to[1] = bits_float(v[k].y);
          if (n > 2) to[2] = bits_float(v[k].z);
        }
      }
    } else {
      const float *p = plain_of<T>(epoch_of<D>(j), 0);
#pragma unroll 2
      for (int i = TID; i < ROWS * T::ROW; i += THREADS) S.merge[i / T::ROW][i % T::ROW] = load_relaxed(p + i);
    }
  }
  static DEV void load_scales(moment j)
  {
    if constexpr (ROWS > 1)
      load_parts(j);
    else
      gather<D, no_gain, D::tensor::ROW>(j, 0, 0, D::tensor::ROW, [&](int e, float v, float) { S.merge[0][e] = v; });
    sync_consumers();
#pragma unroll 1
    for (int i = TID; i < ROWS * HEADS; i += THREADS) scale(i / HEADS, i % HEADS);
    sync_consumers();
  }
  template <class W> static DEV void load(moment j)
  {
    load_scales(j);
#pragma unroll 1
    for (int r = 0; r < ROWS; r++) {
      if constexpr (X::tensor::TAGGED)
        merge_words<W>(j, r);
      else
        merge_floats<W>(j, r);
      if (!W::MATRIX && TID < 8) S.x[r][K + TID] = 0;
    }
    sync_consumers();
    ready(j);
  }
};

template <class O, class X, class D, class W, class R, class Y, int F> DEV u32 merge_product_of(moment j, u32 taken)
{
  typedef merged_input<X, D, O::heads> parts;
#if PANELS
  if constexpr (W::PANEL) return panel_product<O, X, parts, W, R, Y, F>(j, taken, 0);
  else
#endif
  return product<O, X, parts, W, R, Y, F>(j, taken, 0);
}
template <class O> BODY u32 body_merge_linear(moment j, u32 taken)
{
  return merge_product_of<O, typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, PLAIN_SUM>(j, taken);
}
template <class O> BODY u32 body_merge_linear_with_residual(moment j, u32 taken)
{
  return merge_product_of<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, ADDED>(j, taken);
}
