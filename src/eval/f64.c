// The interpreter's loops over double.
#define NUM double
#define DOMAIN domain_f64
#define DOMAIN_RUN run_f64
#define DOMAIN_PRODUCT product_f64
#define DOMAIN_STRIP strip_f64
#include "eval/real.h"
#include "eval/run.h"

#include "eval/domain.inc"
