// Names of capabilities.
#include "target/target.h"

static const char *const names[] = {
#define CAPABILITY(id, name, doc) name,
#include "target/capability.def"
#undef CAPABILITY
};
_Static_assert(CAPABILITIES < 31, "capabilities are bits of an enum");

const char *capability_name(int i) { return names[i]; }

void capability_text(uint32_t can, struct str *out)
{
  const char *before = "";
  for (int i = 0; i < CAPABILITIES; i++)
    if (can >> i & 1) str_add(out, "%s%s", before, names[i]), before = ", ";
}
