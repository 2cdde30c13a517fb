// Code that attention with and without tensor cores shares: rows of the cache of keys and values, and maxima.

// The place of a position in the cache: key, and value `slots * dim` further.
template <class P> DEV typename P::tensor::type *cached(int layer, int tile, int position)
{
  using T = typename P::tensor;
  int page = P::row(tile) * P::ROW_PAGES + position / P::SLOTS;
  return (typename T::type *)M.tensor[T::ID] + ((((size_t)layer * P::PAGES + page) * P::HEADS + P::head(tile)) * 2 * P::SLOTS + position % P::SLOTS) * P::DIM;
}

// Rows of whole 128 bytes have their chunks of sixteen bytes exchanged by their slot in the page: chunk c is at c ^ exchange. Tensor cores then read
// the same chunk of eight rows, and four chunks of two rows, without bank conflicts.
HOST_TOO int exchange(int row_bytes, int slot) { return row_bytes % 128 ? 0 : (slot & 1) * 4 + (slot / 2 & 3); }
template <class P> struct cache_row {
  static constexpr int bytes = P::DIM * (int)sizeof(typename P::tensor::type);
};
// The place of element e in the row of a position.
template <class P> DEV int kept_at(int position, int e)
{
  return e ^ exchange(cache_row<P>::bytes, position % P::SLOTS) * (16 / (int)sizeof(typename P::tensor::type));
}
// Element e of this position's key (0) or value (1): in shared memory, rounded as the cache has it, and where `writes`, in the cache's row.
template <class P> DEV void keep_now(int which, typename P::tensor::type *row, int position, int e, float x, bool writes)
{
  typename P::tensor::type as;
  keep_as(&as, x);
  S.attend.now[which][e] = wide(as);
  if (writes) row[kept_at<P>(position, e)] = as;
}

// The maximum of a head over the warps; all have left theirs.
DEV float top_of_warps(int h)
{
  float top = S.attend.most[0][h];
#pragma unroll
  for (int w = 1; w < WARPS; w++) top = fmaxf(top, S.attend.most[w][h]);
  S.attend.top[h] = top; // the same from each thread
  return top;
}
