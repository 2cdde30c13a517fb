/* mica_cpu_tiles.h - the tiles of AMX: products of bf16 numbers with sums in fp32. Generated C that has such numbers contains it after mica_cpu.h, and
 * so do the loops that measure rates.
 *
 *   tile     16 rows of 16 words of two numbers, or of 16 sums
 *   word     of A, numbers k and k + 1 of one row; of B, those of one column
 *
 * M_TILES is 0 where the compiler's target has no such tiles. Otherwise the process must ask the system for them first.
 */
#ifndef MICA_CPU_TILES_H
#define MICA_CPU_TILES_H

#if defined(__linux__) && defined(__x86_64__) && (defined(__AMX_BF16__) || defined(__AMXBF16__)) && M_W == 16
#define M_TILES 1
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the system lets this process use the registers of tiles (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), in all of its threads */
M_FN int m_tiles_ask(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* Rows of the tiles of sums and of A, and words of their rows: `words` of A and rows of B */
M_FN_ONE void m_tiles_shape(int rows0, int rows1, int words)
{
  struct {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1, .bytes = {64, 64, 64, 64, (uint16_t)(4 * words), (uint16_t)(4 * words), 64, 64}};
  const uint8_t top = (uint8_t)rows0, end = (uint8_t)(rows1 ? rows1 : 1), deep = (uint8_t)words;
  const uint8_t rows[8] = {top, top, end, end, top, end, deep, deep};
  memcpy(shape.rows, rows, sizeof rows);
  __asm__ volatile("" : : "r"(&shape) : "memory"); /* some compilers believe that only 8 bytes of it are read */
  _tile_loadconfig(&shape);
}

/* Up to two tiles of rows times up to two of columns, for `steps` steps of the words of a tile. Strides are in bytes. Meanwhile `next` is fetched,
 * `fetch` lines for each step. */
M_FN void m_tiles_block(int tall, int wide, int steps, const uint16_t *A, ptrdiff_t ars, const float *B, ptrdiff_t brs, float *C, ptrdiff_t crs,
                        int acc, const float *next, int fetch)
{
  const uint16_t *low = (const uint16_t *)(const void *)((const char *)A + 16 * ars);
  float *end = (float *)(void *)((char *)C + 16 * crs);
  if (acc) {
    _tile_loadd(0, C, crs);
    if (wide) _tile_loadd(1, C + 16, crs);
    if (tall) _tile_loadd(2, end, crs);
    if (tall && wide) _tile_loadd(3, end + 16, crs);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int s = 0; s < steps; s++) {
    _tile_loadd(4, A + 32 * s, ars);
    _tile_loadd(6, B, brs);
    if (wide) _tile_loadd(7, B + 16, brs);
    if (tall) _tile_loadd(5, low + 32 * s, ars);
    for (int i = 0; i < fetch; i++) __builtin_prefetch(next + 16 * (s * fetch + i), 0, 2);
    _tile_dpbf16ps(0, 4, 6);
    if (wide) _tile_dpbf16ps(1, 4, 7);
    if (tall) _tile_dpbf16ps(2, 5, 6);
    if (tall && wide) _tile_dpbf16ps(3, 5, 7);
    B += 4 * brs;
  }
  _tile_stored(0, C, crs);
  if (wide) _tile_stored(1, C + 16, crs);
  if (tall) _tile_stored(2, end, crs);
  if (tall && wide) _tile_stored(3, end + 16, crs);
}
#else
#define M_TILES 0
#endif
#endif
