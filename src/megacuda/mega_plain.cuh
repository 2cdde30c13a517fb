// The plain model, without tasks, events, words or stages: one function for each operator, one element at a time, sums in float64. It is the
// reference for the kernel's tokens and logits.

struct plain_tensors { // tensors of a rank; shared tensors have the slots of all ranks, and the rank's own slot is written to the first
  void *t[TENSORS];
  int position, layer, rank;
};
template <class A> PLAIN typename A::tensor::type *plain_tensor(const plain_tensors &m) { return (typename A::tensor::type *)m.t[A::tensor::ID]; }

template <class X> PLAIN double plain_factor(const float *x, double eps)
{
  double sum = 0;
  for (int k = 0; k < X::tensor::ROW; k++) sum += (double)x[k] * x[k];
  return 1 / sqrt(sum / X::tensor::ROW + eps);
}

// Computes element i of [rows][n]; n: columns of the output.
template <class X, class G, class W, class R, class Y, int F> struct plain_product {
  plain_tensors m;
  double eps;
  PLAIN double sum(const float *x, int slice, int column) const
  {
    const typename W::tensor::type *w = plain_tensor<W>(m);
    double y = 0;
    for (int k = 0; k < W::K; k++) y += (double)x[k] * gain_of_plain<G>(m, k) * (double)to_float(w[W::element(m.layer, slice, k, column)]);
    return y;
  }
  template <class A> static PLAIN double gain_of_plain(const plain_tensors &m, int k)
  {
    if constexpr (!std::is_same<A, no_gain>::value) return (double)to_float(plain_tensor<A>(m)[m.layer * A::tensor::ROW + k]);
    return 1;
  }
  PLAIN void operator()(long long i) const
  {
    int row = (int)(i / Y::tensor::ROW), column = (int)(i % Y::tensor::ROW);
    const float *x = plain_tensor<X>(m) + (long long)row * X::tensor::ROW;
    double f = F == NORMED || F == GATED ? plain_factor<X>(x, eps) : 1, y = sum(x, 0, column) * f;
    if (F == GATED) y = y / (1 + exp(-y)) * (sum(x, 1, column) * f);
    if constexpr (F == ADDED) y += plain_tensor<R>(m)[i];
    plain_tensor<Y>(m)[i] = (float)y;
  }
};

template <class X, class G, class W, class R, class Y, int F> void plain_run(const plain_tensors &m, double eps)
{
  each((long long)ROWS * Y::tensor::ROW, plain_product<X, G, W, R, Y, F>{m, eps});
}

template <class O> void plain_linear(const plain_tensors &m)
{
  plain_run<typename O::a0, no_gain, typename O::a1, no_gain, typename O::a2, PLAIN_SUM>(m, 0);
}
template <class O> void plain_rmsnorm_linear(const plain_tensors &m)
{
  plain_run<typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, NORMED>(m, O::eps);
}
template <class O> void plain_rmsnorm_head(const plain_tensors &m) { plain_rmsnorm_linear<O>(m); }
template <class O> void plain_linear_with_residual(const plain_tensors &m)
{
  plain_run<typename O::a0, no_gain, typename O::a1, typename O::a2, typename O::a3, ADDED>(m, 0);
}
template <class O> void plain_rmsnorm_gate_up(const plain_tensors &m)
{
  plain_run<typename O::a0, typename O::a1, typename O::a2, no_gain, typename O::a3, GATED>(m, O::eps);
}

// ---- experts ----

template <class O> struct plain_choose {
  plain_tensors m;
  PLAIN void operator()(long long row) const
  {
    constexpr int experts = O::a0::tensor::ROW, choices = O::a1::tensor::ROW / 2;
    const float *x = plain_tensor<typename O::a0>(m) + row * experts;
    float *to = plain_tensor<typename O::a1>(m) + row * 2 * choices;
    auto score = [&](int e) { return x[e] == x[e] ? (double)x[e] : -(double)INFINITY; };
    double sum = 0;
    for (int c = 0; c < choices; c++) {
      int best = -1;
      for (int e = 0; e < experts; e++) {
        bool taken = false;
        for (int b = 0; b < c; b++) taken |= (int)to[2 * b] == e;
        if (!taken && (best < 0 || score(e) > score(best))) best = e;
      }
      to[2 * c] = (float)best, sum += exp(score(best) - score((int)to[0]));
    }
    for (int c = 0; c < choices; c++) to[2 * c + 1] = (float)(exp(score((int)to[2 * c]) - score((int)to[0])) / sum);
  }
};
template <class O> void plain_choose_experts(const plain_tensors &m) { each(ROWS, plain_choose<O>{m}); }

template <class O> struct plain_experts_up {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    using W = typename O::a3;
    constexpr int columns = O::a4::tensor::ROW / (O::a2::tensor::ROW / 2);
    int row = (int)(i / O::a4::tensor::ROW), expert = (int)plain_tensor<typename O::a2>(m)[i / columns * 2], column = (int)(i % columns);
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * O::a0::tensor::ROW;
    const typename W::tensor::type *w = plain_tensor<W>(m);
    const typename O::a1::tensor::type *gain = plain_tensor<typename O::a1>(m) + m.layer * O::a1::tensor::ROW;
    double y[2] = {0, 0};
    for (int k = 0; k < 2 * W::K; k++)
      y[k % 2] += x[k / 2] * (double)to_float(gain[k / 2]) * (double)to_float(w[W::element(m.layer * W::EXPERTS + expert, k % 2, k / 2, column)]);
    double f = plain_factor<typename O::a0>(x, O::eps), gate = y[0] * f;
    plain_tensor<typename O::a4>(m)[i] = (float)(gate / (1 + exp(-gate)) * (y[1] * f));
  }
};
template <class O> void plain_rmsnorm_experts_gate_up(const plain_tensors &m) { each((long long)ROWS * O::a4::tensor::ROW, plain_experts_up<O>{m}); }

template <class O> struct plain_experts_down {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    using W = typename O::a2;
    int row = (int)(i / O::a4::tensor::ROW), column = (int)(i % O::a4::tensor::ROW);
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * O::a0::tensor::ROW;
    const float *chosen = plain_tensor<typename O::a1>(m) + (long long)row * O::a1::tensor::ROW;
    const typename W::tensor::type *w = plain_tensor<W>(m);
    double y = plain_tensor<typename O::a3>(m)[i];
    for (int c = 0; c < W::CHOICES; c++)
      for (int k = 0; k < W::K; k++)
        y += (double)chosen[2 * c + 1] * x[c * W::K + k] * (double)to_float(w[W::element(m.layer * W::EXPERTS + (int)chosen[2 * c], 0, k, column)]);
    plain_tensor<typename O::a4>(m)[i] = (float)y;
  }
};
template <class O> void plain_experts_with_residual(const plain_tensors &m) { each((long long)ROWS * O::a4::tensor::ROW, plain_experts_down<O>{m}); }

template <class X, class G, class Y> struct plain_norm {
  plain_tensors m;
  double eps;
  PLAIN void operator()(long long i) const
  {
    const float *x = plain_tensor<X>(m) + i / X::tensor::ROW * X::tensor::ROW;
    double gain = (double)to_float(plain_tensor<G>(m)[m.layer * X::tensor::ROW + i % X::tensor::ROW]);
    plain_tensor<Y>(m)[i] = (float)(x[i % X::tensor::ROW] * plain_factor<X>(x, eps) * gain);
  }
};
template <class O> void plain_rmsnorm(const plain_tensors &m)
{
  each((long long)ROWS * O::a2::tensor::ROW, plain_norm<typename O::a0, typename O::a1, typename O::a2>{m, O::eps});
}

template <class O> struct plain_silu {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    double a = plain_tensor<typename O::a0>(m)[i];
    plain_tensor<typename O::a2>(m)[i] = (float)(a / (1 + exp(-a)) * plain_tensor<typename O::a1>(m)[i]);
  }
};
template <class O> void plain_silu_mul(const plain_tensors &m) { each((long long)ROWS * O::a2::tensor::ROW, plain_silu<O>{m}); }

template <class O> struct plain_slots {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    double sum = plain_tensor<typename O::a1>(m)[i];
    for (int s = 0; s < O::a0::tensor::SLOTS; s++) sum += plain_tensor<typename O::a0>(m)[s * O::a0::tensor::ELEMENTS + i];
    plain_tensor<typename O::a2>(m)[i] = (float)sum;
  }
};
template <class O> void plain_add_slots(const plain_tensors &m) { each((long long)ROWS * O::a2::tensor::ROW, plain_slots<O>{m}); }

template <class O> struct plain_rows {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    int row = (int)(i / O::a2::tensor::ROW), k = (int)(i % O::a2::tensor::ROW);
    long long token = plain_tensor<typename O::a0>(m)[row];
    plain_tensor<typename O::a2>(m)[i] = to_float(plain_tensor<typename O::a1>(m)[token * O::a1::tensor::ROW + k]);
  }
};
template <class O> void plain_embed(const plain_tensors &m) { each((long long)ROWS * O::a2::tensor::ROW, plain_rows<O>{m}); }

// ---- attention ----

// Element e of a head of q or k after norm and rotation.
template <class O, class G> PLAIN double plain_turned(const plain_tensors &m, const float *x, int e)
{
  constexpr int half = O::dim / 2;
  double f = 1, g0 = 1, g1 = 1;
  int i = e % half;
  if constexpr (O::NORMS) {
    double sum = 0;
    for (int k = 0; k < O::dim; k++) sum += (double)x[k] * x[k];
    f = 1 / sqrt(sum / O::dim + O::eps);
    g0 = (double)to_float(plain_tensor<G>(m)[m.layer * O::dim + i]), g1 = (double)to_float(plain_tensor<G>(m)[m.layer * O::dim + i + half]);
  }
  float2 t = M.rotation[O::ID][m.position * half + i];
  double a = x[i] * f * g0, b = x[i + half] * f * g1;
  return e < half ? a * t.x - b * t.y : b * t.x + a * t.y;
}

template <class P> PLAIN long long plain_cached(int layer, int row, int head, int position)
{
  long long page = (long long)layer * P::PAGES + P::FIRST_PAGE + row * P::ROW_PAGES + position / P::SLOTS;
  return ((page * P::HEADS + head) * 2 * P::SLOTS + position % P::SLOTS) * P::DIM;
}

template <class O, class K, class G, class P> struct plain_append_one {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    int e = (int)(i % O::dim), head = (int)(i / O::dim % O::kv), row = (int)(i / O::dim / O::kv);
    const float *x = plain_tensor<K>(m) + (long long)row * K::tensor::ROW + O::heads * O::dim;
    typename P::tensor::type *to = plain_tensor<P>(m) + plain_cached<P>(m.layer, row, head, m.position);
    int at = swizzled_index<P>(m.position, e);
    store_as(to + at, (float)plain_turned<O, G>(m, x + head * O::dim, e));
    store_as(to + at + P::SLOTS * P::DIM, x[O::kv * O::dim + head * O::dim + e]);
  }
};
template <class O> void plain_rotary_append(const plain_tensors &m)
{
  each((long long)ROWS * O::kv * O::dim, plain_append_one<O, typename O::a0, no_gain, typename O::a2>{m});
}
template <class O> void plain_qknorm_rotary_append(const plain_tensors &m)
{
  each((long long)ROWS * O::kv * O::dim, plain_append_one<O, typename O::a0, typename O::a2, typename O::a3>{m});
}

template <class O, class G, class P, class Y> struct plain_attend {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    int e = (int)(i % O::dim), head = (int)(i / O::dim % O::heads), row = (int)(i / O::dim / O::heads), kv = head / (O::heads / O::kv);
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * O::a0::tensor::ROW + head * O::dim;
    double q[O::dim], most = -INFINITY, sum = 0, out = 0;
    for (int k = 0; k < O::dim; k++) q[k] = plain_turned<O, G>(m, x, k) / sqrt((double)O::dim);
    for (int p = 0; p <= m.position; p++) {
      const typename P::tensor::type *key = plain_tensor<P>(m) + plain_cached<P>(m.layer, row, kv, p);
      double score = 0;
      for (int k = 0; k < O::dim; k++) score += q[k] * (double)to_float(key[swizzled_index<P>(p, k)]);
      double top = fmax(most, score), stay = exp(most - top), add = exp(score - top);
      most = top, sum = sum * stay + add, out = out * stay + add * (double)to_float(key[P::SLOTS * P::DIM + swizzled_index<P>(p, e)]);
    }
    plain_tensor<Y>(m)[i] = (float)(out / sum);
  }
};
template <class O> void plain_paged_attention(const plain_tensors &m)
{
  each((long long)ROWS * O::heads * O::dim, plain_attend<O, no_gain, typename O::a1, typename O::a3>{m});
}
template <class O> void plain_qknorm_paged_attention(const plain_tensors &m)
{
  each((long long)ROWS * O::heads * O::dim, plain_attend<O, typename O::a1, typename O::a2, typename O::a4>{m});
}

template <class O, class U, class G, class P, class Y> void plain_rotary_both(const plain_tensors &m)
{
  each((long long)ROWS * O::kv * O::dim, plain_append_one<O, typename O::a1, U, P>{m});
  each((long long)ROWS * O::heads * O::dim, plain_attend<O, G, P, Y>{m});
}
template <class O> void plain_rotary_attention(const plain_tensors &m) { plain_rotary_both<O, no_gain, no_gain, typename O::a4, typename O::a5>(m); }
template <class O> void plain_qknorm_rotary_attention(const plain_tensors &m)
{
  plain_rotary_both<O, typename O::a4, typename O::a3, typename O::a6, typename O::a7>(m);
}

template <class O> void plain_served_attention(const plain_tensors &m) { plain_rotary_attention<O>(m); }
template <class O> void plain_qknorm_served_attention(const plain_tensors &m) { plain_qknorm_rotary_attention<O>(m); }

// ---- parts of attention ----

template <class O, class G, class P, class Y, class D> struct plain_attend_part {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    constexpr int parts = D::tensor::ROW / (2 * O::heads);
    int e = (int)(i % O::dim), head = (int)(i / O::dim % O::heads), part = (int)(i / (O::heads * O::dim) % parts), row = (int)(i / Y::tensor::ROW);
    int kv = head / (O::heads / O::kv), tile = (row * O::kv + kv) * parts + part, end = P::end(tile, m.position);
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * O::a0::tensor::ROW + head * O::dim;
    double q[O::dim], most = -1e30, sum = 0, out = 0;
    for (int k = 0; k < O::dim; k++) q[k] = plain_turned<O, G>(m, x, k) / sqrt((double)O::dim);
    for (int p = P::first(tile, m.position); p < end + (part == 0); p++) {
      int of = p < end ? p : m.position;
      const typename P::tensor::type *key = plain_tensor<P>(m) + plain_cached<P>(m.layer, row, kv, of);
      double score = 0;
      for (int k = 0; k < O::dim; k++) score += q[k] * (double)to_float(key[swizzled_index<P>(of, k)]);
      double top = fmax(most, score), stay = exp(most - top), add = exp(score - top);
      most = top, sum = sum * stay + add, out = out * stay + add * (double)to_float(key[P::SLOTS * P::DIM + swizzled_index<P>(of, e)]);
    }
    plain_tensor<Y>(m)[i] = (float)out;
    float *d = plain_tensor<D>(m) + 2 * (i / O::dim);
    if (e == 0) d[0] = (float)most, d[1] = (float)sum;
  }
};
// This position is appended first, because the operator that appends it may follow.
template <class O, class G, class U, class P, class Y, class D> void plain_parts(const plain_tensors &m)
{
  each((long long)ROWS * O::kv * O::dim, plain_append_one<O, typename O::a1, U, P>{m});
  each((long long)ROWS * Y::tensor::ROW, plain_attend_part<O, G, P, Y, D>{m});
}
template <class O> void plain_rotary_attention_part(const plain_tensors &m)
{
  plain_parts<O, no_gain, no_gain, typename O::a3, typename O::a4, typename O::a5>(m);
}
template <class O> void plain_qknorm_rotary_attention_part(const plain_tensors &m)
{
  plain_parts<O, typename O::a3, typename O::a4, typename O::a5, typename O::a6, typename O::a7>(m);
}

template <class O> void plain_served_append(const plain_tensors &m) { plain_rotary_append<O>(m); }
template <class O> void plain_qknorm_served_append(const plain_tensors &m) { plain_qknorm_rotary_append<O>(m); }
template <class O> void plain_served_attention_part(const plain_tensors &m) { plain_rotary_attention_part<O>(m); }
template <class O> void plain_qknorm_served_attention_part(const plain_tensors &m) { plain_qknorm_rotary_attention_part<O>(m); }

// Merges the parts into the first.
template <class O, class X, class D> struct plain_merge {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    constexpr int parts = D::tensor::ROW / (2 * O::heads), K = O::heads * O::dim;
    int row = (int)(i / K), e = (int)(i % K);
    float *x = plain_tensor<X>(m) + (long long)row * X::tensor::ROW + e;
    const float *d = plain_tensor<D>(m) + (long long)row * D::tensor::ROW + 2 * (e / O::dim);
    double most = -1e30, sum = 0, y = 0;
    for (int p = 0; p < parts; p++) most = fmax(most, (double)d[2 * O::heads * p]);
    for (int p = 0; p < parts; p++) {
      double scale = exp((double)d[2 * O::heads * p] - most);
      sum += d[2 * O::heads * p + 1] * scale, y += x[(long long)p * K] * scale;
    }
    *x = (float)(y / sum);
  }
};
template <class O> struct plain_heads {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    using X = typename O::a0;
    constexpr int K = O::heads * O::dim;
    plain_tensor<typename O::a2>(m)[i] = plain_tensor<X>(m)[i / K * X::tensor::ROW + i % K];
  }
};
template <class O> void plain_merge_parts(const plain_tensors &m)
{
  each((long long)ROWS * O::heads * O::dim, plain_merge<O, typename O::a0, typename O::a1>{m});
  each((long long)ROWS * O::heads * O::dim, plain_heads<O>{m});
}
template <class O> void plain_merge_linear(const plain_tensors &m)
{
  each((long long)ROWS * O::heads * O::dim, plain_merge<O, typename O::a0, typename O::a1>{m});
  plain_run<typename O::a0, no_gain, typename O::a2, no_gain, typename O::a3, PLAIN_SUM>(m, 0);
}
template <class O> void plain_merge_linear_with_residual(const plain_tensors &m)
{
  each((long long)ROWS * O::heads * O::dim, plain_merge<O, typename O::a0, typename O::a1>{m});
  plain_run<typename O::a0, no_gain, typename O::a2, typename O::a3, typename O::a4, ADDED>(m, 0);
}

// ---- the largest ----

template <class O> struct plain_part {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    constexpr int parts = O::a1::tensor::ROW / 2;
    int row = (int)(i / parts), part = (int)(i % parts), width = (O::a0::tensor::ROW + parts - 1) / parts, at = part * width;
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * O::a0::tensor::ROW;
    for (int k = at; k < (part + 1) * width && k < O::a0::tensor::ROW; k++)
      if (x[k] > x[at]) at = k;
    plain_tensor<typename O::a1>(m)[2 * i] = x[at], plain_tensor<typename O::a1>(m)[2 * i + 1] = (float)(at + m.rank * O::a0::tensor::ROW);
  }
};
template <class O> void plain_argmax_partial(const plain_tensors &m) { each((long long)ROWS * (O::a1::tensor::ROW / 2), plain_part<O>{m}); }

template <class O> struct plain_best {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    constexpr int n = O::a0::tensor::ROW / 2;
    const float *best = plain_tensor<typename O::a0>(m) + i * O::a0::tensor::ROW;
    for (int s = 0; s < O::a0::tensor::SLOTS; s++)
      for (int k = 0; k < n; k++) {
        const float *x = plain_tensor<typename O::a0>(m) + s * O::a0::tensor::ELEMENTS + i * O::a0::tensor::ROW + 2 * k;
        if (x[0] > best[0]) best = x;
      }
    plain_tensor<typename O::a1>(m)[i] = (int)best[1];
  }
};
template <class O> void plain_argmax(const plain_tensors &m) { each(ROWS, plain_best<O>{m}); }

// Sampling with all settings zero: the first candidate of a part is its largest logit, and the others are no tokens.
template <class O> struct plain_candidate {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    constexpr int columns = O::a0::tensor::ROW;
    const int kept = O::a2::hi2(0, 0), parts = O::a2::tensor::ROW / 2 / kept;
    int row = (int)(i / parts), part = (int)(i % parts), at = O::a0::lo1(0, part);
    const float *x = plain_tensor<typename O::a0>(m) + (long long)row * columns;
    for (int k = at; k < O::a0::hi1(0, part); k++)
      if (x[k] > x[at]) at = k;
    float *to = plain_tensor<typename O::a2>(m) + i * 2 * kept;
    for (int k = 0; k < kept; k++) to[2 * k] = k ? -INFINITY : x[at], to[2 * k + 1] = k ? -1 : (float)at;
  }
};
template <class O> void plain_sample_partial(const plain_tensors &m) { each((long long)ROWS * O::TILES, plain_candidate<O>{m}); }

template <class O> struct plain_chosen {
  plain_tensors m;
  PLAIN void operator()(long long i) const
  {
    const float *x = plain_tensor<typename O::a0>(m) + i * O::a0::tensor::ROW;
    int best = 0;
    for (int k = 1; k < O::a0::tensor::ROW / 2; k++)
      if (x[2 * k] > x[2 * best]) best = k;
    plain_tensor<typename O::a2>(m)[i] = (int)x[2 * best + 1];
  }
};
template <class O> void plain_sample(const plain_tensors &m) { each(ROWS, plain_chosen<O>{m}); }

static void plain_node(plain_tensors m, int position, int n)
{
  m.position = position, m.layer = NODE[n].layer;
  switch (NODE[n].op) {
#define OPERATOR(name, layer) \
  case name::ID: plain_##layer<name>(m); break;
    OPERATORS
#undef OPERATOR
  }
}

#if WORLD == 1
static void plain_step(const plain_tensors &m, int position)
{
  for (int n = 0; n < NODES; n++) plain_node(m, position, n);
}
#endif

// ---- errors of logits relative to the plain model ----

static double larger(double a, double b) { return std::isnan(b) ? INFINITY : std::fmax(a, b); }

static double log_of_sum(const float *x, int n)
{
  double most = x[0], sum = 0;
  for (int i = 1; i < n; i++) most = std::fmax(most, x[i]);
  for (int i = 0; i < n; i++) sum += std::exp(x[i] - most);
  return most + std::log(sum);
}

struct fidelity {
  double error, divergence;     // the largest relative norm of the error; the largest Kullback-Leibler divergence
  double likelihood[2], tokens; // sums of the tokens' negative log-likelihoods: kernel, plain model; number of tokens
  // Adds rows of n logits, and the token chosen for each; NULL: none.
  void step(const std::vector<float> &kernel, const std::vector<float> &plain, const int *token)
  {
    const int n = (int)(kernel.size() / ROWS);
    double diff = 0, norm = 0;
    for (int r = 0; r < ROWS; r++) {
      const float *a = &kernel[(size_t)(r * n)], *b = &plain[(size_t)(r * n)];
      double of_a = log_of_sum(a, n), of_b = log_of_sum(b, n), sum = 0;
      for (int i = 0; i < n; i++) {
        diff += (a[i] - b[i]) * (double)(a[i] - b[i]), norm += b[i] * (double)b[i];
        sum += std::exp(b[i] - of_b) * (((double)b[i] - of_b) - ((double)a[i] - of_a));
      }
      divergence = larger(divergence, sum);
      if (token) likelihood[0] += of_a - a[token[r]], likelihood[1] += of_b - b[token[r]], tokens++;
    }
    error = larger(error, std::sqrt(diff / norm));
  }
  void print() const
  {
    printf("relative error of logits at most %.3g, KL divergence at most %.3g", error, divergence);
    if (tokens) printf(", NLL %.7f, plainly %.7f", likelihood[0] / tokens, likelihood[1] / tokens);
    printf("\n");
  }
};
