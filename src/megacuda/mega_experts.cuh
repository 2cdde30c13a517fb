// Experts: a router's choice, and products whose weights depend on it. The pipeline loads the chosen experts' weights in the order of the
// choices, so bodies do not need the experts' numbers. A work tile multiplies a single row.

// Returns the number of scores before score e in descending order; equal scores keep their order. Two lanes share the scores, whose number `others`
// is a multiple of eight.
DEV int rank_of(const float *score, int e, int others, int half)
{
  float mine = score[e];
  int rank = 0;
#pragma unroll 4
  for (int i = half * 4; i < others; i += 8) {
    float4 v = *(const float4 *)(score + i);
    rank += v.x > mine || (v.x == mine && i < e), rank += v.y > mine || (v.y == mine && i + 1 < e);
    rank += v.z > mine || (v.z == mine && i + 2 < e), rank += v.w > mine || (v.w == mine && i + 3 < e);
  }
  return rank + shuffle_xor(rank, 1);
}

// Chooses the experts with a row's largest scores, by their ranks, which are all different. A NaN counts as the smallest score.
template <class O> BODY u32 body_choose_experts(moment j, u32 taken)
{
  using X = typename O::a0;
  using Y = typename O::a1;
  constexpr int experts = X::tensor::ROW, choices = Y::tensor::ROW / 2, others = (experts + 7) / 8 * 8;
  static_assert(choices <= MOST_CHOICES && MOST_CHOICES <= 32, "a lane has a choice");
  wait_events<O>(j);
#pragma unroll 1
  for (int row = S.node[j.n].lo; row < S.node[j.n].hi; row++) {
    float *score = S.one, *chosen = S.merge[0];
    gather<X, no_gain, experts>(j, row, 0, experts, [&](int e, float v, float) { score[e] = v == v ? v : -INFINITY; });
    if (TID < others - experts) score[experts + TID] = -INFINITY;
    sync_consumers();
    ready(j);
#pragma unroll 1
    for (int first = 0; first < experts; first += THREADS / 2) {
      int tid = TID, e = min(first + tid / 2, experts - 1), rank = rank_of(score, e, others, tid % 2);
      if (rank < choices && tid % 2 == 0) chosen[2 * rank] = (float)e, chosen[2 * rank + 1] = score[e];
    }
    sync_consumers();
    if (WARP == 0) {
      int c = min(LANE, choices - 1);
      float w = exp_of(chosen[2 * c + 1] - chosen[1]), sum = LANE < choices ? w : 0;
#pragma unroll
      for (int m = 16; m; m /= 2) sum += shuffle_xor(sum, m);
      if (LANE < choices) write_unit<Y>(j, row, c, chosen[2 * c], ratio(w, sum), 0);
    }
    sync_consumers();
  }
  publish(j);
  return taken;
}

// Input of a product: the results of a row's choices, [choice][k], each scaled by its weight in E, as one row along k.
template <class X, class E> struct chosen_input {
  template <class W> static DEV void load_row(moment j, int row)
  {
    constexpr int all = X::tensor::ROW, pairs = E::tensor::ROW;
    gather<E, no_gain, pairs>(j, row, 0, pairs, [&](int e, float v, float) { S.merge[0][e] = v; });
    sync_consumers();
    gather<X, no_gain, all>(j, row, 0, all, [&](int e, float v, float) { store_input<W>(row, e, v * S.merge[0][e / W::K * 2 + 1]); });
    if (!W::MATRIX && TID < 8) S.one[all + TID] = 0;
  }
};

// A product of each row with its own weights. Tiles of the same row and choice form batches.
template <class O, class X, class IN, class W, class R, class Y, int F> DEV u32 product_of_rows(moment j, u32 taken, float eps)
{
  int hi = S.node[j.n].hi, layer = S.node[j.n].layer, loaded = -1;
  batch_turn turn = {0, 0};
  wait_events<O>(j);
#pragma unroll 1
  for (int first = S.node[j.n].lo, end; first < hi; first = end) {
    end = min(hi, (first / W::TILES + 1) * W::TILES);
    one_row row = {Y::lo0(layer, first)};
    taken = batches<X, W, R, Y, F>(j, first, end, row, taken, eps, turn, [&] {
      if (row.row == loaded) return;
      IN::template load_row<W>(j, row.row);
      loaded = row.row;
      sync_consumers();
      ready(j);
    });
  }
  end_product<Y>(j);
  return taken;
}

template <class O> BODY u32 body_rmsnorm_experts_gate_up(moment j, u32 taken)
{
  typedef plain_input<typename O::a0, typename O::a1> input;
  return product_of_rows<O, typename O::a0, input, typename O::a3, no_gain, typename O::a4, GATED>(j, taken, O::eps);
}
template <class O> BODY u32 body_experts_with_residual(moment j, u32 taken)
{
  typedef chosen_input<typename O::a0, typename O::a1> input;
  return product_of_rows<O, typename O::a0, input, typename O::a2, typename O::a3, typename O::a4, ADDED>(j, taken, 0);
}
