// Code shared by attention with and without tensor cores: rows of the key-value cache, and maxima.

// Address of a position's key in a page of the cache; the value is `slots * dim` elements further.
template <class P> DEV typename P::tensor::type *key_of(int layer, size_t page, int tile, int position)
{
  using T = typename P::tensor;
  size_t row = (((size_t)layer * P::PAGES + page) * P::HEADS + P::head(tile)) * 2 * P::SLOTS + position % P::SLOTS;
  return (typename T::type *)M.tensor[T::ID] + row * P::DIM;
}
// The same for a row that has its own pages.
template <class P> DEV typename P::tensor::type *cached(int layer, int tile, int position)
{
  return key_of<P>(layer, P::row(tile) * P::ROW_PAGES + position / P::SLOTS, tile, position);
}

// The swizzle of rows that are multiples of 128 bytes: chunk c of sixteen bytes is stored at c ^ swizzle_of(row_bytes, slot), with the row's slot in
// its page. Tensor cores then read the same chunk of eight rows, or four chunks of two rows, without bank conflicts.
HOST_TOO int swizzle_of(int row_bytes, int slot) { return row_bytes % 128 ? 0 : (slot & 1) * 4 + (slot / 2 & 3); }
template <class P> struct cache_row {
  static constexpr int bytes = P::DIM * (int)sizeof(typename P::tensor::type);
};
// Index at which element e is stored in the row of a position.
template <class P> DEV int swizzled_index(int position, int e)
{
  return e ^ swizzle_of(cache_row<P>::bytes, position % P::SLOTS) * (16 / (int)sizeof(typename P::tensor::type));
}
// Stores element e of this position's key (0) or value (1) in shared memory, rounded to the cache's type, and with `writes` also in the cache's row.
template <class P> DEV void store_now(int which, typename P::tensor::type *row, int position, int e, float x, bool writes)
{
  typename P::tensor::type as;
  store_as(&as, x);
  S.attend.now[which][e] = to_float(as);
  if (writes) row[swizzled_index<P>(position, e)] = as;
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
