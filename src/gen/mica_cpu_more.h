/* mica_cpu_more.h - functions that printed loop nests use besides mica_cpu.h: a load and a store for each dtype, of a
 * whole vector or of its first n lanes; strided access; products whose second operand is stored transposed. */
#ifndef MICA_CPU_MORE_H
#define MICA_CPU_MORE_H

/* the first n lanes of yes, the other lanes of no */
M_FN m_vec m_first(int n, m_vec yes, m_vec no)
{
#if M_W == 16
  return (m_vec)_mm512_mask_mov_ps((__m512)no, (__mmask16)((1u << n) - 1), (__m512)yes);
#elif M_W == 8
  return m_sel((m_ivec)m_lanes(n), yes, no);
#else
  for (int i = 0; i < n; i++) no[i] = yes[i];
  return no;
#endif
}

M_FN m_vec m_ld_f16(const uint16_t *p)
{
#if M_W == 16
  return (m_vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif defined(__F16C__) && M_W == 8
  return (m_vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#else
  m_vec v = {0};
  for (int i = 0; i < M_W; i++) v[i] = m_f16_to_f32(p[i]);
  return v;
#endif
}

M_FN void m_st_f16(uint16_t *p, m_vec v)
{
#if M_W == 16
  _mm256_storeu_si256((void *)p, _mm512_cvtps_ph((__m512)v, 0));
#elif defined(__F16C__) && M_W == 8
  _mm_storeu_si128((void *)p, _mm256_cvtps_ph((__m256)v, 0));
#else
  for (int i = 0; i < M_W; i++) p[i] = m_f32_to_f16(v[i]);
#endif
}

M_FN m_vec m_ldn_f16(const uint16_t *p, int n)
{
  uint16_t t[M_W] = {0};
  memcpy(t, p, (size_t)n * 2);
  return m_ld_f16(t);
}

M_FN void m_stn_f16(uint16_t *p, int n, m_vec v)
{
  uint16_t t[M_W];
  m_st_f16(t, v);
  memcpy(p, t, (size_t)n * 2);
}

M_FN m_vec m_ld_bf16(const uint16_t *p)
{
  m_hvec h;
  memcpy(&h, p, sizeof h);
  return m_bf16_widen(h);
}

M_FN m_vec m_ldn_bf16(const uint16_t *p, int n)
{
  m_hvec h = {0};
  memcpy(&h, p, (size_t)n * 2);
  return m_bf16_widen(h);
}

M_FN void m_st_bf16(uint16_t *p, m_vec v)
{
  m_hvec h = m_bf16_narrow(v);
  memcpy(p, &h, sizeof h);
}

M_FN void m_stn_bf16(uint16_t *p, int n, m_vec v)
{
  m_hvec h = m_bf16_narrow(v);
  memcpy(p, &h, (size_t)n * 2);
}

M_FN float m_bf16_to_f32(uint16_t h)
{
  uint32_t b = (uint32_t)h << 16;
  float f;
  memcpy(&f, &b, 4);
  return f;
}

/* n floats whose vectors do not straddle cache lines: src itself, or a copy of it in dst */
M_FN const float *m_aligned(ptrdiff_t n, const float *src, float *dst)
{
  if ((uintptr_t)src % (M_W * 4) == 0) return src;
  ptrdiff_t i = 0;
  for (; i + M_W <= n; i += M_W) m_store(dst + i, m_load(src + i));
  if (i < n) m_storen(dst + i, (int)(n - i), m_loadn(src + i, (int)(n - i)));
  return dst;
}

/* Whether whole vectors of a tensor at p can use non-temporal stores. 0: no; 1: whole vectors; 2: parts of 16 bytes. Allocators
 * align to 16 bytes. Parts fill whole cache lines if rows are contiguous. */
M_FN int m_past(const void *p) { return (uintptr_t)p % 64 == 0 ? 1 : (uintptr_t)p % 16 == 0 ? 2 : 0; }

M_FN void m_store_past(float *p, m_vec v, int past)
{
#if M_W == 16
  if (past == 1) {
    _mm512_stream_ps(p, (__m512)v);
    return;
  }
  if (past == 2) {
    _mm_stream_ps(p, _mm512_extractf32x4_ps((__m512)v, 0));
    _mm_stream_ps(p + 4, _mm512_extractf32x4_ps((__m512)v, 1));
    _mm_stream_ps(p + 8, _mm512_extractf32x4_ps((__m512)v, 2));
    _mm_stream_ps(p + 12, _mm512_extractf32x4_ps((__m512)v, 3));
    return;
  }
#elif M_W == 8
  if (past == 1) {
    _mm256_stream_ps(p, (__m256)v);
    return;
  }
  if (past == 2) {
    _mm_stream_ps(p, _mm256_castps256_ps128((__m256)v));
    _mm_stream_ps(p + 4, _mm256_extractf128_ps((__m256)v, 1));
    return;
  }
#endif
  (void)past;
  m_store(p, v);
}

/* Floats between a store and the line that is prefetched for a later store of the row. On some processors this is faster
 * than non-temporal stores, because lines are then read from memory as for any load. */
enum { M_FETCH = 512 };

/* Floats from p to the first aligned vector, fewer than M_W. A long row begins with these, so that the rest can use non-temporal stores. */
M_FN int m_head(const float *p) { return (int)(-((uintptr_t)p / 4) % M_W); }

/* Stores the first n lanes, with non-temporal stores of 16 bytes where possible. A store that reads its line first would delay
 * the stores after it. */
M_FN void m_storen_past(float *p, int n, m_vec v)
{
#if M_W > 4
  if ((uintptr_t)p % 16 == 0 && n % 4 == 0) {
    float t[M_W];
    m_store(t, v);
    for (int i = 0; i < n; i += 4) _mm_stream_ps(p + i, _mm_loadu_ps(t + i));
    return;
  }
#endif
  m_storen(p, n, v);
}

/* orders non-temporal stores before later stores that other threads read */
M_FN void m_fence(void)
{
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/* n elements at a distance of `step` */
M_FN m_vec m_gather(const float *p, ptrdiff_t step, int n)
{
  m_vec v = {0};
  for (int i = 0; i < n; i++) v[i] = p[i * step];
  return v;
}

M_FN m_vec m_gather_f16(const uint16_t *p, ptrdiff_t step, int n)
{
  uint16_t t[M_W] = {0};
  for (int i = 0; i < n; i++) t[i] = p[i * step];
  return m_ld_f16(t);
}

M_FN m_vec m_gather_bf16(const uint16_t *p, ptrdiff_t step, int n)
{
  uint16_t t[M_W] = {0};
  for (int i = 0; i < n; i++) t[i] = p[i * step];
  return m_ld_bf16(t);
}

M_FN void m_scatter(float *p, ptrdiff_t step, int n, m_vec v)
{
  for (int i = 0; i < n; i++) p[i * step] = v[i];
}

M_FN void m_scatter_f16(uint16_t *p, ptrdiff_t step, int n, m_vec v)
{
  for (int i = 0; i < n; i++) p[i * step] = m_f32_to_f16(v[i]);
}

M_FN void m_scatter_bf16(uint16_t *p, ptrdiff_t step, int n, m_vec v)
{
  uint16_t t[M_W];
  m_st_bf16(t, v);
  for (int i = 0; i < n; i++) p[i * step] = t[i];
}

/* C (+)= A B where B is stored transposed, [N][K]: dot products of few rows of A with many rows of B. Each row of B is read
 * once, in memory order. One transpose sums M_W dot products across lanes. */
#define M_GEMM_BT(name, type, load, loadn)                                                                                               \
  M_FN_OUT void name(int M, int N, int K, const float *A, ptrdiff_t lda, const type *B, ptrdiff_t ldb, float *C, ptrdiff_t ldc, int acc) \
  {                                                                                                                                      \
    for (int j = 0; j < N; j += M_W) {                                                                                                   \
      int n = N - j < M_W ? N - j : M_W;                                                                                                 \
      for (int i = 0; i < M; i++) {                                                                                                      \
        m_vec s[M_W] = {{0}}, sum = {0};                                                                                                 \
        int k = 0;                                                                                                                       \
        if (n == M_W)                                                                                                                    \
          for (; k + M_W <= K; k += M_W) {                                                                                               \
            m_vec a = m_load(A + i * lda + k);                                                                                           \
            M_UNROLL                                                                                                                     \
            for (int r = 0; r < M_W; r++) {                                                                                              \
              s[r] += a * load(B + (j + r) * ldb + k);                                                                                   \
              __builtin_prefetch(B + (j + r + M_W) * ldb + k);                                                                           \
            }                                                                                                                            \
          }                                                                                                                              \
        for (; k < K; k += M_W) {                                                                                                        \
          int w = K - k < M_W ? K - k : M_W;                                                                                             \
          m_vec a = m_loadn(A + i * lda + k, w);                                                                                         \
          for (int r = 0; r < n; r++) s[r] += a * loadn(B + (j + r) * ldb + k, w);                                                       \
        }                                                                                                                                \
        m_transpose(s);                                                                                                                  \
        M_UNROLL                                                                                                                         \
        for (int r = 0; r < M_W; r++) sum += s[r];                                                                                       \
        float *c = C + i * ldc + j;                                                                                                      \
        m_storen(c, n, acc ? m_loadn(c, n) + sum : sum);                                                                                 \
      }                                                                                                                                  \
    }                                                                                                                                    \
  }
M_GEMM_BT(m_gemm_bt, float, m_load, m_loadn)
M_GEMM_BT(m_gemm_bt_f16, uint16_t, m_ld_f16, m_ldn_f16)
M_GEMM_BT(m_gemm_bt_bf16, uint16_t, m_ld_bf16, m_ldn_bf16)

/* Columns of panel p of a packed operand of `vecs` vectors of columns, in the order of m_product. */
M_FN int m_panel_width(int vecs, int p)
{
  int panels = (vecs + M_NV - 1) / M_NV;
  return (vecs / panels + (p < vecs % panels)) * M_W;
}

/* Products with an operand that is packed once and read by many calls. Its rows are in blocks of M_DEPTH; a block has panel after
 * panel, and a panel its rows of contiguous vectors, with the ragged end filled with zeros. A panel of a block stays in the
 * level 1 cache while M_HEIGHT rows of A, which stay in level 2, are multiplied by it. */
#define M_DEPTH (M_NV * M_W > 16 ? 128 : 256)
#define M_HEIGHT 192

/* The first column of panel p */
M_FN int m_panel_start(int vecs, int p)
{
  int panels = (vecs + M_NV - 1) / M_NV, wide = vecs % panels;
  return (p * (vecs / panels) + (p < wide ? p : wide)) * M_W;
}

/* Packs panels part, part + parts, ... of K x N of B, whose element (k, n) is at B[k * row + n * col]. */
#define M_PACK_BLOCKS(name, type, to_f32)                                                                                        \
  M_FN_ONE void name(int K, int N, const type *B, ptrdiff_t row, ptrdiff_t col, float *dst, int part, int parts)                 \
  {                                                                                                                              \
    const int vecs = (N + M_W - 1) / M_W, panels = (vecs + M_NV - 1) / M_NV;                                                     \
    for (int k0 = 0; k0 < K; k0 += M_DEPTH) {                                                                                    \
      const int depth = K - k0 < M_DEPTH ? K - k0 : M_DEPTH;                                                                     \
      for (int p = part; p < panels; p += parts) {                                                                               \
        const int start = m_panel_start(vecs, p), width = m_panel_width(vecs, p);                                                \
        float *to = dst + (ptrdiff_t)k0 * vecs * M_W + (ptrdiff_t)start * depth;                                                 \
        for (int j = 0; j < width; j++)                                                                                          \
          for (int k = 0; k < depth; k++) to[k * width + j] = start + j < N ? to_f32(B[(k0 + k) * row + (start + j) * col]) : 0; \
      }                                                                                                                          \
    }                                                                                                                            \
  }
M_PACK_BLOCKS(m_pack_blocks, float, )
M_PACK_BLOCKS(m_pack_blocks_f16, uint16_t, m_f16_to_f32)
M_PACK_BLOCKS(m_pack_blocks_bf16, uint16_t, m_bf16_to_f32)

/* Rows of A times a panel. Meanwhile the `next` lines of 64 bytes are fetched, a few for each block of rows. Blocks have the most rows, and the last
 * ones 4, 2 or 1: few sizes are compiled. */
M_FN void m_panel_sized(int M, int nv, m_prod g, const float *next, int lines)
{
  const int most = M_ROWS(nv), blocks = (M + most - 1) / most, each = (lines + blocks - 1) / blocks;
  for (int i = 0, l = 0, rows; i < M; i += rows, g.A += rows * g.ars, g.C += rows * g.ldc) {
    for (int end = l + each < lines ? l + each : lines; l < end; l++) __builtin_prefetch(next + 16 * l);
    rows = M - i >= most ? most : M - i >= 4 ? 4 : M - i >= 2 ? 2 : 1;
    if (rows == most)
      m_blocks(most, nv, 1, g);
    else if (rows == 4)
      m_blocks(4, nv, 1, g);
    else if (rows == 2)
      m_blocks(2, nv, 1, g);
    else
      m_blocks(1, nv, 1, g);
  }
}

M_FN void m_panel_ahead(int M, int nv, m_prod g, const float *next, int lines)
{
  switch (nv) {
  case 1: m_panel_sized(M, 1, g, next, lines); break;
  case 2: m_panel_sized(M, 2, g, next, lines); break;
  case 3: m_panel_sized(M, 3, g, next, lines); break;
  default: m_panel_sized(M, 4, g, next, lines); break;
  }
}

/* C (+)= A B with B from m_pack_blocks, one of `parts` parts of it: some columns, or some rows if there are few columns. A is stored
 * transposed, [K][M], if turned. */
M_FN_ONE void m_gemm_blocks(int M, int N, int K, const float *A, ptrdiff_t lda, int turned, const float *B, float *C, ptrdiff_t ldc, int acc,
                            int part, int parts)
{
  const int vecs = (N + M_W - 1) / M_W, panels = (vecs + M_NV - 1) / M_NV, by_rows = panels < 4 * parts && M >= 8 * parts;
  const int first = by_rows ? 0 : (int)((int64_t)panels * part / parts), end = by_rows ? panels : (int)((int64_t)panels * (part + 1) / parts);
  const int top = by_rows ? (int)((int64_t)M * part / parts) : 0, bottom = by_rows ? (int)((int64_t)M * (part + 1) / parts) : M;
  const ptrdiff_t ars = turned ? 1 : lda, acs = turned ? lda : 1;
  for (int k = 0; k < K; k += M_DEPTH) {
    const int depth = K - k < M_DEPTH ? K - k : M_DEPTH;
    for (int i = top; i < bottom; i += M_HEIGHT)
      for (int p = first; p < end; p++) {
        const int start = m_panel_start(vecs, p), width = m_panel_width(vecs, p), rows = bottom - i < M_HEIGHT ? bottom - i : M_HEIGHT;
        const float *b = B + (ptrdiff_t)k * vecs * M_W + (ptrdiff_t)start * depth;
        const int last = p == panels - 1 && N % M_W ? N % M_W : M_W;
        m_panel_ahead(rows, width / M_W, (m_prod){A + i * ars + k * acs, b, C + i * ldc + start, ars, acs, width, ldc, depth, acc || k, last, 0, 0},
                      b + (ptrdiff_t)depth * width, depth * width / 16);
      }
  }
}

/* C (+)= A B of at most four rows of A with rows of 16-bit numbers, which are widened in registers. Rows of B are visited
 * M_FEW at a time over the whole width, in the order of memory, and C is a tile in cache, as in m_gemm_stream. */
#define M_FEW 16
#define M_GEMM_FEW(name, load, loadn)                                                                                                          \
  M_FN void name##_step(int M, int nv, int n, int K, const float *A, ptrdiff_t ars, ptrdiff_t acs, const uint16_t *B, ptrdiff_t ldb, float *C, \
                        ptrdiff_t ldc, int acc)                                                                                                \
  {                                                                                                                                            \
    m_vec c[4][2];                                                                                                                             \
    M_UNROLL                                                                                                                                   \
    for (int i = 0; i < M; i++) M_UNROLL                                                                                                       \
    for (int v = 0; v < nv; v++) c[i][v] = acc ? m_loadn(C + i * ldc + v * M_W, n) : (m_vec){0};                                               \
    for (int k = 0; k < K; k++, B += ldb) M_UNROLL                                                                                             \
    for (int v = 0; v < nv; v++) {                                                                                                             \
      m_vec b = n == M_W ? load(B + v * M_W) : loadn(B + v * M_W, n);                                                                          \
      __builtin_prefetch(B + M_FEW * ldb + v * M_W);                                                                                           \
      M_UNROLL                                                                                                                                 \
      for (int i = 0; i < M; i++) c[i][v] += m_splat(A[i * ars + k * acs]) * b;                                                                \
    }                                                                                                                                          \
    M_UNROLL                                                                                                                                   \
    for (int i = 0; i < M; i++) M_UNROLL                                                                                                       \
    for (int v = 0; v < nv; v++) m_storen(C + i * ldc + v * M_W, n, c[i][v]);                                                                  \
  }                                                                                                                                            \
  M_FN void name(int M, int N, int K, const float *A, ptrdiff_t ars, ptrdiff_t acs, const uint16_t *B, ptrdiff_t ldb, float *C, ptrdiff_t ldc, \
                 int acc)                                                                                                                      \
  {                                                                                                                                            \
    for (int k = 0; k < K; k += M_FEW) {                                                                                                       \
      int rows = K - k < M_FEW ? K - k : M_FEW, j = 0;                                                                                         \
      const float *a = A + k * acs;                                                                                                            \
      const uint16_t *b = B + k * ldb;                                                                                                         \
      for (; j + 2 * M_W <= N; j += 2 * M_W) name##_step(M, 2, M_W, rows, a, ars, acs, b + j, ldb, C + j, ldc, acc || k);                      \
      for (; j < N; j += M_W) name##_step(M, 1, N - j < M_W ? N - j : M_W, rows, a, ars, acs, b + j, ldb, C + j, ldc, acc || k);               \
    }                                                                                                                                          \
  }
M_GEMM_FEW(m_gemm_few_f16, m_ld_f16, m_ldn_f16)
M_GEMM_FEW(m_gemm_few_bf16, m_ld_bf16, m_ldn_bf16)

/* Multiplies row i of x by f[i * fstep]. Rows with factor 1 are skipped: in a running softmax most factors are 1. */
M_FN void m_scale_rows(int rows, int cols, float *x, ptrdiff_t ld, const float *f, ptrdiff_t fstep)
{
  for (int i = 0; i < rows; i++, x += ld) {
    float a = f[i * fstep];
    if (a == 1) continue;
    int j = 0;
    for (; j + M_W <= cols; j += M_W) m_store(x + j, m_load(x + j) * a);
    if (j < cols) m_storen(x + j, cols - j, m_loadn(x + j, cols - j) * a);
  }
}
#endif
