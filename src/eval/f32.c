// The interpreter's loops over float.
#define NUM float
#define DOMAIN domain_f32
#define DOMAIN_RUN run_f32
#define DOMAIN_PRODUCT product_f32
#define DOMAIN_STRIP strip_f32
#include "eval/real.h"
#include "eval/run.h"

#include "eval/domain.inc"
