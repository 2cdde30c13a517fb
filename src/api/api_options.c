// Options of include/mica.h across versions: callers give the size of their struct. Options that an older caller does not have
// get their defaults. Options of a newer caller that this library does not have must be zero, that is, not used.
#include "api/api.h"

#include <string.h>

enum { FIRST_SIZE = offsetof(struct mica_options, progress_arg) + sizeof(void *) }; // size of the struct in the first version; never changes
_Static_assert(sizeof(void *) != 8 || FIRST_SIZE == 136, "members are only added at the end");

void mica_options_init(struct mica_options *o, size_t size)
{
  const struct mica_options all = job_defaults();
  memset(o, 0, size);
  memcpy(o, &all, MIN(size, sizeof all));
  if (size >= sizeof o->size) o->size = size;
}

// ---- numbers: 0, the default, or within the range of the command line's options ----

static const double MOST = 1000000;
static const struct {
  const char *name;
  bool real;
  size_t at;
} numbers[] = {
#define INT(name)                                     \
  {                                                   \
#name, false, offsetof(struct mica_options, name) \
  }
#define REAL(name)                                   \
  {                                                  \
#name, true, offsetof(struct mica_options, name) \
  }
    INT(max_block_ops), INT(max_kernel_ops), INT(max_part_ops), INT(max_values), INT(threads), INT(search_threads),
    INT(measure),       REAL(tune),          REAL(time),        REAL(seconds),   INT(prepare),
#undef INT
#undef REAL
};

static int in_range(const struct mica_options *o, struct err *e)
{
  for (size_t i = 0; i < COUNT(numbers); i++) {
    const char *at = (const char *)o + numbers[i].at;
    double x = numbers[i].real ? *(const double *)(const void *)at : *(const int *)(const void *)at;
    if (x >= 0 && x <= MOST) continue; // false for NaN
    char text[32];
    str_double(text, x);
    err_set(e, ERR_OPTION, NOWHERE, "the option %s is %s from 0 to %.0f, not %s", numbers[i].name, numbers[i].real ? "a number" : "an integer", MOST,
            text);
    return err_hint(e, "mica_options_default has the usual values"), e->status;
  }
  return OK;
}

int options_take(const struct mica_options *o, struct mica_options *out, struct err *e)
{
  enum { LARGEST = 1 << 16 };
  *out = job_defaults();
  if (!o) return OK;
  size_t size = o->size;
  if (size < FIRST_SIZE || size > LARGEST) {
    err_set(e, ERR_OPTION, NOWHERE, "the size of the options is %zu, and no version of them has that", size);
    return err_hint(e, "take mica_options_default and change what matters"), e->status;
  }
  for (size_t i = sizeof *out; i < size; i++)
    if (((const char *)o)[i]) {
      err_set(e, ERR_OPTION, NOWHERE, "an option is set that version %s of the library does not have", MICA_VERSION);
      return err_hint(e, "use the library that belongs to the mica.h in use, or a newer one"), e->status;
    }
  memcpy(out, o, MIN(size, sizeof *out));
  out->size = sizeof *out;
  return in_range(out, e);
}
