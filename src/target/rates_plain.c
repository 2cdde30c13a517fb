// Rates with the vectors that every processor of the library's architecture has.
#define RATES_WORK rates_plain
#include "target/rates_work.inc"
