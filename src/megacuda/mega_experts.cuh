// Experts: a router's choice, and products whose weights the choice decides. The pipeline brings the chosen experts' weights in the order of the
// choices, so a body does not look at their numbers. A work tile belongs to one row: sums of other rows are not used.

// The largest scores of a row, one after another; of equal ones the first. Lane c of the first warp has choice c.
template <class O> BODY u32 body_choose_experts(moment j, u32 taken)
{
  using X = typename O::a0;
  using Y = typename O::a1;
  constexpr int experts = X::tensor::ROW, choices = Y::tensor::ROW / 2;
  static_assert(choices <= 32 && Y::tensor::GROUP == 2, "a lane has a choice");
  wait_events<O>(j);
#pragma unroll 1
  for (int row = S.node[j.n].lo; row < S.node[j.n].hi; row++) {
    gather<X, no_gain, experts>(j, row, 0, experts, [&](int e, float v, float) { S.x[0][e] = v; });
    consumers();
    mark(j, READY);
    if (WARP == 0) {
      int lane = LANE, mine = 0;
      float top = 0, sum = 0, weight = 0;
#pragma unroll 1
      for (int c = 0; c < choices; c++) {
        float best = -INFINITY;
        int at = experts;
#pragma unroll 1
        for (int e = lane; e < experts; e += 32) take_larger(S.x[0][e], e, best, at);
#pragma unroll
        for (int m = 16; m; m /= 2) {
          float x = across(best, m);
          int other = across(at, m);
          take_larger(x, other, best, at);
        }
        at = min(at, experts - 1); // where no score is a number
        if (at % 32 == lane) S.x[0][at] = bits_float(0x7fffffffu); // no number: it is not larger than any
        if (c == 0) top = best;
        float w = exp_of(best - top);
        sum += w;
        if (c == lane) mine = at, weight = w;
      }
      if (lane < choices) write_unit<Y>(j, row, lane, (float)mine, ratio(weight, sum), 0);
    }
    consumers();
  }
  publish(j);
  return taken;
}

// Choices of a row, [choice][k], each scaled by its weight in E: one input, whose k is that of all choices.
template <class X, class E> struct chosen_input {
  template <class W> static DEV void load_row(moment j, int row)
  {
    constexpr int all = X::tensor::ROW, pairs = E::tensor::ROW;
    gather<E, no_gain, pairs>(j, row, 0, pairs, [&](int e, float v, float) { S.merge[row][e] = v; });
    consumers();
    gather<X, no_gain, all>(j, row, 0, all, [&](int e, float v, float) { keep_input<W>(row, e, v * S.merge[row][e / W::K * 2 + 1]); });
    if (!W::MATRIX && TID < 8) S.x[row][all + TID] = 0;
  }
};

// A product of each row with weights of its own. Tiles of the same row and choice make batches.
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
      consumers();
      mark(j, READY);
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
