// The merge of attention's parts as a task of its own. A work tile has the query heads of a kv head. A thread merges the elements of one word. It
// loads these of four parts at once, together with the maxima and divisors of their heads.

// A unit of an input: a word, or as many elements of another tensor, in a word with the tag of `epoch`.
template <class A> DEV uint4 load_unit(u32 epoch, int row, int unit)
{
  using T = typename A::tensor;
  if constexpr (T::TAGGED) {
    return load_word(words_of<T>(epoch, row) + unit);
  } else {
    const int e = first_of<T>(unit), last = e + count_of<T>(unit) - 1;
    auto bits = [&](int k) { return float_bits(untagged_at<T>(epoch, row, min(e + k, last))); };
    return make_uint4(bits(0), bits(1), bits(2), epoch + 1);
  }
}

// A word of a row, merged over all parts. X: sums of the parts; D: maxima and divisors.
template <class X, class D, int HEADS, int DIM> struct merged_word {
  using T = typename X::tensor;
  using U = typename D::tensor;
  static constexpr int K = HEADS * DIM, parts = T::ROW / K, words = K / T::GROUP * T::GROUP_WORDS, B = parts < 4 ? parts : 4; // B: parts at once
  float y[3], top[2], sum[2]; // elements; maximum and divisor of the first element's head, and of the last one's

  // `unit`: the word of the first part.
  DEV void merge(moment j, int row, int unit)
  {
    const u32 epoch = epoch_of<X>(j), of_divisors = epoch_of<D>(j);
    const int e = first_of<T>(unit), head[2] = {e / DIM, (e + count_of<T>(unit) - 1) / DIM};
    y[0] = y[1] = y[2] = sum[0] = sum[1] = 0, top[0] = top[1] = -1e30f;
#pragma unroll 1
    for (int from = 0; from < parts; from += B) {
      uint4 v[3 * B];
      auto ask = [&](int k) {
        const int part = min(from + k / 3, parts - 1);
        if (k % 3 == 0) return load_unit<X>(epoch, row, part * words + unit);
        uint4 pair = load_unit<D>(of_divisors, row, word_at<U>((part * HEADS + head[k % 3 - 1]) * 2));
        pair.w += epoch - of_divisors; // one tag for both tensors
        return pair;
      };
      await_all<3 * B>(ask, epoch + 1, j, T::ID, v);
#pragma unroll
      for (int p = 0; p < B; p++)
        if (from + p < parts) add(e, head[0], &v[3 * p]);
    }
#pragma unroll
    for (int c = 0; c < 3; c++) y[c] = ratio(y[c], (e + c) / DIM == head[0] ? sum[0] : sum[1]);
  }
  // Adds a part: its word, and the maxima and divisors of both heads.
  DEV void add(int e, int head, const uint4 *part)
  {
    const float x[3] = {bits_float(part[0].x), bits_float(part[0].y), bits_float(part[0].z)};
    float stay[2], scale[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float most = bits_float(part[1 + h].x), next = fmaxf(top[h], most);
      stay[h] = exp_of(top[h] - next), scale[h] = exp_of(most - next);
      top[h] = next, sum[h] = fmaf(bits_float(part[1 + h].y), scale[h], sum[h] * stay[h]);
    }
#pragma unroll
    for (int c = 0; c < 3; c++) {
      bool second = (e + c) / DIM != head;
      y[c] = fmaf(x[c], second ? scale[1] : scale[0], y[c] * (second ? stay[1] : stay[0]));
    }
  }
};

// Writes elements lo .. hi - 1 of a row, which are in S.attend.query. In panels a thread writes sixteen bytes.
template <class Y, int N> DEV void write_merged(moment j, int row, int lo, int hi)
{
#if PANELS
  using T = typename Y::tensor;
  if constexpr (T::PANEL && !T::SCALED && N % 8 == 0) {
    u32 epoch = T::VERSIONS > 1 ? epoch_of<Y>(j) : 0;
#pragma unroll 1
    for (int e = lo + TID * 8; e < hi; e += THREADS * 8) {
      float y[8], gain[8];
#pragma unroll
      for (int c = 0; c < 8; c++) y[c] = S.attend.query[e - lo + c], gain[c] = 1;
      write_panel<T>(epoch, row, e, y, gain);
    }
    return;
  }
#endif
  write_row<Y>(j, row, lo, hi, [&](int e) { return S.attend.query[e - lo]; });
}

template <class O> BODY u32 body_merge_parts(moment j, u32 taken)
{
  using X = typename O::a0;
  using Y = typename O::a2;
  using T = typename X::tensor;
  constexpr int each = O::heads / O::kv * O::dim; // elements of a tile
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    int row = Y::lo0(layer, tile), lo = Y::lo1(layer, tile), end = word_at<T>(lo + each - 1) + 1;
#pragma unroll 1
    for (int i = word_at<T>(lo) + TID; i < end; i += THREADS) {
      merged_word<X, typename O::a1, O::heads, O::dim> word;
      word.merge(j, row, i);
      int e = first_of<T>(i) - lo, n = count_of<T>(i);
      S.attend.query[e] = word.y[0];
      if (n > 1) S.attend.query[e + 1] = word.y[1];
      if (n > 2) S.attend.query[e + 2] = word.y[2];
    }
    sync_consumers();
    ready(j), mark(j, SUMMED);
    write_merged<Y, each>(j, row, lo, lo + each);
    sync_consumers();
  }
  publish_writes<Y>(j);
  return taken;
}
