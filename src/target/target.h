// target: what a machine can do. One row a target (target.def); the host's capacities are asked of the host.
#ifndef MICA_TARGET_H
#define MICA_TARGET_H

#include "base/base.h"

struct target {
  char name[32];   // "cpu"
  char device[96]; // model name of the host, part of database keys
  int cores;
  int lanes;          // fp32 lanes of a vector
  int64_t l1, l2, l3; // bytes of data cache a core (l3: shared)
  int64_t scratch;    // bytes of block tensors a block may keep ("shared memory"): l2 less what code and streams need
  int64_t memory;     // bytes of device memory usable
  double bandwidth;   // bytes/s of a copy, read and written bytes counted, all cores
  double cache_bandwidth; // bytes/s from l2, all cores
  double flops;           // fp32 operations/s of fused multiply-adds, all cores
  double exp_rate;        // elements/s of m_exp, all cores
  double launch;          // seconds to start and join one grid
};
int target_count(void);
const char *target_name(int i);
const char *target_doc(int i);
// Fills *t for the target of that name on this host; measures the rates once (about 0.2 s) unless quick, where
// it fills typical ones. Unknown names are ERR_TARGET with the list as hint.
int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e);
#endif
