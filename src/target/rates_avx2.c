// Rates with AVX2 vectors; cmake/mica_flags.cmake sets the compiler flags of this file.
#if defined(__x86_64__)
#define RATES_WORK rates_avx2
#include "target/rates_work.inc"
#endif
