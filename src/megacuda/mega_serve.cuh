// Requests that share a cache: each row has a seat, attention uses page tables, and tokens are sampled.

// ---- seats ----

struct seat {
  bool live;
  int position, past, before;
};
DEV seat seat_of(int row, int at) // in step `at` of the launch
{
  seat_row s = M.seat[row];
  if (!s.live || (at && !s.moves)) return {false, row, 0, 0};
  return {true, s.position + at, s.past + at, s.before};
}

// The attention tile to run as the i-th one. The launch gives an order in which adjacent tiles take about equally long.
DEV int served_tile(int i) { return M.order ? M.order[i] : i; }

// Address of the key at a position of a row's request (key_of). Rows that are not live use the first page.
template <class P> DEV typename P::tensor::type *served_at(const seat &s, int layer, int tile, int position)
{
  size_t page = s.live ? M.table[P::row(tile) * P::PAGES + position / P::SLOTS] : 0;
  return key_of<P>(layer, page, tile, position);
}

// ---- attention ----

// Computes key and value of a row, rotated and rounded to the cache's type, in shared memory; with `own`, also in the cache.
template <class O, class K, class V, class U, class P> DEV void served_key(moment j, const seat &s, int tile, int row, bool own)
{
  int layer = S.node[j.n].layer, k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
  typename P::tensor::type *keys = served_at<P>(s, layer, tile, s.position), *values = keys + P::SLOTS * P::DIM;
  rotation<O, U, U> turn;
  j.position = s.position - (P::row(tile) - row);
  turn.load(j);
  for (int i = TID; i < 2 * O::dim; i += THREADS) { // one element per thread, because the sums of the heads occupy registers
    int e = i % O::dim;
    if (i < O::dim)
      S.attend.now[0][e] = element_of<K>(j, row, k0 + e);
    else
      store_now<P>(1, values, j.position, e, element_of<V>(j, row, v0 + e), own);
  }
  sync_consumers();
  if (WARP == 0) rotate_head<O>(turn, turn.key, S.attend.now[0], [&](int e, float a) { store_now<P>(0, keys, j.position, e, a, own); });
  sync_consumers();
}

template <class O, class K, class V, class G, class P> DEV void served_append(moment j)
{
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    seat s = seat_of(P::row(tile), j.at);
    rotation<O, G, G> turn;
    j.position = s.position;
    turn.load(j);
    append_to<O, K, V, P>(j, turn, tile, served_at<P>(s, S.node[j.n].layer, tile, s.position));
  }
  publish(j);
}

// Attention of a row. Keys of earlier rows of the same request in this step are recomputed from their inputs. Y: the output; for a part of the
// positions, its sums, with maxima and divisors in D. The first part handles the rows of this launch.
template <class O, class Q, class K, class V, class G, class U, class P, class Y, class D> DEV u32 serve(moment j, u32 taken)
{
  constexpr bool part = !std::is_same<D, no_gain>::value;
  constexpr int heads = O::heads / O::kv, each = (heads * O::dim + THREADS - 1) / THREADS;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int i = S.node[j.n].lo; i < S.node[j.n].hi; i++) {
    typename attention_of<P, heads>::type a;
    element_sums now[each];
    const int tile = served_tile(i);
    int q0 = Q::lo1(layer, tile), row = P::row(tile), past = seat_of(row, j.at).past, end = P::end(tile, past);
    {
      rotation<O, G, G> turn;
      j.position = seat_of(row, j.at).position;
      turn.load(j);
      gather<Q, no_gain, heads * O::dim>(j, row, q0, Q::hi1(layer, tile), [&](int e, float x, float) { S.attend.query[e - q0] = x; });
      sync_consumers();
      ready(j);
#pragma unroll 1
      for (int h = WARP; h < heads; h += WARPS) rotate_query<O, P>(turn, h);
      sync_consumers();
    }
    a.begin(O::SCALE * LOG2E);
#pragma unroll 1
    for (int at = P::first(tile, past), n; at < end; at += n, taken++) {
      int keys, values;
      n = next_piece<P>(j, taken, at, end, keys, values);
      a.add(keys, n, at % P::SLOTS, values);
      release_stage(taken, TID);
    }
    a.join();
#pragma unroll 1
    for (int r = P::part(tile) ? row + 1 : row - seat_of(row, j.at).before; r <= row; r++) {
      sync_consumers(); // all threads have used the previous key
      served_key<O, K, V, U, P>(j, seat_of(row, j.at), tile, r, r == row && !part);
      score_now<O, heads>();
      sync_consumers();
#pragma unroll
      for (int k = 0; k < each; k++)
        if (TID + k * THREADS < heads * O::dim) now[k].template add_now<O::dim>(TID + k * THREADS);
    }
    sync_consumers();
    mark(j, SUMMED);
#pragma unroll
    for (int k = 0; k < each; k++)
      if (TID + k * THREADS < heads * O::dim) S.attend.query[TID + k * THREADS] = now[k].template join<O::dim, part>(TID + k * THREADS);
    sync_consumers();
    write_heads<O, Y, D>(j, row, tile);
  }
  publish(j);
  return taken;
}

template <class O> BODY u32 body_served_append(moment j, u32 taken)
{
  served_append<O, typename O::a0, typename O::a1, no_gain, typename O::a2>(j);
  return taken;
}
template <class O> BODY u32 body_qknorm_served_append(moment j, u32 taken)
{
  served_append<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3>(j);
  return taken;
}
template <class O> BODY u32 body_served_attention(moment j, u32 taken)
{
  return serve<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, typename O::a5, no_gain>(j, taken);
}
template <class O> BODY u32 body_qknorm_served_attention(moment j, u32 taken)
{
  return serve<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, typename O::a7, no_gain>(j, taken);
}
template <class O> BODY u32 body_served_attention_part(moment j, u32 taken)
{
  return serve<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, typename O::a4, typename O::a5>(j, taken);
}
template <class O> BODY u32 body_qknorm_served_attention_part(moment j, u32 taken)
{
  return serve<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, typename O::a6, typename O::a7>(
      j, taken);
}

// ---- sampling: candidates are ordered by key; ties by the smaller token ----

enum { NO_TOKEN = 0x7fffffff };

struct ranked {
  float key;
  int token;
};
// Updates the best candidate among those after `last` in the order. All candidates are after NO_TOKEN.
DEV void consider(float key, int token, const ranked &last, float &best, int &best_at)
{
  bool behind = last.token == NO_TOKEN || key < last.key || (key == last.key && token > last.token);
  if (token >= 0 && behind && key == key) take_larger(key, token, best, best_at);
}

// Room for candidates: the inputs of products, which are not in use at that time.
DEV float *sampled() { return &S.x[0][0]; }

// The settings of a row: see mega_noise.h.
template <class M0> DEV const float *settings_of(int row) { return (const float *)M.tensor[M0::tensor::ID] + row * NOISE_SETTINGS; }
DEV int top_of(const float *settings, int most) { return (int)fminf(fmaxf(settings[NOISE_TOP], 0), (float)most); }

template <class O> APART void write_candidates(moment j)
{
  using X = typename O::a0;
  using Y = typename O::a2;
  int layer = S.node[j.n].layer;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++)
#pragma unroll 1
    for (int r = 0; r < ROWS; r++) {
      const float *settings = settings_of<typename O::a1>(r);
      const int kept = Y::hi2(layer, tile), lo = X::lo1(layer, tile), hi = X::hi1(layer, tile), top = top_of(settings, kept);
      const int position = seat_of(r, j.at).position;
      ranked last = {0, NO_TOKEN};
      for (int i = TID; i < 2 * kept; i += THREADS) sampled()[i] = i % 2 ? -1.0f : -INFINITY;
      sync_consumers();
#pragma unroll 1
      for (int k = 0; k < max(top, 1); k++) {
        float best = -INFINITY;
        int at = NO_TOKEN;
        gather<X, no_gain, X::tensor::ROW>(j, r, lo, hi, [&](int e, float x, float) {
          consider(top ? x : noise_key(x, settings, (u64)position, (u64)e), e, last, best, at);
        });
        largest_of_block(best, at);
        if (at == NO_TOKEN) break;
        last = {best, at};
        if (TID == 0) {
          sampled()[2 * k] = top || !(settings[NOISE_INVERSE] > 0) ? best : element_of<X>(j, r, at);
          sampled()[2 * k + 1] = (float)at;
        }
      }
      sync_consumers();
      write_row<Y>(j, r, tile * 2 * kept, (tile + 1) * 2 * kept, [&](int e) { return sampled()[e % (2 * kept)]; });
      sync_consumers();
    }
  publish(j);
}
template <class O> BODY u32 body_sample_partial(moment j, u32 taken)
{
  write_candidates<O>(j);
  return taken;
}

template <class O> APART void write_samples(moment j)
{
  using X = typename O::a0;
  constexpr int all = X::tensor::ROW / 2;
  wait_events<O>(j);
#pragma unroll 1
  for (int row = S.node[j.n].lo; row < S.node[j.n].hi; row++) {
    const float *settings = settings_of<typename O::a1>(row);
    const int top = top_of(settings, X::hi2(0, row));
    const seat s = seat_of(row, j.at);
    ranked last = {0, NO_TOKEN};
    float chosen = -INFINITY;
    int chosen_at = NO_TOKEN;
    gather<X, no_gain, 2 * all>(j, row, 0, 2 * all, [&](int e, float v, float) { sampled()[e] = v; });
    sync_consumers();
#pragma unroll 1
    for (int k = 0; k < max(top, 1); k++) {
      float best = -INFINITY;
      int at = NO_TOKEN;
      for (int i = TID; i < all; i += THREADS) {
        float x = sampled()[2 * i];
        int token = (int)sampled()[2 * i + 1];
        if (token >= 0) consider(top ? x : noise_key(x, settings, (u64)s.position, (u64)token), token, last, best, at);
      }
      largest_of_block(best, at);
      if (at == NO_TOKEN) break;
      last = {best, at};
      take_larger(top ? noise_key(best, settings, (u64)s.position, (u64)at) : best, at, chosen, chosen_at);
    }
    if (TID == 0) {
      if (chosen_at == NO_TOKEN && s.live) record_fault(BAD_TOKEN, j, (u32)row, 0, 0);
      if (chosen_at == NO_TOKEN) chosen_at = 0;
      *((int *)M.tensor[O::a2::tensor::ID] + row) = chosen_at, M.tokens[j.at * ROWS + row] = chosen_at;
    }
    sync_consumers();
  }
  publish(j);
}
template <class O> BODY u32 body_sample(moment j, u32 taken)
{
  write_samples<O>(j);
  return taken;
}
