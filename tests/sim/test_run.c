// Results of kernels compared with references in C: equal bits if the instructions are exact, else up to rounding. Their costs are compared with counts
// by hand.
#include "tiles.h"

#include "sim/number.h"

#include <math.h>

static void read_file(struct arena *mem, const char *path, char **text)
{
  size_t n;
  struct err e = {0};
  if (file_read(mem, path, text, &n, &e)) fail_msg("%s", e.text);
}

static void open_file(struct tile_run *t, const char *path, const char *set)
{
  struct arena mem = {0};
  char *text;
  read_file(&mem, path, &text);
  tile_open(t, path, text, set);
  arena_close(&mem);
}

static int64_t times(const struct tile_run *t, const char *row)
{
  for (int i = 0; i < t->r.counts.nrows; i++)
    if (!strcmp(t->r.counts.rows[i].name, row)) return t->r.counts.rows[i].times;
  return 0;
}

static void near(struct tile_run *t, const char *name, int64_t at, double want, double tolerance)
{
  double got = tile_get(t, name, at);
  if (!(fabs(got - want) <= tolerance * (1 + fabs(want)))) fail_msg("%s[%lld] is %g, not %g", name, (long long)at, got, want);
}

static void transposed(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/transpose.tile", "M=50,N=70");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 50; i++)
    for (int j = 0; j < 70; j++) assert_true(tile_get(&t, "X", 70 * i + j) == tile_get(&t, "Y", 50 * j + i));
  // a row of 33 words: no two lanes of a column access the same bank
  assert_int_equal(t.r.counts.wavefronts, t.r.counts.wavefronts_least);
  assert_int_equal(t.r.counts.bytes[MEM_GL][0][2], 50 * 70 * 4);
  assert_int_equal(t.r.blocks, 6);
  tile_close(&t);
}

// Without the padding each column is one bank: 32 wavefronts for one.
static void conflicts(void **state)
{
  (void)state;
  struct arena mem = {0};
  char *text;
  read_file(&mem, "tests/sim/good/transpose.tile", &text);
  assert_non_null(strstr(text, "%s:[32, 33]"));
  strstr(text, "%s:[32, 33]")[9] = '2';
  struct tile_run t;
  tile_open(&t, "transpose", text, "M=32,N=32");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  assert_int_equal(t.r.counts.wavefronts - t.r.counts.wavefronts_least, 32 * 31);
  tile_close(&t);
  arena_close(&mem);
}

static double product(struct tile_run *t, int64_t a, int64_t sa, int64_t b, int64_t sb, int n)
{
  double sum = 0;
  for (int k = 0; k < n; k++) sum += tile_get(t, "A", a + k * sa) * tile_get(t, "B", b + k * sb);
  return sum;
}

static void products(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/mma.tile", "");
  tile_fill(&t, 1, "C");
  tile_clean(&t);
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 8; n++) near(&t, "C", 8 * m + n, product(&t, 32 * m, 1, n, 8, 32), 1e-5);
  assert_int_equal(times(&t, "mma.m16n8k16.fp32.fp16"), 2);
  assert_int_equal(t.r.counts.flops, 2 * 16 * 8 * 32);
  tile_close(&t);
  open_file(&t, "tests/sim/good/wgmma.tile", "");
  tile_fill(&t, 2, "C");
  tile_clean(&t);
  for (int m = 0; m < 64; m++)
    for (int n = 0; n < 16; n++) near(&t, "C", 16 * m + n, product(&t, 64 * m, 1, 64 * n, 1, 64), 1e-5);
  assert_int_equal(t.r.counts.flops, 2 * 64 * 16 * 64);
  tile_close(&t);
}

// A ring of stages with a product always under way: groups of products are counted a warpgroup, not a warp.
static void ring(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/ring.tile", "");
  tile_fill(&t, 3, "C");
  tile_clean(&t);
  for (int m = 0; m < 64; m++)
    for (int n = 0; n < 16; n++) near(&t, "C", 16 * m + n, product(&t, 384 * m, 1, 384 * n, 1, 384), 1e-5);
  assert_int_equal(t.r.counts.bulk_bytes[0], 2 * 384 * 80);
  tile_close(&t);
}

static void atomics(void **state)
{
  (void)state;
  struct tile_run t;
  int32_t count[8] = {0}, *h;
  open_file(&t, "tests/sim/good/scratch.tile", "");
  tile_fill(&t, 1, "Y");
  h = memset(tile_data(&t, "H", NULL), 0, sizeof count);
  tile_clean(&t);
  for (int i = 0; i < 4 * 64; i++) count[(int)tile_get(&t, "X", i) % 8]++;
  assert_memory_equal(count, h, sizeof count);
  for (int r = 0; r < 32; r++)
    for (int c = 0; c < 8; c++) assert_true(tile_get(&t, "V", 8 * r + c) == tile_get(&t, "Y", 32 * c + r));
  tile_close(&t);
}

// By the layouts of docs: of quad pairs, and of m16n8k8 with a 16-bit accumulator.
static void fragments(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/quads.tile", "");
  tile_fill(&t, 1, "C");
  tile_clean(&t);
  for (int i = 0; i < 4 * 64; i++) near(&t, "C", i, product(&t, i / 8 * 4, 1, i / 64 * 32 + i % 8, 8, 4), 1e-5);
  assert_int_equal(t.r.counts.flops, 4 * 2 * 8 * 8 * 4);
  tile_close(&t);
  open_file(&t, "tests/sim/good/halves.tile", "");
  tile_fill(&t, 1, "C");
  tile_clean(&t);
  for (int i = 0; i < 16 * 8; i++) {
    float sum = 1;
    for (int k = 0; k < 8; k++) sum += (float)(tile_get(&t, "A", i / 8 * 8 + k) * tile_get(&t, "B", 8 * k + i % 8));
    assert_true((float)tile_get(&t, "C", i) == (float)num_round(F16, sum));
  }
  assert_int_equal(times(&t, "mma.m16n8k8.fp16.fp16"), 1);
  tile_close(&t);
}

// A store that is left out is no error of the kernel's own, but is counted.
static void outputs(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/partial.tile", "M=5,N=67");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  assert_int_equal(t.r.counts.unwritten, 0);
  tile_close(&t);
  struct arena mem = {0};
  char *text;
  read_file(&mem, "tests/sim/good/partial.tile", &text);
  assert_non_null(strstr(text, "ceil(M, 4)"));
  memcpy(strstr(text, "ceil(M, 4)"), "1         ", 10); // one row of blocks: the fifth row is left out
  tile_open(&t, "partial", text, "M=5,N=67");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  assert_int_equal(t.r.counts.unwritten, 67);
  tile_close(&t);
  arena_close(&mem);
}

static void warps(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/warps.tile", "");
  tile_fill(&t, 1, "Y,S");
  tile_clean(&t);
  for (int b = 0; b < 2; b++)
    for (int w = 0; w < 4; w++) {
      double sum = 0;
      for (int l = 0; l < 32; l++) {
        int64_t at = b * 128 + w * 32;
        assert_true(tile_get(&t, "Y", at + l) == tile_get(&t, "X", at + 31 - l));
        sum += tile_get(&t, "X", at + l);
      }
      near(&t, "S", 4 * b + w, sum, 1e-5);
    }
  tile_close(&t);
}

static void copies(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/cpasync.tile", "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 128; i++)
    for (int j = 0; j < 4; j++) {
      float sum = 0;
      for (int k = 0; k < 8; k++) sum += (float)tile_get(&t, "X", k * 512 + (i + 1) % 128 * 4 + j);
      assert_true((float)tile_get(&t, "Y", 4 * i + j) == sum);
    }
  tile_close(&t);
  open_file(&t, "tests/sim/good/handoff.tile", "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 6 * 128; i++) assert_true(tile_get(&t, "Y", i) == tile_get(&t, "X", i));
  tile_close(&t);
  open_file(&t, "tests/sim/good/tma.tile", "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 128 * 64; i++) assert_true(tile_get(&t, "Y", i) == 2 * tile_get(&t, "X", i));
  assert_int_equal(t.r.counts.bulk_bytes[0], 128 * 64 * 2), assert_int_equal(t.r.counts.bulk_bytes[1], 128 * 64 * 2);
  tile_close(&t);
}

static void clusters(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/cluster.tile", "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int b = 0; b < 8; b++)
    for (int i = 0; i < 64; i++) {
      float sum = 0;
      for (int p = 0; p < 4; p++) sum += (float)tile_get(&t, "X", (b / 4 * 4 + p) * 64 + i);
      assert_true((float)tile_get(&t, "Y", 64 * b + i) == sum);
    }
  tile_close(&t);
}

static void multicasts(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/multicast.tile", "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  assert_memory_equal(tile_data(&t, "X", NULL), tile_data(&t, "Y", NULL), 64 * 64 * 2);
  assert_int_equal(t.r.counts.bulk_bytes[0], 64 * 64 * 2); // read once
  assert_int_equal(times(&t, "tma.multicast.2d"), 8);
  tile_close(&t);
}

static void integers(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/redux.tile", "");
  tile_fill(&t, 1, "S,L,H");
  int32_t *x = tile_data(&t, "X", NULL);
  uint32_t *u = tile_data(&t, "U", NULL);
  for (int i = 0; i < 128; i++) x[i] = (int32_t)(u[i] = (uint32_t)i * 2654435761u); // of both signs; sums wrap around
  tile_clean(&t);
  for (int w = 0; w < 4; w++) {
    uint32_t sum = 0, most = 0;
    int32_t least = INT32_MAX;
    for (int l = 0; l < 32; l++) sum += u[32 * w + l], most = MAX(most, u[32 * w + l]), least = MIN(least, x[32 * w + l]);
    assert_true(((uint32_t *)tile_data(&t, "S", NULL))[2 * w] == sum && ((uint32_t *)tile_data(&t, "S", NULL))[2 * w + 1] == sum);
    assert_true(((int32_t *)tile_data(&t, "L", NULL))[w] == least && ((uint32_t *)tile_data(&t, "H", NULL))[w] == most);
  }
  assert_int_equal(times(&t, "redux.add.i32") + times(&t, "redux.add.u32"), 8);
  tile_close(&t);
}

static void last_block(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/lastblock.tile", "");
  tile_fill(&t, 1, "Y,P");
  memset(tile_data(&t, "W", NULL), 0, 4);
  tile_clean(&t);
  double sum = 0;
  for (int i = 0; i < 6 * 64; i++) sum += tile_get(&t, "X", i);
  near(&t, "Y", 0, sum, 1e-5);
  assert_true(tile_get(&t, "W", 0) == 6);
  tile_close(&t);
}

// It reads nothing: not even memory that nobody has written yet is missed.
static void prefetch(void **state)
{
  (void)state;
  static const char text[] = "order row\nkernel ahead {\ntarget sm_90a\n%X:[128].fp16.GL\n%Y:[128].fp16.GL\n#grid:[2].block\n#t:[64].thread\n"
                             "%Y <- Spec<<<#grid, #t>>>(%X) {\n@b = #grid.indices()\n@i = #t.indices()\n#me = #t.scalar()\n%r:[1].fp16.RF\n"
                             "Sync<prefetch.L2><<<#grid, #me>>>(%X[@b * 64 + @i])\nSync<prefetch.L2><<<#grid, #me>>>(%Y[127 - @b * 64 - @i])\n"
                             "Sync<grid.wait><<<#grid, #t>>>()\n%r <- Move<<<#grid, #me>>>(%X.tile([1])[@b * 64 + @i])\n"
                             "%Y.tile([1])[@b * 64 + @i] <- Move<<<#grid, #me>>>(%r)\n}}\n";
  struct tile_run t;
  tile_open(&t, "ahead", text, "");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 128; i++) assert_true(tile_get(&t, "X", i) == tile_get(&t, "Y", i));
  assert_int_equal(times(&t, "prefetch.L2"), 8);
  assert_int_equal(t.r.counts.bytes[MEM_GL][0][1], 128 * 2);
  tile_close(&t);
}

static void odd_sizes(void **state)
{
  (void)state;
  struct tile_run t;
  open_file(&t, "tests/sim/good/partial.tile", "M=5,N=67");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  for (int i = 0; i < 5 * 67; i++) {
    float x = (float)tile_get(&t, "X", i), e = (float)num_round(F16, (float)exp((double)x)), two = (float)num_round(F16, 2 * e);
    assert_true((float)tile_get(&t, "Y", i) == (float)num_round(F16, two + x));
  }
  tile_close(&t);
}

// The GEMM of the notes, smaller: one fused multiply-add in fp16 a thread, element by element.
static void notes_gemm(void **state)
{
  (void)state;
  static const char text[] = "order column\n%1:[64, 32].fp16.GL\n%2:[32, 64].fp16.GL\n%3:[64, 64].fp16.GL\n#4:[2, 2].block\n#5:[8, 4].thread\n"
                             "%3 <- Spec<<<#4, #5>>>(%1, %2) {\n@bm, @bn = #4.indices()\n@tm, @tn = #5.indices()\n#21:[].block = #4.scalar()\n"
                             "#22:[].thread = #5.scalar()\nfor (k = 0; k < 32; k += 1) {\nfor (m = 0; m < 4; m += 1) {\nfor (n = 0; n < 8; n "
                             "+= 1) {\n"
                             "%15 = %1.tile([32, _])[@bm, 0].tile([4, _])[@tm, 0]\n%16 = %2.tile([_, 32])[0, @bn].tile([_, 8])[0, @tn]\n"
                             "%17 = %3.tile([32, 32])[@bm, @bn].tile([4, 8])[@tm, @tn]\n"
                             "%17[m, n] <- MatMul<<<#21, #22>>>(%15[m, k], %16[k, n])\n}}}}\n";
  struct tile_run t;
  tile_open(&t, "gemm", text, "");
  tile_fill(&t, 1, "");
  uint16_t c[64 * 64], a[32] = {0}, b[32] = {0}, z[32] = {0};
  memcpy(c, tile_data(&t, "3", NULL), sizeof c);
  const uint16_t *x = tile_data(&t, "1", NULL), *y = tile_data(&t, "2", NULL);
  for (int m = 0; m < 64; m++)
    for (int n = 0; n < 64; n++)
      for (int k = 0; k < 32; k++) {
        a[0] = x[m + 64 * k], b[0] = y[k + 32 * n], z[0] = c[m + 64 * n];
        num_fma(TT_F16, a, b, z);
        c[m + 64 * n] = z[0];
      }
  tile_clean(&t);
  assert_memory_equal(c, tile_data(&t, "3", NULL), sizeof c);
  tile_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposed), cmocka_unit_test(conflicts),  cmocka_unit_test(products),   cmocka_unit_test(ring),
      cmocka_unit_test(outputs),    cmocka_unit_test(fragments),  cmocka_unit_test(atomics),    cmocka_unit_test(warps),
      cmocka_unit_test(copies),     cmocka_unit_test(clusters),   cmocka_unit_test(last_block), cmocka_unit_test(prefetch),
      cmocka_unit_test(odd_sizes),  cmocka_unit_test(notes_gemm), cmocka_unit_test(multicasts), cmocka_unit_test(integers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
