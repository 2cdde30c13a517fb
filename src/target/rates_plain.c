// Rates with the vectors of any processor of the architecture that the library is compiled for.
#define RATES_WORK rates_plain
#include "target/rates_work.inc"
