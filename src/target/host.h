// Shared by the files of this component: capacities of the host, and what is measured on it.
#ifndef MICA_HOST_H
#define MICA_HOST_H

#include "target/target.h"

int cpu_open(int threads, bool quick, struct target *t, struct err *e);
// rates.c, rates_*.c: fills bandwidth, cache_bandwidth, flops, exp_rate and launch from runs on t->cores threads, about 0.2 s.
void rates_measure(struct target *t);
// Plausible values of the same for a processor of this decade, where order matters more than size.
void rates_typical(struct target *t);
#endif
