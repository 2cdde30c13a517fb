// Rates with the vectors of AVX2 (cmake/mica_flags.cmake compiles this file for it).
#if defined(__x86_64__)
#define RATES_WORK rates_avx2
#include "target/rates_work.inc"
#endif
