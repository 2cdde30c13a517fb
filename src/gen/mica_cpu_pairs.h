/* mica_cpu_pairs.h - products of bf16 numbers with sums in fp32. Generated C that multiplies such numbers contains it.
 *
 *   word     of A, numbers k and k + 1 of one row; of B, those of one column
 *   strip    the columns of B that are multiplied at once: a panel, at most M_NV vectors
 *
 * A processor with AMX multiplies tiles (mica_cpu_tiles.h), if the system lets the process use them. Others multiply words by m_dot2.
 */
#ifndef MICA_CPU_PAIRS_H
#define MICA_CPU_PAIRS_H

#if M_TILES
static int m_tiles_granted;
__attribute__((constructor)) static void m_tiles_begin(void) { m_tiles_granted = m_tiles_ask(); }
#endif

/* n numbers from p as words of two numbers, padded with zeros. p needs only the alignment of a number. */
M_FN m_vec m_words(const uint16_t *p, int n)
{
  m_vec w = {0};
  if (n >= 2 * M_W)
    memcpy(&w, p, sizeof w);
  else if (n > 0)
    memcpy(&w, p, (size_t)n * 2);
  return w;
}

/* Packs K x N of bf16 numbers for m_gemm_pairs: panel after panel, each (K + 1) / 2 rows of words. A word has the
 * numbers of rows k and k + 1 of its column. If K is odd, the last row is paired with zeros. */
M_FN_ONE void m_pack_pairs(int K, int N, const uint16_t *B, ptrdiff_t ldb, float *dst)
{
  int vecs = (N + M_W - 1) / M_W, words = (K + 1) / 2;
  for (int k = 0; k < K; k += 2)
    for (int p = 0, col = 0; col < N; p++) {
      int width = m_panel_width(vecs, p);
      float *to = dst + (ptrdiff_t)col * words + k / 2 * width;
      const uint16_t *from = B + k * ldb + col;
      for (int v = 0; v < width; v += M_W) {
        m_hvec even = {0}, odd = {0};
        int n = N - col - v < M_W ? N - col - v : M_W;
        memcpy(&even, from + v, n == M_W ? sizeof even : (size_t)n * 2);
        if (k + 1 < K) memcpy(&odd, from + ldb + v, n == M_W ? sizeof odd : (size_t)n * 2);
        m_uvec low = __builtin_convertvector(even, m_uvec), high = __builtin_convertvector(odd, m_uvec);
        m_store(to + v, (m_vec)(low | high << 16));
      }
      col += width;
    }
}

/* The same for an operand that is stored transposed, [N][K], so that pairs are contiguous. */
M_FN_ONE void m_pack_pairs_t(int K, int N, const uint16_t *B, ptrdiff_t ldb, float *dst)
{
  int vecs = (N + M_W - 1) / M_W, words = (K + 1) / 2;
  for (int p = 0, col = 0; col < N; p++) {
    int width = m_panel_width(vecs, p);
    for (int v = 0; v < width; v += M_W)
      for (int w = 0; w < words; w += M_W) {
        m_vec r[M_W];
        for (int i = 0; i < M_W; i++) r[i] = col + v + i < N ? m_words(B + (col + v + i) * ldb + 2 * w, K - 2 * w) : (m_vec){0};
        m_transpose(r);
        for (int i = 0; i < M_W && w + i < words; i++) m_store(dst + (ptrdiff_t)col * words + (w + i) * width + v, r[i]);
      }
    col += width;
  }
}

/* ---- products ------------------------------------------------------------------------------- */

/* Rows of words of B that are multiplied by all rows of A before the next ones: a strip of them stays in the level 1 cache. */
#define M_DEEP 256

#if M_TILES
/* M rows of A times up to two tiles of columns of `words` words each step. `lines` of next are fetched. If M >= 32, the shape is
 * that of whole tiles before and after. */
M_FN void m_tiles_rows(int M, int wide, int steps, int words, const uint16_t *A, ptrdiff_t ars, const float *B, ptrdiff_t brs, float *C,
                       ptrdiff_t crs, int acc, const float *next, int lines)
{
  const int blocks = (M + 31) / 32, end = M % 32, each = (lines / blocks + steps - 1) / steps;
  if (M >= 32 && words < 16) m_tiles_shape(16, 16, words);
  for (int i = 0; i < blocks; i++) {
    const int tall = i < M / 32 || end > 16;
    if (i == M / 32) m_tiles_shape(tall ? 16 : end, tall ? end - 16 : 0, words);
    if (tall && wide)
      m_tiles_block(1, 1, steps, A, ars, B, brs, C, crs, acc, next, each);
    else if (tall)
      m_tiles_block(1, 0, steps, A, ars, B, brs, C, crs, acc, next, each);
    else if (wide)
      m_tiles_block(0, 1, steps, A, ars, B, brs, C, crs, acc, next, each);
    else
      m_tiles_block(0, 0, steps, A, ars, B, brs, C, crs, acc, next, each);
    A = (const uint16_t *)(const void *)((const char *)A + 32 * ars), C = (float *)(void *)((char *)C + 32 * crs), next += 16 * steps * each;
  }
  if (M >= 32 && (end || words < 16)) m_tiles_shape(16, 16, 16);
}
#endif

/* C (+)= A B for a strip of nv vectors and W words of each row. Rows of C have room for whole vectors. After the strip, `ahead` tells whether
 * others follow in memory, which are fetched. lda is even. */
M_FN_ONE void m_pairs_strip(int M, int nv, int W, const uint16_t *A, ptrdiff_t lda, const float *B, float *C, ptrdiff_t ldc, int acc, int ahead)
{
  const int width = nv * M_W;
#if M_TILES
  __asm__ volatile("" : : : "memory"); /* loads of tiles are no accesses to memory for some compilers */
  if (m_tiles_granted && M >= 32) m_tiles_shape(16, 16, 16);
  for (int k = 0; k < W && m_tiles_granted; k += M_DEEP) {
    const int depth = W - k < M_DEEP ? W - k : M_DEEP, steps = depth / 16, left = depth % 16, last = k + depth == W;
    const float *b = B + (ptrdiff_t)k * width;
    for (int v = 0; v < nv; v += 2) {
      const int lines = last && !ahead ? 0 : depth * (nv - v < 2 ? 1 : 2), wide = v + 1 < nv;
      const float *next = b + (ptrdiff_t)depth * width + (ptrdiff_t)v * depth * M_W;
      if (steps) m_tiles_rows(M, wide, steps, 16, A + 2 * k, 2 * lda, b + v * M_W, 4 * width, C + v * M_W, 4 * ldc, acc || k, next, lines);
      if (left)
        m_tiles_rows(M, wide, 1, left, A + 2 * (k + 16 * steps), 2 * lda, b + v * M_W + 16 * steps * width, 4 * width, C + v * M_W, 4 * ldc,
                     acc || k || steps, next, 0);
    }
  }
  if (m_tiles_granted) {
    _tile_release();
    return;
  }
#endif
  const int deep = nv > 2 ? M_DEEP / 2 : M_DEEP;
  for (int k = 0; k < W; k += deep) {
    const int depth = W - k < deep ? W - k : deep;
    const float *a = (const float *)(const void *)A + k, *b = B + (ptrdiff_t)k * width;
    const m_prod at = {a, b, C, lda / 2, 1, width, ldc, depth, acc || k, M_W, 0, 1};
#if M_TILES
    switch (nv) { /* seldom used, so one number of rows is enough: others would double the time to compile */
    case 1: m_blocks(1, 1, M, at); break;
    case 2: m_blocks(1, 2, M, at); break;
    case 3: m_blocks(1, 3, M, at); break;
    default: m_blocks(1, 4, M, at); break;
    }
#else
    m_panel_ahead(M, nv, at, b + (ptrdiff_t)depth * width, k + depth < W || ahead ? depth * width / 16 : 0);
#endif
  }
}

/* C (+)= A B of bf16 numbers. B is packed by m_pack_pairs, and lda is even. If K is odd, a row of A ends with an additional zero. */
#if M_TILES
M_FN_ONE void m_gemm_pairs(int M, int N, int K, const uint16_t *A, ptrdiff_t lda, const float *B, float *C, ptrdiff_t ldc, int acc)
{
  float sums[32 * M_PANEL] __attribute__((aligned(64)));
  const int vecs = (N + M_W - 1) / M_W, words = (K + 1) / 2;
  for (int p = 0, col = 0; col < N; p++) {
    const int width = m_panel_width(vecs, p), cols = N - col < width ? N - col : width;
    if (cols == width) m_pairs_strip(M, width / M_W, words, A, lda, B, C + col, ldc, acc, col + width < N);
    for (int i = 0; i < M && cols < width; i += 32) {
      const int rows = M - i < 32 ? M - i : 32;
      m_pairs_strip(rows, width / M_W, words, A + i * lda, lda, B, sums, width, 0, 0);
      for (int r = 0; r < rows; r++)
        for (int j = 0; j < cols; j += M_W) {
          float *c = C + (i + r) * ldc + col + j;
          const int n = cols - j < M_W ? cols - j : M_W;
          const m_vec s = m_load(sums + r * width + j);
          m_storen(c, n, acc ? m_loadn(c, n) + s : s);
        }
    }
    B += (ptrdiff_t)words * width, col += width;
  }
}
#else
M_FN void m_gemm_pairs(int M, int N, int K, const uint16_t *A, ptrdiff_t lda, const float *B, float *C, ptrdiff_t ldc, int acc)
{
  m_product(M, N, (m_prod){(const float *)(const void *)A, B, C, lda / 2, 1, 0, ldc, (K + 1) / 2, acc, M_W, 0, 1});
}
#endif

/* Packs panels part, part + parts, ... of K x N of B, whose element (k, n) is at B[k * row + n * col], for m_gemm_words. row or col is 1. */
M_FN_ONE void m_pack_words(int K, int N, const uint16_t *B, ptrdiff_t row, ptrdiff_t col, float *dst, int part, int parts)
{
  const int vecs = (N + M_W - 1) / M_W, panels = (vecs + M_NV - 1) / M_NV;
  for (int p = part; p < panels; p += parts) {
    const int start = m_panel_start(vecs, p), width = m_panel_width(vecs, p), cols = N - start < width ? N - start : width;
    float *to = dst + (ptrdiff_t)start * ((K + 1) / 2);
    if (col == 1)
      m_pack_pairs(K, cols, B + start, row, to);
    else
      m_pack_pairs_t(K, cols, B + start * col, col, to);
  }
}

/* D = A B, one of `parts` parts of it: some columns, or some rows if there are few columns. B is packed by m_pack_words, K and lda are even. */
#define M_GEMM_WORDS(name, type, store, storen)                                                                                                  \
  M_FN_ONE void name(int M, int N, int K, const uint16_t *A, ptrdiff_t lda, const float *B, type *D, ptrdiff_t ldd, int part, int parts)         \
  {                                                                                                                                              \
    float sums[M_HEIGHT * M_PANEL] __attribute__((aligned(64)));                                                                                 \
    const int vecs = (N + M_W - 1) / M_W, panels = (vecs + M_NV - 1) / M_NV, by_rows = panels < 4 * parts && M >= 32 * parts;                    \
    const int first = by_rows ? 0 : (int)((int64_t)panels * part / parts), end = by_rows ? panels : (int)((int64_t)panels * (part + 1) / parts); \
    const int top = by_rows ? (int)((int64_t)M * part / parts) : 0, bottom = by_rows ? (int)((int64_t)M * (part + 1) / parts) : M;               \
    for (int i = top; i < bottom; i += M_HEIGHT)                                                                                                 \
      for (int p = first; p < end; p++) {                                                                                                        \
        const int start = m_panel_start(vecs, p), width = m_panel_width(vecs, p), rows = bottom - i < M_HEIGHT ? bottom - i : M_HEIGHT;          \
        m_pairs_strip(rows, width / M_W, K / 2, A + i * lda, lda, B + (ptrdiff_t)start * (K / 2), sums, width, 0, p + 1 < end);                  \
        for (int r = 0; r < rows; r++)                                                                                                           \
          for (int j = 0; j < width; j += M_W) {                                                                                                 \
            type *d = D + (i + r) * ldd + start + j;                                                                                             \
            const m_vec s = m_load(sums + r * width + j);                                                                                        \
            if (start + j + M_W <= N)                                                                                                            \
              store(d, s);                                                                                                                       \
            else if (start + j < N)                                                                                                              \
              storen(d, N - start - j, s);                                                                                                       \
          }                                                                                                                                      \
      }                                                                                                                                          \
  }
M_GEMM_WORDS(m_gemm_words_f32, float, m_store, m_storen)
M_GEMM_WORDS(m_gemm_words_bf16, uint16_t, m_st_bf16, m_stn_bf16)
M_GEMM_WORDS(m_gemm_words_f16, uint16_t, m_st_f16, m_stn_f16)
#endif
