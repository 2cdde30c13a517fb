// Tokens: rows of an embedding table, the largest logit. Also other small bodies of layer.def.

template <class O> BODY u32 body_embed(moment j, u32 taken)
{
  using E = typename O::a1;
  using Y = typename O::a2;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    using T = typename Y::tensor;
    int lo = word_at<T>(Y::lo1(layer, tile)), units = word_at<T>(Y::hi1(layer, tile) - 1) + 1 - lo;
#pragma unroll 1
    for (int i = TID; i < units * ROWS; i += THREADS) {
      int r = i / units, unit = lo + i % units, e = first_of<T>(unit), n = count_of<T>(unit);
      int token = load_relaxed((const int *)M.tensor[O::a0::tensor::ID] + r);
      bool known = token >= 0 && token < E::tensor::COUNT;
      if (!known && i % units == 0) record_fault(BAD_TOKEN, j, (u32)r, (u32)token, 0);
      typedef const typename E::tensor::type number;
      number *p = (number *)M.tensor[E::tensor::ID] + (size_t)(known ? token : 0) * (size_t)E::tensor::ROW + e;
      write_unit<Y>(j, r, unit, to_float(p[0]), n > 1 ? to_float(p[1]) : 0, n > 2 ? to_float(p[2]) : 0);
    }
  }
  publish_writes<Y>(j);
  return taken;
}

template <class O> BODY u32 body_rmsnorm(moment j, u32 taken)
{
  using X = typename O::a0;
  using Y = typename O::a2;
  constexpr int K = X::tensor::ROW;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int row = S.node[j.n].lo; row < S.node[j.n].hi; row++) {
    float square = 0;
    gather<X, typename O::a1, K>(j, row, 0, K, [&](int e, float v, float g) { S.x[0][e] = v * g, square += v * v; });
#pragma unroll
    for (int m = 16; m; m /= 2) square += shuffle_xor(square, m);
    if (LANE == 0) S.square[S.node[j.n].turn][0][WARP] = square;
    sync_consumers();
    float f = norm_factor<X>(j, 0, O::eps);
    write_row<Y>(j, row, Y::lo1(layer, row), Y::hi1(layer, row), [&](int e) { return S.x[0][e] * f; });
    sync_consumers();
  }
  publish_writes<Y>(j);
  return taken;
}

template <class O> BODY u32 body_silu_mul(moment j, u32 taken)
{
  using Y = typename O::a2;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++)
#pragma unroll 1
    for (int r = 0; r < ROWS; r++)
      write_row<Y>(j, r, Y::lo1(layer, tile), Y::hi1(layer, tile), [&](int e) {
        float a = element_of<typename O::a0>(j, r, e), b = element_of<typename O::a1>(j, r, e);
        return ratio(a, 1 + exp_of(-a)) * b;
      });
  publish_writes<Y>(j);
  return taken;
}

// ---- the largest value; ties go to the first ----

DEV void take_larger(float x, int at, float &best, int &best_at)
{
  if (x > best || (x == best && at < best_at)) best = x, best_at = at;
}

// The largest over the block; all threads of warp 0 get it.
DEV void largest_of_block(float &best, int &best_at)
{
#pragma unroll
  for (int m = 16; m; m /= 2) {
    float x = shuffle_xor(best, m);
    int at = shuffle_xor(best_at, m);
    take_larger(x, at, best, best_at);
  }
  if (LANE == 0) S.best[WARP] = best, S.best_at[WARP] = best_at;
  sync_consumers();
#pragma unroll
  for (int w = 0; w < WARPS; w++) take_larger(S.best[w], S.best_at[w], best, best_at);
  sync_consumers();
}

// Whether the tensor has contiguous floats without epochs, which one warp can read alone.
template <class T> DEV constexpr bool plain_floats()
{
#if PANELS
  if (T::PANEL) return false;
#endif
  return !T::TAGGED;
}

// One warp searches the columns of a tile in a row. With many rows, each warp searches some of them. X: plain_floats.
template <class X, class Y> DEV void largest_of_warp(moment j, int tile, int row)
{
  using T = typename X::tensor;
  constexpr int B = 8; // loads in flight
  int layer = S.node[j.n].layer, lo = X::lo1(layer, tile), hi = X::hi1(layer, tile), at = lo;
  float best = -INFINITY, v[B];
  const float *p = (const float *)plain_of<T>(T::VERSIONS > 1 ? epoch_of<X>(j) : 0, row);
#pragma unroll 1
  for (int from = lo + LANE; from < hi; from += 32 * B) {
#pragma unroll
    for (int i = 0; i < B; i++) v[i] = load_relaxed(p + min(from + i * 32, hi - 1));
#pragma unroll
    for (int i = 0; i < B; i++) take_larger(v[i], min(from + i * 32, hi - 1), best, at);
  }
#pragma unroll
  for (int m = 16; m; m /= 2) {
    float x = shuffle_xor(best, m);
    int of = shuffle_xor(at, m);
    take_larger(x, of, best, at);
  }
  if (LANE == 0) write_unit<Y>(j, row, word_at<typename Y::tensor>(tile * 2), best, (float)(at + (WORLD > 1 ? RANK * T::ROW : 0)), 0);
}

template <class O> BODY u32 body_argmax_partial(moment j, u32 taken)
{
  using X = typename O::a0;
  using Y = typename O::a1;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
  if constexpr (ROWS >= WARPS && plain_floats<typename X::tensor>()) {
#pragma unroll 1
    for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++)
#pragma unroll 1
      for (int r = WARP; r < ROWS; r += WARPS) largest_of_warp<X, Y>(j, tile, r);
  } else {
#pragma unroll 1
    for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++)
#pragma unroll 1
      for (int r = 0; r < ROWS; r++) {
        float best = -INFINITY;
        int at = X::lo1(layer, tile);
        gather<X, no_gain, X::tensor::ROW>(j, r, X::lo1(layer, tile), X::hi1(layer, tile),
                                           [&](int e, float v, float) { take_larger(v, e, best, at); });
        largest_of_block(best, at);
        write_row<Y>(j, r, tile * 2, tile * 2 + 2, [&](int e) { return e % 2 ? (float)(at + (WORLD > 1 ? RANK * X::tensor::ROW : 0)) : best; });
      }
  }
  publish(j);
  return taken;
}

template <class O> BODY u32 body_argmax(moment j, u32 taken)
{
  using X = typename O::a0;
  constexpr int parts = X::tensor::ROW / 2, all = parts * X::tensor::SLOTS;
  wait_events<O>(j);
#pragma unroll 1
  for (int row = S.node[j.n].lo; row < S.node[j.n].hi; row++) {
    float best = -INFINITY;
    int at = 0;
    if constexpr (X::tensor::SLOTS > 1)
      gather_slots<X>(j, row, [&](int slot, int e, float v) { S.x[0][slot * 2 * parts + e] = v; });
    else
      gather<X, no_gain, 2 * parts>(j, row, 0, 2 * parts, [&](int e, float v, float) { S.x[0][e] = v; });
    sync_consumers();
    for (int i = TID; i < all; i += THREADS) take_larger(S.x[0][2 * i], (int)S.x[0][2 * i + 1], best, at);
    largest_of_block(best, at);
    if (TID == 0) *((int *)M.tensor[O::a1::tensor::ID] + row) = at, M.tokens[j.at * ROWS + row] = at;
    sync_consumers();
  }
  publish(j);
  return taken;
}
