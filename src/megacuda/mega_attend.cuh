// Attention: rotary embedding, appending to the cache, attention over its pages with a running maximum. Without tensor cores a group of lanes reads a
// row of the cache, sixteen bytes each. Each group has its own running maximum; the groups are merged at the end.

// Cosines and sines of this lane's pairs, and gains of its elements of a query head and a key head. They are loaded before the data arrive.
template <class O, class G, class U> struct rotation {
  static constexpr int half = O::dim / 2, n = (half + 31) / 32, elements = (O::dim + 31) / 32;
  float2 t[n];
  float query[elements], key[elements];
  DEV void load(moment j)
  {
#pragma unroll
    for (int i = 0; i < n; i++)
      if (LANE + 32 * i < half) t[i] = constant(&M.rotation[O::ID][j.position * half + LANE + 32 * i]);
    if constexpr (O::NORMS) {
#pragma unroll
      for (int i = 0; i < elements; i++) {
        if (LANE + 32 * i >= O::dim) continue;
        query[i] = gain_of<G>::at(S.node[j.n].layer, LANE + 32 * i), key[i] = gain_of<U>::at(S.node[j.n].layer, LANE + 32 * i);
      }
    }
  }
};

// One warp: applies norm and rotation to a head of `dim` elements in shared memory, then calls keep(element, value) for each.
template <class O, class T, int N, class F> DEV void rotate_head(const T &turn, const float (&gain)[N], float *x, F keep)
{
  constexpr int half = O::dim / 2;
  if constexpr (O::NORMS) {
    float square = 0;
    for (int i = LANE; i < O::dim; i += 32) square += x[i] * x[i];
#pragma unroll
    for (int m = 16; m; m /= 2) square += shuffle_xor(square, m);
    float f = inverse_sqrt(square / O::dim + (float)O::eps);
#pragma unroll
    for (int k = 0; k < N; k++)
      if (LANE + 32 * k < O::dim) x[LANE + 32 * k] *= f * gain[k];
    sync_warp();
  }
#pragma unroll
  for (int k = 0; k < T::n; k++) {
    int i = LANE + 32 * k;
    if (i >= half) continue;
    float a = x[i], b = x[i + half];
    keep(i, a * turn.t[k].x - b * turn.t[k].y), keep(i + half, b * turn.t[k].x + a * turn.t[k].y);
  }
}

// Stores key and value of a tile's position in the cache at `to`.
template <class O, class K, class V, class P, class T> DEV void append_to(moment j, const T &turn, int tile, typename P::tensor::type *to)
{
  int layer = S.node[j.n].layer, k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
  float *x = S.attend.now[0];
  typename P::tensor::type *values = to + P::SLOTS * P::DIM;
  gather<K, no_gain, O::dim>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { x[e - k0] = a; });
  gather<V, no_gain, O::dim>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile),
                             [&](int e, float a, float) { store_as(values + swizzled_index<P>(j.position, e - v0), a); });
  sync_consumers();
  if (WARP == 0) rotate_head<O>(turn, turn.key, x, [&](int e, float a) { store_as(to + swizzled_index<P>(j.position, e), a); });
  sync_consumers();
}

template <class O, class K, class V, class G, class P> DEV void append(moment j)
{
  rotation<O, G, G> turn;
  turn.load(j);
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) append_to<O, K, V, P>(j, turn, tile, cached<P>(S.node[j.n].layer, tile, j.position));
  publish(j);
}

template <class O> BODY u32 body_rotary_append(moment j, u32 taken)
{
  append<O, typename O::a0, typename O::a1, no_gain, typename O::a2>(j);
  return taken;
}
template <class O> BODY u32 body_qknorm_rotary_append(moment j, u32 taken)
{
  append<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3>(j);
  return taken;
}

// ---- attention ----

// An online softmax of all query heads of a kv head. Scores are multiplied by log2(e), so that exponentials are powers of two.
template <class P, int HEADS> struct lane_softmax {
  typedef pack<typename P::tensor::type> line;
  static constexpr int N = line::N, lanes = P::DIM / N, at_once = 32 / lanes, step = WARPS * at_once;
  float q[HEADS][N], most[HEADS], sum[HEADS], out[HEADS][N];
  int chunk, mine;
  DEV float score(int h, const float *k) const
  {
    float s = 0;
#pragma unroll
    for (int i = 0; i < N; i++) s = fmaf(q[h][i], k[i], s);
#pragma unroll
    for (int m = lanes / 2; m; m /= 2) s += shuffle_xor(s, m);
    return s;
  }
  DEV void begin(float scale)
  {
    chunk = LANE % lanes, mine = WARP * at_once + LANE / lanes;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
      for (int i = 0; i < N; i++) q[h][i] = S.attend.query[h * P::DIM + chunk * N + i] * scale, out[h][i] = 0;
      most[h] = NOTHING, sum[h] = 0;
    }
  }
  DEV void open(int rows, int row, int slot, float (&x)[N]) const
  {
    line::open(*(const uint4 *)(S.ring[0] + rows + row * (lanes * 16) + (chunk ^ swizzle_of(cache_row<P>::bytes, slot + row)) * 16), x);
  }
  // Processes a piece of n positions. `slot` is the slot of the first.
  DEV void add(int keys, int n, int slot, int values)
  {
    float k[2][N], v[2][N];
#pragma unroll 1
    for (int i = mine; i - mine < n; i += 2 * step) {
      bool valid[2] = {i < n, i + step < n};
#pragma unroll
      for (int u = 0; u < 2; u++) {
        int row = min(i + u * step, n - 1);
        open(keys, row, slot, k[u]), open(values, row, slot, v[u]);
      }
      add_rows(k, v, valid);
    }
  }
  template <int U> DEV void add_rows(const float (&k)[U][N], const float (&v)[U][N], const bool (&valid)[U])
  {
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      float s[U], top = most[h];
#pragma unroll
      for (int u = 0; u < U; u++) s[u] = score(h, k[u]), s[u] = valid[u] ? s[u] : -INFINITY, top = fmaxf(top, s[u]);
      float stay = exp2_of(most[h] - top);
      most[h] = top, sum[h] *= stay;
#pragma unroll
      for (int i = 0; i < N; i++) out[h][i] *= stay;
#pragma unroll
      for (int u = 0; u < U; u++) {
        float add = exp2_of(s[u] - top);
        sum[h] += add;
#pragma unroll
        for (int i = 0; i < N; i++) out[h][i] = fmaf(add, v[u][i], out[h][i]);
      }
    }
  }
  // All consumers: rescales the sums of the lanes to the maximum of all warps, and stores them in shared memory.
  DEV void join()
  {
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      float top = most[h];
#pragma unroll
      for (int m = lanes; m < 32; m *= 2) top = fmaxf(top, shuffle_xor(top, m));
      if (LANE == 0) S.attend.most[WARP][h] = top;
    }
    sync_consumers();
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      float scale = exp2_of(most[h] - top_of_warps(h)), all = sum[h] * scale;
#pragma unroll
      for (int m = lanes; m < 32; m *= 2) all += shuffle_xor(all, m);
      if (LANE == 0) S.attend.sum[WARP][h] = all;
#pragma unroll
      for (int i = 0; i < N; i++) out[h][i] *= scale;
      spread<16>(out[h], h * P::DIM + chunk * N);
    }
  }
  // Butterfly sum over lanes that differ in the bits from HALF down to `lanes`. Each step halves the elements of a lane while there are enough.
  template <int HALF, int LEFT = N> DEV void spread(float (&x)[N], int at)
  {
    if constexpr (HALF < lanes) {
#pragma unroll
      for (int i = 0; i < LEFT; i++) S.attend.out[WARP][at + i] = x[i];
    } else if constexpr (LEFT > 1) {
      bool upper = LANE & HALF;
#pragma unroll
      for (int i = 0; i < LEFT / 2; i++) {
        float give = upper ? x[i] : x[i + LEFT / 2], stay = upper ? x[i + LEFT / 2] : x[i];
        x[i] = stay + shuffle_xor(give, HALF);
      }
      spread<HALF / 2, LEFT / 2>(x, at + (upper ? LEFT / 2 : 0));
    } else {
      x[0] += shuffle_xor(x[0], HALF);
      spread<HALF / 2, 1>(x, at);
    }
  }
  static constexpr float NOTHING = -1e30f;
};

const float LOG2E = 1.44269504f;

// Scores of this position's key. The last warps compute them, because they have the fewest cached positions.
template <class O, int HEADS> DEV void score_now()
{
#pragma unroll 1
  for (int h = WARPS - 1 - WARP; h < HEADS; h += WARPS) {
    float s = 0;
#pragma unroll
    for (int i = 0; i < O::dim; i += 32)
      if (O::dim % 32 == 0 || i + LANE < O::dim) s = fmaf(S.attend.query[h * O::dim + i + LANE], S.attend.now[0][i + LANE], s);
#pragma unroll
    for (int m = 16; m; m /= 2) s += shuffle_xor(s, m);
    if (LANE == 0) S.attend.score[h] = s * (O::SCALE * LOG2E);
  }
}

// State of an online softmax for one element of the output.
struct element_sums {
  float top = -1e30f, sum = 0, out = 0;
  DEV void add(float most, float add_sum, float add_out) // adds a part with its maximum
  {
    float next = fmaxf(top, most), stay = exp2_of(top - next), scale = exp2_of(most - next);
    top = next, sum = sum * stay + add_sum * scale, out = out * stay + add_out * scale;
  }
  // Adds this position.
  template <int DIM> DEV void add_now(int e) { add(S.attend.score[e / DIM], 1, S.attend.now[1][e % DIM]); }
  // Element e, merged over all warps. With PART the sum is not divided; maximum and divisor are stored in S.attend.whole.
  template <int DIM, bool PART> DEV float join(int e)
  {
    int h = e / DIM;
    float all = 0, x = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) all += S.attend.sum[w][h], x += S.attend.out[w][e];
    add(S.attend.top[h], all, x);
    if (PART && e % DIM == 0) S.attend.whole[0][h] = top / LOG2E, S.attend.whole[1][h] = sum;
    return PART ? out : ratio(out, sum);
  }
};

// The first thread of the first warp after the threads that handle `elements` elements of an access, from `thread` on.
template <class A> DEV constexpr int behind(int thread, int elements)
{
  return (thread + (A::tensor::TAGGED ? (elements / A::tensor::GROUP + 1) * A::tensor::GROUP_WORDS : elements) + 31) / 32 * 32 % THREADS;
}

// Rotates a query head. For tensor cores it is also scaled and split.
template <class O, class P, class T> DEV void rotate_query(const T &turn, int h)
{
  float *x = S.attend.query + h * O::dim;
  rotate_head<O>(turn, turn.query, x, [&](int e, float a) {
    x[e] = a;
    if constexpr (takes_matrix<P, O::heads / O::kv>()) store_split(S.attend.split + h * O::dim * 2, e, a * (O::SCALE * LOG2E));
  });
}

// Loads rotated queries, and this position's key and value: computed from K and V or, without these, read from the cache.
template <class O, class Q, class K, class V, class G, class U, class P, bool WRITES> DEV void load_heads(moment j, int tile)
{
  typedef pack<typename P::tensor::type> line;
  constexpr int heads = O::heads / O::kv, chunks = O::dim / line::N;
  constexpr bool keys_too = !std::is_same<K, no_gain>::value;
  int layer = S.node[j.n].layer, q0 = Q::lo1(layer, tile);
  typename P::tensor::type *keys = cached<P>(layer, tile, j.position), *values = keys + P::SLOTS * P::DIM;
  rotation<O, G, U> turn;
  turn.load(j);
  gather<Q, no_gain, heads * O::dim>(j, Q::lo0(layer, tile), q0, Q::hi1(layer, tile), [&](int e, float a, float) { S.attend.query[e - q0] = a; });
  if constexpr (keys_too) {
    constexpr int second = behind<Q>(0, heads * O::dim), third = behind<Q>(second, O::dim);
    int k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
    gather<K, no_gain, O::dim>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { S.attend.now[0][e - k0] = a; },
                               (TID + THREADS - second) % THREADS);
    auto keep_value = [&](int e, float a, float) { store_now<P>(1, values, j.position, e - v0, a, WRITES); };
    gather<V, no_gain, O::dim>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile), keep_value, (TID + THREADS - third) % THREADS);
  } else {
#pragma unroll 1
    for (int i = TID; i < 2 * chunks; i += THREADS) {
      float x[line::N];
      int which = i / chunks, e = i % chunks * line::N;
      float4 v = load4_relaxed((which ? values : keys) + swizzled_index<P>(j.position, e));
      line::open(make_uint4(float_bits(v.x), float_bits(v.y), float_bits(v.z), float_bits(v.w)), x);
#pragma unroll
      for (int k = 0; k < line::N; k++) S.attend.now[which][e + k] = x[k];
    }
  }
  sync_consumers();
  ready(j);
#pragma unroll 1
  for (int h = WARP; h < heads; h += WARPS) rotate_query<O, P>(turn, h);
  if constexpr (keys_too) {
    auto keep_key = [&](int e, float a) { store_now<P>(0, keys, j.position, e, a, WRITES); };
    if (WARP == heads % WARPS) rotate_head<O>(turn, turn.key, S.attend.now[0], keep_key);
  }
  sync_consumers();
}

// The type that computes the attention of a tile over the pieces of its positions, and finally stores each warp's sums in shared memory.
template <class P, int HEADS> struct attention_of {
  typedef typename std::conditional<takes_matrix<P, HEADS>(), matrix_softmax<P, HEADS>, lane_softmax<P, HEADS>>::type type;
};

// Waits for the piece of positions that begins at `at` and returns their number. keys, values: offsets in the ring.
template <class P> DEV int next_piece(moment j, u32 taken, int at, int end, int &keys, int &values)
{
  int n = min(P::WIDTH, min(end - at, P::SLOTS - at % P::SLOTS));
  wait_stage(&S.full[taken % STAGES], taken / STAGES & 1, j, taken);
  keys = (int)(taken % STAGES) * STAGE_ROOM, values = keys + n * cache_row<P>::bytes;
  return n;
}

// Writes the heads of a tile, which are in S.attend.query. For a part of the positions, D gets maxima and divisors.
template <class O, class Y, class D> DEV void write_heads(moment j, int row, int tile)
{
  constexpr int heads = O::heads / O::kv;
  int layer = S.node[j.n].layer, y0 = Y::first(layer, tile);
  write_row<Y>(j, row, y0, y0 + heads * O::dim, [&](int e) { return S.attend.query[e - y0]; });
  if constexpr (!std::is_same<D, no_gain>::value) {
    int d0 = D::first(layer, tile);
    write_row<D>(j, row, d0, d0 + heads * 2, [&](int e) { return S.attend.whole[e & 1][(e - d0) / 2]; });
  }
  sync_consumers();
}

// G, U: gains of queries and keys. K, V: this position's key and value; without them it is read from the cache. NOW: the cache row that the task
// writes, if any. Y: the output; for a part of the positions, its sums, with maxima and divisors in D.
template <class O, class Q, class K, class V, class G, class U, class P, class NOW, class Y, class D> DEV u32 attend(moment j, u32 taken)
{
  constexpr bool part = !std::is_same<D, no_gain>::value;
  constexpr int heads = O::heads / O::kv;
  typedef typename attention_of<P, heads>::type running;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    running a;
    bool now = P::part(tile) == 0;
    load_heads<O, Q, K, V, G, U, P, !std::is_same<NOW, no_gain>::value>(j, tile);
    if (now) score_now<O, heads>();
    a.begin(O::SCALE * LOG2E);
#pragma unroll 1
    for (int at = P::first(tile, j.position), end = P::end(tile, j.position), n; at < end; at += n, taken++) {
      int keys, values;
      n = next_piece<P>(j, taken, at, end, keys, values);
      a.add(keys, n, at % P::SLOTS, values);
      release_stage(taken, TID);
    }
    a.join();
    sync_consumers();
    mark(j, SUMMED);
#pragma unroll 1
    for (int e = TID; e < heads * O::dim; e += THREADS) {
      element_sums x;
      if (now) x.add_now<O::dim>(e);
      S.attend.query[e] = x.join<O::dim, part>(e);
    }
    sync_consumers();
    write_heads<O, Y, D>(j, P::row(tile), tile);
  }
  publish(j);
  return taken;
}

template <class O> BODY u32 body_paged_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, no_gain, no_gain, no_gain, no_gain, typename O::a1, no_gain, typename O::a3, no_gain>(j, taken);
}
template <class O> BODY u32 body_qknorm_paged_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, no_gain, no_gain, typename O::a1, no_gain, typename O::a2, no_gain, typename O::a4, no_gain>(j, taken);
}
template <class O> BODY u32 body_rotary_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, typename O::a4, typename O::a5, no_gain>(
      j, taken);
}
template <class O> BODY u32 body_qknorm_rotary_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, typename O::a6, typename O::a7,
                no_gain>(j, taken);
}
template <class O> BODY u32 body_rotary_attention_part(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, no_gain, typename O::a4, typename O::a5>(
      j, taken);
}
template <class O> BODY u32 body_qknorm_rotary_attention_part(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, no_gain, typename O::a6,
                typename O::a7>(j, taken);
}
