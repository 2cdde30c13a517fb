// Rates with the vectors of AVX-512 and its products of bf16 (cmake/mica_flags.cmake compiles this file for both).
#if defined(__x86_64__)
#define RATES_WORK rates_bf16
#include "target/rates_work.inc"
#endif
