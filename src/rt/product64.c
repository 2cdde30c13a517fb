// Matrix products in float64 for references: nearly all the work of a large program. Each element is summed in the order of k, so results do not
// depend on the vectors of the machine.
#include "rt/product64.h"

#include <string.h>

enum { ROWS = 96, COLS = 64, DEEP = 64, HIGH = 6, WIDE = 8 }; // a tile; what is in registers at a time

// The choice is made before the thread sanitizer is ready.
#if defined __x86_64__ && defined __gnu_linux__ && !defined __clang__ && !defined __SANITIZE_THREAD__
#define EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_MACHINE
#endif

typedef double vec __attribute__((vector_size(WIDE * 8), aligned(8)));

struct strip { // HIGH rows by WIDE columns of a product; b is packed, WIDE numbers a row
  const double *a, *b;
  double *c;
  int64_t a_row, a_col, c_row, deep;
};

EACH_MACHINE static void add_strip(const struct strip *s)
{
  vec sum[HIGH];
  for (int i = 0; i < HIGH; i++) memcpy(&sum[i], s->c + i * s->c_row, sizeof sum[i]);
  for (int64_t k = 0; k < s->deep; k++) {
    vec b;
    memcpy(&b, s->b + k * WIDE, sizeof b);
    for (int i = 0; i < HIGH; i++) sum[i] += s->a[i * s->a_row + k * s->a_col] * b;
  }
  for (int i = 0; i < HIGH; i++) memcpy(s->c + i * s->c_row, &sum[i], sizeof sum[i]);
}

static void add_edge(const struct strip *s, int64_t rows, int64_t width)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < s->deep; k++)
      for (int64_t j = 0; j < width; j++) s->c[i * s->c_row + j] += s->a[i * s->a_row + k * s->a_col] * s->b[k * WIDE + j];
}

// Rows of a large matrix are far apart, and often in few sets of a cache. Columns past the last are not read.
static void pack(const struct product64 *p, const double *b, int64_t deep, int64_t width, double *to)
{
  const bool down = p->b_row < p->b_col; // rows are neighbours in memory
  for (int64_t x = 0; x < (down ? width : deep); x++)
    for (int64_t y = 0; y < (down ? deep : width); y++) {
      const int64_t k = down ? y : x, j = down ? x : y;
      to[k * WIDE + j] = b[k * p->b_row + j * p->b_col];
    }
}

struct corner { // of a tile: matrix, row, column
  int64_t of, i, j;
};

static void add_tile(const struct product64 *p, struct corner at, int64_t k0)
{
  double packed[DEEP * WIDE];
  const int64_t end = MIN(at.i + ROWS, p->m), deep = MIN(DEEP, p->k - k0);
  const double *a = p->a + p->a_at[at.of] + k0 * p->a_col, *b = p->b + p->b_at[at.of] + k0 * p->b_row;
  double *c = p->c + at.of * p->m * p->n;
  for (int64_t j = at.j; j < MIN(at.j + COLS, p->n); j += WIDE) {
    const int64_t width = MIN(WIDE, p->n - j);
    pack(p, b + j * p->b_col, deep, width, packed);
    for (int64_t i = at.i; i < end; i += HIGH) {
      const struct strip s = {a + i * p->a_row, packed, c + i * p->n + j, p->a_row, p->a_col, p->n, deep};
      if (i + HIGH <= end && width == WIDE)
        add_strip(&s);
      else
        add_edge(&s, MIN(HIGH, end - i), width);
    }
  }
}

static int pieces(int64_t n, int64_t size) { return (int)((n + size - 1) / size); }

static void one_tile(void *arg, int piece, int worker)
{
  (void)worker;
  const struct product64 *p = arg;
  const int wide = pieces(p->n, COLS), high = pieces(p->m, ROWS);
  const struct corner at = {piece / (wide * high), (int64_t)(piece / wide % high) * ROWS, (int64_t)(piece % wide) * COLS};
  double *c = p->c + at.of * p->m * p->n;
  for (int64_t i = at.i; i < MIN(at.i + ROWS, p->m); i++) memset(c + i * p->n + at.j, 0, (size_t)MIN(COLS, p->n - at.j) * sizeof *c);
  for (int64_t k0 = 0; k0 < p->k && !stop_set(p->stop); k0 += DEEP) add_tile(p, at, k0);
}

void product64_run(const struct product64 *p)
{
  struct product64 own = *p;
  pool_run(pool_cores(), (int)p->batch * pieces(p->m, ROWS) * pieces(p->n, COLS), one_tile, &own);
}
