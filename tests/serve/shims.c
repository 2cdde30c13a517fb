#include "shims.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct shims {
  void *so;
  void (*fill)(void *to, uint64_t seed, double scale, int bytes, long long n);
  void (*pack)(int op, char *to, const void *from);
  void (*launch)(const void *m, unsigned first, int position, int steps);
};

static void *at(device_address a) { return (void *)(uintptr_t)a; }

static int room(void *arg, size_t bytes, device_address *out, struct err *e)
{
  (void)arg, (void)e;
  void *p = aligned_alloc(128, (bytes + 255) / 128 * 128);
  memset(p, 0xff, (bytes + 255) / 128 * 128);
  return *out = (uintptr_t)p, OK;
}
static int write_to(void *arg, device_address to, const void *from, size_t bytes, struct err *e)
{
  (void)arg, (void)e;
  return memcpy(at(to), from, bytes), OK;
}
static int read_from(void *arg, void *to, device_address from, size_t bytes, struct err *e)
{
  (void)arg, (void)e;
  return memcpy(to, at(from), bytes), OK;
}
static int zero(void *arg, device_address to, size_t bytes, struct err *e)
{
  (void)arg, (void)e;
  return memset(at(to), 0, bytes), OK;
}
static int fill(void *arg, device_address to, uint64_t seed, double scale, int bytes, int64_t n, struct err *e)
{
  (void)e;
  return ((struct shims *)arg)->fill(at(to), seed, scale, bytes, n), OK;
}
static int pack(void *arg, int op, device_address to, device_address from, struct err *e)
{
  (void)e;
  return ((struct shims *)arg)->pack(op, at(to), at(from)), OK;
}
static int launch(void *arg, const uint64_t *memory, size_t bytes, uint32_t first, int position, int steps, struct err *e)
{
  (void)e, (void)bytes;
  return ((struct shims *)arg)->launch(memory, first, position, steps), OK;
}
static double seconds(void *arg) { return (void)arg, 0; }
static void drop(void *arg, device_address a) { (void)arg, free(at(a)); }
static void machine_close(void *arg)
{
  struct shims *x = arg;
  dlclose(x->so);
  free(x);
}

bool shims_there(void) { return system("command -v g++ >/dev/null") == 0; }

static void *symbol(struct shims *x, const char *name) { return dlsym(x->so, name); }

int shims_open(struct serve *s, const char *folder, struct serve_machine *out, struct err *e)
{
  struct str text = {0};
  char path[4096], command[12000];
  struct shims *x = calloc(1, sizeof *x);
  TRY(serve_source(s, &text, e));
  snprintf(path, sizeof path, "%s/mega_shim.h", folder);
  TRY(file_write(path, megacuda_shim(), strlen(megacuda_shim()), e));
  snprintf(path, sizeof path, "%s/kernel.cc", folder);
  TRY(file_write(path, text.p, text.n, e));
  str_free(&text);
  snprintf(command, sizeof command, "g++ -O1 -std=c++17 -w -DMEGA_SHIM -DMEGA_LIBRARY -shared -fPIC -o %s/kernel.so %s/kernel.cc", folder, folder);
  if (system(command)) return err_set(e, ERR_COMPILER, NOWHERE, "g++ failed");
  snprintf(path, sizeof path, "%s/kernel.so", folder);
  if (!(x->so = dlopen(path, RTLD_NOW | RTLD_LOCAL))) return err_set(e, ERR_COMPILER, NOWHERE, "%.300s", dlerror());
  *(void **)&x->fill = symbol(x, "mega_fill"), *(void **)&x->pack = symbol(x, "mega_pack"), *(void **)&x->launch = symbol(x, "mega_launch");
  *out = (struct serve_machine){x, room, write_to, read_from, zero, fill, pack, launch, seconds, drop, machine_close};
  return OK;
}
