// The host as a target: capacities from the C library, sysfs and /proc, and measured rates. Rates are measured once in a
// process, so that programs optimized one after the other are ranked by the same figures.
#include "target/host.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Bytes of the cache with that index in sysfs ("1024K"), else from the C library, else `usual`. In virtual machines the C
// library may count the caches of the whole host.
static int64_t cache_bytes(int name, int index, int64_t usual)
{
  char path[96], text[32] = "", unit = 0;
  long long size = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
  FILE *f = fopen(path, "r");
  if (f) {
    if (fgets(text, sizeof text, f)) sscanf(text, "%lld%c", &size, &unit);
    fclose(f);
  }
  long n = sysconf(name);
  if (size <= 0) return n > 0 ? n : usual;
  return unit == 'M' ? size << 20 : unit == 'K' ? size << 10 : size;
}

// "AMD EPYC (family 25, model 17)": virtual machines often hide everything but the numbers.
static void device_name(char out[96])
{
  char row[256], model[64] = "cpu";
  int family = 0, number = 0;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(row, sizeof row, f) && row[0] != '\n') {
    const char *value = strchr(row, ':');
    if (!value) continue;
    if (!strncmp(row, "model name", 10))
      snprintf(model, sizeof model, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    else if (!strncmp(row, "cpu family", 10))
      family = atoi(value + 1);
    else if (!strncmp(row, "model\t", 6))
      number = atoi(value + 1);
  }
  if (f) fclose(f);
  snprintf(out, 96, "%s (family %d, model %d)", model, family, number);
}

// fp32 lanes of the vectors of this processor, for which kernels are compiled. The library may be compiled for narrower ones.
static int vector_lanes(void)
{
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx") ? 8 : 4;
#else
  return 4;
#endif
}

// Are lines of results prefetched before they are stored, instead of stored past the caches (non-temporal)? On a Cascade Lake, copying 48 MiB by two
// cores took 4.6 ms with prefetching and 5.4 ms past the caches; softmax of [4096, 4096] took 8.6 and 10.4 ms. The vendor decides, not a
// measurement, so that a program's code is the same each time.
static bool fetches(void)
{
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// Mutable global state on purpose: facts about the machine, measured once.
static struct {
  pthread_mutex_t lock;
  struct target known;
} learnt = {PTHREAD_MUTEX_INITIALIZER};

static void rates(struct target *t)
{
  struct undo undo;
  guard_lock(&undo, &learnt.lock);
  if (learnt.known.cores != t->cores) rates_measure(t), learnt.known = *t;
  *t = learnt.known;
  guard_unlock(&undo, &learnt.lock);
}

int cpu_open(int threads, bool quick, struct target *t, struct err *e)
{
  (void)e;
  *t = (struct target){.cores = threads > 0 ? threads : pool_cores(), .lanes = vector_lanes(), .fetches = fetches()};
  snprintf(t->name, sizeof t->name, "cpu");
  device_name(t->device);
  t->l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 0, 32 << 10);
  t->l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 2, 1 << 20);
  t->l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 3, 16 << 20);
  t->scratch = t->l2 * 3 / 4;
  t->memory = (int64_t)sysconf(_SC_PHYS_PAGES) / 10 * 8 * sysconf(_SC_PAGESIZE);
  if (quick)
    rates_typical(t);
  else
    rates(t);
  return OK;
}
