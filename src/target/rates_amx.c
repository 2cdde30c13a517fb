// Rates with the vectors of AVX-512 and products of bf16 by the tiles of AMX (cmake/mica_flags.cmake compiles this file for both).
#if defined(__x86_64__)
#define RATES_WORK rates_amx
#define RATES_TILES 1 // the others have no permission to use them
#include "target/rates_work.inc"

bool rates_tiles(void)
{
#if M_TILES
  return m_tiles_ask();
#else
  return false;
#endif
}
#endif
