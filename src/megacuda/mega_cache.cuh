// Code shared by attention with and without tensor cores: rows of the key-value cache, and maxima.

// Address of a position's key in the cache; the value is `slots * dim` elements further.
template <class P> DEV typename P::tensor::type *cached(int layer, int tile, int position)
{
  using T = typename P::tensor;
  int page = P::row(tile) * P::ROW_PAGES + position / P::SLOTS;
  return (typename T::type *)M.tensor[T::ID] + ((((size_t)layer * P::PAGES + page) * P::HEADS + P::head(tile)) * 2 * P::SLOTS + position % P::SLOTS) * P::DIM;
}

// Swizzle of rows that are multiples of 128 bytes: chunk c of sixteen bytes is stored at c ^ exchange, which depends on the row's slot in the page.
// Tensor cores then read the same chunk of eight rows, or four chunks of two rows, without bank conflicts.
HOST_TOO int exchange(int row_bytes, int slot) { return row_bytes % 128 ? 0 : (slot & 1) * 4 + (slot / 2 & 3); }
template <class P> struct cache_row {
  static constexpr int bytes = P::DIM * (int)sizeof(typename P::tensor::type);
};
// Index of element e in the row of a position.
template <class P> DEV int kept_at(int position, int e)
{
  return e ^ exchange(cache_row<P>::bytes, position % P::SLOTS) * (16 / (int)sizeof(typename P::tensor::type));
}
// Stores element e of this position's key (0) or value (1) in shared memory, rounded to the cache's type, and with `writes` also in the cache's row.
template <class P> DEV void keep_now(int which, typename P::tensor::type *row, int position, int e, float x, bool writes)
{
  typename P::tensor::type as;
  keep_as(&as, x);
  S.attend.now[which][e] = wide(as);
  if (writes) row[kept_at<P>(position, e)] = as;
}

// The maximum of a head over the warps, which must have stored theirs.
DEV float top_of_warps(int h)
{
  float top = S.attend.most[0][h];
#pragma unroll
  for (int w = 1; w < WARPS; w++) top = fmaxf(top, S.attend.most[w][h]);
  S.attend.top[h] = top; // each thread stores the same value
  return top;
}
