/* mica_cpu_small.h - loads and stores of dtypes of 8 bits, through float_bits.h, and of integers. Generated C that has tensors of such a
 * dtype contains it, with one line M_SMALL or M_WHOLE for each dtype. */

/* Whether x precedes y in descending order. NaN comes first. */
M_FN int m_before(float x, float y) { return x > y || (x != x && y == y); }

/* integers, which are exact floats; NaN becomes 0, and a boolean is 0 or 1 */
#define M_WHOLE(name, type, truth)                                                                                                  \
  M_FN float m_##name##_to_f32(type x) { return truth ? (float)(x != 0) : (float)x; }                                               \
  M_FN type m_f32_to_##name(float x)                                                                                                \
  {                                                                                                                                 \
    return truth ? (type)(x != 0) : x != x ? 0 : (type)(x < -1e9f ? -1000000000 : x > 1e9f ? 1000000000 : (int)__builtin_rintf(x)); \
  }                                                                                                                                 \
  M_FN m_vec m_gather_##name(const type *p, ptrdiff_t step, int n)                                                                  \
  {                                                                                                                                 \
    m_vec v = {0};                                                                                                                  \
    for (int i = 0; i < n; i++) v[i] = m_##name##_to_f32(p[i * step]);                                                              \
    return v;                                                                                                                       \
  }                                                                                                                                 \
  M_FN m_vec m_ld_##name(const type *p) { return m_gather_##name(p, 1, M_W); }                                                      \
  M_FN m_vec m_ldn_##name(const type *p, int n) { return m_gather_##name(p, 1, n); }                                                \
  M_FN void m_scatter_##name(type *p, ptrdiff_t step, int n, m_vec v)                                                               \
  {                                                                                                                                 \
    for (int i = 0; i < n; i++) p[i * step] = m_f32_to_##name(v[i]);                                                                \
  }                                                                                                                                 \
  M_FN void m_stn_##name(type *p, int n, m_vec v) { m_scatter_##name(p, 1, n, v); }                                                 \
  M_FN void m_st_##name(type *p, m_vec v) { m_scatter_##name(p, 1, M_W, v); }                                                       \
  M_GEMM_BT(m_gemm_bt_##name, type, m_ld_##name, m_ldn_##name)

#define M_SMALL(name, exponent, mantissa, special)                                                                 \
  M_FN float m_##name##_to_f32(uint8_t b) { return mica_float_from(b, exponent, mantissa, special); }              \
  M_FN m_vec m_ld_##name(const uint8_t *p)                                                                         \
  {                                                                                                                \
    m_vec v;                                                                                                       \
    for (int i = 0; i < M_W; i++) v[i] = m_##name##_to_f32(p[i]);                                                  \
    return v;                                                                                                      \
  }                                                                                                                \
  M_FN m_vec m_gather_##name(const uint8_t *p, ptrdiff_t step, int n)                                              \
  {                                                                                                                \
    uint8_t t[M_W] = {0};                                                                                          \
    for (int i = 0; i < n; i++) t[i] = p[i * step];                                                                \
    return m_ld_##name(t);                                                                                         \
  }                                                                                                                \
  M_FN m_vec m_ldn_##name(const uint8_t *p, int n) { return m_gather_##name(p, 1, n); }                            \
  M_FN void m_scatter_##name(uint8_t *p, ptrdiff_t step, int n, m_vec v)                                           \
  {                                                                                                                \
    for (int i = 0; i < n; i++) p[i * step] = (uint8_t)mica_float_bits((double)v[i], exponent, mantissa, special); \
  }                                                                                                                \
  M_FN void m_stn_##name(uint8_t *p, int n, m_vec v) { m_scatter_##name(p, 1, n, v); }                             \
  M_FN void m_st_##name(uint8_t *p, m_vec v) { m_scatter_##name(p, 1, M_W, v); }                                   \
  M_GEMM_BT(m_gemm_bt_##name, uint8_t, m_ld_##name, m_ldn_##name)
