/* Warp instructions on matrices, with AVX2 if it is available. A row is a register of 32 lanes. */
#if defined(__F16C__) && defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define MICA_AVX2 1
#endif
#if defined(__clang__)
#define MICA_UNROLL _Pragma("unroll")
#else
#define MICA_UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- ldmatrix, stmatrix: n matrices of 8 x 8; row[8 j + g] is row g of matrix j; lane 4 g + t gets two elements of each,
 * M[g][2t], M[g][2t + 1], or with trans M[2t][g], M[2t + 1][g]. at[]: the registers, two a matrix ---- */
#ifdef MICA_AVX2
MICA __m128i mica_load_row(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
MICA void mica_store_row(uint16_t *p, __m128i x) { _mm_storeu_si128((__m128i *)(void *)p, x); }
MICA void mica_ldmatrix(int n, const uint16_t *const *row, uint16_t (*to)[32], const int *at)
{
  const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  for (int j = 0; j < n; j++)
    for (int g = 0; g < 8; g++) {
      __m128i x = _mm_shuffle_epi8(mica_load_row(row[8 * j + g]), apart);
      _mm_storel_epi64((__m128i *)(void *)&to[at[2 * j]][4 * g], x);
      _mm_storel_epi64((__m128i *)(void *)&to[at[2 * j + 1]][4 * g], _mm_unpackhi_epi64(x, x));
    }
}
MICA void mica_ldmatrix_trans(int n, const uint16_t *const *row, uint16_t (*to)[32], const int *at)
{
  for (int j = 0; j < n; j++)
    for (int h = 0; h < 2; h++) {
      const uint16_t *const *r = row + 8 * j + h;
      __m128i r0 = mica_load_row(r[0]), r1 = mica_load_row(r[2]), r2 = mica_load_row(r[4]), r3 = mica_load_row(r[6]), a = _mm_unpacklo_epi16(r0, r1),
              b = _mm_unpacklo_epi16(r2, r3), c = _mm_unpackhi_epi16(r0, r1), d = _mm_unpackhi_epi16(r2, r3);
      uint16_t *p = to[at[2 * j + h]];
      mica_store_row(p, _mm_unpacklo_epi32(a, b)), mica_store_row(p + 8, _mm_unpackhi_epi32(a, b));
      mica_store_row(p + 16, _mm_unpacklo_epi32(c, d)), mica_store_row(p + 24, _mm_unpackhi_epi32(c, d));
    }
}
#else
MICA void mica_ldmatrix(int n, const uint16_t *const *row, uint16_t (*to)[32], const int *at)
{
  for (int j = 0; j < n; j++)
    for (int g = 0; g < 8; g++)
      for (int t = 0; t < 4; t++)
        for (int h = 0; h < 2; h++) to[at[2 * j + h]][4 * g + t] = row[8 * j + g][2 * t + h];
}
MICA void mica_ldmatrix_trans(int n, const uint16_t *const *row, uint16_t (*to)[32], const int *at)
{
  for (int j = 0; j < n; j++)
    for (int h = 0; h < 2; h++)
      for (int g = 0; g < 8; g++)
        for (int t = 0; t < 4; t++) to[at[2 * j + h]][4 * g + t] = row[8 * j + 2 * t + h][g];
}
#endif
MICA void mica_stmatrix(int n, uint16_t *const *row, uint16_t (*from)[32], const int *at)
{
  for (int j = 0; j < n; j++)
    for (int g = 0; g < 8; g++)
      for (int t = 0; t < 4; t++)
        for (int h = 0; h < 2; h++) row[8 * j + g][2 * t + h] = from[at[2 * j + h]][4 * g + t];
}
MICA void mica_stmatrix_trans(int n, uint16_t *const *row, uint16_t (*from)[32], const int *at)
{
  for (int j = 0; j < n; j++)
    for (int h = 0; h < 2; h++)
      for (int g = 0; g < 8; g++)
        for (int t = 0; t < 4; t++) row[8 * j + 2 * t + h][g] = from[at[2 * j + h]][4 * g + t];
}

/* ---- products of tensor cores: exact products, sums in fp32 in the order of k ---- */
MICA void mica_widen_32(float *restrict to, const mica_f16 *restrict from)
{
#ifdef MICA_AVX2
  for (int i = 0; i < 32; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#else
  for (int i = 0; i < 32; i++) to[i] = mica_from_f16(from[i]);
#endif
}
MICA void mica_widen_f16(int n, float (*restrict to)[32], mica_f16 (*restrict from)[32], const int *at)
{
  for (int i = 0; i < n; i++) mica_widen_32(to[i], from[at[i]]);
}
MICA void mica_narrow_f16(int n, mica_f16 (*restrict to)[32], float (*restrict from)[32], const int *at)
{
  for (int i = 0; i < n; i++)
    for (int l = 0; l < 32; l++) to[at[i]][l] = mica_to_f16(from[i][l]);
}
MICA void mica_widen_bf16(int n, float (*restrict to)[32], mica_bf16 (*restrict from)[32], const int *at)
{
  for (int i = 0; i < n; i++)
    for (int l = 0; l < 32; l++) to[i][l] = mica_from_bf16(from[at[i]][l]);
}
MICA void mica_take(int n, float (*restrict to)[32], float (*restrict from)[32], const int *at)
{
  for (int i = 0; i < n; i++) memcpy(to[i], from[at[i]], sizeof to[i]);
}
MICA void mica_give(int n, float (*restrict to)[32], float (*restrict from)[32], const int *at)
{
  for (int i = 0; i < n; i++) memcpy(to[at[i]], from[i], sizeof from[i]);
}

/* The right operand of m16n8k8 or, in two halves, of m16n8k16 as rows of k: lane 4 n + t holds k = 2t + (i & 1) + 8 (i >> 1)
 * of column n in its register i. Columns 0, 2, 4, 6 come first, then 1, 3, 5, 7, the order of the sums. */
MICA void mica_mma_right(int halves, float (*restrict to)[8], float (*restrict from)[32])
{
#ifdef MICA_AVX2
  for (int i = 0; i < 2 * halves; i++)
    for (int odd = 0; odd < 2; odd++) {
      const float *p = from[i] + 4 * odd;
      __m128 r0 = _mm_loadu_ps(p), r1 = _mm_loadu_ps(p + 8), r2 = _mm_loadu_ps(p + 16), r3 = _mm_loadu_ps(p + 24);
      float(*q)[8] = to + i % 2 + i / 2 * 8;
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_storeu_ps(q[0] + 4 * odd, r0), _mm_storeu_ps(q[2] + 4 * odd, r1);
      _mm_storeu_ps(q[4] + 4 * odd, r2), _mm_storeu_ps(q[6] + 4 * odd, r3);
    }
#else
  for (int i = 0; i < 2 * halves; i++)
    for (int t = 0; t < 4; t++)
      for (int p = 0; p < 8; p++) to[2 * t + i % 2 + i / 2 * 8][p] = from[i][4 * (p % 4 * 2 + p / 4) + t];
#endif
}
/* Sums of rows 0 to 7 are in s0, s1, those of rows 8 to 15 in s2, s3: lane 4 m + t holds columns 2t and 2t + 1 of row m. Its
 * register i of the left operand is a[m + 8 (i >> 1 & 1)][2t + (i & 1) + 8 (i >> 2)]. */
#ifdef MICA_AVX2
MICA void mica_mma_rows(int halves, float (*restrict a)[32], float (*restrict b)[8], float *restrict s0, float *restrict s1)
{
  __m256 s[8];
  for (int g = 0; g < 8; g++) s[g] = _mm256_set_m128(_mm_loadu_ps(s1 + 4 * g), _mm_loadu_ps(s0 + 4 * g));
  for (int h = 0; h < halves; h++) MICA_UNROLL
  for (int k = 0; k < 8; k++) {
    __m256 right = _mm256_loadu_ps(b[8 * h + k]);
    for (int g = 0; g < 8; g++) s[g] = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[4 * h + k % 2][4 * g + k / 2]), right, s[g]);
  }
  for (int g = 0; g < 8; g++) {
    _mm_storeu_ps(s0 + 4 * g, _mm256_castps256_ps128(s[g]));
    _mm_storeu_ps(s1 + 4 * g, _mm256_extractf128_ps(s[g], 1));
  }
}
#else
MICA void mica_mma_rows(int halves, float (*restrict a)[32], float (*restrict b)[8], float *restrict s0, float *restrict s1)
{
  for (int g = 0; g < 8; g++) {
    float s[8];
    memcpy(s, s0 + 4 * g, 16), memcpy(s + 4, s1 + 4 * g, 16);
    for (int h = 0; h < halves; h++)
      for (int k = 0; k < 8; k++)
        for (int p = 0; p < 8; p++) s[p] += a[4 * h + k % 2][4 * g + k / 2] * b[8 * h + k][p];
    memcpy(s0 + 4 * g, s, 16), memcpy(s1 + 4 * g, s + 4, 16);
  }
}
#endif
MICA void mica_mma(int halves, float (*restrict a)[32], float (*restrict b)[8], float *s0, float *s1, float *s2, float *s3)
{
  mica_mma_rows(halves, a, b, s0, s1);
  mica_mma_rows(halves, a + 2, b, s2, s3);
}
/* Any other product of a group of threads. Values are float[value][lane]; *_tv[value * threads + thread] is the index of a
 * value in its tile, in which the first dimension is the fastest. */
MICA void mica_mma_team(int m, int n, int k, int threads, const int *lane, float (*a)[32], const int *a_tv, float (*b)[32], const int *b_tv,
                        float (*s)[32], const int *s_tv)
{
  float left[512], right[512], sum[512];
  for (int i = 0; i < m * k; i++) left[a_tv[i]] = a[i / threads][lane[i % threads]];
  for (int i = 0; i < n * k; i++) right[b_tv[i]] = b[i / threads][lane[i % threads]];
  for (int i = 0; i < m * n; i++) sum[s_tv[i]] = s[i / threads][lane[i % threads]];
  for (int j = 0; j < n; j++)
    for (int l = 0; l < k; l++)
      for (int i = 0; i < m; i++) sum[m * j + i] += left[m * l + i] * right[n * l + j];
  for (int i = 0; i < m * n; i++) s[i / threads][lane[i % threads]] = sum[s_tv[i]];
}
