// Private to this component: capacities and measured rates of the host.
#ifndef MICA_HOST_H
#define MICA_HOST_H

#include "target/target.h"

int cpu_open(int threads, bool quick, struct target *t, struct err *e);
// rates.c, rates_*.c: sets bandwidth, cache_bandwidth, flops, exp_rate and launch, measured on t->cores threads in about 0.2 s.
void rates_measure(struct target *t);
// Sets the same to typical values, which are good enough to rank kernels.
void rates_typical(struct target *t);
#endif
