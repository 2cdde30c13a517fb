// Options of include/mica.h across versions: callers say how much of the struct they know. What an older caller does not know
// keeps its default; what a newer one knows beyond this library must be zero, that is, not asked for.
#include "core/context.h"

#include <string.h>

enum { FIRST_SIZE = offsetof(struct mica_options, progress_arg) + sizeof(void *) }; // of the first version; never changes
_Static_assert(sizeof(void *) != 8 || FIRST_SIZE == 136, "members are only added at the end");

static struct mica_options standard(void)
{
  return (struct mica_options){.size = sizeof(struct mica_options),
                               .target = "cpu",
                               .max_kernel_ops = 5,
                               .max_part_ops = 24,
                               .max_values = 1500,
                               .measure = 8,
                               .tune = 20,
                               .seconds = 1,
                               .seed = 1,
                               .remember = true};
}

void mica_options_init(struct mica_options *o, size_t size)
{
  const struct mica_options all = standard();
  memset(o, 0, size);
  memcpy(o, &all, MIN(size, sizeof all));
  if (size >= sizeof o->size) o->size = size;
}

int options_take(const struct mica_options *o, struct mica_options *out, struct err *e)
{
  enum { MOST = 1 << 16 };
  *out = standard();
  if (!o) return OK;
  size_t size = o->size;
  if (size < FIRST_SIZE || size > MOST) {
    err_set(e, ERR_OPTION, NOWHERE, "the size of the options is %zu, and no version of them has that", size);
    return err_hint(e, "take mica_options_default and change what matters"), e->status;
  }
  for (size_t i = sizeof *out; i < size; i++)
    if (((const char *)o)[i]) {
      err_set(e, ERR_OPTION, NOWHERE, "an option is set that version %s of the library does not have", mica_version());
      return err_hint(e, "use the library that belongs to the mica.h in use, or a newer one"), e->status;
    }
  memcpy(out, o, MIN(size, sizeof *out));
  out->size = sizeof *out;
  return OK;
}
