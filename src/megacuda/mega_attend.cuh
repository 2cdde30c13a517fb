// Attention: rotary embedding, appending to the cache, attention over its pages with a running maximum. A row of the cache is read by as many
// lanes as it has sixteen bytes; each such group has its own running maximum, and they are joined at the end.

// Cosines and sines of this lane's pairs, asked for before the data come.
template <class O> struct turns {
  static constexpr int half = O::dim / 2, n = (half + 31) / 32;
  float2 t[n];
  DEV void load(moment j)
  {
#pragma unroll
    for (int i = 0; i < n; i++)
      if (LANE + 32 * i < half) t[i] = constant(&M.turn[O::ID][j.position * half + LANE + 32 * i]);
  }
};

// A head of `dim` elements in shared memory: norm with a gain, rotation. One warp.
template <class O, class G> DEV void turn_head(moment j, const turns<O> &turn, float *x)
{
  constexpr int half = O::dim / 2;
  if constexpr (O::NORMS) {
    float square = 0;
    for (int i = LANE; i < O::dim; i += 32) square += x[i] * x[i];
#pragma unroll
    for (int m = 16; m; m /= 2) square += across(square, m);
    float f = root_inverse(square / O::dim + (float)O::eps);
    for (int i = LANE; i < O::dim; i += 32) x[i] *= f * gain_of<G>::at(S.node[j.n].layer, i);
    warp_barrier();
  }
#pragma unroll
  for (int k = 0; k < turns<O>::n; k++) {
    int i = LANE + 32 * k;
    if (i >= half) continue;
    float a = x[i], b = x[i + half];
    x[i] = a * turn.t[k].x - b * turn.t[k].y, x[i + half] = b * turn.t[k].x + a * turn.t[k].y;
  }
  warp_barrier();
}

// The place of a position in the cache: key, and value `slots * dim` further.
template <class P> DEV typename P::tensor::type *cached(int layer, int tile, int position)
{
  using T = typename P::tensor;
  int page = P::row(tile) * P::ROW_PAGES + position / P::SLOTS;
  return (typename T::type *)M.tensor[T::ID] + ((((size_t)layer * P::PAGES + page) * P::HEADS + P::head(tile)) * 2 * P::SLOTS + position % P::SLOTS) * P::DIM;
}

// As the cache has it, and where `WRITES`, there.
template <class P, bool WRITES> DEV float kept(typename P::tensor::type *to, float x)
{
  typename P::tensor::type as;
  keep_as(&as, x);
  if (WRITES) *to = as;
  return wide(as);
}

template <class O, class K, class V, class G, class P> DEV void append(moment j)
{
  int layer = S.node[j.n].layer;
  turns<O> turn;
  turn.load(j);
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    float *x = S.attend.now[0];
    typename P::tensor::type *to = cached<P>(layer, tile, j.position), *values = to + P::SLOTS * P::DIM;
    int k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
    gather<K, no_gain, O::dim>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { x[e - k0] = a; });
    gather<V, no_gain, O::dim>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile), [&](int e, float a, float) { keep_as(values + e - v0, a); });
    consumers();
    if (WARP == 0) {
      turn_head<O, G>(j, turn, x);
      for (int i = LANE; i < O::dim; i += 32) keep_as(to + i, x[i]);
    }
    consumers();
  }
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

// A softmax while it runs, of all query heads of a kv head: scores are multiplied by log2 e.
template <class P, int HEADS> struct softmax {
  static constexpr int N = pack<typename P::tensor::type>::N, lanes = P::DIM / N, at_once = 32 / lanes;
  float q[HEADS][N], most[HEADS], sum[HEADS], out[HEADS][N];
  DEV float score(int h, const float *k) const
  {
    float s = 0;
#pragma unroll
    for (int i = 0; i < N; i++) s = fmaf(q[h][i], k[i], s);
#pragma unroll
    for (int m = lanes / 2; m; m /= 2) s += across(s, m);
    return s;
  }
  // Begins with one position, or with none.
  DEV void begin(const float *query, int chunk, float scale, const float *k, const float *v, bool valid)
  {
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
      for (int i = 0; i < N; i++) q[h][i] = query[h * P::DIM + chunk * N + i] * scale, out[h][i] = valid ? v[i] : 0;
      float s = score(h, k);
      most[h] = valid ? s : NOTHING, sum[h] = valid;
    }
  }
  template <int U> DEV void see(const float (&k)[U][N], const float (&v)[U][N], const bool (&valid)[U])
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
  // The lanes of the warp, into shared memory.
  DEV void join(int chunk)
  {
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      float top = most[h];
#pragma unroll
      for (int m = lanes; m < 32; m *= 2) top = fmaxf(top, across(top, m));
      float scale = exp2_of(most[h] - top), all = sum[h] * scale;
#pragma unroll
      for (int m = lanes; m < 32; m *= 2) all += across(all, m);
      if (LANE == 0) S.attend.most[WARP][h] = top, S.attend.sum[WARP][h] = all;
#pragma unroll
      for (int i = 0; i < N; i++) out[h][i] *= scale;
      spread<16>(out[h], h * P::DIM + chunk * N);
    }
  }
  // Sums over lanes that differ in the bits from HALF down to `lanes`; each lane keeps a part of them while there are enough.
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
        x[i] = stay + across(give, HALF);
      }
      spread<HALF / 2, LEFT / 2>(x, at + (upper ? LEFT / 2 : 0));
    } else {
      x[0] += across(x[0], HALF);
      spread<HALF / 2, 1>(x, at);
    }
  }
  static constexpr float NOTHING = -1e30f;
};

const float LOG2E = 1.44269504f;

// Element e over the warps. Of a part it is not divided, and what a merge needs stays in S.attend.now: [maximum, divisor][head].
template <class O, bool PART> DEV float joined(int e)
{
  int h = e / O::dim;
  float top = S.attend.most[0][h], sum = 0, out = 0;
#pragma unroll
  for (int w = 1; w < WARPS; w++) top = fmaxf(top, S.attend.most[w][h]);
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    float scale = exp2_of(S.attend.most[w][h] - top);
    sum += S.attend.sum[w][h] * scale, out += S.attend.out[w][e] * scale;
  }
  if (PART && e % O::dim == 0) S.attend.now[0][h] = top / LOG2E, S.attend.now[1][h] = sum;
  return PART ? out : ratio(out, sum);
}

template <class L, class T> DEV void open_fresh(const T *p, float *x)
{
  float4 v = fresh4(p);
  L::open(make_uint4(float_bits(v.x), float_bits(v.y), float_bits(v.z), float_bits(v.w)), x);
}

// The first thread, in whole warps, behind so many elements of an access.
template <class A> DEV constexpr int behind(int thread, int elements)
{
  return (thread + (A::tensor::TAGGED ? (elements / A::tensor::GROUP + 1) * A::tensor::GROUP_WORDS : elements) + 31) / 32 * 32 % THREADS;
}

// Queries and, where K and V are accesses, this position's key and value: turned and in shared memory.
template <class O, class Q, class K, class V, class G, class U, class P, bool WRITES> DEV void load_heads(moment j, int tile)
{
  constexpr int heads = O::heads / O::kv;
  constexpr bool keys_too = !std::is_same<K, no_gain>::value;
  int layer = S.node[j.n].layer, q0 = Q::lo1(layer, tile);
  turns<O> turn;
  turn.load(j);
  gather<Q, no_gain, heads * O::dim>(j, Q::lo0(layer, tile), q0, Q::hi1(layer, tile), [&](int e, float a, float) { S.attend.query[e - q0] = a; });
  if constexpr (keys_too) {
    constexpr int second = behind<Q>(0, heads * O::dim), third = behind<Q>(second, O::dim);
    int k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
    typename P::tensor::type *values = cached<P>(layer, tile, j.position) + P::SLOTS * P::DIM;
    gather<K, no_gain, O::dim>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { S.attend.now[0][e - k0] = a; },
                               (TID + THREADS - second) % THREADS);
    gather<V, no_gain, O::dim>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile),
                               [&](int e, float a, float) { S.attend.now[1][e - v0] = kept<P, WRITES>(values + e - v0, a); }, (TID + THREADS - third) % THREADS);
  }
  consumers();
  mark(j, READY);
#pragma unroll 1
  for (int h = WARP; h < heads; h += WARPS) turn_head<O, G>(j, turn, S.attend.query + h * O::dim);
  if constexpr (keys_too)
    if (WARP == heads % WARPS) {
      typename P::tensor::type *keys = cached<P>(layer, tile, j.position);
      turn_head<O, U>(j, turn, S.attend.now[0]);
      for (int i = LANE; i < O::dim; i += 32) S.attend.now[0][i] = kept<P, WRITES>(keys + i, S.attend.now[0][i]);
    }
  consumers();
}

template <class P, int N> DEV void open_now(int chunk, float (&k)[N], float (&v)[N])
{
#pragma unroll
  for (int i = 0; i < N; i++) k[i] = S.attend.now[0][chunk * N + i], v[i] = S.attend.now[1][chunk * N + i];
}

// G, U: gains of queries and keys. K, V: this position's key and value; or it is read from the cache. NOW: that the task writes, or not. Y: the
// output; of a part of the positions sums, with D their maxima and divisors.
template <class O, class Q, class K, class V, class G, class U, class P, class NOW, class Y, class D> DEV u32 attend(moment j, u32 taken)
{
  typedef pack<typename P::tensor::type> line;
  constexpr bool keys_too = !std::is_same<K, no_gain>::value, part = !std::is_same<D, no_gain>::value;
  constexpr int heads = O::heads / O::kv;
  typedef softmax<P, heads> running;
  constexpr int step = WARPS * running::at_once, lanes = running::lanes;
  int layer = S.node[j.n].layer, chunk = LANE % lanes, mine = WARP * running::at_once + LANE / lanes;
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    running a;
    float k[2][line::N], v[2][line::N];
    int end = P::end(tile, j.position);
    load_heads<O, Q, K, V, G, U, P, !std::is_same<NOW, no_gain>::value>(j, tile);
    if constexpr (keys_too) {
      open_now<P>(chunk, k[0], v[0]);
    } else {
      const typename P::tensor::type *now = cached<P>(layer, tile, j.position) + chunk * line::N;
      open_fresh<line>(now, k[0]), open_fresh<line>(now + P::SLOTS * P::DIM, v[0]);
    }
    a.begin(S.attend.query, chunk, O::SCALE * LOG2E, k[0], v[0], mine == 0 && P::part(tile) == 0);
#pragma unroll 1
    for (int at = P::first(tile, j.position), n; at < end; at += n, taken++) {
      n = min(P::WIDTH, min(end - at, P::SLOTS - at % P::SLOTS));
      u32 slot = taken % STAGES;
      wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
      const char *keys = S.ring[slot] + chunk * 16, *values = keys + n * (lanes * 16);
#pragma unroll 1
      for (int i = mine; i - mine < n; i += 2 * step) {
        bool valid[2] = {i < n, i + step < n};
#pragma unroll
        for (int u = 0; u < 2; u++) {
          int of = min(i + u * step, n - 1) * (lanes * 16);
          line::open(*(const uint4 *)(keys + of), k[u]), line::open(*(const uint4 *)(values + of), v[u]);
        }
        a.see(k, v, valid);
      }
      let_go(taken, TID);
    }
    a.join(chunk);
    consumers();
    mark(j, SUMMED);
#pragma unroll 1
    for (int e = TID; e < heads * O::dim; e += THREADS) S.attend.query[e] = joined<O, part>(e);
    consumers();
    int y0 = Y::first(layer, tile);
    write_row<Y>(j, P::row(tile), y0, y0 + heads * O::dim, [&](int e) { return S.attend.query[e - y0]; });
    if constexpr (part) {
      int d0 = D::first(layer, tile);
      write_row<D>(j, P::row(tile), d0, d0 + heads * 2, [&](int e) { return S.attend.now[e & 1][(e - d0) / 2]; });
    }
    consumers();
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
  return attend<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, typename O::a4, typename O::a5, no_gain>(j, taken);
}
template <class O> BODY u32 body_qknorm_rotary_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, typename O::a6, typename O::a7, no_gain>(
      j, taken);
}
template <class O> BODY u32 body_rotary_attention_part(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, no_gain, typename O::a4, typename O::a5>(j, taken);
}
template <class O> BODY u32 body_qknorm_rotary_attention_part(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, no_gain, typename O::a6, typename O::a7>(
      j, taken);
}
