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
      if (LANE + 32 * i < half) t[i] = M.turn[O::ID][j.position * half + LANE + 32 * i];
  }
};

// A head of `dim` elements in shared memory: norm with a gain, rotation. All warps call it; warp `who` works.
template <class O, class G> DEV void turn_head(moment j, const turns<O> &turn, float *x, int who)
{
  constexpr int half = O::dim / 2;
  if (WARP != who) return;
  if constexpr (O::NORMS) {
    float square = 0;
    for (int i = LANE; i < O::dim; i += 32) square += x[i] * x[i];
#pragma unroll
    for (int m = 16; m; m /= 2) square += across(square, m);
    float f = 1 / sqrtf(square / O::dim + O::eps);
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
}

// The place of a position in the cache: key, and value `slots * dim` further.
template <class P> DEV typename P::tensor::type *cached(int layer, int tile, int position)
{
  using T = typename P::tensor;
  int page = tile / P::HEADS * P::ROW_PAGES + position / P::SLOTS;
  return (typename T::type *)M.tensor[T::ID] + ((((size_t)layer * P::PAGES + page) * P::HEADS + tile % P::HEADS) * 2 * P::SLOTS + position % P::SLOTS) * P::DIM;
}

template <class O, class K, class V, class G, class P> DEV void append(moment j)
{
  int layer = S.node[j.n].layer;
  turns<O> turn;
  turn.load(j);
  wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    float *x = S.attend.query, *v = S.attend.out[0];
    int k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
    gather<K, no_gain>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { x[e - k0] = a; });
    gather<V, no_gain>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile), [&](int e, float a, float) { v[e - v0] = a; });
    consumers();
    turn_head<O, G>(j, turn, x, 0);
    consumers();
    typename P::tensor::type *to = cached<P>(layer, tile, j.position);
    for (int i = TID; i < O::dim; i += THREADS) keep_as(to + i, x[i]), keep_as(to + P::SLOTS * P::DIM + i, v[i]);
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

template <class P, int HEADS> DEV void see(const float *k, const float *v, bool valid, const float (&q)[HEADS][pack<typename P::tensor::type>::N],
                                           float (&most)[HEADS], float (&sum)[HEADS], float (&out)[HEADS][pack<typename P::tensor::type>::N])
{
  typedef pack<typename P::tensor::type> line;
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    float score = 0;
#pragma unroll
    for (int i = 0; i < line::N; i++) score = fmaf(q[h][i], k[i], score);
#pragma unroll
    for (int m = P::DIM / line::N / 2; m; m /= 2) score += across(score, m);
    if (!valid) continue;
    float top = fmaxf(most[h], score), stay = expf(most[h] - top), add = expf(score - top);
    most[h] = top, sum[h] = sum[h] * stay + add;
#pragma unroll
    for (int i = 0; i < line::N; i++) out[h][i] = out[h][i] * stay + add * v[i];
  }
}

template <class O, class P, int HEADS> DEV void join_lanes(float (&most)[HEADS], float (&sum)[HEADS], float (&out)[HEADS][pack<typename P::tensor::type>::N])
{
  typedef pack<typename P::tensor::type> line;
  constexpr int lanes = P::DIM / line::N;
  int chunk = LANE % lanes;
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    float top = most[h];
#pragma unroll
    for (int m = lanes; m < 32; m *= 2) top = fmaxf(top, across(top, m));
    float scale = most[h] == -INFINITY ? 0 : expf(most[h] - top);
    sum[h] *= scale;
#pragma unroll
    for (int i = 0; i < line::N; i++) out[h][i] *= scale;
#pragma unroll
    for (int m = lanes; m < 32; m *= 2) {
      sum[h] += across(sum[h], m);
#pragma unroll
      for (int i = 0; i < line::N; i++) out[h][i] += across(out[h][i], m);
    }
    if (LANE >= lanes) continue;
    if (LANE == 0) S.attend.most[WARP][h] = top, S.attend.sum[WARP][h] = sum[h];
#pragma unroll
    for (int i = 0; i < line::N; i++) S.attend.out[WARP][h * P::DIM + chunk * line::N + i] = out[h][i];
  }
}

template <class O, class P> DEV float joined(int e)
{
  int h = e / P::DIM;
  float top = -INFINITY, sum = 0, out = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) top = fmaxf(top, S.attend.most[w][h]);
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    float scale = S.attend.most[w][h] == -INFINITY ? 0 : expf(S.attend.most[w][h] - top);
    sum += S.attend.sum[w][h] * scale, out += S.attend.out[w][e] * scale;
  }
  return out / sum;
}

template <class L, class T> DEV void open_fresh(const T *p, float *x)
{
  float4 v = fresh4(p);
  L::open(make_uint4(float_bits(v.x), float_bits(v.y), float_bits(v.z), float_bits(v.w)), x);
}

// Key and value of this position, where the same task writes them: as the cache has them.
template <class O, class P> DEV void keep_now(moment j, int tile)
{
  typedef typename P::tensor::type type;
  type *to = cached<P>(S.node[j.n].layer, tile, j.position);
  for (int i = TID; i < 2 * O::dim; i += THREADS) {
    type x;
    keep_as(&x, S.attend.now[i / O::dim][i % O::dim]);
    to[i / O::dim * (P::SLOTS * P::DIM) + i % O::dim] = x, S.attend.now[i / O::dim][i % O::dim] = wide(x);
  }
  consumers();
}

// The first thread, in whole warps, behind so many elements of an access.
template <class A> DEV constexpr int behind(int thread, int elements)
{
  return (thread + (A::tensor::TAGGED ? (elements / A::tensor::GROUP + 1) * A::tensor::GROUP_WORDS : elements) + 31) / 32 * 32 % THREADS;
}

// G, U: gains of queries and keys. K, V: this position's key and value, where the task also writes the cache (NOW is then an output).
template <class O, class Q, class K, class V, class G, class U, class P, class NOW, class Y> DEV u32 attend(moment j, u32 taken)
{
  typedef pack<typename P::tensor::type> line;
  constexpr bool writes = !std::is_same<K, no_gain>::value;
  constexpr int heads = O::heads / O::kv, lanes = P::DIM / line::N, at_once = 32 / lanes;
  int layer = S.node[j.n].layer, chunk = LANE % lanes, mine = WARP * at_once + LANE / lanes;
  if (writes) wait_events<O>(j);
#pragma unroll 1
  for (int tile = S.node[j.n].lo; tile < S.node[j.n].hi; tile++) {
    float q[heads][line::N], most[heads], sum[heads], out[heads][line::N], k[line::N], v[line::N];
    int q0 = Q::lo1(layer, tile), y0 = Y::lo1(layer, tile);
    turns<O> turn;
    turn.load(j);
    gather<Q, no_gain>(j, Q::lo0(layer, tile), q0, Q::hi1(layer, tile), [&](int e, float a, float) { S.attend.query[e - q0] = a; });
    if constexpr (writes) {
      constexpr int second = behind<Q>(0, heads * O::dim), third = behind<Q>(second, O::dim);
      int k0 = K::lo1(layer, tile), v0 = V::lo1(layer, tile);
      gather<K, no_gain>(j, K::lo0(layer, tile), k0, K::hi1(layer, tile), [&](int e, float a, float) { S.attend.now[0][e - k0] = a; },
                         (TID + THREADS - second) % THREADS);
      gather<V, no_gain>(j, V::lo0(layer, tile), v0, V::hi1(layer, tile), [&](int e, float a, float) { S.attend.now[1][e - v0] = a; },
                         (TID + THREADS - third) % THREADS);
    }
    consumers();
#pragma unroll 1
    for (int h = 0; h < heads; h++) turn_head<O, G>(j, turn, S.attend.query + h * O::dim, h % WARPS);
    if constexpr (writes) turn_head<O, U>(j, turn, S.attend.now[0], heads % WARPS);
    consumers();
    if constexpr (writes) keep_now<O, NOW>(j, tile);
#pragma unroll
    for (int h = 0; h < heads; h++) {
      most[h] = -INFINITY, sum[h] = 0;
#pragma unroll
      for (int i = 0; i < line::N; i++) q[h][i] = S.attend.query[h * O::dim + chunk * line::N + i] * O::SCALE, out[h][i] = 0;
    }
#pragma unroll 1
    for (int at = 0, n; at < j.position; at += n, taken++) {
      n = min(P::WIDTH, min(j.position - at, P::SLOTS - at % P::SLOTS));
      u32 slot = taken % STAGES;
      wait_stage(&S.full[slot], taken / STAGES & 1, j, taken);
      const char *keys = S.ring[slot] + chunk * 16, *values = keys + n * (lanes * 16);
#pragma unroll 1
      for (int base = 0; base < n; base += WARPS * at_once) {
        int i = min(base + mine, n - 1);
        line::open(*(const uint4 *)(keys + i * (lanes * 16)), k), line::open(*(const uint4 *)(values + i * (lanes * 16)), v);
        see<P, heads>(k, v, base + mine < n, q, most, sum, out);
      }
      let_go(taken, TID);
    }
    if constexpr (writes) {
#pragma unroll
      for (int i = 0; i < line::N; i++) k[i] = S.attend.now[0][chunk * line::N + i], v[i] = S.attend.now[1][chunk * line::N + i];
    } else {
      if (tile == S.node[j.n].lo) wait_events<O>(j);
      const typename P::tensor::type *now = cached<P>(layer, tile, j.position) + chunk * line::N;
      open_fresh<line>(now, k), open_fresh<line>(now + P::SLOTS * P::DIM, v);
    }
    see<P, heads>(k, v, mine == 0, q, most, sum, out);
    join_lanes<O, P, heads>(most, sum, out);
    consumers();
    write_row<Y>(j, Y::lo0(layer, tile), y0, Y::hi1(layer, tile), [&](int e) { return joined<O, P>(e - y0); });
    consumers();
  }
  publish(j);
  return taken;
}

template <class O> BODY u32 body_paged_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, no_gain, no_gain, no_gain, no_gain, typename O::a1, typename O::a2, typename O::a3>(j, taken);
}
template <class O> BODY u32 body_qknorm_paged_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, no_gain, no_gain, typename O::a1, no_gain, typename O::a2, typename O::a3, typename O::a4>(j, taken);
}
template <class O> BODY u32 body_rotary_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, no_gain, no_gain, typename O::a3, typename O::a4, typename O::a5>(j, taken);
}
template <class O> BODY u32 body_qknorm_rotary_attention(moment j, u32 taken)
{
  return attend<O, typename O::a0, typename O::a1, typename O::a2, typename O::a3, typename O::a4, typename O::a5, typename O::a6, typename O::a7>(j, taken);
}
