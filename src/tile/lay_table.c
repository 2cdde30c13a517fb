// Draws a layout as docs/tile.md does: rows are the first mode, columns the second, cells the offsets. Further modes give one table each.
#include "tile/lay_flat.h"

#include <string.h>

enum { LARGEST_TABLE = 65536 };

static int64_t cell(struct lay l, struct swizzle s, int64_t i) { return (int64_t)swizzle_apply(s, (uint64_t)lay_call(&l, i)); }

bool lay_table(struct lay_ctx *c, struct lay l, struct swizzle s, struct str *out)
{
  if (!lay_constant(l)) return lay_refuse(c, "%s has unknown numbers and no table", lay_show(c, l));
  int64_t size = ex_value(lay_size(c, l)), rows = 1, columns = 1, most = 0;
  if (size < 1 || size > LARGEST_TABLE) return lay_refuse(c, "a table of %lld cells is too large", (long long)size);
  int rank = lay_rank(l);
  if (rank > 0) columns = ex_value(lay_size(c, lay_mode(l, 0)));
  if (rank > 1) rows = columns, columns = ex_value(lay_size(c, lay_mode(l, 1)));
  for (int64_t i = 0; i < size; i++) most = MAX(most, cell(l, s, i));
  int width = snprintf(NULL, 0, "%lld", (long long)most);
  int64_t tables = size / (rows * columns);
  for (int64_t t = 0; t < tables; t++) {
    if (tables > 1) str_add(out, "%s[_, _, %lld]\n", t ? "\n" : "", (long long)t);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++)
        str_add(out, "%*lld%s", width, (long long)cell(l, s, (t * columns + j) * rows + i), j + 1 < columns ? " " : "\n");
  }
  return true;
}
