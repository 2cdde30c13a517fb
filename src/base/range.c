// Ranges for profilers (range.h). The tables are those of NVTX 3: an array of addresses of function pointers, whose numbers are fixed.
#include "base/range.h"
#include "base/base.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { MODULE_CORE = 1, MODULE_CORE2 = 5, PUSH = 9, POP = 11, FUNCTIONS = 16 }; // nvtxDetail/nvtxTypes.h
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, NVTX_VERSION = 3 };

typedef void range_function(void);
struct callbacks {
  size_t bytes;
  int (*table)(int module, range_function ***out, unsigned *n);
};
struct version {
  size_t bytes;
  uint32_t version, reserved;
  void (*tell)(uint32_t version);
};

static range_function *range_core[FUNCTIONS], *range_core2[FUNCTIONS];
static range_function **range_core_at[FUNCTIONS + 1], **range_core2_at[FUNCTIONS + 1];
static bool range_heard;
static pthread_once_t range_asked = PTHREAD_ONCE_INIT;

static int table(int module, range_function ***out, unsigned *n)
{
  if (module != MODULE_CORE && module != MODULE_CORE2) return 0;
  *out = (range_function **)(module == MODULE_CORE ? range_core_at : range_core2_at);
  if (n) *n = FUNCTIONS;
  return 1;
}

static void told(uint32_t version) { (void)version; }

static const void *export_table(uint32_t id)
{
  static const struct callbacks callbacks = {sizeof callbacks, table};
  static const struct version version = {sizeof version, NVTX_VERSION, 0, told};
  return id == TABLE_CALLBACKS ? (const void *)&callbacks : id == TABLE_VERSION ? (const void *)&version : NULL;
}

static void ask(void)
{
  const char *path = secure_getenv("NVTX_INJECTION64_PATH");
  void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
  int (*begin)(const void *(*)(uint32_t)) = library ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2") : NULL;
  for (int i = 1; i < FUNCTIONS; i++) range_core_at[i] = &range_core[i], range_core2_at[i] = &range_core2[i];
  range_heard = begin && begin(export_table) && range_core[PUSH] && range_core[POP];
}

bool range_push(const char *name)
{
  pthread_once(&range_asked, ask);
  if (!range_heard) return false;
  ((int (*)(const char *))range_core[PUSH])(name);
  return true;
}

void range_pop(void) { ((int (*)(void))range_core[POP])(); }
