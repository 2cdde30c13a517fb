// Names of the methods by which GPUs multiply f32.
#include "target/target.h"

#include <string.h>

static const char *const names[] = {
#define ROW(id, name, doc) name,
    F32_PRODUCTS(ROW)
#undef ROW
};

const char *f32_products_name(enum f32_products x) { return names[x]; }

int f32_products_read(const char *name, enum f32_products *out, struct err *e)
{
  *out = F32_BF16X6;
  if (!name || !*name) return OK;
  for (size_t i = 0; i < COUNT(names); i++)
    if (!strcmp(names[i], name)) return *out = (enum f32_products)i, OK;
  err_set(e, ERR_OPTION, NOWHERE, "products of f32 are not made by `%.40s`", name);
  return err_hint(e, "it is %s or %s", names[F32_BF16X6], names[F32_IEEE]), (int)e->status;
}
